"""Means and products of features within each class, with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian
from common.privacy.rounding import up
from curator.mechanisms.base import CentralMechanism, central
from curator.mechanisms.sums import clipped
from curator.numerics.gaussian_noise import whole_normals

GRID = 1 << 15
"""Cells of a unit: a product of two numbers has 30 bits, so exact sums of products of 2^33 people fit 64 bits."""
ONE = GRID // 2
"""The feature that stands for the constant, half a unit: its products are the features themselves."""
_ROWS = 1 << 13
"""Rows of one product: 2^13 products of 30 bits add up exactly in double precision, in whatever order."""


class Moments(NamedTuple):
    """Noisy sums over each class, those labelled -1 first; in units of the norm.

    Attributes:
        first: Shape (2, d + 1): sums of the constant 1/2, and of the features.
        second: Shape (2, d + 1, d + 1): sums of their products, symmetric.
    """

    first: Floats
    second: Floats


@central
@dataclass(frozen=True)
class ClassMoments(CentralMechanism[Records, Moments]):
    """The sums of z and of z z^T over the people of each class, z = (1/2, x/r): mu-GDP, replace one.

    A record adds the vector v = (a z, b z z^T) to the block of its class and nothing to the other's, with
    ``<v, v'> = k(<z, z'>)``, ``k(t) = a^2 t + b^2 t^2``. Features are clipped to r and put on a public grid (below r
    still), so with q = 5/4 it holds that ``|z|^2 <= q`` and ``-3/4 <= <z, z'> <= q``. a and b are such that k(q) = 1
    and ``b^2 q^2 = second``. Replacing one record moves the sums by ``|v - v'|``, at most sqrt(2) if the class changes
    and

        sqrt(2 (1 - min k)),  the minimum over -3/4 <= t <= q,

    if not, which is the larger one as min k <= k(0) = 0: :attr:`sensitivity`, Delta. Noise of standard deviation
    Delta/mu on each coordinate of v is mu-GDP (Dong, Roth and Su 2022, Theorem 2.7); a product off the diagonal stands
    twice in v, is released once, and so has the noise of the diagonal divided by sqrt(2). Sums are of whole numbers and
    exact, and so is the rounding of noise to the same grid (:mod:`curator.numerics.gaussian_noise`).

    Attributes:
        norm: r, public, positive.
        width: d.
        second: In (0, 1).
        mu: Positive.
    """

    norm: float
    width: int
    second: float
    mu: float

    @property
    def price(self) -> Gaussian:
        return Gaussian(mu=self.mu)

    @cached_property
    def _squares(self) -> tuple[float, float]:
        return up((1.0 - self.second) / _LONGEST), up(self.second / _LONGEST**2)

    @property
    def sensitivity(self) -> float:
        """Delta, rounded up."""
        a2, b2 = self._squares
        lowest = min(max(-a2 / (2.0 * b2), _FARTHEST), 0.0)
        longest = a2 * _LONGEST + b2 * _LONGEST**2
        return up(math.sqrt(up(2.0 * (longest - (a2 * lowest + b2 * lowest * lowest)), 8.0)), 8.0)

    @property
    def deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise on a sum of features, and on one of squares; in units of the norm."""
        a2, b2 = self._squares
        each = self.sensitivity / self.mu
        return up(each / math.sqrt(a2), 8.0), up(each / math.sqrt(b2), 8.0)

    def apply(self, values: Iterator[Records], source: RandomSource) -> Moments:
        size = self.width + 1
        first = np.zeros((2, size), dtype=np.int64)
        second = np.zeros((2, size, size), dtype=np.int64)
        for records in values:
            for begin in range(0, len(records), _ROWS):
                positive: AnyArray = np.greater(records.labels[begin : begin + _ROWS], 0)
                rows = self._cells(records.features[begin : begin + _ROWS])
                for side in (0, 1):
                    held = rows[positive == bool(side)]
                    first[side] += held.sum(axis=0).astype(np.int64)
                    second[side] += (held.T @ held).astype(np.int64)
        plain, square = self.deviations
        first += whole_normals(up(plain * GRID), first.size, source.derive("first")).reshape(first.shape)
        second += self._symmetric(square * GRID**2, source)
        return Moments(first / GRID, second / GRID**2)

    def _cells(self, features: AnyArray) -> Floats:
        cells = clipped(features, self.norm, float(GRID))
        return np.asarray(np.hstack([np.full((len(cells), 1), float(ONE)), cells]), dtype=np.float64)

    def _symmetric(self, deviation: float, source: RandomSource) -> Indices:
        """Return noise on both classes' products, each pair of features once, shape (2, d + 1, d + 1)."""
        size = self.width + 1
        above = np.triu_indices(size, 1)
        noise = np.zeros((2, size, size), dtype=np.int64)
        on = whole_normals(up(deviation), 2 * size, source.derive("squares")).reshape(2, size)
        off = whole_normals(up(deviation / math.sqrt(2.0), 8.0), 2 * len(above[0]), source.derive("products"))
        for side, pairs in enumerate(off.reshape(2, -1)):
            noise[side][above] = pairs
            noise[side] += noise[side].T + np.diag(on[side])
        return noise


_LONGEST, _FARTHEST = 1.25, -0.75
"""|z|^2 at most, and <z, z'> at least: 1/4 + 1 and 1/4 - 1."""
