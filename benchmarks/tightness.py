"""How tight are the accountants? Renyi, what is claimed now, and what no accountant can pass.

    python -m benchmarks.tightness [--output FILE] [--json]

Takes ten minutes. Each row is a plan of noisy steps on draws (:class:`common.privacy.events.SubsampledSteps`).
*Pair* is the numerical epsilon at delta of one explicit pair of neighbours, means at the ends of a diameter: no
accountant can show less (computed on a fine grid, to a part in a thousand, not rounded to a side). *Limit* is the
Gaussian that the steps tend to. *Measured* is what an audit shows of the same pair (:mod:`common.privacy.auditing`):
all steps are drawn, as often as 40 million draws on a side allow; it is too high with probability at most 1e-6.
docs/accounting.md has the table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from common.core.arrays import AnyArray, Floats
from common.numerics.randomness import RandomSource
from common.privacy.accountants import ACCOUNTANTS
from common.privacy.auditing import Subject, audit
from common.privacy.budget import certify
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.gaussian_dp import epsilon_of

RESULT = Path(__file__).parent / "results" / "tightness.json"

DRAWS = 40_000_000
"""Steps that an audit draws on each side, for its search and again for its bound."""
BLOCK = 1 << 16

ROWS = (
    ("few steps, little noise", 0.001, 2.0, 1_000, 1e-5),
    ("few steps", 0.01, 1.0, 1_000, 1e-5),
    ("large draws", 0.05, 0.25, 2_000, 1e-5),
    ("more steps", 0.001, 1.0, 100_000, 1e-5),
    ("people.md, noise 4 L", 1 / 1503, 0.5, 207_778, 1e-4),
    ("people.md, noise 8 L", 1 / 1394, 0.25, 831_111, 1e-4),
    ("people.md, noise 12 L", 1 / 1369, 2.0 / 12.0, 1_870_000, 1e-4),
    ("Appendix D, 50 billion steps", 1.6e-6, 2.0 / math.sqrt(20.0), 50_000_000_000, 1e-4),
)


@dataclass(frozen=True)
class Tightness:
    """One row."""

    title: str
    tv_bound: float
    ratio: float
    steps: int
    delta: float
    renyi: float
    now: float
    accountant: str
    seconds: float
    pair: float | None
    limit: float
    measured: float | None
    runs: int


def epsilon_of_pair(tv_bound: float, ratio: float, steps: int, delta: float) -> float | None:
    """Return the epsilon of the pair A = C at one end, B at the other; None if its grid would be too long.

    Both directions are composed on a grid that keeps the mean of each loss, and the larger epsilon is taken.
    """
    deviation = tv_bound * math.sqrt(math.expm1(ratio * ratio))
    width = tv_bound * min(ratio, 1.0) / 20.0
    span = 12.0 * deviation * math.sqrt(steps) + steps * deviation * deviation + 2.0
    points = next_fast_len(math.ceil(2.0 * span / width), real=True)
    if points > 1 << 24:
        return None
    return max(_direction(tv_bound, ratio, steps, delta, width, points, forth) for forth in (True, False))


def _direction(s: float, u: float, steps: int, delta: float, width: float, points: int, forth: bool) -> float:
    edges = np.linspace(-12.0, 12.0 + u, 400_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    mass, other = np.diff(ndtr(edges)), np.diff(ndtr(edges - u))
    mixed = (1.0 - s) * mass + s * other
    log_r = np.log1p(s * np.expm1(np.minimum(u * middle - u * u / 2.0, 600.0)))
    losses, masses = (log_r, mixed) if forth else (-log_r, mass)
    # Each loss is split between its two neighbouring grid points, with the same mean.
    places = losses / width
    low = np.floor(places)
    share = places - low
    spread = np.bincount((low.astype(np.int64)) % points, masses * (1.0 - share), minlength=points)
    spread += np.bincount((low.astype(np.int64) + 1) % points, masses * share, minlength=points)
    spread = spread / spread.sum()
    composed: Floats = np.maximum(irfft(np.exp(steps * np.log(rfft(spread))), points), 0.0)
    values = width * np.fft.fftfreq(points, 1.0 / points)
    order = np.argsort(values)
    values, composed = values[order], composed[order]
    heights, weighed = (
        np.cumsum(composed[::-1])[::-1],
        np.cumsum((composed * np.exp(-np.maximum(values, 0.0)))[::-1])[::-1],
    )
    good = values >= 0.0
    profile = heights[good] - np.exp(values[good]) * weighed[good]
    return float(values[good][np.argmax(profile <= delta)])


def drawn(tv_bound: float, ratio: float, steps: int) -> Subject:
    """Return the pair as a function to audit: the total privacy loss of the steps, on either neighbour."""

    def subject(replaced: bool, runs: int, source: RandomSource) -> AnyArray:
        generator = np.random.default_rng(int(source.integers(1 << 62, 1)[0]))
        found = np.zeros(runs)
        for run in range(runs):
            for first in range(0, steps, BLOCK):
                z = generator.standard_normal(min(BLOCK, steps - first))
                if replaced:
                    z[generator.random(len(z)) < tv_bound] += ratio
                found[run] += np.log1p(tv_bound * np.expm1(ratio * z - ratio * ratio / 2.0)).sum()
        return found

    return subject


def measured(tv_bound: float, ratio: float, steps: int, delta: float) -> tuple[float | None, int]:
    """Return the epsilon that an audit of the pair shows, and its number of runs; None if fewer than 100."""
    runs = min(40_000, DRAWS // steps)
    if runs < 100:
        return None, runs
    source = RandomSource.seeded(1, "tightness", str(steps), repr(ratio))
    found = audit(drawn(tv_bound, ratio, steps), (True, False), source, runs=runs, delta=delta)
    return found.epsilon, runs


def measure(title: str, tv_bound: float, ratio: float, steps: int, delta: float) -> Tightness:
    """Return one row."""
    plan = [(SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio), 1)]
    renyi = ACCOUNTANTS["rdp"]().epsilon(plan, delta)
    began = time.perf_counter()
    certificate = certify(plan, delta, 0.0)
    seconds = time.perf_counter() - began
    assert certificate is not None
    limit = epsilon_of(tv_bound * math.sqrt(steps * math.expm1(ratio * ratio)), delta)
    pair = epsilon_of_pair(tv_bound, ratio, steps, delta)
    now, name = certificate.epsilon, certificate.accountant
    shown, runs = measured(tv_bound, ratio, steps, delta)
    return Tightness(
        title, tv_bound, ratio, steps, delta, renyi, now, name, round(seconds, 2), pair, limit, shown, runs
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, store and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.tightness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [measure(*row) for row in ROWS]
    given.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    names = ("plan", "s", "u", "steps", "delta", "Renyi", "now", "by", "pair", "limit", "now/pair", "measured", "runs")
    table = Table(*names)
    for row in rows:
        base = row.limit if row.pair is None else row.pair
        numbers = [f"{row.renyi:.4f}", f"{row.now:.4f}", row.accountant, "" if row.pair is None else f"{row.pair:.4f}"]
        head = [row.title, f"{row.tv_bound:.3g}", f"{row.ratio:.3g}", f"{row.steps:,}", f"{row.delta:g}"]
        shown = ("", "") if row.measured is None else (f"{row.measured:.3f}", f"{row.runs:,}")
        table.add_row(*head, *numbers, f"{row.limit:.4f}", f"{row.now / base:.3f}", *shown)
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
