"""Exact draws by whole numbers: uniform ones, places in proportion to weights, and two-sided geometric noise.

Geometric noise is that of Ghosh, Roughgarden and Sundararajan (2009): pure epsilon-DP.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np
from pydantic import Field

from common.core.arrays import Indices
from common.local.mechanisms.noise import LIMIT, Laplace
from common.numerics.randomness import RandomSource


def below(bound: int, source: RandomSource) -> int:
    """Draw an integer uniform on 0..bound-1, of any size, exactly.

    Words are drawn again until they are below the bound: how often says nothing about the number that comes at last.
    """
    bits = bound.bit_length()
    while True:
        point = random_bits(bits, source)
        if point < bound:
            return point


def random_bits(bits: int, source: RandomSource) -> int:
    """Draw an integer uniform on 0..2^bits-1."""
    words = source.words(-(-bits // 64))
    return int.from_bytes(words.astype("<u8").tobytes(), "little") >> (-bits % 64)


def place_of(point: int, weights: Sequence[int]) -> int:
    """Return the place at which the cumulated weights first exceed a point; all weights are gone through always.

    Args:
        point: In 0..sum-1: uniform, it makes a place as likely as its weight is of all.
    """
    return sum(bound <= point for bound in accumulate(weights))


def geometric_noise(count: int, epsilon: float, source: RandomSource) -> Indices:
    """Draw independent Z with P(Z = z) proportional to q^|z|, q = e^-epsilon rounded up, shape (count,), int64.

    Added to a whole number that changes by at most 1 when a record is replaced, Z makes it epsilon-DP: the same noise
    as that of an agent's :class:`~common.local.mechanisms.noise.Laplace` answer, drawn in the same way: in a
    time that depends on epsilon alone. What is released must be cut to its LIMIT
    (:func:`noisy_counts`), or compared with a number within it.

    Args:
        count: How many.
        epsilon: In [0.001, 30].
    """
    return _noise(epsilon).noise(count, source).astype("int64")


@lru_cache(maxsize=64)
def _noise(epsilon: float) -> Laplace:
    return Laplace(epsilon=epsilon)


def noisy_counts(counts: Indices, epsilon: float, source: RandomSource) -> Indices:
    """Return counts with this noise, cut to +-2^39: epsilon-DP where each changes by at most 1.

    Args:
        counts: Shape (n,), integers from -2^38 to 2^38.
    """
    noisy: Indices = np.clip(counts + geometric_noise(len(counts), epsilon, source), -int(LIMIT), int(LIMIT))
    return noisy


FINEST = 2.0**-30
"""Least epsilon of :class:`FineNoise`."""


class FineNoise(Laplace):
    """The same noise for less epsilon a unit: what is hidden is so many units that each may have but little of it.

    What :class:`~common.local.mechanisms.noise.Laplace` needs of its epsilon is that rounding a chance up, by
    2^-128 of odds that may be as small as 2^-104 epsilon, makes no number more likely than the one before it: epsilon^2
    above 2^-24. Chances of 192 bits leave epsilon^2 above 2^-88. The digits still end below 2^38, a quarter of the
    flat part, and 2^-66, what is beyond +-LIMIT at the least, is above 2^-105/epsilon, a cell of the flat part times
    e^epsilon/(e^epsilon - 1).

    Attributes:
        epsilon: In [2^-30, 30].
    """

    finer_words: ClassVar[int] = 2
    epsilon: float = Field(ge=FINEST, le=30.0)


@lru_cache(maxsize=64)
def fine_noise(epsilon: float) -> FineNoise:
    """Return the noise, whose chances are worked out once."""
    return FineNoise(epsilon=epsilon)
