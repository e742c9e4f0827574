"""How many private labels are wrong: Theorems 3.4 and 3.5 of "Model-Agnostic Private Learning", measured.

    python -m benchmarks.model_agnostic [--repetitions 5] [--json]

Bassily, Thakkar and Thakurta (2018). The class has V thresholds, one for each of V kinds of people, so its dimension is
V; teachers are empirical risk minimizers on n/k records each. m public points are labelled at (1, 1e-6) by

- ``sparse-vector``: k and T as the theorems set them, with the exact calibration: the smallest T for which k is so
large
  that two thirds of the teachers are heard, and teachers of n/k records then need no more than T bottoms (Theorem 3.2);
- ``composition``: the distance-to-instability release for every point, by advanced (here: optimal) composition;
- ``gnmax``: noisy counts, exact Gaussian composition.

``rate`` is the share of points with a wrong label or none, which the theorems bound; ``bound`` is T/m. Realizable:
about V/n for the first n/V points, then m V^2/n^2, beside sqrt(m) V/n of composition. Agnostic: labels are flipped with
probability gamma, and the rate is against the labels before. Where no T is large enough, there is no row. Teachers in
the realizable case are drawn from the exact law of a midpoint between the two records next to a threshold, so that n
may be a billion.

``remark 3``: teachers of accuracy 1/m, m = V/alpha: hardly any label is wrong, and the student learns from all of them.
``accounting``: epsilon of m answers with sigma = 189 by the exact law (gdp) and by Renyi divergences (rdp;
data-independent PATE accounting, Papernot et al. 2018, as dp-accounting computes it).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from benchmarks.figures.plotting import COLOURS, panels
from common.core.arrays import Floats, Indices
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.votes import (
    answer_mu,
    answers_sigma,
    calibrated,
    enough_bottoms,
    stability_margin,
    stability_share,
)
from curator.learners.teachers import release_if_stable, release_until_cutoff
from curator.mechanisms.stability import distances, winners
from curator.mechanisms.sums import noisy_winners

V, EPSILON, DELTA, BETA = 10, 1.0, 1e-6, 0.05
GAMMA = 0.01
RESULTS = Path(__file__).parent / "results"
METHODS = ("sparse-vector", "composition", "gnmax")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Setting:
    """How a method answers m points: k teachers, at most T bottoms (0: any), and sigma of one answer."""

    chunks: int
    cutoff: int = 0
    each: float = 0.0


@dataclass(frozen=True)
class Row:
    """One measurement: mean and standard deviation of the rate over the repetitions."""

    case: str
    method: str
    n: float
    m: int
    chunks: int
    cutoff: int
    rate: float
    deviation: float
    bound: float | None


def setting(method: str, n: float, m: int, gamma: float) -> Setting | None:
    """Return the setting of a method; None if no number of teachers is large enough."""
    if method == "gnmax":
        sigma = answers_sigma(m, EPSILON, DELTA)
        return Setting(math.ceil(3.0 * math.sqrt(2.0) * sigma * -float(ndtri(BETA / m))), each=sigma)
    if method == "composition":
        try:
            each, own = stability_share(m, EPSILON, DELTA)
        except BadInput:
            return None
        return Setting(6 * (stability_margin(BETA / m, each, own) + 1))
    for cutoff in sorted({math.ceil(1.25**power) for power in range(60)}):
        try:
            chunks = 6 * (calibrated(cutoff, m, EPSILON, DELTA).margin(BETA / m) + 1)
        except BadInput:
            return None
        error = gamma + V * chunks / (2.0 * n)
        if error < 0.5 and enough_bottoms(error, m, BETA) <= cutoff:
            return Setting(chunks, cutoff)
    return None


def teachers(n: float, chunks: int, gamma: float, draw: np.random.Generator) -> Floats:
    """Return the thresholds that k teachers learn, shape (V, k), sorted in each row; the truth is 1/2 for all."""
    if gamma == 0.0:
        each = n / chunks / V
        left, right = (draw.poisson(each / 2.0, (V, chunks)) for _ in range(2))
        # The last record before the truth, and the first one after it: maxima of that many uniforms.
        before = 0.5 * draw.uniform(size=(V, chunks)) ** (1.0 / np.maximum(left, 1)) * (left > 0)
        after = 1.0 - 0.5 * draw.uniform(size=(V, chunks)) ** (1.0 / np.maximum(right, 1)) * (right > 0)
        return np.sort((before + after) / 2.0, axis=1)
    each = max(1, round(n / chunks / V))
    found = [
        _minimizers(min(_PIECE // each + 1, V * chunks - start), each, gamma, draw)
        for start in range(0, V * chunks, _PIECE // each + 1)
    ]
    return np.sort(np.concatenate(found).reshape(V, chunks), axis=1)


def _minimizers(rows: int, each: int, gamma: float, draw: np.random.Generator) -> Floats:
    """Return for ``rows`` teachers the threshold with the fewest mistakes on ``each`` records, the middle of a gap."""
    x = np.sort(draw.uniform(size=(rows, each)), axis=1)
    signs = np.where((x > 0.5) ^ (draw.uniform(size=x.shape) < gamma), 1, -1)
    mistakes = np.concatenate([np.zeros((rows, 1), dtype=np.int64), np.cumsum(signs, axis=1)], axis=1)
    edges = np.concatenate([np.zeros((rows, 1)), x, np.ones((rows, 1))], axis=1)
    best = mistakes.argmin(axis=1)
    places = np.arange(rows)
    return np.asarray((edges[places, best] + edges[places, best + 1]) / 2.0)


def labelled(method: str, how: Setting, learned: Floats, kinds: Indices, x: Floats, source: RandomSource) -> Indices:
    """Return the private class of each point, negative if no class is released."""
    positive = np.zeros(len(x), dtype=np.int64)
    for kind in range(V):
        positive[kinds == kind] = np.searchsorted(learned[kind], x[kinds == kind])
    counts = np.stack([how.chunks - positive, positive], axis=1)
    if method == "gnmax":
        return noisy_winners(counts, how.each, source)
    if method == "composition":
        share = stability_share(len(x), EPSILON, DELTA)
        return release_if_stable(winners(counts), distances(counts), *share, source)
    law = calibrated(how.cutoff, len(x), EPSILON, DELTA)
    return release_until_cutoff(winners(counts), distances(counts), law, source)


def measured(case: str, method: str, n: float, m: int, gamma: float, repetitions: int) -> Row | None:
    """Measure one row."""
    how = setting(method, n, m, gamma)
    if how is None or how.chunks * V > n:
        return None
    rates = []
    for repetition in range(repetitions):
        draw = np.random.default_rng([repetition, m, round(n)])
        learned = teachers(n, how.chunks, gamma, draw)
        kinds, x = draw.integers(0, V, m), draw.uniform(size=m)
        source = RandomSource.seeded(repetition, case, method, m, round(n))
        rates.append(float(np.mean(labelled(method, how, learned, kinds, x, source) != (x > 0.5))))
    bound = how.cutoff / m if how.cutoff else None
    spread = float(np.std(rates, ddof=1)) if repetitions > 1 else 0.0
    return Row(case, method, n, m, how.chunks, how.cutoff, float(np.mean(rates)), spread, bound)


POINTS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
PLANS: dict[str, tuple[Sequence[tuple[float, int]], float]] = {
    "realizable, against m": ([(1e8, m) for m in POINTS], 0.0),
    "realizable, against n": ([(n, 10_000) for n in (1e7, 3e7, 1e8, 3e8, 1e9)], 0.0),
    "agnostic, against m": ([(1e7, m) for m in (100, 300, 1000, 3000, 10_000)], GAMMA),
}


def rates(repetitions: int) -> Iterator[Row]:
    """Measure every row of the theorems."""
    for case, (places, gamma) in PLANS.items():
        for n, m in places:
            for method in METHODS:
                row = measured(case, method, n, m, gamma, repetitions)
                if row is not None:
                    yield row


def remark(repetitions: int, alpha: float = 0.01) -> dict[str, float | str]:
    """Measure Remark 3: m = V/alpha points, teachers of accuracy 1/m, and what the student learns."""
    m = math.ceil(V / alpha)
    cutoff = enough_bottoms(1.0 / m, m, BETA)
    chunks = 6 * (calibrated(cutoff, m, EPSILON, DELTA).margin(BETA / m) + 1)
    n = V * chunks * m / 2.0
    wrong, losses = [], []
    for repetition in range(repetitions):
        draw = np.random.default_rng([repetition, 3])
        learned = teachers(n, chunks, 0.0, draw)
        kinds, x = draw.integers(0, V, m), draw.uniform(size=m)
        source = RandomSource.seeded(repetition, "remark")
        said = labelled("sparse-vector", Setting(chunks, cutoff), learned, kinds, x, source)
        wrong.append(float(np.mean(said != (x > 0.5))))
        known = said >= 0
        student = [_midpoint(x[known & (kinds == kind)], said[known & (kinds == kind)]) for kind in range(V)]
        losses.append(float(np.mean(np.abs(np.array(student) - 0.5))))
    told = {"rate": float(np.mean(wrong)), "student": float(np.mean(losses))}
    return {"case": "remark 3", "alpha": alpha, "n": n, "m": m, "chunks": chunks, "cutoff": cutoff, **told}


def _midpoint(x: Floats, classes: Indices) -> float:
    before, after = x[classes == 0], x[classes == 1]
    return (float(before.max(initial=0.0)) + float(after.min(initial=1.0))) / 2.0


def accounting() -> Iterator[dict[str, float | str]]:
    """Return epsilon of m answers at sigma = 189 by both accountants."""
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    sigma = answers_sigma(1000, EPSILON, DELTA)
    for m in (1, 10, 100, 1000, 10_000, 100_000):
        renyi = RdpAccountant().compose(SelfComposedDpEvent(GaussianDpEvent(sigma / math.sqrt(2.0)), m))
        exact = epsilon_of(math.sqrt(m) * answer_mu(sigma), DELTA)
        yield {"case": "accounting", "m": m, "gdp": exact, "rdp": float(renyi.get_epsilon(DELTA))}


def exponents(found: Sequence[Row]) -> Iterator[dict[str, float | str]]:
    """Fit the slopes of logarithmic rates, if every row has some wrong labels."""
    for case in PLANS:
        against = "n" if case.endswith("n") else "m"
        for method in METHODS:
            rows = [row for row in found if (row.case, row.method) == (case, method) and row.rate > 0.0]
            if len(rows) >= 3:
                x, y = np.log([getattr(row, against) for row in rows]), np.log([row.rate for row in rows])
                yield {"case": f"slope, {case}", "method": method, "slope": float(np.polyfit(x, y, 1)[0])}


def draw(found: Sequence[Row], path: Path) -> None:
    """Draw the rates."""
    with panels(path, list(PLANS)) as axes:
        for axis, case in zip(axes, PLANS, strict=True):
            against = "n" if case.endswith("n") else "m"
            for colour, method in zip(COLOURS, METHODS, strict=False):
                rows = [row for row in found if (row.case, row.method) == (case, method)]
                x = [getattr(row, against) for row in rows]
                axis.plot(
                    x,
                    [row.rate if row.rate > 0.0 else math.nan for row in rows],
                    "o-",
                    color=colour,
                    label=method,
                    markersize=3,
                )
                if method == "sparse-vector":
                    axis.plot(
                        x,
                        [math.nan if row.bound is None else row.bound for row in rows],
                        "--",
                        color=colour,
                        label="its bound T/m",
                    )
            places = sorted({(row.n, row.m) for row in found if row.case == case})
            axis.plot(
                [n if against == "n" else m for n, m in places],
                [V / n for n, _ in places],
                ":",
                color="#999999",
                label="V/n",
            )
            axis.set(xscale="log", yscale="log", xlabel=against, ylabel="share wrong or not labelled")
            axis.legend(fontsize=7)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = list(rates(given.repetitions))
    others = [*exponents(found), remark(given.repetitions), *accounting()]
    for suffix in ("png", "svg"):
        draw(found, RESULTS / f"model_agnostic.{suffix}")
    whole = [*(asdict(row) for row in found), *others]
    (RESULTS / "model_agnostic.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    if given.json:
        print(json.dumps(whole, indent=1))
        return
    for row in found:
        bound = "" if row.bound is None else f"bound {row.bound:.2e}"
        print(
            f"{row.case:<22} {row.method:<13} n {row.n:.0e} m {row.m:6d} k {row.chunks:7d} T {row.cutoff:5d} "
            f"rate {row.rate:.2e} +- {row.deviation:.0e} {bound}"
        )
    for other in others:
        print(other)


if __name__ == "__main__":
    main()
