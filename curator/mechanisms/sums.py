"""Gaussian sums of clipped rows and of losses, and the class with the greatest noisy count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian
from common.privacy.rounding import down, up
from common.privacy.theorems.votes import MAX_NOISE, MIN_NOISE
from curator.mechanisms.base import CentralMechanism, central
from curator.numerics.gaussian_noise import FINE_GRID, fine_normals, whole_normals


@central
@dataclass(frozen=True)
class ClippedSum(CentralMechanism[AnyArray, Floats]):
    """The sum of one vector a person, each clipped to an L2 norm, with Gaussian noise: mu-GDP.

    Values are rows, shape (k, width). Row and noise are whole multiples of one unit, so the sum is exact and no
    low-order bit tells of a row (:mod:`curator.numerics.gaussian_noise`). A row is clipped to ``norm`` less half a unit
    times sqrt(width), so that rounding cannot take it beyond; rows that are not finite count as 0. Replacing one moves
    the sum by 2 ``norm`` at most, and the noise has a standard deviation of 2 ``norm``/mu (Dong, Roth and Su 2022,
    Theorem 2.7).

    Attributes:
        norm: Public, positive.
        width: Numbers a person.
        mu: Positive.
    """

    norm: float
    width: int
    mu: float

    @property
    def price(self) -> Gaussian:
        return Gaussian(mu=self.mu)

    def person(self, value: Any) -> AnyArray:
        rows = np.asarray(value, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows of {self.width} numbers are wanted, found shape {rows.shape}")
        return np.asarray(rows.sum(axis=0, keepdims=True))

    @property
    def neutral(self) -> AnyArray:
        return np.zeros((1, self.width))

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> Floats:
        """Return the noisy sum, shape (width,).

        Raises:
            BadInput: If so much noise leaves nothing of a row on the grid.
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
class LossSum(CentralMechanism[AnyArray, int]):
    """The sum of one loss a person, in whole parts, each cut to 0..parts, with Gaussian noise: mu-GDP.

    Values are whole numbers, shape (k,); see :func:`curator.mechanisms.sums.noisy_sum`.

    Attributes:
        parts: The greatest value that counts.
        mu: Positive.
    """

    parts: int
    mu: float

    @property
    def price(self) -> Gaussian:
        return Gaussian(mu=self.mu)

    def person(self, value: Any) -> AnyArray:
        found = np.asarray(value, dtype=np.float64)
        if found.ndim > 1 or not np.isfinite(found).all():
            raise ValueError(f"finite losses are wanted, found shape {found.shape}")
        return np.array([int(np.clip(found.sum(), 0, self.parts))])

    @property
    def neutral(self) -> AnyArray:
        return np.zeros(1, dtype=np.int64)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        total = sum(int(np.clip(block, 0, self.parts).sum(dtype=np.int64)) for block in values)
        return noisy_sum(total, self.parts, self.mu, source)


def noisy_sum(total: int, parts: int, mu: float, source: RandomSource) -> int:
    """Return a sum of values in [0, 1] with Gaussian noise: mu-GDP where one value of the sum is replaced.

    Args:
        total: The sum in whole parts, an integer.
        parts: How many parts make 1; the noise has a standard deviation of parts/mu of them.
        mu: Positive.

    Returns:
        Whole parts, an integer: total + round(noise) = round(total + noise), post-processing of the exact Gaussian
        mechanism, to within 2^-180 in total variation.

    Raises:
        BadInput: If the noise is more than 2^58 parts.
    """
    return total + int(whole_normals(up(parts / mu), 1, source)[0])


def noisy_winners(counts: Indices, sigma: float, source: RandomSource) -> Indices:
    """Return (GNMax) the class with the greatest noisy count for each of m queries, shape (m,), int64.

    Counts and noise are whole multiples of one unit: a vote is floor(2^26/sigma) units, the noise has a standard
    deviation of 2^26 units; the sums are exact (:mod:`curator.numerics.gaussian_noise`). Rounding a vote down is on the
    private side.

    Args:
        counts: Shape (m, classes).
        sigma: Standard deviation of the noise, in votes; :mod:`common.privacy.theorems.votes` says what it may be and
            what it costs.

    Raises:
        BadInput: If sigma is out of range.
    """
    if not MIN_NOISE <= sigma <= MAX_NOISE:
        raise BadInput(f"the noise on votes must be from {MIN_NOISE:g} to {MAX_NOISE:g}, found {sigma}")
    vote = math.floor(FINE_GRID / sigma)
    noise = fine_normals(counts.size, source).astype(np.int64).reshape(counts.shape)
    return np.asarray((counts * vote + noise).argmax(axis=1), dtype=np.int64)


_SHRINK = 1.0 - 2.0**-32
"""Rows are clipped to this share of the norm, so that rounding errors cannot take one beyond it."""
_FAR = 1e150
"""Coordinates beyond so many norms count as this many: the row is clipped anyway."""


def longest(cells: float, width: int) -> float:
    """Return how long a row may be before it is rounded, in cells: rounding adds sqrt(width)/2 to it at most."""
    return cells * _SHRINK - 0.5 * math.sqrt(width)


def clipped(rows: AnyArray, norm: float, cells: float) -> Floats:
    """Return rows on the grid: whole numbers, in double precision, of Euclidean norm ``cells`` at most.

    Args:
        rows: Shape (k, width). Those that are not finite count as 0, longer ones than ``norm`` are clipped to it.
        norm: Positive.
        cells: How many make the norm; :func:`longest` must be positive.
    """
    rows = np.asarray(rows, dtype=np.float64)
    finite = np.asarray(np.isfinite(rows).all(axis=1))
    with np.errstate(over="ignore"):
        rows = np.clip(np.where(finite[:, None], rows, 0.0) / norm, -_FAR, _FAR)
    largest = np.maximum(np.abs(rows).max(axis=1, initial=1.0), 1.0)[:, None]  # of no square that overflows
    length = largest * np.linalg.norm(rows / largest, axis=1, keepdims=True)
    bound = longest(cells, rows.shape[1])
    return np.asarray(np.rint(rows * np.minimum(cells * _SHRINK, bound / np.maximum(length, 2.0**-60))))
