"""The floors of speed: what each kernel and each whole run must reach at least, measured on this machine.

    python -m benchmarks.floors [GROUP ...] [--json]

Every group of rows is measured in a process of its own, one after the other, so that its peak memory is its own. All of
it takes some ten minutes on two quiet cores, and needs 7 GiB of memory. Exit status 1 if a floor is missed. Groups
can be named: ``sgd-8`` and ``iteration`` are other names of ``full-size``, ``sgd-200`` of
``wide-descent``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import figure1, figure2
from common.core.machine import processors
from common.data.distributions.base import parse_distribution
from common.data.population import SimulatedRecordSource
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.local.mechanisms.mechanism import Warner
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario import loading
from common.scenario.plan import resolve
from curator.learners.base import learn_from, parse_learner
from curator.learners.half_spaces import Sgd
from curator.mechanisms.parities import Equations
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing, Sampler
from curator.sample.rows import FixedRows, GatheredRows, Grid
from curator.startup import open_sample

PAPER = "ball-paper-size"
PLANE = Linear(weights=(1.0, -0.5, 0.25, 0.125, -1.0, 0.3, 0.2, 0.1), threshold=0.1)


@dataclass(frozen=True)
class Row:
    """One floor: ``measured`` must be at least (rates) or at most (times, memory) ``floor``; None: no limit."""

    work: str
    measured: float
    floor: float | None
    unit: str

    @property
    def meets(self) -> bool:
        """Whether the measurement meets the floor."""
        if self.floor is None:
            return True
        return self.measured >= self.floor if self.unit.endswith("/s") else self.measured <= self.floor


class Drawn(Sampler):
    """Precomputed draws, to measure a learner's own work without the sample."""

    def __init__(self, records: Records) -> None:
        self._records = records

    @property
    def dimension(self) -> int:
        """Number of features."""
        return self._records.dimension

    def located(self, count: int, source: RandomSource) -> GatheredRows:
        """Return the same records again and again."""
        return GatheredRows.from_records(Records(self._records.features[:count], self._records.labels[:count]))


def seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the minimum time of some runs, after one warm-up run."""
    work()
    return min(once(work) for _ in range(runs))


def once(work: Callable[[], object]) -> float:
    """Return the time of one run."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak() -> float:
    """Return the peak memory of this process, in GiB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def one_core() -> None:
    """Keep this process to one core from here on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def random_sample(n: int) -> LocalSample:
    """Return n fixed-point records of 8 features, all bits random."""
    codes = np.empty((n, 8), dtype=np.uint16)
    words = codes.reshape(-1).view(np.uint64)
    source = RandomSource.seeded(1)
    for begin in range(0, len(words), 1 << 20):
        part = words[begin : begin + (1 << 20)]
        part[:] = source.words(len(part))
    return LocalSample([FixedRows(codes, Grid.between(-1.0, 1.0))])


def passes() -> list[Row]:
    """Measure a pass over 5e7 records, and the projections after many."""
    n = 50_000_000
    sample, weights = random_sample(n), Reweighing(n, 0.05, 0.1)
    one = seconds(lambda: weights.update(sample, HypothesisLoss(PLANE)), 5)
    counted = seconds(weights.density, 20)
    weights.update(sample, HypothesisLoss(PLANE, "hinge"))
    pass_real = seconds(lambda: weights.update(sample, HypothesisLoss(PLANE, "hinge")), 1)
    real = seconds(weights.density, 5)
    return [
        Row("fused predict, update and weight histogram, d=8", n / one, 3e8, "rows/s"),
        Row("kappa-dense projection after a pass, counted losses", 1e3 * counted, 1.0, "ms"),
        Row("kappa-dense projection after a pass, real losses", real / pass_real, 1.0, "passes"),
    ]


def wide_descent() -> list[Row]:
    """Measure private gradient descent in 200 dimensions on one core, with and without the draws."""
    one_core()
    ball = {"side": "source", "d": 200, "close": 6, "sigma_source": 1.0, "sigma_target": 0.4, "norm": 27.9}
    population = SimulatedRecordSource(parse_distribution({"name": "gaussian-ball", **ball}), 1, 75_000)
    sample = LocalSample(
        [FixedRows.from_records(population.records(np.arange(len(population))), Grid.between(-27.9, 27.9))]
    )
    sampler, source = Reweighing(len(sample), 0.1, 0.1).sampler(sample), RandomSource.seeded(1)
    learner = Sgd(steps=1_000_000, noise=2.0, diameter=10.0, loss="hinge")
    own, whole = (
        seconds(partial(learn_from, learner, given, source, None))
        for given in (Drawn(sampler.draws(1 << 13, source)), sampler)
    )
    return [
        Row("private SGD, d=200, 75,000 people, on one core", learner.steps / whole, 5e6, "steps/s"),
        Row("of that noise and steps alone, draws at hand", learner.steps / own, None, "steps/s"),
    ]


def fetches(sample: Sample) -> float:
    """Return how many random rows per second all cores can copy from a sample in memory: the limit for draws."""
    rows = sample.local_rows
    assert isinstance(rows, FixedRows)
    cores, size, calls = processors(), 1 << 16, 100
    places = [RandomSource.seeded(core).integers(len(rows), size) for core in range(cores)]

    def fetch(core: int) -> None:
        for _ in range(calls):
            rows.copied(places[core])

    with ThreadPoolExecutor(cores) as pool:
        return cores * calls * size / seconds(lambda: list(pool.map(fetch, range(cores))))


def full_size() -> list[Row]:
    """Measure one iteration at the paper's full size, and its peak memory."""
    chosen = resolve(loading.load(PAPER))
    policy = chosen.curator
    with tempfile.TemporaryDirectory() as folder:
        sample = open_sample(chosen, Path(folder), 1, lambda text: None)
        learner = parse_learner(policy.settings)
        weights = Reweighing(len(sample), policy.kappa or 1.0, policy.eta)
        source = RandomSource.seeded(1)
        weights.update(sample, HypothesisLoss(PLANE))
        sampler = Sampler(sample, weights.density())
        learned = seconds(partial(learn_from, learner, sampler, source, None), 5)
        hypothesis = learn_from(learner, sampler, source, None)

        def iteration() -> None:
            learn_from(learner, Sampler(sample, weights.density()), source, None)
            weights.update(sample, HypothesisLoss(hypothesis))

        whole = seconds(iteration)
        fetched = fetches(sample)
    steps = int(learner.wire()["steps"])
    return [
        Row(f"private SGD, d=8, end to end at n={len(sample):,}", steps / learned, 2.5e7, "steps/s"),
        Row("rows of 16 bytes fetched at random there, and nothing else", fetched, None, "rows/s"),
        Row(f"one whole iteration at n={len(sample):,}, R={steps:,}", whole, 3.0, "s"),
        Row("its peak memory", peak(), 6.0, "GiB"),
    ]


def referee_run(scenario: str, *sets: str) -> dict[str, Any]:
    """Run a scenario with the user's command, and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "referee.cli", "run", scenario, "--seed", "1", "--json", "--output", folder]
        told = [word for key in sets for word in ("--set", key)]
        found = subprocess.run([*command, *told], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    result: dict[str, Any] = json.loads(found.stdout)
    return result


def private_run() -> list[Row]:
    """Measure the paper's private experiment at full size, from the command to its result."""
    result: dict[str, Any] = {}
    took = once(lambda: result.update(referee_run(PAPER)))
    if result["status"] != "done":
        raise SystemExit(f"{PAPER} ended {result['status']}")
    memory = result["peak_memory_bytes"] / 2**30
    return [
        Row("Appendix D private, full size, to the halt", took, 120.0, "s"),
        Row("its peak memory, all parties in one process", memory, 6.0, "GiB"),
    ]


def answers() -> list[Row]:
    """Measure vectorized randomized response on one core."""
    one_core()
    bits = np.zeros(50_000_000, dtype=np.uint8)
    warner, source = Warner(epsilon=0.5), RandomSource.seeded(1)
    took = seconds(lambda: warner.randomize(bits, source))
    return [Row("random-response agents, vectorized, on one core", len(bits) / took, 1e8, "answers/s")]


def elimination() -> list[Row]:
    """Measure the elimination of 264 equations in 200 unknowns, bits to echelon form."""
    bits = RandomSource.seeded(1).integers(2, 264 * 201).astype(np.uint8).reshape(264, 201)
    coefficients, values = np.ascontiguousarray(bits[:, :200]), np.ascontiguousarray(bits[:, 200])
    took = seconds(lambda: Equations(200).add(coefficients, values), 200)
    return [Row("F2 elimination 264 x 200", 1e6 * took, 200.0, "us")]


def figure_2() -> list[Row]:
    """Measure one repetition of the experiment with a ball, without privacy."""
    took = seconds(partial(figure2.FIGURE.repeat, "75K", figure2.FIGURE.seed("75K", 0)), 2)
    return [Row("Appendix D non-private, n=75K, one repetition", took, 6.0, "s")]


def figure_1() -> list[Row]:
    """Measure one repetition of the experiment with a half-space."""
    took = once(partial(figure1.FIGURE.repeat, "90K", figure1.FIGURE.seed("90K", 0)))
    return [Row("Appendix C, n=90K, one repetition", took, 300.0, "s")]


GROUPS: dict[str, Callable[[], list[Row]]] = {
    "passes": passes,
    "wide-descent": wide_descent,
    "full-size": full_size,
    "private-run": private_run,
    "answers": answers,
    "elimination": elimination,
    "figure-2": figure_2,
    "figure-1": figure_1,
}


NAMES = {"sgd-8": "full-size", "iteration": "full-size", "sgd-200": "wide-descent"}
"""Aliases of groups: alias to group."""


def measure(group: str) -> list[Row]:
    """Measure a group in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.floors", "--here", group]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [Row(**row) for row in json.loads(found.stdout)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*GROUPS, *NAMES]
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"which rows, of {', '.join(known)}; all by default")
    parser.add_argument("--here", choices=sorted(GROUPS), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.here:
        print(json.dumps([asdict(row) for row in GROUPS[given.here]()]))
        return
    rows = []
    asked = dict.fromkeys(NAMES.get(group, group) for group in given.groups)
    if unknown := [group for group in asked if group not in GROUPS]:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(known)}")
    for group in asked or GROUPS:
        for row in measure(group):
            rows.append(row)
            if not given.json:
                verdict = "" if row.floor is None else "meets" if row.meets else "MISSES"
                floor = "" if row.floor is None else f"{row.floor:.3g}"
                print(f"{row.work:<58} {row.measured:>10.4g} {floor:>8} {row.unit:<10} {verdict}", flush=True)
    if given.json:
        print(json.dumps([{**asdict(row), "meets": row.meets} for row in rows], indent=2))
    sys.exit(0 if all(row.meets for row in rows) else 1)


if __name__ == "__main__":
    main()
