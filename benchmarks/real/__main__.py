"""What the ways to an answer are worth on real people who differ from the volunteers.

    python -m benchmarks.real [--shift NAME]... [--method NAME]... [--epsilon E]... [--splits 10] [--data DIR] [--json]

Every split draws the volunteers, the agents and a third of the population, by whom answers are judged, anew. Printed is
the mean 0/1 loss on the judges with a 95% interval over splits. The people are public data sets'; noise is seeded.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.methods import METHODS, Split
from benchmarks.real.shifts import SHIFTS, Both, Shift, load

_MOST = 100_000
"""Agents at most."""
_SIGMAS = 1.96


def split(shift: Shift, people: Both, seed: int) -> Split:
    """Return one split."""
    rng = np.random.default_rng(seed)
    volunteers = people.source.take(rng.permutation(len(people.source))[: shift.people])
    order = rng.permutation(len(people.target))
    third = len(order) // 3
    agents = people.target.take(order[third : third + _MOST])
    return Split(shift, volunteers, agents, people.target.take(order[:third]), seed)


def row(shift: Shift, method: str, epsilon: float, splits: list[Split]) -> dict[str, Any]:
    """Return the losses of one method over all splits."""
    found = [(one, METHODS[method](one, epsilon)) for one in splits]
    losses = [float(answer.mistakes(one.judges).mean()) for one, answer in found if answer is not None]
    mean = statistics.mean(losses) if losses else math.nan
    spread = _SIGMAS * statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    return {
        "shift": shift.name,
        "method": method,
        "epsilon": epsilon,
        "n": len(splits[0].volunteers),
        "agents": len(splits[0].agents),
        "mean": mean,
        "low": mean - spread,
        "high": mean + spread,
        "splits": len(losses),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shift", action="append", choices=[shift.name for shift in SHIFTS])
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--epsilon", action="append", type=float, help="on both sides (default: 1)")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", default=os.environ.get("TANDEM_DATA", "../shared/data"), help="where data sets lie")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for shift in SHIFTS:
        if given.shift and shift.name not in given.shift:
            continue
        if not (Path(given.data) / shift.data).is_dir():
            print(f"{shift.name}: left out, there is no {given.data}/{shift.data}", file=sys.stderr)
            continue
        people = load(shift, Path(given.data))
        splits = [split(shift, people, seed) for seed in range(given.splits)]
        for epsilon in given.epsilon or [1.0]:
            for method in given.method or METHODS:
                found = row(shift, method, epsilon, splits)
                rows += [found] if found["splits"] else []
                print(_line(found), file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        print(json.dumps(rows))


def _line(found: dict[str, Any]) -> str:
    who = f"{found['shift']:18} eps {found['epsilon']:<4g} {found['method']:17}"
    if not found["splits"]:
        return f"{who} left out: fewer people of T than volunteers"
    return f"{who} {found['mean']:.4f} ({found['low']:.4f} to {found['high']:.4f}, {found['splits']} splits)"


if __name__ == "__main__":
    main()
