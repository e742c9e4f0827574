"""Two-sided geometric noise on whole numbers (Ghosh, Roughgarden and Sundararajan 2009): exact, pure epsilon-DP."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Indices
from common.numerics.randomness import RandomSource
from common.vocabulary.mechanisms.laplace import LIMIT, Laplace


def geometric_noise(count: int, epsilon: float, source: RandomSource) -> Indices:
    """Draw independent Z with P(Z = z) proportional to q^|z|, q = e^-epsilon rounded up, shape (count,), int64.

    Added to a whole number that changes by at most 1 when a record is replaced, Z makes it epsilon-DP: the same noise
    as that of an agent's :class:`~common.vocabulary.mechanisms.laplace.Laplace` answer, drawn in the same way: in a
    time that depends on epsilon alone. What is released must be cut to its LIMIT
    (:func:`noisy_counts`), or compared with a number within it.

    Parameters
    ----------
    count
        How many.
    epsilon
        In [0.001, 30].
    """
    return Laplace(epsilon=epsilon).noise(count, source).astype("int64")


def noisy_counts(counts: Indices, epsilon: float, source: RandomSource) -> Indices:
    """Return counts with this noise, cut to +-2^39: epsilon-DP where each changes by at most 1.

    Parameters
    ----------
    counts
        Shape (n,), integers from -2^38 to 2^38.
    """
    noisy: Indices = np.clip(counts + geometric_noise(len(counts), epsilon, source), -int(LIMIT), int(LIMIT))
    return noisy
