"""Two-sided geometric noise on whole numbers (Ghosh, Roughgarden and Sundararajan 2009): exact, pure epsilon-DP."""

from __future__ import annotations

from common.core.arrays import Indices
from common.numerics.randomness import RandomSource
from common.vocabulary.mechanisms.laplace import Laplace


def geometric_noise(count: int, epsilon: float, source: RandomSource) -> Indices:
    """Draw independent Z with P(Z = z) proportional to q^|z|, q = e^-epsilon rounded up, shape (count,), int64.

    Added to a whole number that changes by at most 1 when a record is replaced, Z makes it epsilon-DP: the same noise
    as that of an agent's :class:`~common.vocabulary.mechanisms.laplace.Laplace` answer, and drawn by the same coins.

    Parameters
    ----------
    count
        How many.
    epsilon
        In [0.001, 30].
    """
    return Laplace(epsilon=epsilon).noise(count, source).astype("int64")
