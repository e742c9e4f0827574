"""What an attacker can measure: claimed epsilon, measured lower bound, and the same without one safeguard.

    python -m benchmarks.audit [--scale 10] [--only NAME] [--json]

The cases are those of ``tests/audit``: shipped code on two neighbouring inputs, against a malicious referee, and twins
that are broken on purpose. Each bound is wrong with probability at most 1e-6. ``--scale`` multiplies the runs. Exit
status 1 if what is shipped breaks its claim, or a twin is not caught.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from benchmarks.auditing import adaptation_cases, agent_cases, choice_cases, curator_cases, release_cases, votes_cases
from benchmarks.auditing.case import FAILURE, Case
from common.privacy.auditing import Subject


@dataclass(frozen=True)
class Row:
    """One audit: of what is shipped (``without`` is empty), or of a twin without a safeguard."""

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
        """Whether that is as it should be."""
        return self.exceeds == bool(self.without)


def rows(cases: list[Case], scale: float) -> Iterator[Row]:
    """Audit every case and its twins."""
    for case in cases:
        subjects: dict[str, Subject] = {"": case.honest, **case.twins}
        for without, subject in subjects.items():
            begun = time.perf_counter()
            found = case.measure(subject, scale=scale)
            took = time.perf_counter() - begun
            yield Row(case.name, without, found.runs, case.delta, case.epsilon, found.epsilon, took)


def _table(found: Iterator[Row], write: Callable[[str], None]) -> list[Row]:
    write(f"{'what':<26} {'twin':<32} {'runs':>9} {'delta':>8} {'claimed':>8} {'measured':>8}  verdict")
    kept = []
    for row in found:
        kept.append(row)
        verdict = ("caught" if row.exceeds else "NOT CAUGHT") if row.without else ("BROKEN" if row.exceeds else "holds")
        numbers = f"{row.runs:9d} {row.delta:8.4f} {row.claimed:8.3f} {row.measured:8.3f}"
        write(f"{row.case:<26} {row.without or '-':<32} {numbers}  {verdict}")
    write(f"each bound is too high with probability at most {FAILURE:g}")
    return kept


def main() -> None:
    """Audit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=10.0)
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    every = [*curator_cases.cases(), *release_cases.cases(), *agent_cases.cases(), *choice_cases.cases()]
    every += [*votes_cases.cases(), *adaptation_cases.cases()]
    cases = [case for case in every if (given.only or "") in case.name]
    if given.json:
        found = list(rows(cases, given.scale))
        print(json.dumps([{**asdict(row), "exceeds": row.exceeds, "expected": row.expected} for row in found]))
    else:
        found = _table(rows(cases, given.scale), lambda line: print(line, flush=True))
    sys.exit(0 if all(row.expected for row in found) else 1)


if __name__ == "__main__":
    main()
