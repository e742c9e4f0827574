"""Two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009), and the mechanisms that use it.

These are counts, and the largest cells of a histogram over a domain that is too large to enumerate. There, the empty
cells whose noise reaches a threshold are drawn directly, in whole numbers: how many, which, and by how much.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.local.mechanisms.mechanism import FLAT_BITS, LIMIT, Laplace
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from common.protocols.frequencies import threshold
from curator.mechanisms.base import PureCentral, central
from curator.mechanisms.selection import random_bits

L = TypeVar("L", bound=Laplace)


def geometric_noise(count: int, epsilon: float, source: RandomSource) -> Indices:
    """Draw independent Z with P(Z = z) proportional to q^|z|, q = e^-epsilon rounded up, shape (count,), int64.

    Added to a whole number that changes by at most 1 when a record is replaced, Z makes it epsilon-DP, for epsilon in
    [0.001, 30]. It is the noise of an agent's answer (:class:`~common.local.mechanisms.mechanism.Laplace`), drawn in
    the same way, in a time that depends on epsilon alone. The noisy number must be cut to that mechanism's LIMIT before
    release (:func:`noisy_counts`), or compared with a number within it.
    """
    return np.asarray(noise_of(Laplace, epsilon).noise(count, source), dtype=np.int64)


@lru_cache(maxsize=64)
def noise_of(law: type[L], epsilon: float) -> L:
    """Return the noise mechanism; its probabilities are computed once."""
    return law(epsilon=epsilon)


def noisy_counts(counts: Indices, epsilon: float, source: RandomSource) -> Indices:
    """Return counts, from -2^38 to 2^38, with this noise, cut to +-2^39: epsilon-DP where each changes by at most 1."""
    noisy: Indices = np.clip(counts + geometric_noise(len(counts), epsilon, source), -int(LIMIT), int(LIMIT))
    return noisy


@central
@dataclass(frozen=True)
class NoisyCount(PureCentral[AnyArray, int]):
    """How many people have a property, with two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009).

    Values are one truth value per person, shape (k,). The count changes by at most 1 when a record is replaced: pure
    epsilon-DP, epsilon in [0.001, 30], exact on the integers. The released count may lie outside 0..n.
    """

    epsilon: float

    def person(self, value: Any) -> AnyArray:
        return np.asarray(_single_number(value) != 0)

    @property
    def neutral(self) -> AnyArray:
        return np.zeros(1, dtype=np.bool_)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        ones = sum(int(np.count_nonzero(_as_vector(block))) for block in values)
        return int(noisy_counts(np.array([ones]), self.epsilon, source)[0])


@central
@dataclass(frozen=True)
class NoisyHistogram(PureCentral[tuple[Indices, AnyArray], Indices]):
    """Sums of whole numbers by cell, with two-sided geometric noise in every cell.

    Values are a cell and a number per person, both of shape (k,). Cells outside 0..cells-1 are ignored, and numbers are
    cut to [-1, 1]. So replacing a record changes the sums by at most 2 in total, and noise of epsilon/2 in every cell
    makes this pure epsilon-DP, epsilon in [0.002, 30].
    """

    epsilon: float
    cells: int

    def person(self, value: Any) -> tuple[Indices, AnyArray]:
        cell, number = (_single_number(part) for part in value)
        valid = 0.0 <= float(cell[0]) < self.cells
        return np.array([int(cell[0]) if valid else -1]), np.array([_clip_numbers(number)[0] if valid else 0])

    @property
    def neutral(self) -> tuple[Indices, AnyArray]:
        return np.array([-1]), np.array([0])

    def together(self, people: list[tuple[Indices, AnyArray]]) -> tuple[Indices, AnyArray]:
        cells, numbers = zip(*people, strict=True)
        return np.concatenate(cells), np.concatenate(numbers)

    def apply(self, values: Iterator[tuple[Indices, AnyArray]], source: RandomSource) -> Indices:
        sums = np.zeros(self.cells, dtype=np.int64)
        for cells, numbers in values:
            indices, clipped = _as_vector(cells), _clip_numbers(numbers)
            inside = (indices >= 0) & (indices < self.cells)
            np.add.at(sums, indices[inside].astype(np.int64), clipped[inside])
        return noisy_counts(sums, down(self.epsilon / 2.0), source)


def _single_number(value: Any) -> AnyArray:
    array = np.asarray(value)
    if array.shape not in ((), (1,)) or not np.isfinite(array).all():
        raise ValueError(f"one finite number is wanted, found shape {array.shape}")
    return array.reshape(1)


def _clip_numbers(numbers: AnyArray) -> Indices:
    return np.asarray(np.clip(_as_vector(numbers), -1, 1).astype(np.int64))


def _as_vector(values: AnyArray) -> AnyArray | Floats:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"one number a person is wanted, found shape {array.shape}")
    return array


@central
@dataclass(frozen=True)
class NoisyHead(PureCentral[Words, tuple[Words, Indices, int]]):
    """The most frequent items of a large domain: a list from the people at even places, counts from those at odd ones.

    Values are one item per person, shape (k,), uint64. *The list* is a function of the histogram of the whole domain
    with two-sided geometric noise in every cell, epsilon/2 each. Replacing a record changes two cells by 1, so that is
    pure epsilon-DP. Items whose noisy count reaches a public threshold are listed, the largest first
    (:func:`curator.mechanisms.counts.top_items`, which is within a factor e^{2^-90} of that law; the noise is for the
    double below epsilon/2, which pays for that). *The counts* of the listed items have the same noise. A record is in
    one of the two parts, by its place, so both together cost epsilon (parallel composition). The counts are unbiased,
    since other people determined the list.

    Items are below 2^``bits``, further bits are cut off. At most ``most`` items are listed; epsilon is in [0.002, 30].
    """

    bits: int
    most: int
    epsilon: float

    def apply(self, values: Iterator[Words], source: RandomSource) -> tuple[Words, Indices, int]:
        people = np.concatenate(list(values)).astype(np.uint64) & np.uint64((1 << self.bits) - 1)
        noise = Laplace(epsilon=down(self.epsilon / 2.0))
        items = top_items(people[::2], self.bits, self.most, noise, source.derive("list"))
        counted = np.sort(people[1::2])
        counts = np.searchsorted(counted, items, side="right") - np.searchsorted(counted, items, side="left")
        noisy = noisy_counts(counts, noise.epsilon, source.derive("counts"))
        return items, noisy, len(counted)


_FURTHER = 16  # number of spurious values that are drawn beyond those that a list can hold


def top_items(values: Words, bits: int, most: int, noise: Laplace, source: RandomSource) -> Words:
    """Return at most ``most`` values whose noisy counts reach the threshold, the largest counts first.

    Of equal counts the smaller value comes first, whether it occurs or not, so the order is also a function of the
    noisy histogram.

    *Every list has its probability under noise in each of the 2^bits cells, to within a factor e^{2^-90}.* Cells of
    values that occur have that noise. Of the other cells, a binomial number reaches the threshold, each with the same
    probability, by amounts that do not depend on which they are. Each of these is drawn to within a factor e^{2^-110},
    given that they are at most K = ``most`` + 16. That condition changes little: let y be a list with j <= ``most``
    values that do not occur. Given that n >= j values are spurious, y requires its j among them, with the same amounts
    as for n = j, and further conditions. So P(y, n) <= C(n, j) w(n)/w(j) P(y, j), where w is the binomial law, and
    C(n, j) w(n)/w(j) = C(m - j, n - j) o^{n-j} <= (m o)^{n-j}/(n - j)! for m cells of odds o. The threshold keeps m o
    below .02, so all n > K together change P(y) by a factor below 1 + 2^-140.

    The numbers of words, coins and comparisons depend only on the number of people, ``bits``, ``most`` and the noise.
    Counting and sorting are NumPy's, whose time may depend on the data.
    """
    people, most_spurious = len(values), most + _FURTHER
    present, counts = np.unique(values, return_counts=True)
    absent = people - len(present)
    noise = noise_of(RareNoise, noise.epsilon)
    tail = cached_tail(noise, threshold(bits, noise))
    sample = noise.noise(people, source.derive("held")).astype(np.int64)
    noisy = np.pad(counts, (0, absent)).astype(np.int64) + sample
    noisy[len(present) :] = 0
    cells = (1 << bits) - len(present)
    spurious = draw_successes(cells, tail.chance, most_spurious, source.derive("number"))
    ranks = np.array(draw_ranks(cells, most_spurious, source.derive("which")), dtype=object)
    amounts = source.derive("beyond")
    excesses = np.array([tail.least + tail.beyond(amounts) for _ in range(most_spurious)], dtype=np.int64)
    excesses[spurious:] = 0
    items = np.concatenate([np.pad(present, (0, absent)), _empty_cells(present, ranks, absent)])
    noisy_sizes = np.minimum(np.concatenate([noisy, excesses]), int(LIMIT))
    order = np.lexsort((items, -noisy_sizes))
    return items[order[: min(most, int(np.count_nonzero(noisy_sizes >= tail.least)))]]


def _empty_cells(present: Words, ranks: AnyArray, absent: int) -> Words:
    gaps = np.pad(present - np.arange(len(present), dtype=np.uint64), (0, absent), constant_values=(1 << 64) - 1)
    places = np.minimum(ranks, (1 << 64) - 1).astype(np.uint64)
    return places + np.searchsorted(gaps, places, side="right").astype(np.uint64)


FIXED_BITS = 384  # probabilities are multiples of 2^-384
_ONE = 1 << FIXED_BITS
_RANK_BITS = 192


def draw_successes(cells: int, chance: Fraction, most: int, source: RandomSource) -> int:
    """Draw a binomial number of successes, given that it is at most ``most``; all of the ``most`` coins are flipped.

    The result is the number of successes before the first failure (:func:`success_chances`); ``cells`` is in 0..2^64.
    """
    number, succeeding = 0, True
    for coin, point in zip(success_chances(cells, chance, most), _points(most, source), strict=True):
        succeeding &= point < coin
        number += succeeding
    return number


def success_chances(cells: int, chance: Fraction, most: int) -> list[int]:
    """Return the probabilities of one more success, after 0..most-1 of them, in multiples of 2^-384.

    Coin n succeeds with P(N > n | N >= n) = r_n A_{n+1}/A_n, where r_n = (cells - n)/(n + 1) chance/(1 - chance) is
    P(n + 1)/P(n), A_n = 1 + r_n A_{n+1} is P(at least n)/P(n), and A_most = 1. The number of leading successes then has
    the binomial law given N <= most. Each probability is rounded down, within a relative 2^-200 if ``chance`` is at
    least 2^-150.
    """
    success = _fixed(chance)
    chances, tail = [], _ONE
    for n in reversed(range(most)):
        ratio = (max(cells - n, 0) * success << FIXED_BITS) // ((n + 1) * (_ONE - success))
        further = ratio * tail >> FIXED_BITS
        tail = _ONE + further
        chances.append((further << FIXED_BITS) // tail)
    return chances[::-1]


def draw_ranks(cells: int, count: int, source: RandomSource) -> list[int]:
    """Draw distinct ranks in 0..cells-1, in random order; if there are too few cells, ranks beyond them follow.

    Each choice has its probability to within a relative error of 2^-128.
    """
    ordered, ranks = list[int](), list[int]()
    for place in range(count):
        rank = random_bits(_RANK_BITS, source) * max(cells - place, 1) >> _RANK_BITS
        for lower in ordered:
            rank += lower <= rank
        insort(ordered, rank)
        ranks.append(rank)
    return ranks


class RareNoise(Laplace):
    """The same noise, but flat only once in 2^128 draws: with 2^64 cells, once in 2^64 would be often."""

    flat_words: ClassVar[int] = 2


@dataclass(frozen=True)
class Tail:
    """Noise that is drawn by binary digits, flat beyond them, given that it reaches ``least``, in 1..2^39."""

    noise: Laplace
    least: int

    @cached_property
    def chance(self) -> Fraction:
        """P(Z >= least), exactly."""
        flat, digits = self._parts
        return Fraction(self.noise.chances[0], 2 * self.noise.one) * (flat + digits)

    def beyond(self, source: RandomSource) -> int:
        """Draw Z - least given Z >= least, cut after the flat part.

        Digits are drawn from the top. While they equal those of least - 1, the next digit has its probability given
        that the number does not fall below; afterwards it has that of the noise. Each is rounded down to a multiple of
        2^-384, within 2^-200 of itself and of its complement. The numbers of digits and words depend on the noise only.
        """
        lowest, number, tight = self.least - 1, 0, True
        coin, place, *points = _points(len(self._free) + 2, source)
        for digit, point in zip(reversed(range(len(self._free))), points, strict=True):
            bit = point < (self._free, self._tight)[tight][digit]
            number += bit << digit
            tight &= bit == (lowest >> digit & 1)
        flat_value = lowest + (place * ((1 << FLAT_BITS) - lowest) >> FIXED_BITS)
        return (number, flat_value)[coin < self._flat] - lowest

    @cached_property
    def _parts(self) -> tuple[Fraction, Fraction]:
        flat = self.noise.flat_chance
        return flat * Fraction((1 << FLAT_BITS) - self.least + 1, 1 << FLAT_BITS), (1 - flat) * self._survival[-1]

    @cached_property
    def _flat(self) -> int:
        flat, digits = self._parts
        return _fixed(flat / (flat + digits))

    @cached_property
    def _survival(self) -> list[Fraction]:
        """Return P(number of the lowest j digits >= number of the lowest j bits of ``least - 1``) for every j."""
        chances = [Fraction(1)]
        for digit, numerator in enumerate(self.noise.chances[1:]):
            chance = Fraction(numerator, self.noise.one)
            bit = (self.least - 1) >> digit & 1
            chances.append(chance * chances[-1] if bit else chance + (1 - chance) * chances[-1])
        return chances if self.least - 1 < 1 << len(self.noise.chances) - 1 else [*chances[:-1], Fraction(0)]

    @cached_property
    def _free(self) -> list[int]:
        return [numerator * _ONE // self.noise.one for numerator in self.noise.chances[1:]]

    @cached_property
    def _tight(self) -> list[int]:
        chances = []
        for digit, numerator in enumerate(self.noise.chances[1:]):
            chance, bit = Fraction(numerator, self.noise.one), (self.least - 1) >> digit & 1
            chances.append(_ONE if bit else _fixed(chance / (chance + (1 - chance) * self._survival[digit])))
        return chances


cached_tail = cache(Tail)


def _points(count: int, source: RandomSource) -> list[int]:
    raw = source.words(count * FIXED_BITS // 64).astype("<u8").tobytes()  # one call for all, as there are many
    size = FIXED_BITS // 8
    return [int.from_bytes(raw[start : start + size], "little") for start in range(0, len(raw), size)]


def _fixed(chance: Fraction) -> int:
    return (chance.numerator << FIXED_BITS) // chance.denominator
