"""Gaussian sums: of clipped rows, losses, class moments and weights, and the class with the greatest noisy count."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.local.losses import MAX_ITEMS
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.operations.operation import LEAST_MU, MOST_MU
from common.privacy.rounding import down, up
from common.privacy.theorems.votes import MAX_NOISE, MIN_NOISE
from curator.mechanisms.base import GaussianCentral, central
from curator.mechanisms.gaussian_noise import FINE_GRID, fine_normals, whole_normals


@central
@dataclass(frozen=True)
class ClippedSum(GaussianCentral[AnyArray, Floats]):
    """The sum of one vector per person, each clipped to an L2 norm, with Gaussian noise: mu-GDP.

    Values are rows, shape (k, width). Row and noise are whole multiples of one unit, so the sum is exact and its
    low-order bits reveal nothing about a row (:mod:`.gaussian_noise`). A row is clipped to ``norm`` minus half a unit
    times sqrt(width), so that rounding cannot take it beyond; rows that are not finite count as 0. Replacing a row
    moves the sum by at most 2 ``norm``, and the noise has a standard deviation of 2 ``norm``/mu (Dong, Roth and Su
    2022, Theorem 1).
    """

    norm: float
    width: int
    mu: float

    def person(self, value: Any) -> AnyArray:
        rows = np.asarray(value, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows of {self.width} numbers are wanted, found shape {rows.shape}")
        return np.asarray(rows.sum(axis=0, keepdims=True))

    @property
    def neutral(self) -> AnyArray:
        return np.zeros((1, self.width))

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> Floats:
        """Return the noisy sum, shape (width,); raises BadInput if the grid is too coarse for a row."""
        cells = down(self.mu / 2.0 * FINE_GRID)  # per norm; the noise has a standard deviation of FINE_GRID
        if not 0.0 < longest(cells, self.width) < 2.0**40:
            raise BadInput(f"a sum of {self.width} numbers at mu = {self.mu:g} does not fit the grid of its noise")
        total = np.zeros(self.width, dtype=np.int64)
        for block in values:
            rows = np.asarray(block).reshape(len(block), self.width)
            for begin in range(0, len(rows), _ROWS):
                total += clipped(rows[begin : begin + _ROWS], self.norm, cells).sum(axis=0).astype(np.int64)
        noisy = total + fine_normals(self.width, source).astype(np.int64)
        return np.asarray(noisy * (self.norm / cells), dtype=np.float64)


@central
@dataclass(frozen=True)
class LossSum(GaussianCentral[AnyArray, int]):
    """The sum of one loss per person, a whole number cut to 0..parts, with Gaussian noise (:func:`noisy_sum`)."""

    parts: int
    mu: float

    def person(self, value: Any) -> AnyArray:
        losses = np.asarray(value, dtype=np.float64)
        if losses.ndim > 1 or not np.isfinite(losses).all():
            raise ValueError(f"finite losses are wanted, found shape {losses.shape}")
        return np.array([int(np.clip(losses.sum(), 0, self.parts))])

    @property
    def neutral(self) -> AnyArray:
        return np.zeros(1, dtype=np.int64)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        total = sum(int(np.clip(block, 0, self.parts).sum(dtype=np.int64)) for block in values)
        return noisy_sum(total, self.parts, self.mu, source)


def noisy_sum(total: int, parts: int, mu: float, source: RandomSource) -> int:
    """Return a sum of values in [0, 1] with Gaussian noise: mu-GDP if one value of the sum is replaced.

    Total and result are in whole parts, of which ``parts`` make 1. The noise has standard deviation parts/mu, at most
    2^58. total + round(noise) = round(total + noise) is post-processing of the exact Gaussian mechanism, to within
    2^-180 in total variation.
    """
    return total + int(whole_normals(up(parts / mu), 1, source)[0])


def noisy_winners(counts: Indices, sigma: float, source: RandomSource) -> Indices:
    """Return (GNMax) the class with the greatest noisy count for each of m queries, shape (m,), int64.

    Counts and noise are whole multiples of one unit: a vote is floor(2^26/sigma) units, and the noise has a standard
    deviation of 2^26 units. The sums are exact (:mod:`.gaussian_noise`). Rounding a vote down can only add privacy.

    Counts have shape (m, classes). Sigma is in votes; for its range and cost see :mod:`common.privacy.theorems.votes`.
    """
    if not MIN_NOISE <= sigma <= MAX_NOISE:
        raise BadInput(f"the noise on votes must be from {MIN_NOISE:g} to {MAX_NOISE:g}, found {sigma}")
    vote = math.floor(FINE_GRID / sigma)
    noise = fine_normals(counts.size, source).astype(np.int64).reshape(counts.shape)
    return np.asarray((counts * vote + noise).argmax(axis=1), dtype=np.int64)


_SHRINK = 1.0 - 2.0**-32
"""Rows are clipped to this share of the norm, so that rounding errors cannot take one beyond it."""
_FAR = 1e150  # larger coordinates, in norms, count as this many: the row is clipped anyway


def longest(cells: float, width: int) -> float:
    """Return the greatest norm of a row before it is rounded, in cells: rounding adds at most sqrt(width)/2 to it."""
    return cells * _SHRINK - 0.5 * math.sqrt(width)


def clipped(rows: AnyArray, norm: float, cells: float) -> Floats:
    """Return rows rounded to the grid: whole numbers, in double precision, of Euclidean norm at most ``cells``.

    Rows, shape (k, width), that are not finite count as 0; rows longer than ``norm`` are clipped to it. The norm is
    ``cells`` cells, and :func:`longest` must be positive.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    scaled, squares, largest = np.empty(rows.shape), np.empty(rows.shape), np.empty(len(rows))
    _measure(rows, norm, scaled, squares, largest)
    length = largest * np.sqrt(squares.sum(axis=1))
    bound = longest(cells, rows.shape[1])
    _round(scaled, np.minimum(cells * _SHRINK, bound / np.maximum(length, 2.0**-60)))
    return scaled


@njit
def _measure(rows: AnyArray, norm: float, scaled: Floats, squares: Floats, largest: Floats) -> None:
    """Write rows in units of the norm to ``scaled``, and squares of their coordinates over ``largest`` to ``squares``.

    ``largest`` is a row's largest coordinate, at least 1, so no square overflows.
    """
    for i in range(len(rows)):
        largest[i], longer = 1.0, 0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j]) / norm
            scaled[i, j], squares[i, j] = value, value * value
            longer += not abs(value) <= 1.0
        if longer:
            finite = np.isfinite(rows[i]).all()
            for j in range(rows.shape[1]):
                scaled[i, j] = min(max(scaled[i, j], -_FAR), _FAR) if finite else 0.0
                largest[i] = max(largest[i], abs(scaled[i, j]))
            for j in range(rows.shape[1]):
                squares[i, j] = (scaled[i, j] / largest[i]) ** 2


@njit
def _round(rows: Floats, factors: Floats) -> None:
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            rows[i, j] = np.rint(rows[i, j] * factors[i])


GRID = 1 << 15
"""Cells per norm: a product of two numbers has 30 bits, so exact sums of products of 2^33 people fit 64 bits."""
_ROWS = 1 << 13
"""Number of 30-bit products, or of numbers below 2^40, that add up exactly in double precision in any order."""


class Moments(NamedTuple):
    """Noisy numbers of people and sums of features by class, and sums of products over all, in units of the norm.

    For C classes and d features the shapes are (C,), (C, d) and (d, d).
    """

    counts: Floats
    first: Floats
    second: Floats


@central
@dataclass(frozen=True)
class ClassMoments(GaussianCentral[Records, Moments]):
    """The sums of 1 and x over the people of each class, of x x^T over all: mu-GDP, replace one; x in units of norm r.

    A record adds (c, a x) to the block of its class, nothing to other blocks, and b x x^T to the sum over all, with
    a^2 = 1/2 and b^2 = c^2 = 1/4. **Theorem.** Replacing a record moves the sums by at most sqrt(2),
    :attr:`sensitivity`, for any number of classes and whether or not its class changes.

    *Proof.* Let p = |x|^2, q = |x'|^2 and t = <x, x'>. Within one class |v - v'|^2 = a^2 (p + q - 2t) + b^2 (p^2 + q^2
    - 2t^2). Features are clipped to r and rounded to a public grid within it, so p, q <= 1 and |t| <= 1. It increases
    in p and q, so it is at most 2 a^2 (1 - t) + 2 b^2 (1 - t^2). Its slope in t, -2 a^2 - 4 b^2 t, is not positive if
    a^2 >= 2 b^2, so the maximum is at t = -1, 4 a^2 = 2. If the class changes: 2 c^2 + a^2 (p + q) + b^2 (p^2 + q^2 -
    2t^2) <= 2 (a^2 + b^2 + c^2) = 2. QED. Opposite records attain it, and so do two orthogonal records of length r in
    different classes.

    A record's class is its label, a number from 0 to ``classes`` - 1; labels -1 and +1 are 0 and 1.

    Noise of standard deviation sqrt(2)/mu on each coordinate of v is mu-GDP (Dong, Roth and Su 2022, Theorem 1). A
    product off the diagonal occurs twice in v but is released once, so its noise is that of the diagonal divided by
    sqrt(2). Sums are of whole numbers and exact, and so is the rounding of noise to the same grid
    (:mod:`curator.mechanisms.gaussian_noise`). r is ``norm``.
    """

    norm: float
    width: int
    mu: float
    classes: int = 2

    squares: ClassVar[tuple[float, float, float]] = (0.25, 0.5, 0.25)
    """c^2, a^2 and b^2."""
    sensitivity: ClassVar[float] = up(math.sqrt(2.0))

    @property
    def deviations(self) -> tuple[float, float, float]:
        """Standard deviations of the noise on a number of people, on a sum of features, and on a sum of squares."""
        counts, plain, square = (up(self.sensitivity / self.mu / math.sqrt(part), 8.0) for part in self.squares)
        return counts, plain, square

    def apply(self, values: Iterator[Records], source: RandomSource) -> Moments:
        counts = np.zeros(self.classes, dtype=np.int64)
        first = np.zeros((self.classes, self.width), dtype=np.int64)
        second = np.zeros((self.width, self.width), dtype=np.int64)
        for records in values:
            for begin in range(0, len(records), _ROWS):
                classes = np.clip(records.labels[begin : begin + _ROWS], 0, self.classes - 1)
                rows = clipped(records.features[begin : begin + _ROWS], self.norm, float(GRID))
                second += (rows.T @ rows).astype(np.int64)
                for number in range(self.classes):
                    members = rows[classes == number]
                    counts[number] += GRID * len(members)
                    first[number] += members.sum(axis=0).astype(np.int64)
        people, plain, square = self.deviations
        counts += whole_normals(up(people * GRID), self.classes, source.derive("counts"))
        first += whole_normals(up(plain * GRID), first.size, source.derive("first")).reshape(first.shape)
        second += self._symmetric(square * GRID**2, source)
        return Moments(counts / GRID, first / GRID, second / GRID**2)

    def _symmetric(self, deviation: float, source: RandomSource) -> Indices:
        """Return symmetric noise on the products, drawn once for each pair of features, shape (d, d)."""
        above = np.triu_indices(self.width, 1)
        noise = np.zeros((self.width, self.width), dtype=np.int64)
        noise[above] = whole_normals(up(deviation / math.sqrt(2.0), 8.0), len(above[0]), source.derive("products"))
        return np.asarray(noise + noise.T + np.diag(whole_normals(up(deviation), self.width, source.derive("squares"))))


class CoordinateSums(NamedTuple):
    """Noisy sums of u and of its squares and, for a box, the numbers of people at an end of it, each of shape (d,)."""

    first: Floats
    second: Floats
    ends: Floats | None


@central
@dataclass(frozen=True)
class CoordinateMoments(GaussianCentral[Records, CoordinateSums]):
    """The sums of u and of its squares, coordinate by coordinate, over all people: mu-GDP, replace one.

    *A ball.* With a ``norm`` r, u = x/r for features clipped to r. **Theorem.** Replacing a record moves v = (u, u * u)
    by at most sqrt(9/2). *Proof.* As in :class:`ClassMoments`, |u - u'|^2 = p + q - 2t. The squares are the diagonal of
    u u^T, so they differ by no more: |u * u - u' * u'|^2 <= p^2 + q^2 - 2t^2. The sum is at most 4 - 2t - 2t^2 <= 9/2,
    at t = -1/2. QED. Two records of length r, 60 degrees to either side of a diagonal of two coordinates, attain it.

    *A box.* Without a norm, u = x - 1/2 for features clipped to [0, 1], with NaN as 1/2, and e is 1 where x is 0 or 1,
    else 0. **Theorem.** Replacing a record moves v = (u, sqrt(11) u * u, e/2) by at most sqrt(5 d/4): the squares add
    nothing. *Proof.* Let D = |u_j - u'_j| <= 1. |u_j + u'_j| <= 1 - D, so u and u * u add at most D^2 (1 + 11 (1 -
    D)^2). That is at most 1 if D^2 (1 - D)/(1 + D) <= 1/11, and the greatest value of the left side is (5 sqrt(5) -
    11)/2 = .0902, at the golden section. e/2 adds at most 1/4. QED. Records next to one end and at the other nearly
    attain it.
    """

    norm: float | None
    width: int
    mu: float

    @property
    def sensitivity(self) -> float:
        """Sensitivity of v, rounded up."""
        return up(math.sqrt(4.5 if self.norm is not None else 1.25 * self.width))

    @property
    def deviations(self) -> tuple[float, float, float]:
        """Standard deviations of the noise on a sum of u, on a sum of its squares, and on a number of people."""
        sigma = up(self.sensitivity / self.mu, 8.0)
        return (sigma, sigma if self.norm is not None else up(sigma / math.sqrt(11.0), 8.0), up(2.0 * sigma))

    def apply(self, values: Iterator[Records], source: RandomSource) -> CoordinateSums:
        first, second, ends = np.zeros((3, self.width), dtype=np.int64)
        for records in values:
            for begin in range(0, len(records), _ROWS):
                rows = self._cells(records.features[begin : begin + _ROWS])
                first += rows.sum(axis=0).astype(np.int64)
                second += np.square(rows).sum(axis=0).astype(np.int64)
                ends += (np.abs(rows) == GRID // 2).sum(axis=0)
        plain, square, people = self.deviations
        first += whole_normals(up(plain * GRID), self.width, source.derive("first"))
        second += whole_normals(up(square * GRID**2), self.width, source.derive("second"))
        if self.norm is not None:
            return CoordinateSums(first / GRID, second / GRID**2, None)
        ends = GRID * ends + whole_normals(up(people * GRID), self.width, source.derive("ends"))
        return CoordinateSums(first / GRID, second / GRID**2, ends / GRID)

    def _cells(self, features: AnyArray) -> Floats:
        if self.norm is not None:
            return clipped(features, self.norm, float(GRID))
        return np.rint(GRID * (boxed(features) - 0.5))


def boxed(features: AnyArray) -> Floats:
    """Return features cut to [0, 1], in double precision, with NaN as 1/2."""
    return np.asarray(np.clip(np.nan_to_num(features.astype(np.float64), nan=0.5), 0.0, 1.0))


FINENESS = 128  # units per item in half of a record's greatest change, as far as :data:`MOST_UNITS` allows
MOST_UNITS = 1 << 37  # maximum number of units that make 1, so that shares and noise stay far below 2^53 units
_BITS = 31  # weights are whole multiples of 2^-62, in two halves: sums of 2^32 of them are exact in int64
_ROUNDED = 2.0**-20
"""Share added to the bound: far above 2^-29, the relative effect of rounding weights down to multiples of 2^-62."""


@dataclass(frozen=True)
class NoisyShares(GaussianCentral[tuple[Indices, Floats], Indices]):
    """The share of every item in the total weight, in whole units, with Gaussian noise in each: mu-GDP.

    **Theorem.** Let weights sum to 1, and let two samples differ by one record such that the weights of all other
    records change in one direction. Let s bound both weights of that record. Then the shares of the items change by at
    most sqrt(2) s in Euclidean norm, and that is attained.

    *Proof.* Let the record go from item a with weight m to item b with weight m' >= m (else exchange the samples). The
    other weights change in one direction, so they decrease, by m' - m in total. An item that is neither a nor b can
    only lose, and so can a, if it is not b. So only b can gain, at most m' <= s, since the record's weight there was at
    least 0 before. Shares sum to 1, so the other items lose in total what b gains. Among losses with a given sum, the
    sum of squares is greatest if one item bears all: s^2 + s^2. Equality holds if b has no other record, m' = s, and
    one item bears the whole loss. QED. Lazy weights are such laws (:class:`curator.sample.reweighing.Reweighing`), with
    s the bound on the total variation.

    *On a grid.* A share is rounded down to a multiple of 1/``whole``, so each of K items may change by one unit more:
    together by sqrt(2) s whole + sqrt(K) units, :attr:`sensitivity`. All are whole numbers, so rounded noise of
    standard deviation sensitivity/mu is post-processing of the Gaussian mechanism (Dong, Roth and Su 2022, Theorem
    1).

    *In floating point.* Weights are doubles p in [0, 1], the largest is 1. They are rounded down to multiples of 2^-62
    and added up as integers, the same on every machine. ``bound`` includes the error of the law of these doubles.
    Rounding to 2^-62 moves either law by at most 2 n 2^-62/sum p in the L1 norm, where n is below 2^32 and 1/sum p, the
    largest weight, is at most ``bound``. For half the change this is together 2^-29 of the bound; 2^-20 is added.

    mu is in [0.001, 30], and K = ``items`` is at most 4096. ``bound``, above 0 and at most 1, is s plus the
    floating-point error of half the change.
    """

    mu: float
    items: int
    bound: float

    def __post_init__(self) -> None:
        if not (LEAST_MU <= self.mu <= MOST_MU and 1 <= self.items <= MAX_ITEMS and 0.0 < self.bound <= 1.0):
            raise BadInput(
                f"noisy shares need a mu in [{LEAST_MU:g}, {MOST_MU:g}], 1 to {MAX_ITEMS} items and a bound in (0, 1], "
                f"found {self.mu}, {self.items} and {self.bound}"
            )

    @property
    def whole(self) -> int:
        """The number of units that make 1: a public power of two."""
        units = Fraction(FINENESS * self.items) / Fraction(self.bound)
        return min(1 << (-(-units.numerator // units.denominator) - 1).bit_length(), MOST_UNITS)

    @property
    def sensitivity(self) -> float:
        """The greatest change of all shares in Euclidean norm, in units, when a record is replaced."""
        return up(math.sqrt(2.0) * self.bound * (1.0 + _ROUNDED) * self.whole + math.sqrt(self.items), 8.0)

    def apply(self, values: Iterator[tuple[Indices, Floats]], source: RandomSource) -> Indices:
        """Return the shares with noise, shape (items,); they may be negative or above ``whole``."""
        return self.rounded(values) + whole_normals(up(self.sensitivity / self.mu), self.items, source)

    def rounded(self, values: Iterator[tuple[Indices, Floats]]) -> Indices:
        """Return the shares without noise, in units, rounded down, shape (items,).

        Values are an item and a weight in [0, 1] per person, with up to 2^21 people per block. Items outside
        0..items-1 have no share, but their weights count in the total.
        """
        sums = np.zeros((2, self.items + 1), dtype=np.int64)
        for items, weights in values:
            indices = np.where((items >= 0) & (items < self.items), items, self.items)
            for half, part in zip(sums, _halves(weights), strict=True):
                # Sums of fewer than 2^22 whole numbers of at most 2^31 are exact in doubles.
                np.add(half, np.bincount(indices, part, self.items + 1).astype(np.int64), out=half)
        totals = [(int(high) << _BITS) + int(low) for high, low in sums.T]
        total, scale = max(sum(totals), 1), self.whole
        return np.array([weight * scale // total for weight in totals[:-1]], dtype=np.int64)


def _halves(weights: Floats) -> tuple[AnyArray, AnyArray]:
    scaled = np.ldexp(np.clip(weights, 0.0, 1.0), _BITS)
    high = np.floor(scaled)
    return high, np.floor(np.ldexp(scaled - high, _BITS))
