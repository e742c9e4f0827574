"""Shares of the reweighed sample by item, with noise for all that one record can change of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.local.losses import MAX_ITEMS
from common.local.mechanisms.noise import LIMIT
from common.numerics.randomness import RandomSource
from common.operations.weighting import LEAST_EPSILON
from common.privacy.events import Release
from common.privacy.rounding import down
from curator.mechanisms.whole_numbers import fine_noise

FINENESS = 128
"""Half of what a record changes is so many units for each item, as far as :data:`MOST_UNITS` allows."""
MOST_UNITS = 1 << 37
"""Units that make 1, at most: noise on the integers is proven for numbers of up to 2^38."""
_BITS = 31
"""Weights are whole multiples of 2^-62, in two halves: sums of 2^32 of them are exact in int64."""
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
    (:class:`curator.weights.reweighing.Reweighing`), with s the bound on the total variation.

    *On a grid.* A share is rounded down to a multiple of 1/``whole``, and so may change by less than a unit more: K
    items by less than K units in all. Everything is a whole number, so the shares change by at most
    :attr:`sensitivity` units, floor(2 s whole) + K, and geometric noise of epsilon/sensitivity a unit makes them pure
    epsilon-DP. A grid of 128 K units for s, or finer, makes the noise at most 0.4% more than none.

    *In floating point.* Weights come as doubles p in [0, 1], the largest is 1; they are taken down to multiples of
    2^-62 and added up as integers, the same on every machine. By how much the law of these doubles is off is part of
    ``bound``. The multiples of 2^-62 move either law by at most 2 n 2^-62/sum p in the L1 norm, n below 2^32 and
    1/sum p, the largest weight, at most ``bound``: together by 2^-29 of the bound for half the change, and 2^-20 is
    added.

    Attributes:
        epsilon: In [0.0025, 30].
        items: K, how many, at most 4096.
        bound: s, above 0 and at most 1, with what floating point adds to half the change.

    Raises:
        BadInput: If a number is outside its range.
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
        """Pure epsilon-DP."""
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
        """Return the shares with noise, shape (items,), int64, cut to +-2^39: they may be negative or above ``whole``.

        Args:
            values: As for :meth:`rounded`.
        """
        noise = fine_noise(down(self.epsilon / self.sensitivity)).noise(self.items, source)
        noisy: Indices = np.clip(self.rounded(values) + noise.astype(np.int64), -int(LIMIT), int(LIMIT))
        return noisy

    def rounded(self, values: Iterator[tuple[Indices, Floats]]) -> Indices:
        """Return the shares, without noise: in units, rounded down, shape (items,), int64.

        Args:
            values: An item and a weight in [0, 1] a person, both of shape (k,), a block of up to 2^21 people at a time.
                Items outside 0..items-1 have no share; their weights count in the sum of all.
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
