"""Private discrepancy minimization: the public source, matched to a noisy second moment of the private target.

Discrepancy minimization sees the target through one matrix only, M = mean of x x'. Replacing one of n rows moves it by
(x x' - z z')/n, of Frobenius norm sqrt(|x|^4 + |z|^4 - 2 (x.z)^2)/n <= sqrt(2) norm^2/n. The diagonal and sqrt(2) times
what is above it have the same norm, so with Gaussian noise on these numbers M is mu-GDP; all that follows, the labels
of the source included, is post-processing. (Bassily, Mohri and Suresh 2022, whose private algorithm the paper compares
with, put their noise into the iterations of the matching instead.)
"""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from common.privacy.theorems.gaussian_dp import mu_allowed
from curator.learners.domains import Domains, least_squares
from curator.learners.source_weights import match_moment


def noisy_moment(rows: Floats, norm: float, mu: float, source: RandomSource) -> Floats:
    """Return the mean of x x' with noise, shape (d, d), symmetric: mu-GDP where one row, |x| <= norm, is replaced."""
    deviation = up(math.sqrt(2.0) * norm**2 / (len(rows) * mu), 16.0)
    upper = np.triu_indices(rows.shape[1])
    noise = np.zeros((rows.shape[1], rows.shape[1]))
    noise[upper] = deviation * source.normals(len(upper[0]))
    noise = np.where(np.eye(len(noise), dtype=bool), noise, (noise + noise.T) / math.sqrt(2.0))
    return np.asarray(rows.T @ rows / len(rows) + noise)


def learn(domains: Domains, epsilon: float, delta: float, norm: float, radius: float, source: RandomSource) -> Floats:
    """Train on the source, weighted to match: (epsilon, delta)-DP for the target's people.

    Returns:
        w, shape (d,), the best in the ball of this radius.
    """
    wanted = noisy_moment(domains.target.features, norm, mu_allowed(epsilon, delta), source)
    matched = match_moment(domains.source.features, wanted)
    return least_squares(domains.source, matched.shares, radius)
