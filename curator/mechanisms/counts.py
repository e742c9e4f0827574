"""Two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009), and counts and weighted shares that have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.local.losses import MAX_ITEMS
from common.local.mechanisms.mechanism import LIMIT, Laplace
from common.numerics.randomness import RandomSource
from common.operations.operation import LEAST_EPSILON
from common.privacy.events import Release
from common.privacy.rounding import down
from curator.mechanisms.base import CentralMechanism, central

L = TypeVar("L", bound=Laplace)


def geometric_noise(count: int, epsilon: float, source: RandomSource) -> Indices:
    """Draw independent Z with P(Z = z) proportional to q^|z|, q = e^-epsilon rounded up, shape (count,), int64.

    Added to a whole number that changes by at most 1 when a record is replaced, Z makes it epsilon-DP, epsilon in
    [0.001, 30]: the same noise as that of an agent's answer (:class:`~common.local.mechanisms.mechanism.Laplace`),
    drawn in the same way: in a time that depends on epsilon alone. What is released must be cut to its LIMIT
    (:func:`noisy_counts`), or compared with a number within it.
    """
    return np.asarray(noise_of(Laplace, epsilon).noise(count, source), dtype=np.int64)


@lru_cache(maxsize=64)
def noise_of(law: type[L], epsilon: float) -> L:
    """Return the noise, whose chances are worked out once."""
    return law(epsilon=epsilon)


def noisy_counts(counts: Indices, epsilon: float, source: RandomSource) -> Indices:
    """Return counts, from -2^38 to 2^38, with this noise, cut to +-2^39: epsilon-DP where each changes by at most 1."""
    noisy: Indices = np.clip(counts + geometric_noise(len(counts), epsilon, source), -int(LIMIT), int(LIMIT))
    return noisy


FINEST = 2.0**-30  # least epsilon of :class:`FineNoise`


class FineNoise(Laplace):
    """The same noise for less epsilon a unit: what is hidden is so many units that each may have but little of it.

    What :class:`~common.local.mechanisms.mechanism.Laplace` needs of its epsilon is that rounding a chance up, by
    2^-128 of odds that may be as small as 2^-104 epsilon, makes no number more likely than the one before it: epsilon^2
    above 2^-24. Chances of 192 bits leave epsilon^2 above 2^-88. The digits still end below 2^38, a quarter of the
    flat part, and 2^-66, what is beyond +-LIMIT at the least, is above 2^-105/epsilon, a cell of the flat part times
    e^epsilon/(e^epsilon - 1).
    """

    finer_words: ClassVar[int] = 2
    epsilon: float = Field(ge=FINEST, le=30.0)


@central
@dataclass(frozen=True)
class NoisyCount(CentralMechanism[AnyArray, int]):
    """How many people have a property, with two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009).

    Values are one truth value a person, shape (k,). The count changes by at most 1 when a record is replaced, so this
    pure epsilon-DP, epsilon in [0.001, 30], exact on the integers. What is released may lie outside 0..n.
    """

    epsilon: float

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def person(self, value: Any) -> AnyArray:
        return np.asarray(_one(value) != 0)

    @property
    def neutral(self) -> AnyArray:
        return np.zeros(1, dtype=np.bool_)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        ones = sum(int(np.count_nonzero(_flat(block))) for block in values)
        return int(noisy_counts(np.array([ones]), self.epsilon, source)[0])


@central
@dataclass(frozen=True)
class NoisyHistogram(CentralMechanism[tuple[Indices, AnyArray], Indices]):
    """Sums of whole numbers by cell, with two-sided geometric noise in every cell.

    Values are a cell and a number a person, both of shape (k,). Cells outside 0..cells-1 count for nobody, numbers are
    cut to [-1, 1]: so replacing a record changes the sums by 2 in all, and noise of epsilon/2 in every cell makes this
    pure epsilon-DP, epsilon in [0.002, 30].
    """

    epsilon: float
    cells: int

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def person(self, value: Any) -> tuple[Indices, AnyArray]:
        cell, number = (_one(part) for part in value)
        known = 0.0 <= float(cell[0]) < self.cells
        return np.array([int(cell[0]) if known else -1]), np.array([_cut(number)[0] if known else 0])

    @property
    def neutral(self) -> tuple[Indices, AnyArray]:
        return np.array([-1]), np.array([0])

    def together(self, people: list[tuple[Indices, AnyArray]]) -> tuple[Indices, AnyArray]:
        cells, numbers = zip(*people, strict=True)
        return np.concatenate(cells), np.concatenate(numbers)

    def apply(self, values: Iterator[tuple[Indices, AnyArray]], source: RandomSource) -> Indices:
        sums = np.zeros(self.cells, dtype=np.int64)
        for cells, numbers in values:
            known, kept = _flat(cells), _cut(numbers)
            inside = (known >= 0) & (known < self.cells)
            np.add.at(sums, known[inside].astype(np.int64), kept[inside])
        return noisy_counts(sums, down(self.epsilon / 2.0), source)


def _one(value: Any) -> AnyArray:
    """Return one finite number, shape (1,)."""
    found = np.asarray(value)
    if found.shape not in ((), (1,)) or not np.isfinite(found).all():
        raise ValueError(f"one finite number is wanted, found shape {found.shape}")
    return found.reshape(1)


def _cut(numbers: AnyArray) -> Indices:
    return np.asarray(np.clip(_flat(numbers), -1, 1).astype(np.int64))


def _flat(values: AnyArray) -> AnyArray | Floats:
    found = np.asarray(values)
    if found.ndim != 1:
        raise ValueError(f"one number a person is wanted, found shape {found.shape}")
    return found


FINENESS = 128  # half of what a record changes is so many units for each item, as far as :data:`MOST_UNITS` allows
MOST_UNITS = 1 << 37  # units that make 1, at most: noise on the integers is proven for numbers of up to 2^38
_BITS = 31  # weights are whole multiples of 2^-62, in two halves: sums of 2^32 of them are exact in int64
_HALF = 1 << _BITS
_ROUNDED = Fraction(1, 1 << 20)
"""Far above 2^-29: what rounding weights down to multiples of 2^-62 adds to the bound, as a part of it."""


@dataclass(frozen=True)
class NoisyShares:
    """The mu-weighted share of every item, in whole units, with two-sided geometric noise in each.

    **Theorem.** Let mu and mu' be the laws of samples of which one record differs, such that all other records' weights
    change in one direction, and let s bound both weights of that record. Then the shares of the items change by at
    most 2 s in all, and by sqrt(2) s in Euclidean norm; both are attained.

    *Proof.* Let the record go from item a with weight m to item b with weight m', and m' >= m (else exchange the
    samples). Weights add up to 1 and the others' change in one direction, so the others lose, m' - m in all. An item
    that is neither a nor b can only lose, and so can a, if it is not b. So at most b gains: at most m' <= s, as it had
    no less than 0 of the record before. Shares add up to 1, so what the other items lose, in all, is what b gains: the
    L1 norm is twice that. Of losses with a given sum one alone has the greatest squares: s^2 + s^2. Where b holds
    nobody else, m' = s, and all that is lost is lost by one item, both are equalities. QED. Lazy weights are such laws
    (:class:`curator.sample.reweighing.Reweighing`), with s the bound on the total variation.

    *On a grid.* A share is rounded down to a multiple of 1/``whole``, and so may change by less than a unit more: K
    items by less than K units in all. Everything is a whole number, so the shares change by at most
    :attr:`sensitivity` units, floor(2 s whole) + K, and geometric noise of epsilon/sensitivity a unit makes them pure
    epsilon-DP. A grid of 128 K units for s, or finer, makes the noise at most 0.4% more than none.

    *In floating point.* Weights come as doubles p in [0, 1], the largest is 1; they are taken down to multiples of
    2^-62 and added up as integers, the same on every machine. By how much the law of these doubles is off is part of
    ``bound``. The multiples of 2^-62 move either law by at most 2 n 2^-62/sum p in the L1 norm, n below 2^32 and
    1/sum p, the largest weight, at most ``bound``: together by 2^-29 of the bound for half the change, and 2^-20 is
    added.

    Epsilon is in [0.0025, 30], K = ``items`` at most 4096, and ``bound``, above 0 and at most 1, is s with what
    floating point adds to half the change.

    """

    epsilon: float
    items: int
    bound: float

    def __post_init__(self) -> None:
        if not (LEAST_EPSILON <= self.epsilon <= 30.0 and 1 <= self.items <= MAX_ITEMS and 0.0 < self.bound <= 1.0):
            raise BadInput(
                f"noisy shares need an epsilon in [{LEAST_EPSILON}, 30], 1 to {MAX_ITEMS} items and a bound in "
                f"(0, 1], found {self.epsilon}, {self.items} and {self.bound}"
            )

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    @property
    def whole(self) -> int:
        """How many units make 1: a power of two, public."""
        wanted = Fraction(FINENESS * self.items) / Fraction(self.bound)
        return min(1 << (-(-wanted.numerator // wanted.denominator) - 1).bit_length(), MOST_UNITS)

    @property
    def sensitivity(self) -> int:
        """By how many units all shares together may change when a record is replaced."""
        change = 2 * Fraction(self.bound) * (1 + _ROUNDED) * self.whole
        return change.numerator // change.denominator + self.items

    def apply(self, values: Iterator[tuple[Indices, Floats]], source: RandomSource) -> Indices:
        """Return the shares with noise, shape (items,), cut to +-2^39: they may be negative or above ``whole``."""
        noise = noise_of(FineNoise, down(self.epsilon / self.sensitivity)).noise(self.items, source)
        noisy: Indices = np.clip(self.rounded(values) + noise.astype(np.int64), -int(LIMIT), int(LIMIT))
        return noisy

    def rounded(self, values: Iterator[tuple[Indices, Floats]]) -> Indices:
        """Return the shares, without noise: in units, rounded down, shape (items,).

        Values are an item and a weight in [0, 1] a person, up to 2^21 people a block. Items outside 0..items-1 have no
        share; their weights count in the sum of all.
        """
        sums = np.zeros((2, self.items + 1), dtype=np.int64)
        for items, weights in values:
            known = np.where((items >= 0) & (items < self.items), items, self.items)
            for half, part in zip(sums, _halves(weights), strict=True):
                # Sums of fewer than 2^22 whole numbers of at most 2^31 are exact in doubles.
                np.add(half, np.bincount(known, part, self.items + 1).astype(np.int64), out=half)
        held = [(int(high) << _BITS) + int(low) for high, low in sums.T]
        everybody = max(sum(held), 1)
        return np.array([weight * self.whole // everybody for weight in held[:-1]], dtype=np.int64)


def _halves(weights: Floats) -> tuple[AnyArray, AnyArray]:
    scaled = np.ldexp(np.clip(weights, 0.0, 1.0), _BITS)
    high = np.floor(scaled)
    return high, np.floor(np.ldexp(scaled - high, _BITS))
