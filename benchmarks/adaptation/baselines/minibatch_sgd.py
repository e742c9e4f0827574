"""Noisy minibatch SGD (Bassily, Feldman, Thakurta and Talwar 2019): private, and of the target alone.

Each of T steps takes each of n records with chance q, clips each gradient to L2 norm L, adds N(0, sigma^2 I) to their
sum, and steps within the ball; the average of the last half of the iterates is released.

Cost, for neighbours that differ in one record by replacement: given which of the other records were taken, a step's
law is (1 - q) A + q B under one sample and (1 - q) A + q C under the other, A a Gaussian around the others' sum, B and
C Gaussians at most L from it. That is the event :class:`SubsampledSteps` with sampling q and ratio 2 L / sigma, whose
bounds on the Renyi divergence (:mod:`common.privacy.theorems.renyi`) are certified; mixing over the others' choices
cannot increase them. The paper prints a constant of its own (8 T L^2 ln(1/delta) / (n^2 eps^2)), for small epsilon
only.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.events import SubsampledSteps
from common.privacy.release_accountants import RenyiAccountant
from curator.learners.domains import DomainSide


def epsilon_of_steps(event: SubsampledSteps, delta: float) -> float:
    """Return the epsilon of all steps of an event at ``delta``, rounded up."""
    return RenyiAccountant().epsilon([(event, 1)], delta)


@lru_cache(maxsize=256)
def noise_for(epsilon: float, delta: float, steps: int, tv_bound: float) -> float:
    """Return sigma / L, the least noise (to one part in a thousand, on the private side) for T steps.

    Raises:
        BadInput: If epsilon or delta is out of range.
    """
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise BadInput(f"epsilon must be positive and delta in (0, 1), found {epsilon} and {delta}")

    def private(noise: float) -> bool:
        return epsilon_of_steps(SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=2.0 / noise), delta) <= epsilon

    low = high = 1.0
    while not private(high):
        high *= 2.0
    while private(low):
        low /= 2.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if private(middle) else (middle, high)
    return high


def descend(
    target: DomainSide,
    epsilon: float,
    delta: float,
    radius: float,
    clip: float,
    source: RandomSource,
    steps: int = 400,
    batch: int = 256,
) -> Floats:
    """Return the average of the last half of the iterates for the squared loss, shape (d,).

    The step is that of our own algorithms, for a fair comparison: one over the curvature, and no longer than noise
    admits, which takes an iterate by rate sigma sqrt(d T) in T steps.

    Args:
        target: n private rows of norm at most 1, responses in [-1, 1].
        radius: Lambda, of the ball that the weights stay in.
        clip: L of one record's gradient 2 (w . x - y) x, which is 2 (Lambda + 1) at most.
        steps, batch: T, and q n: how many records a step takes on average.
    """
    count, dimension = target.features.shape
    tv_bound = min(1.0, batch / count)
    noise = noise_for(epsilon, delta, steps, tv_bound) * clip
    taken = tv_bound * count
    rate = min(0.5, radius * taken / (noise * math.sqrt(dimension * steps)))
    weights, total = np.zeros(dimension), np.zeros(dimension)
    for step in range(steps):
        chosen = source.bernoullis(tv_bound, count).astype(bool)
        rows = target.features[chosen]
        pulls = 2.0 * (rows @ weights - target.responses[chosen])
        lengths = np.abs(pulls) * np.linalg.norm(rows, axis=1)
        pulls *= np.minimum(1.0, clip / np.maximum(lengths, 1e-300))
        gradient = (rows.T @ pulls + noise * source.normals(dimension)) / taken
        weights = weights - rate * gradient
        weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), 1e-300))
        if step >= steps // 2:
            total += weights
    return np.asarray(total / (steps - steps // 2))
