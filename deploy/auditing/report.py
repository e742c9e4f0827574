"""What an attacker can measure: for each case the claimed epsilon, the measured lower bound, and its broken twins.

This is ``referee audit-privacy``; ``tests/audit`` judges the same cases. Each bound is too high with probability
at most :data:`deploy.auditing.case.FAILURE`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from common.privacy.auditing import Subject
from deploy.auditing.case import FAILURE, Case


@dataclass(frozen=True)
class Row:
    """One audit: of what is shipped (``without`` is empty), or of a twin without a safeguard.

    Attributes
    ----------
    case
        What was audited.
    without
        What was taken out of the twin.
    runs
        Trials on each of the two inputs, for the search and again for the bound.
    delta, claimed
        The claim: (claimed, delta)-DP.
    measured
        Lower bound on epsilon at that delta.
    seconds
        What it took.
    """

    case: str
    without: str
    runs: int
    delta: float
    claimed: float
    measured: float
    seconds: float

    @property
    def exceeds(self) -> bool:
        """Whether the claim is shown to be false."""
        return self.measured > self.claimed

    @property
    def expected(self) -> bool:
        """Whether that is as it should be: nothing shipped exceeds its claim, and every twin does."""
        return self.exceeds == bool(self.without)

    def document(self) -> dict[str, Any]:
        """Return the row for ``--json``."""
        return {**asdict(self), "exceeds": self.exceeds, "expected": self.expected}


def rows(cases: Iterable[Case], scale: float) -> Iterator[Row]:
    """Audit every case and its twins.

    Parameters
    ----------
    cases
        What to audit.
    scale
        Multiplies the trials of each case; a twin has those of its case at least, since it has to be caught.
    """
    for case in cases:
        subjects: dict[str, Subject] = {"": case.honest, **case.twins}
        for without, subject in subjects.items():
            begun = time.perf_counter()
            found = case.measure(subject, scale=max(1.0, scale) if without else scale)
            took = time.perf_counter() - begun
            yield Row(case.name, without, found.runs, case.delta, case.epsilon, found.epsilon, took)


def table(found: Iterable[Row], write: Callable[[str], None]) -> list[Row]:
    """Write a line for each row as soon as it is there, and return all rows."""
    write(f"{'what':<34} {'twin':<40} {'trials':>8} {'delta':>7} {'claimed':>8} {'measured':>8}  verdict")
    kept = []
    for row in found:
        kept.append(row)
        verdict = ("caught" if row.exceeds else "NOT CAUGHT") if row.without else ("BROKEN" if row.exceeds else "holds")
        numbers = f"{row.runs:8d} {row.delta:7.4f} {row.claimed:8.3f} {row.measured:8.3f}"
        write(f"{row.case:<34} {row.without or '-':<40} {numbers}  {verdict}")
    write(f"Each lower bound is too high with probability at most {FAILURE:g}.")
    return kept
