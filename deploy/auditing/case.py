"""One audit: a function that is claimed to be private, and twins of it that break the claim on purpose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import patch

from common.core.arrays import AnyArray
from common.numerics.randomness import RandomSource
from common.privacy.auditing import AuditFinding, Subject, audit, exceeds

Safeguard = tuple[object, str]
"""Where a safeguard is found: a module or class, and the name in it."""


def without(safeguard: Safeguard, other: Any, subject: Subject) -> Subject:
    """Return the subject with something else in the place of a safeguard."""
    place, name = safeguard

    def broken(given: Any, runs: int, source: RandomSource) -> AnyArray:
        with patch.object(place, name, other):
            return subject(given, runs, source)

    return broken


FAILURE = 1e-6
"""Probability that one audit claims too much (Clopper-Pearson, both sides together)."""


@dataclass(frozen=True)
class Case:
    """What is claimed of a subject on a pair of neighbouring inputs, and which twins must be caught.

    Attributes:
        name: For people.
        epsilon, delta: The claim, as the accountant or the mechanism states it.
        inputs: Two neighbouring inputs.
        honest: The code that is shipped.
        twins: The same with one safeguard taken out, by what was taken out.
        runs: Runs on each input, for the search and again for the bound.
        least: A bound that the honest subject must reach, so that passing means something; 0 where nothing of its leak
            can be seen in so few runs.
    """

    name: str
    epsilon: float
    inputs: tuple[Any, Any]
    honest: Subject
    runs: int
    delta: float = 0.0
    twins: Mapping[str, Subject] = field(default_factory=dict)
    least: float = 0.0

    def measure(self, subject: Subject, *, scale: float = 1.0) -> AuditFinding:
        """Audit the honest subject or a twin, with ``scale`` times the runs; the seed is fixed."""
        source = RandomSource.seeded(1, "audit", self.name)
        runs = round(scale * self.runs)
        return audit(subject, self.inputs, source, runs=runs, delta=self.delta, failure=FAILURE)

    def catches(self, twin: Subject) -> bool:
        """Tell whether a twin is shown to break the claim, in as few runs as that takes and ``runs`` at most."""
        source = RandomSource.seeded(1, "audit", self.name)
        return exceeds(
            twin, self.inputs, source, epsilon=self.epsilon, runs=self.runs, delta=self.delta, failure=FAILURE
        )


@dataclass(frozen=True)
class AuditRow:
    """One audit: of what is shipped (``without`` is empty), or of a twin without a safeguard.

    Attributes:
        case: What was audited.
        without: What was taken out of the twin.
        runs: Trials on each of the two inputs, for the search and again for the bound.
        delta, claimed: The claim: (claimed, delta)-DP.
        measured: Lower bound on epsilon at that delta.
        seconds: What it took.
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


def rows(cases: Iterable[Case], scale: float) -> Iterator[AuditRow]:
    """Audit every case and its twins.

    Args:
        cases: What to audit.
        scale: Multiplies the trials of each case; a twin has those of its case at least, since it has to be caught.
    """
    for case in cases:
        subjects: dict[str, Subject] = {"": case.honest, **case.twins}
        for without, subject in subjects.items():
            begun = time.perf_counter()
            found = case.measure(subject, scale=max(1.0, scale) if without else scale)
            took = time.perf_counter() - begun
            yield AuditRow(case.name, without, found.runs, case.delta, case.epsilon, found.epsilon, took)


def table(found: Iterable[AuditRow], write: Callable[[str], None]) -> list[AuditRow]:
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
