"""The rates of Theorems 4.3 and 5.2, measured: what privacy costs the optimization, against n and epsilon.

    python -m benchmarks.adaptation_rates [--repetitions 8] [--json]

**CnvxAdap.** Theorem 4.3 bounds the expected excess of F at the averages (w, u) over its least value by a multiple of
sqrt(d ln(1/delta))/(n eps), as n grows, with T of order (n eps)^2/(d ln(1/delta)). Here kappa_1 is so large that the
best scales are 1. With others, the theorem's second term has the squared distance of u to the optimum, of order n^3,
and Theorem 4.4's condition on n fails, as is printed beside. mu stands for eps/sqrt(2 ln(1/delta)).

**NCnvxAdap.** Theorem 5.2 bounds the expected squared norm of J's gradient mapping at the random iterate by a multiple
of sqrt(beta d ln(1/delta))/(n eps), with T of order n eps/sqrt(d ln(1/delta)).

Bounds are upper bounds: a steeper measured slope is no contradiction, a flatter one would be.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.adaptation.objective import Objective
from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from curator.learners import adaptation
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, prepare, smoothness
from curator.learners.domains import Domains, DomainSide

CONVEX_SIZES = (500, 1000, 2000, 4000)
NONCONVEX_SIZES = (1000, 2000, 4000, 8000)
SOURCE = 50
MU = (0.1, 0.25)
DIMENSION = 5


@dataclass(frozen=True)
class Rate:
    """One series: means over repetitions, and the slope fitted to them.

    Attributes:
        theorem: The measured quantity.
        mu: The mu of the run.
        sizes, means, errors: n, the mean at each n, its standard error.
        slope: s in mean ~ n^-s.
        claimed: The slope of the bound.
    """

    theorem: str
    mu: float
    sizes: tuple[int, ...]
    means: tuple[float, ...]
    errors: tuple[float, ...]
    slope: float
    claimed: float


def domains(n: int, seed: int, labels: bool) -> Domains:
    """Return n target people and a few of the source, on lines that differ a little."""
    draw = np.random.default_rng(seed)
    sides = []
    for shift, size in ((0.0, SOURCE), (1.0, n)):
        features = draw.normal(size=(size, DIMENSION)) * 0.4 + 0.1 * shift
        features /= np.maximum(1.0, np.linalg.norm(features, axis=1))[:, None]
        line = np.resize([0.5, -0.3, 0.6, 0.1 * (1 + shift)], DIMENSION)
        responses = np.clip(features @ line + 0.3 * draw.normal(size=size), -1.0, 1.0)
        sides.append(DomainSide(features, np.where(responses > 0, 1.0, -1.0) if labels else responses))
    return Domains(sides[0], sides[1])


def convex_excess(n: int, mu: float, seed: int) -> float:
    """Return F at the result of a private run with T = (n mu)^2/(4 d), minus its minimum, for the run's discrepancy."""
    given = domains(n, 1, labels=False)
    iterations = max(1, round((n * mu) ** 2 / (4 * DIMENSION)))
    settings = ConvexSettings(alpha=0.3, kappa_1=20.0, kappa_2=0.0, steps="paper", iterations=iterations)
    source = RandomSource.seeded(seed)
    prepared = prepare(given, settings, mu, source)
    target = Objective(prepared.domains, 0.3, prepared.discrepancy, 20.0, 0.0, 0.0)
    found = adaptation.solve(given, settings, mu, source)
    # If kappa_1 exceeds every loss, the best scales are 1, and F is weighted least squares.
    return target.value(found.weights, found.scales) - target.value(_best(target), np.ones(SOURCE + n))


def _best(target: Objective) -> Floats:
    p = np.sqrt(target.references)
    features = np.vstack([target.domains.source.features, target.domains.target.features])
    responses = np.concatenate([target.domains.source.responses, target.domains.target.responses])
    return np.asarray(np.linalg.lstsq(features * p[:, None], responses * p)[0], dtype=np.float64)


def mapping(n: int, mu: float, seed: int) -> float:
    """Return the squared norm of J's gradient mapping, in (w, u) with 1/beta, at the random iterate."""
    given = domains(n, 1, labels=True)
    iterations = max(1, round(4.0 * n * mu / np.sqrt(DIMENSION)))
    settings = NonconvexSettings(alpha=0.3, kappa_1=1.0, kappa_2=0.1, steps="paper", iterations=iterations, radius=3.0)
    source = RandomSource.seeded(seed)
    prepared = prepare(given, settings, mu, source)
    sharpness = settings.softmax(SOURCE + n)
    target = Objective(
        prepared.domains, 0.3, prepared.discrepancy, 1.0, 0.1, 0.0, "logistic", convex=False, sharpness=sharpness
    )
    found = adaptation.solve(given, settings, mu, source)
    beta, p = smoothness(settings, given), target.references
    in_weights, in_scales = target.gradients(found.weights, found.scales)
    weights = found.weights - in_weights / beta
    weights *= min(1.0, settings.radius / float(np.linalg.norm(weights)))
    u = found.scales / p
    moved = np.maximum(u - p * in_scales / beta, 1.0 / p)
    return float(beta**2 * (((weights - found.weights) ** 2).sum() + ((moved - u) ** 2).sum()))


def series(
    theorem: str, measure: Callable[[int, float, int], float], sizes: tuple[int, ...], mu: float, repetitions: int
) -> Rate:
    """Measure at every size, and fit a line to the logarithms."""
    drawn = np.array([[measure(n, mu, seed) for seed in range(repetitions)] for n in sizes])
    means = drawn.mean(axis=1)
    slope = -float(np.polyfit(np.log(sizes), np.log(means), 1)[0])
    errors = drawn.std(axis=1) / np.sqrt(repetitions)
    return Rate(theorem, mu, sizes, tuple(means.tolist()), tuple(errors.tolist()), slope, 1.0)


def condition(n: int, mu: float) -> tuple[float, float]:
    """Return the n that Theorem 4.4 requires for kappa_1 = .2 instead, and the squared distance of u in it."""
    given = domains(n, 1, labels=False)
    settings = ConvexSettings(alpha=0.3, kappa_1=0.2, kappa_2=0.0, iterations=4000, output="last")
    target_scales = adaptation.solve(given, settings, None, RandomSource.seeded(1)).scales
    p = np.repeat(given.shares(0.3), [SOURCE, n])
    distance = float((((target_scales - 1.0) / p) ** 2).sum())
    bounds = settings.bounds
    return (bounds.greatest * max(1.0, distance) / (bounds.slope * settings.radius)) ** 2 / DIMENSION, distance


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rates = [series("Theorem 4.3, excess of F", convex_excess, CONVEX_SIZES, mu, given.repetitions) for mu in MU]
    # A random iterate varies much more than an average.
    name = "Theorem 5.2, squared gradient mapping of J"
    rates += [series(name, mapping, NONCONVEX_SIZES, mu, 6 * given.repetitions) for mu in MU]
    wanted, distance = condition(1000, 1.0)
    if given.json:
        least = {"n": 1000, "theorem_4_4_wants": wanted, "squared_distance": distance}
        print(json.dumps({"rates": [asdict(rate) for rate in rates], "condition": least}, indent=2))
        return
    for rate in rates:
        print(f"{rate.theorem}, mu = {rate.mu}: n^-{rate.slope:.2f} (bound: n^-{rate.claimed:.0f})")
        for n, mean, error in zip(rate.sizes, rate.means, rate.errors, strict=True):
            print(f"    n = {n:>5}: {mean:.3g} +- {error:.1g}")
    print(f"Theorem 4.4 at n = 1,000, kappa_1 = .2: ||u_0 - u*||^2 = {distance:.2g}, so it wants n >= {wanted:.2g}")


if __name__ == "__main__":
    main()
