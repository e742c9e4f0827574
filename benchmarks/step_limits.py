"""What is a step of private SGD made of? Nanoseconds of one core for each stage alone, and how many steps they allow.

python -m benchmarks.step_limits [--n 100000000] [--json]

Every stage is the least of many short runs of the shipped code, in processor time of its thread: a busy machine makes
it longer, never shorter. Steps of one run follow each other, but draws and noise are made ahead by all cores: where
nothing waits, k cores make k steps in the time of all stages together.

Most of a draw of eight features is a random read of memory. It is measured by one core alone, by all cores
at once, which share the memory, and eight reads from each of some pages. Eight that are quicker than others need one
translation of an address for all of them, and it is translations that a core waits for: prefetching does not help.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from threading import Barrier, BrokenBarrierError

import numpy as np

from benchmarks.floors import random_sample
from common.core.arrays import AnyArray
from common.core.machine import processors
from common.local.records import Records
from common.numerics import chacha
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from curator.learners.half_spaces import Sgd
from curator.mechanisms.gaussian_noise import LANES, normals
from curator.mechanisms.gradient_steps import coordinates, descend
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import FixedRows, Grid

SECONDS = 3.0
"""Seconds for which each stage is repeated."""
BLOCK = 1 << 14
"""Steps of one repetition."""
_fill = chacha.fill


@dataclass(frozen=True)
class Stage:
    """The time of one stage.

    Attributes:
        features: d.
        stage: A description of the stage.
        nanoseconds: Time of one core per step.
    """

    features: int
    stage: str
    nanoseconds: float


def least(work: Callable[[], object], steps: int) -> float:
    """Return the minimum nanoseconds per step over many runs, after one warm-up run."""
    work()
    found, ends = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < ends:
        began = time.thread_time_ns()
        work()
        found = min(found, time.thread_time_ns() - began)
    return found / steps


def reads(sample: LocalSample, cores: int = 1, in_page: int = 1, page: int = 4096) -> float:
    """Return the minimum nanoseconds of one core to copy a random row, while ``cores`` cores read at the same time.

    Args:
        sample: In memory, in fixed-point numbers.
        cores: How many read at the same time.
        in_page: How many rows are read from each page.
        page: Bytes of a page.
    """
    rows, start = sample.local_rows, Barrier(cores)
    assert isinstance(rows, FixedRows)
    held = page // (2 * rows.dimension)

    def read(core: int) -> float:
        source, found, ends = RandomSource.seeded(core), math.inf, time.perf_counter() + SECONDS
        while time.perf_counter() < ends:
            pages = np.repeat(source.integers(len(rows) // held, BLOCK // in_page), in_page)
            places = pages * held + source.integers(held, len(pages))
            with suppress(BrokenBarrierError):  # another core is done
                start.wait(SECONDS)
            began = time.thread_time_ns()
            rows.copied(places)
            found = min(found, time.thread_time_ns() - began)
        start.abort()
        return found / BLOCK

    with ThreadPoolExecutor(cores) as pool:
        return max(pool.map(read, range(cores)))


@njit
def _fill_often(key: AnyArray, blocks: AnyArray, times: int) -> None:
    for nonce in range(times):
        _fill(key, nonce, 0, blocks)


def stages(sample: LocalSample, learner: Sgd) -> list[Stage]:
    """Measure the stages of one learner's steps on a sample."""
    d, source, fresh = sample.dimension, RandomSource.seeded(1), count()
    sampler = Reweighing(len(sample), 0.1, 0.1).sampler(sample)
    descent, width = learner.descent, d + 1
    rule, kind = descent.rule(width), np.float32 if descent.single(width) else np.float64
    drawn, noise = sampler.gathered(BLOCK, source), normals(BLOCK * width, source).reshape(BLOCK, width)
    away, part = coordinates(width, kind), coordinates(width, kind)
    key, blocks = np.arange(8, dtype=np.uint32), np.empty((16, LANES // 16), dtype=np.uint32)
    keystream = least(lambda: _fill_often(key, blocks, 64), 64 * LANES)
    numbers = least(lambda: normals(1 << 20, source), 1 << 20)
    draws = least(lambda: sampler.gathered(BLOCK, source.derive("draws", next(fresh))), BLOCK)
    steps = least(lambda: descend(drawn, noise, away, part, 1000, rule), BLOCK)
    return [
        Stage(d, f"{width} words of the noise's keystream", width * keystream),
        Stage(d, f"{width} numbers made of them", width * (numbers - keystream)),
        Stage(d, "a draw" if d < 64 else "a draw's number, its record left in place", draws),
        Stage(d, "the step, draws and noise at hand", steps),
        Stage(d, "all together", width * numbers + draws + steps),
    ]


def measure(n: int) -> list[Stage]:
    """Measure both: 8 features among n people, and 200 among 75,000."""
    features = np.random.default_rng(1).normal(size=(75_000, 200)).astype(np.float32)
    people = Records(np.clip(features, -27.9, 27.9), np.where(features[:, 0] > 0.0, 1, -1).astype(np.int8))
    cores = processors()
    sample = random_sample(n)
    short = stages(sample, Sgd(steps=50_000_000, noise=20**0.5, diameter=1.0, domain="box", loss="perceptron"))
    memory = [
        Stage(8, "of a draw: a copy of its row", reads(sample)),
        Stage(8, f"the same, {cores} cores at once", reads(sample, cores)),
        Stage(8, "the same, eight rows from each 4 KiB", reads(sample, in_page=8)),
        Stage(8, "the same, eight rows from each 2 MiB", reads(sample, in_page=8, page=1 << 21)),
    ]
    wide = LocalSample([FixedRows.from_records(people, Grid.between(-27.9, 27.9))])
    return short + memory + stages(wide, Sgd(steps=1_000_000, noise=2.0, diameter=10.0, loss="hinge"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000_000, help="people of 16 bytes, in memory")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measure(given.n)
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    cores = processors()
    for row in rows:
        allowed = f"{1e9 / row.nanoseconds:.3g} steps/s a core, {cores} cores {cores * 1e9 / row.nanoseconds:.3g}"
        print(
            f"d={row.features:<4} {row.stage:<45} {row.nanoseconds:>7.1f} ns  {allowed if 'all' in row.stage else ''}"
        )


if __name__ == "__main__":
    main()
