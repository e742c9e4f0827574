"""Subsample-Test-Reweigh with as many rounds as its theorem plans, beside the four rounds of the tables.

    python -m benchmarks.real.theorem [--splits 3] [--alpha 0.2]

Prints for each shift the loss on T of both, at epsilon = 1, or why the plan is refused. With alpha = 0.01, the gap of
the tables, every plan is refused: with so many rounds no budget is left for a single one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.real.datasets import SHELF
from benchmarks.real.methods import METHODS, STEPS, Served
from benchmarks.real.running import facts, split
from benchmarks.real.shifts import SHIFTS, load
from common.core.errors import TandemError
from common.scenario.plan import resolve

EPSILON = 1.0


def planned(alpha: float) -> Served:
    """Return the method with the theorem's rounds, kappa and eta for this accuracy."""
    curator = {"rounds": "plan", "kappa": "plan", "eta": "plan", "learner": STEPS}
    return Served("", "subsample-test-reweigh", {"alpha": alpha, "curator": curator})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Subsample-Test-Reweigh with the theorem's own number of rounds.")
    parser.add_argument("--splits", type=int, default=3, help="splits of each shift (3)")
    parser.add_argument("--alpha", type=float, default=0.2, help="the accuracy that is planned for (0.2)")
    parser.add_argument("--data", type=Path, default=SHELF, help="where data sets lie")
    chosen = parser.parse_args()
    for shift in SHIFTS:
        people = load(shift, chosen.data)
        known = facts(shift, people, None)
        found = []
        for method in (METHODS["str"], planned(chosen.alpha)):
            assert isinstance(method, Served)
            try:
                scenario = resolve(method.scenario(shift, known.n, known.agents, EPSILON))
            except TandemError as error:
                found.append(f"refused ({error.detail.partition(':')[0]})")
                continue
            splits = [split(shift, people, seed) for seed in range(chosen.splits)]
            losses = [method.answer(each, scenario).hypothesis.mistakes(each.judges).mean() for each in splits]
            found.append(f"{scenario.curator.rounds:3d} rounds {100.0 * float(np.mean(losses)):5.1f}%")
        print(f"{shift.name:18s}", "   ".join(found), flush=True)


if __name__ == "__main__":
    main()
