"""Gaussian noise on whole numbers: a noisy sum, and the class with the greatest noisy count."""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Indices
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from common.privacy.theorems.votes import MAX_NOISE, MIN_NOISE
from curator.numerics.gaussian_noise import FINE_GRID, fine_normals, whole_normals


def noisy_sum(total: int, parts: int, mu: float, source: RandomSource) -> int:
    """Return a sum of values in [0, 1] with Gaussian noise: mu-GDP where one value of the sum is replaced.

    Parameters
    ----------
    total
        The sum in whole parts, an integer.
    parts
        How many parts make 1; the noise has a standard deviation of parts/mu of them.
    mu
        Positive.

    Returns
    -------
    Whole parts, an integer: total + round(noise) = round(total + noise), post-processing of the exact Gaussian
    mechanism, to within 2^-180 in total variation.

    Raises
    ------
    BadInput
        If the noise is more than 2^58 parts.
    """
    return total + int(whole_normals(up(parts / mu), 1, source)[0])


def noisy_winners(counts: Indices, sigma: float, source: RandomSource) -> Indices:
    """Return (GNMax) the class with the greatest noisy count for each of m queries, shape (m,), int64.

    Counts and noise are whole multiples of one unit: a vote is floor(2^26/sigma) units, the noise has a standard
    deviation of 2^26 units; the sums are exact (:mod:`curator.numerics.gaussian_noise`). Rounding a vote down is on the
    private side.

    Parameters
    ----------
    counts
        Shape (m, classes).
    sigma
        Standard deviation of the noise, in votes; :mod:`common.privacy.theorems.votes` says what it may be and
        what it costs.

    Raises
    ------
    BadInput
        If sigma is out of range.
    """
    if not MIN_NOISE <= sigma <= MAX_NOISE:
        raise BadInput(f"the noise on votes must be from {MIN_NOISE:g} to {MAX_NOISE:g}, found {sigma}")
    vote = math.floor(FINE_GRID / sigma)
    noise = fine_normals(counts.size, source).astype(np.int64).reshape(counts.shape)
    return np.asarray((counts * vote + noise).argmax(axis=1), dtype=np.int64)
