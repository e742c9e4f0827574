"""Gaussian sums: of vectors that are clipped here, and of losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian
from common.privacy.rounding import down
from curator.mechanisms.base import Mechanism, central
from curator.mechanisms.clipping import clipped, longest
from curator.mechanisms.gaussian import noisy_sum
from curator.numerics.gaussian_noise import FINE_GRID, fine_normals


@central
@dataclass(frozen=True)
class ClippedSum(Mechanism[AnyArray, Floats]):
    """The sum of one vector a person, each clipped to an L2 norm, with Gaussian noise: mu-GDP.

    Values are rows, shape (k, width). Row and noise are whole multiples of one unit, so the sum is exact and no
    low-order bit tells of a row (:mod:`curator.numerics.gaussian_noise`). A row is clipped to ``norm`` less half a unit
    times sqrt(width), so that rounding cannot take it beyond; rows that are not finite count as 0. Replacing one moves
    the sum by 2 ``norm`` at most, and the noise has a standard deviation of 2 ``norm``/mu (Dong, Roth and Su 2022,
    Theorem 2.7).

    Attributes
    ----------
    norm
        Public, positive.
    width
        Numbers a person.
    mu
        Positive.
    """

    norm: float
    width: int
    mu: float

    @property
    def price(self) -> Gaussian:
        """mu-GDP."""
        return Gaussian(mu=self.mu)

    def person(self, value: Any) -> AnyArray:
        """Return one row: several rows of one person are added up, and clipped as a whole."""
        rows = np.asarray(value, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows of {self.width} numbers are wanted, found shape {rows.shape}")
        return np.asarray(rows.sum(axis=0, keepdims=True))

    @property
    def nobody(self) -> AnyArray:
        """Zeros."""
        return np.zeros((1, self.width))

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> Floats:
        """Return the noisy sum, shape (width,).

        Raises
        ------
        BadInput
            If so much noise leaves nothing of a row on the grid.
        """
        cells = down(self.mu / 2.0 * FINE_GRID)  # of the norm; the noise has a standard deviation of FINE_GRID
        if not 0.0 < longest(cells, self.width) < 2.0**40:
            raise BadInput(f"a sum of {self.width} numbers at mu = {self.mu:g} does not fit the grid of its noise")
        total = np.zeros(self.width, dtype=np.int64)
        for block in values:
            rows = np.asarray(block, dtype=np.float64).reshape(len(block), self.width)
            total += clipped(rows, self.norm, cells).astype(np.int64).sum(axis=0)
        noisy = total + fine_normals(self.width, source).astype(np.int64)
        return np.asarray(noisy * (self.norm / cells), dtype=np.float64)


@central
@dataclass(frozen=True)
class LossSum(Mechanism[AnyArray, int]):
    """The sum of one loss a person, in whole parts, each cut to 0..parts, with Gaussian noise: mu-GDP.

    Values are whole numbers, shape (k,); see :func:`curator.mechanisms.gaussian.noisy_sum`.

    Attributes
    ----------
    parts
        The greatest value that counts.
    mu
        Positive.
    """

    parts: int
    mu: float

    @property
    def price(self) -> Gaussian:
        """mu-GDP."""
        return Gaussian(mu=self.mu)

    def person(self, value: Any) -> AnyArray:
        """Return one loss: several losses of one person are added up, and cut as a whole."""
        found = np.asarray(value, dtype=np.float64)
        if found.ndim > 1 or not np.isfinite(found).all():
            raise ValueError(f"finite losses are wanted, found shape {found.shape}")
        return np.array([int(np.clip(found.sum(), 0, self.parts))])

    @property
    def nobody(self) -> AnyArray:
        """No loss."""
        return np.zeros(1, dtype=np.int64)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        """Return whole parts."""
        total = sum(int(np.clip(block, 0, self.parts).sum(dtype=np.int64)) for block in values)
        return noisy_sum(total, self.parts, self.mu, source)
