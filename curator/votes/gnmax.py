"""GNMax: the class with most votes, after Gaussian noise on every count."""

from __future__ import annotations

import math

import numpy as np

from common.arrays import Indices
from common.errors import BadInput
from common.privacy.gdp import mu_allowed
from common.privacy.rounding import down, up
from common.randomness import RandomSource
from curator.gaussian import FINE_GRID, fine_normals

LEAST_NOISE, MOST_NOISE = 1e-3, 1e6
"""What sigma may be, in votes: less hides nothing, and more than anybody has teachers is no answer."""


def cost(sigma: float, touched: int = 1) -> float:
    """Return mu of one answer, which is mu-GDP: sqrt(2) touched / sigma, rounded up.

    A teacher that changes its vote lowers one count by 1 and raises another: L2 sensitivity sqrt(2), whatever the
    number of classes; ``touched`` teachers, touched sqrt(2). The class is post-processing of the Gaussian mechanism
    (Dong, Roth and Su 2022, Theorem 1). m answers, chosen as adaptively as one likes, are exactly sqrt(m) mu-GDP
    (Corollary 1).
    """
    return up(math.sqrt(2.0) * touched / sigma)


def calibrated(queries: int, epsilon: float, delta: float, touched: int = 1) -> float:
    """Return the least sigma, in votes, at which m answers are (epsilon, delta)-DP: sqrt(2 m) touched / mu*.

    Rounded up. At (1, 1e-6), 1000 answers need sigma = 189.

    Raises
    ------
    BadInput
        If epsilon or delta is out of range.
    """
    return up(math.sqrt(2.0 * queries) * touched / down(mu_allowed(epsilon, delta)), 16.0)


def noisy_winners(counts: Indices, sigma: float, source: RandomSource) -> Indices:
    """Return the class with the greatest noisy count for each of m queries, shape (m,), int64.

    Counts and noise are whole multiples of one unit: a vote is floor(2^26/sigma) units, the noise has a standard
    deviation of 2^26 units; the sums are exact (:mod:`curator.gaussian`). Rounding a vote down is on the private side.

    Parameters
    ----------
    counts
        Shape (m, classes).
    sigma
        Standard deviation of the noise, in votes, from :data:`LEAST_NOISE` to :data:`MOST_NOISE`.

    Raises
    ------
    BadInput
        If sigma is out of range.
    """
    if not LEAST_NOISE <= sigma <= MOST_NOISE:
        raise BadInput(f"the noise on votes must be from {LEAST_NOISE:g} to {MOST_NOISE:g}, found {sigma}")
    vote = math.floor(FINE_GRID / sigma)
    noise = fine_normals(counts.size, source).astype(np.int64).reshape(counts.shape)
    return np.asarray((counts * vote + noise).argmax(axis=1), dtype=np.int64)


def flips(agreement: float, chunks: int, sigma: float) -> float:
    """Return the chance that an answer is not what most teachers say, if this share of k agree (two classes).

    ::

        Phi(-(2 agreement - 1) k / (sqrt(2) sigma))
    """
    return 0.5 * math.erfc((2.0 * agreement - 1.0) * chunks / (2.0 * sigma))
