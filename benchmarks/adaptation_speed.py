"""How fast adaptation is, beside what memory gives: CnvxAdap at the paper's size of iterations.

    python -m benchmarks.adaptation_speed [--iterations 15000] [--json]

15,000 iterations with n = 10,000, m = 8,000 and d = 384, private, on records drawn at random (no time depends on them).
An iteration reads every record once: residual, the weights' gradient and the scales' step are one pass over 27.6 MB of
single precision. Beside it, on the same machine right after: the same bytes read by a plain sum. Exit status 1 if the
whole takes longer than a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import njit_inlined
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import mu_allowed
from curator.learners.adaptation import ConvexSettings, solve
from curator.learners.domains import Domains, DomainSide

MAX_SECONDS = 60.0
BEYOND_CACHES = 1 << 28
"""Bytes of an array that fits in no cache."""


@dataclass(frozen=True)
class Speed:
    """The measurements.

    Attributes:
        seconds: Time of the whole fit, discrepancy and noise included.
        processor_seconds: Its processor time: equal to ``seconds`` on a quiet machine.
        bytes_a_second: Bytes of records that the fit's iterations read per second.
        records_read, memory_read: Bytes per second of a plain sum over the same records, and over an array that fits in
            no cache.
    """

    m: int
    n: int
    d: int
    iterations: int
    seconds: float
    processor_seconds: float
    bytes_a_second: float
    records_read: float
    memory_read: float

    @property
    def meets(self) -> bool:
        """Whether the fit takes at most a minute."""
        return self.seconds <= MAX_SECONDS


@njit_inlined
def total(numbers: AnyArray) -> float:
    """Add up single-precision numbers: little work beside reading them."""
    found = np.float32(0.0)
    for i in range(len(numbers)):
        found += numbers[i]
    return float(found)


def least(work: Callable[[], object], runs: int = 20) -> float:
    """Return the minimum time of some runs, after one warm-up run."""
    work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(m: int = 8_000, n: int = 10_000, d: int = 384, iterations: int = 15_000) -> Speed:
    """Fit once at (1, 1e-6), and read the same bytes."""
    draw = np.random.default_rng(1)
    sides = []
    for size in (m, n):
        features = draw.normal(size=(size, d))
        features /= np.linalg.norm(features, axis=1)[:, None]
        sides.append(DomainSide(features, np.clip(4.0 * features[:, 0], -1.0, 1.0)))
    domains = Domains(sides[0], sides[1])
    settings = ConvexSettings(alpha=0.5, kappa_1=5.0, kappa_2=10.0, kappa_inf=1.0, iterations=iterations)
    mu, source = mu_allowed(1.0, 1e-6), RandomSource.seeded(1)
    solve(domains, settings.model_copy(update={"iterations": 1}), mu, source)  # compiles the loops
    began, busy = time.perf_counter(), time.process_time()
    solve(domains, settings, mu, source)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    records = np.concatenate([side.features for side in sides]).astype(np.float32).reshape(-1)
    large = np.ones(BEYOND_CACHES // 4, dtype=np.float32)
    return Speed(
        m,
        n,
        d,
        iterations,
        seconds,
        busy,
        records.nbytes * iterations / seconds,
        records.nbytes / least(lambda: total(records)),
        large.nbytes / least(lambda: total(large), 5),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=15_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(iterations=given.iterations)
    if given.json:
        print(json.dumps({**asdict(found), "meets": found.meets}, indent=2))
    else:
        print(f"CnvxAdap, {found.iterations:,} iterations, n = {found.n:,}, m = {found.m:,}, d = {found.d}")
        print(f"  {found.processor_seconds:.1f} s of the processor")
        print(f"  {found.seconds:.1f} s ({'meets' if found.meets else 'MISSES'} {MAX_SECONDS:.0f} s)")
        print(f"  {found.bytes_a_second / 1e9:.1f} GB/s of records, noise and all")
        print(f"  {found.records_read / 1e9:.1f} GB/s: a plain sum over the same records")
        print(f"  {found.memory_read / 1e9:.1f} GB/s: a plain sum over {BEYOND_CACHES >> 20} MiB")
    sys.exit(0 if found.meets else 1)


if __name__ == "__main__":
    main()
