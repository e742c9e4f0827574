"""PARITY by the sizes of the paper and by tight ones: success, people, and the time of an elimination over F_2.

    python -m benchmarks.parity [--repetitions 50] [--epsilon 0.5] [--most 6000000] [--json]

Appendix B of Kohen & Sheffet, with one feature of S nearly never set. For each number of features d and each
X = chi^2(T||S) + 1: the learner by the paper's rule and sizes beside the learner by the tight ones, with fresh people
and a fresh secret in every repetition; right means exactly the secret. The interval is Clopper and Pearson's, 95%.
Sizes above ``--most`` people are planned, not run. ``rank`` is the largest number of records that any of the
repetitions took until their equations had full rank.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import binomtest

from common.data.distributions.parities import BiasedParity
from common.local.hypotheses.rules import Parity
from common.local.records import Records
from common.numerics.randomness import RandomSource, subseed
from common.scenario import loading
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from curator.learners.base import parse_learner
from curator.learners.rules import ParityLearner, vote
from curator.mechanisms.parities import Equations, eliminate, pack

DIMENSIONS = (64, 128, 200)
DIVERGENCES = (1.0, 4.0, 64.0)
SYSTEMS = ((100, 64), (264, 200), (1100, 1024))
_BLOCK = 1 << 16


def people(dimension: int, divergence: float, seed: int) -> BiasedParity:
    """Return a source with that divergence and its own secret."""
    secret = np.flatnonzero(RandomSource.seeded(seed, "secret").bernoullis(0.5, dimension))
    rate = 0.5 * (1.0 - math.sqrt(1.0 - 1.0 / divergence))
    return BiasedParity(side="source", d=dimension, secret=tuple(secret.tolist()), biased=1, rate=rate)


def planned(dimension: int, divergence: float, epsilon: float, bounds: str) -> ResolvedScenario:
    """Return the shipped scenario with another size, with all numbers planned."""
    sizes = [f"{side}.distribution.d={dimension}" for side in ("source", "target")]
    rest = [f"divergence.chi_squared={divergence}", f"divergence.supremum={2 * divergence}"]
    return resolve(loading.load("parity", [*sizes, *rest, f"curator.epsilon={epsilon}", f"bounds={bounds}"]))


def everybody(source: BiasedParity, seed: int, n: int) -> Iterator[Records]:
    """Draw n people, block by block."""
    for start in range(0, n, _BLOCK):
        yield source.draw(seed, np.arange(start, min(start + _BLOCK, n)))


def success(
    dimension: int, divergence: float, epsilon: float, bounds: str, repetitions: int, most: int
) -> dict[str, Any]:
    """Learn repeatedly, and count the successes."""
    curator = planned(dimension, divergence, epsilon, bounds).curator
    n, learner = curator.n, parse_learner(curator.settings)
    assert isinstance(learner, ParityLearner)
    row: dict[str, Any] = {
        "d": dimension, "X": divergence, "epsilon": epsilon, "bounds": bounds, "n": n, "blocks": learner.blocks,
    }  # fmt: skip
    if n > most:
        return {**row, "right": None, "repetitions": 0, "low": None, "high": None, "seconds": None}
    right, began = 0, time.perf_counter()
    for repetition in range(repetitions):
        seed = subseed(repetition, f"parity {dimension} {divergence} {bounds}")
        source = people(dimension, divergence, seed)
        mechanism, randomness = learner.mechanism(dimension), RandomSource.seeded(seed, "learner")
        found = vote(mechanism.apply(everybody(source, seed, n), randomness))
        right += found == Parity(features=source.secret)
    interval = binomtest(right, repetitions).proportion_ci(0.95, "exact")
    took = (time.perf_counter() - began) / repetitions
    ends = {"low": float(interval.low), "high": float(interval.high)}
    return {**row, "right": right, "repetitions": repetitions, **ends, "seconds": took}


def full_rank(dimension: int, divergence: float, repetitions: int) -> int:
    """Return the most records that any of the repetitions needed until full rank."""
    worst = 0
    for repetition in range(repetitions):
        seed = subseed(repetition, f"rank {dimension} {divergence}")
        source, system, taken = people(dimension, divergence, seed), Equations(dimension), 0
        while system.rank < dimension:
            records = source.draw(seed, np.arange(taken, taken + 1))
            system.add(records.features, (records.labels > 0).view(np.uint8))
            taken += 1
        worst = max(worst, taken)
    return worst


def elimination(rows: int, dimension: int) -> dict[str, Any]:
    """Time one system, in microseconds: packing, elimination, and everything with a point of the solution space."""
    generator = np.random.default_rng(1)
    coefficients = generator.integers(0, 2, (rows, dimension)).astype(np.uint8)
    values = (coefficients @ generator.integers(0, 2, dimension) % 2).astype(np.uint8)
    packed = np.zeros((dimension // 64 + 1, rows), dtype=np.uint64)
    pack(coefficients, values, packed)
    source = RandomSource.seeded(1)

    def whole() -> None:
        system = Equations(dimension)
        system.add(coefficients, values)
        system.point(source)

    best = {"elimination": math.inf, "with packing and a point": math.inf}
    for _ in range(200):
        matrix, began = packed.copy(), time.perf_counter()
        eliminate(matrix, dimension + 1)
        middle = time.perf_counter()
        whole()
        ended = time.perf_counter()
        best["elimination"] = min(best["elimination"], 1e6 * (middle - began))
        best["with packing and a point"] = min(best["with packing and a point"], 1e6 * (ended - middle))
    return {"rows": rows, "d": dimension, **best}


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    begin = f"{row['d']:4d} {row['X']:4g} {row['bounds']:>6} {row['n']:11,d} {row['blocks']:6d} {row['rank']:6d}"
    if not row["repetitions"]:
        return f"{begin}  planned only"
    right = f"{row['right']}/{row['repetitions']}"
    return f"{begin} {right:>8}  [{row['low']:.3f}, {row['high']:.3f}] {row['seconds']:8.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--most", type=int, default=6_000_000, help="people of a repetition; larger plans are not run")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    def write(text: str) -> None:
        if not given.json:
            print(text, flush=True)

    write(f"{'d':>4} {'X':>4} {'bounds':>6} {'n':>11} {'blocks':>6} {'rank':>6} {'right':>8}  95% interval   s each")
    learning = []
    for dimension in DIMENSIONS:
        for divergence in DIVERGENCES:
            rank = full_rank(dimension, divergence, given.repetitions)
            for bounds in ("paper", "tight"):
                row = success(dimension, divergence, given.epsilon, bounds, given.repetitions, given.most)
                learning.append({**row, "rank": rank})
                write(line(learning[-1]))
    systems = [elimination(rows, dimension) for rows, dimension in SYSTEMS]
    for row in systems:
        write("  ".join(f"{name} {value:.4g}" for name, value in row.items()) + "  (microseconds)")
    if given.json:
        print(json.dumps({"learning": learning, "elimination": systems}))


if __name__ == "__main__":
    main()
