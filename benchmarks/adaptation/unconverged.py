"""Why an error relative to training on the target can be far below 1: the reference may not have converged.

    python -m benchmarks.adaptation.unconverged [--data DIR]

The paper divides by the error of training on the target alone, and does not say how that is trained. On Gas its
133 features are nearly collinear, and gradient descent from 0 takes tens of thousands of steps. This prints, on three
splits, the errors of gradient descent (step 1/L, features standardized by the source, nothing else done to them) on the
source and on mixtures, relative to as many steps on the target, and the exact least squares on the target.

Then the same with what Algorithm 1 prints, without noise: eta_w = Lambda/(sqrt(T) G), T = 15,000, projected to the
ball, and the average of all iterates, on rows within norm 1 as the tables have them. The paper does not state Lambda.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.adaptation.datasets import gas
from benchmarks.adaptation.datasets.base import Raw
from common.core.arrays import Floats
from curator.learners.domains import DomainSide, least_squares

STEPS = (200, 2000, 15_000)
RADII = (1.0, 10.0, 100.0)
SPLITS = 3


def descend(features: Floats, responses: Floats, shares: Floats, steps: int) -> Floats:
    """Return w after gradient descent from 0 on sum_i q_i (w . x_i - y_i)^2 / 2 with the step 1/L."""
    weighted = features * shares[:, None]
    curvature, slope = weighted.T @ features, weighted.T @ responses
    rate = 1.0 / float(np.linalg.eigvalsh(curvature)[-1])
    weights = np.zeros(len(slope))
    for _ in range(steps):
        weights -= rate * (curvature @ weights - slope)
    return weights


def as_printed(features: Floats, responses: Floats, shares: Floats, radius: float, steps: int = STEPS[-1]) -> Floats:
    """Return the average iterate of Algorithm 1 with fixed scales and no noise, of sum_i q_i (w . x_i - y_i)^2."""
    weighted = features * shares[:, None]
    curvature, slope = 2.0 * weighted.T @ features, 2.0 * weighted.T @ responses
    rate = radius / (np.sqrt(steps) * 2.0 * (radius + 1.0))  # G = 2 r (Lambda r + 1), r = 1
    weights, total = np.zeros(len(slope)), np.zeros(len(slope))
    for _ in range(steps):
        weights = weights - rate * (curvature @ weights - slope)
        weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), radius))
        total += weights
    return total / steps


def printed(data: Path, radius: float, split: int) -> tuple[float, ...]:
    """Return errors on test rows of batch 6, relative to the printed steps on the target: as :func:`relative`."""
    pair = gas.load(data, 6)
    order = np.random.default_rng(split).permutation(len(pair.target))
    train, test = order[:613], order[-1000:]
    features = np.concatenate([pair.source.features, pair.target.features[train]])
    responses = np.concatenate([pair.source.responses, pair.target.responses[train]])
    sizes = (len(pair.source), len(train))

    def error(weights: Floats) -> float:
        return float(np.mean((pair.target.features[test] @ weights - pair.target.responses[test]) ** 2))

    def mixed(alpha: float) -> float:
        shares = np.repeat([alpha / sizes[0], (1.0 - alpha) / sizes[1]], sizes)
        return error(as_printed(features, responses, shares, radius))

    exact = least_squares(DomainSide(features, responses), np.repeat([0.0, 1.0 / sizes[1]], sizes), radius)
    reference = mixed(0.0)
    return tuple(value / reference for value in (mixed(1.0), mixed(0.1), mixed(0.5), error(exact)))


def relative(source: Raw, target: Raw, steps: int, split: int) -> tuple[float, ...]:
    """Return errors on test rows, relative to as many steps on the target: source, mixtures, exact least squares."""
    order = np.random.default_rng(split).permutation(len(target.responses))
    train, test = order[:613], order[-1000:]
    features = np.concatenate([source.features, target.features[train]])
    responses = np.concatenate([source.responses, target.responses[train]])
    sizes = (len(source.responses), len(train))

    def error(weights: Floats) -> float:
        return float(np.mean((target.features[test] @ weights - target.responses[test]) ** 2))

    def mixed(alpha: float) -> float:
        shares = np.repeat([alpha / sizes[0], (1.0 - alpha) / sizes[1]], sizes)
        return error(descend(features, responses, shares, steps))

    exact = np.asarray(np.linalg.lstsq(target.features[train], target.responses[train], rcond=None)[0], np.float64)
    reference = mixed(0.0)
    return tuple(value / reference for value in (mixed(1.0), mixed(0.1), mixed(0.5), error(exact)))


def standardized(raws: Iterable[Raw], source: Raw) -> list[Raw]:
    """Return the same rows, standardized by the source, with a constant feature."""
    mean, deviation = source.features.mean(axis=0), source.features.std(axis=0)
    return [
        Raw(np.column_stack([(raw.features - mean) / deviation, np.ones(len(raw.responses))]), raw.responses)
        for raw in raws
    ]


def main() -> None:
    """Print the errors by the number of steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TANDEM_DATA", "../shared/data")))
    data = parser.parse_args().data
    sides = gas.sides(data, 6)
    source, target = standardized(sides, sides[0])
    print("steps   source   mixture .1   mixture .5   least squares on the target")
    for steps in STEPS:
        found = np.mean([relative(source, target, steps, split) for split in range(SPLITS)], axis=0)
        print(f"{steps:5d} {found[0]:8.3f} {found[1]:12.3f} {found[2]:12.3f} {found[3]:14.3f}")
    print("Lambda, with the printed step and average")
    for radius in RADII:
        found = np.mean([printed(data, radius, split) for split in range(SPLITS)], axis=0)
        print(f"{radius:5g} {found[0]:8.3f} {found[1]:12.3f} {found[2]:12.3f} {found[3]:14.3f}")


if __name__ == "__main__":
    main()
