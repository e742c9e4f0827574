"""Two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009), and what has it.

Counts, and the largest cells of a histogram over a domain too large to go through: there, cells that
are empty and whose noise reaches a threshold are drawn as such, in whole numbers: how many, which, and by how much.
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


@central
@dataclass(frozen=True)
class NoisyCount(PureCentral[AnyArray, int]):
    """How many people have a property, with two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009).

    Values are one truth value a person, shape (k,). The count changes by at most 1 when a record is replaced: pure
    epsilon-DP, epsilon in [0.001, 30], exact on the integers. What is released may lie outside 0..n.
    """

    epsilon: float

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
class NoisyHistogram(PureCentral[tuple[Indices, AnyArray], Indices]):
    """Sums of whole numbers by cell, with two-sided geometric noise in every cell.

    Values are a cell and a number a person, both of shape (k,). Cells outside 0..cells-1 count for nobody, numbers are
    cut to [-1, 1]: so replacing a record changes the sums by 2 in all, and noise of epsilon/2 in every cell makes this
    pure epsilon-DP, epsilon in [0.002, 30].
    """

    epsilon: float
    cells: int

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


@central
@dataclass(frozen=True)
class NoisyHead(PureCentral[Words, tuple[Words, Indices, int]]):
    """Two noisy histograms, of the people at even places (which values?) and at odd ones (how many hold them?).

    Values are one item a person, shape (k,), uint64. *The list* is a function of the histogram of the whole domain with
    two-sided geometric noise in every cell, epsilon/2 each: replacing a record changes two cells by 1, so that is pure
    epsilon-DP. Items with a noisy count of at least a public threshold are listed, the largest first
    (:func:`curator.mechanisms.counts.listed`, which is within a factor e^{2^-90} of that law; the noise is
    for the double below epsilon/2, and pays for it). *The counts* of the listed items have the same noise. A record is
    in one of the two parts, by its place: both together cost epsilon (parallel composition), and the counts are
    unbiased, since other people chose the list.

    Items are below 2^``bits``, further bits are cut off; ``most`` are listed at most; epsilon is in [0.002, 30].
    """

    bits: int
    most: int
    epsilon: float

    def apply(self, values: Iterator[Words], source: RandomSource) -> tuple[Words, Indices, int]:
        held = np.concatenate(list(values)).astype(np.uint64) & np.uint64((1 << self.bits) - 1)
        noise = Laplace(epsilon=down(self.epsilon / 2.0))
        items = listed(held[::2], self.bits, self.most, noise, source.derive("list"))
        others = np.sort(held[1::2])
        counts = np.searchsorted(others, items, side="right") - np.searchsorted(others, items, side="left")
        noisy = noisy_counts(counts, noise.epsilon, source.derive("counts"))
        return items, noisy, len(others)


_FURTHER = 16  # so many spurious values are drawn beyond those that a list can hold


def listed(values: Words, bits: int, most: int, noise: Laplace, source: RandomSource) -> Words:
    """Return the values whose noisy counts reach the threshold, the largest counts first, at most so many.

    Of equal counts the smaller value comes first, whether anybody holds it or not: the order is a function of the noisy
    histogram, too.

    *Every list has its probability under noise in each of the 2^bits cells, to within a factor e^{2^-90}.* Cells that
    somebody holds have that noise. Of the others, a binomial number reaches the threshold, any of them with the same
    probability, by amounts that are independent of which they are: each is drawn to within a factor e^{2^-110}, given
    that they are at most K = ``most`` + 16. That changes little: let y be a
    list with j <= ``most`` values that nobody holds. Given that n >= j values are spurious, y needs its j among them,
    with the same amounts as for n = j, and it needs more. So P(y, n) <= C(n, j) w(n)/w(j) P(y, j), w being the binomial
    law, and C(n, j) w(n)/w(j) = C(m - j, n - j) o^{n-j} <= (m o)^{n-j}/(n - j)! for m cells of odds o. The threshold
    keeps m o below .02: all n > K together change P(y) by a factor below 1 + 2^-140.

    Words, coins and comparisons are as many as the number of people, ``bits``, ``most`` and the noise say. Counting and
    sorting are NumPy's, whose time may depend on what they sort.
    """
    people, most_spurious = len(values), most + _FURTHER
    held, counts = np.unique(values, return_counts=True)
    absent = people - len(held)
    noise = noise_of(RareNoise, noise.epsilon)
    tail = cached_tail(noise, threshold(bits, noise))
    drawn = noise.noise(people, source.derive("held")).astype(np.int64)
    noisy = np.pad(counts, (0, absent)).astype(np.int64) + drawn
    noisy[len(held) :] = 0
    cells = (1 << bits) - len(held)
    spurious = how_many(cells, tail.chance, most_spurious, source.derive("number"))
    ranks = np.array(which(cells, most_spurious, source.derive("which")), dtype=object)
    amounts = source.derive("beyond")
    beyond = np.array([tail.least + tail.beyond(amounts) for _ in range(most_spurious)], dtype=np.int64)
    beyond[spurious:] = 0
    items = np.concatenate([np.pad(held, (0, absent)), _empty(held, ranks, absent)])
    reached = np.minimum(np.concatenate([noisy, beyond]), int(LIMIT))
    order = np.lexsort((items, -reached))
    return items[order[: min(most, int(np.count_nonzero(reached >= tail.least)))]]


def _empty(held: Words, ranks: AnyArray, absent: int) -> Words:
    before = np.pad(held - np.arange(len(held), dtype=np.uint64), (0, absent), constant_values=(1 << 64) - 1)
    places = np.minimum(ranks, (1 << 64) - 1).astype(np.uint64)
    return places + np.searchsorted(before, places, side="right").astype(np.uint64)


FIXED_BITS = 384  # chances are multiples of 2^-384
_ONE = 1 << FIXED_BITS
_RANK_BITS = 192


def how_many(cells: int, chance: Fraction, most: int, source: RandomSource) -> int:
    """Draw a binomial number of successes given that it is at most ``most``, by ``most`` coins, all flipped.

    The number is that of the successes before the first failure (:func:`coins`); cells are in 0..2^64.
    """
    number, standing = 0, True
    for coin, point in zip(coins(cells, chance, most), _points(most, source), strict=True):
        standing &= point < coin
        number += standing
    return number


def coins(cells: int, chance: Fraction, most: int) -> list[int]:
    """Return the chances of one more success, after 0..most-1 of them, in multiples of 2^-384.

    Coin n comes up with P(N > n | N >= n) = r_n A_{n+1}/A_n, where r_n = (cells - n)/(n + 1) chance/(1 - chance) is the
    ratio of the chances of n + 1 and of n, A_n = 1 + r_n A_{n+1} that of at least n and of n, and A_most = 1. The
    number of leading successes then has the binomial law given N <= most. Each chance is rounded down within 2^-200 of
    itself where ``chance`` is at least 2^-150.
    """
    success = _fixed(chance)
    chances, tail = [], _ONE
    for n in reversed(range(most)):
        ratio = (max(cells - n, 0) * success << FIXED_BITS) // ((n + 1) * (_ONE - success))
        further = ratio * tail >> FIXED_BITS
        tail = _ONE + further
        chances.append((further << FIXED_BITS) // tail)
    return chances[::-1]


def which(cells: int, count: int, source: RandomSource) -> list[int]:
    """Draw distinct ranks in 0..cells-1, in random order; where there are no more cells, ranks beyond them follow.

    Each choice has its probability to within 2^-128 of it.
    """
    taken, drawn = list[int](), list[int]()
    for place in range(count):
        rank = random_bits(_RANK_BITS, source) * max(cells - place, 1) >> _RANK_BITS
        for earlier in taken:
            rank += earlier <= rank
        insort(taken, rank)
        drawn.append(rank)
    return drawn


class RareNoise(Laplace):
    """The same noise, flat once in 2^128 draws: with 2^64 cells to draw for, once in 2^64 is often."""

    flat_words: ClassVar[int] = 2


@dataclass(frozen=True)
class Tail:
    """A noise, by binary digits and flat behind them, given that it reaches the threshold ``least``, in 1..2^39."""

    noise: Laplace
    least: int

    @cached_property
    def chance(self) -> Fraction:
        """P(Z >= least), exactly."""
        flat, digits = self._parts
        return Fraction(self.noise.chances[0], 2 * self.noise.one) * (flat + digits)

    def beyond(self, source: RandomSource) -> int:
        """Draw Z - least given Z >= least, cut behind the flat part.

        Digits come from the top. As long as they are those of least - 1, the next one has its chance given that the
        number does not fall below; afterwards, that of the noise. Each chance is rounded down to a multiple of 2^-384,
        within 2^-200 of itself and of its complement; the numbers of digits and of words depend on the noise alone.
        """
        lowest, number, tight = self.least - 1, 0, True
        coin, place, *points = _points(len(self._free) + 2, source)
        for digit, point in zip(reversed(range(len(self._free))), points, strict=True):
            one = point < (self._free, self._tight)[tight][digit]
            number += one << digit
            tight &= one == (lowest >> digit & 1)
        other = lowest + (place * ((1 << FLAT_BITS) - lowest) >> FIXED_BITS)
        return (number, other)[coin < self._flat] - lowest

    @cached_property
    def _parts(self) -> tuple[Fraction, Fraction]:
        flat = self.noise.flat_chance
        return flat * Fraction((1 << FLAT_BITS) - self.least + 1, 1 << FLAT_BITS), (1 - flat) * self._reached[-1]

    @cached_property
    def _flat(self) -> int:
        flat, digits = self._parts
        return _fixed(flat / (flat + digits))

    @cached_property
    def _reached(self) -> list[Fraction]:
        """Chances that the number of the lowest j digits is at least that of the lowest j bits of ``least - 1``."""
        reached = [Fraction(1)]
        for digit, whole in enumerate(self.noise.chances[1:]):
            one = Fraction(whole, self.noise.one)
            bit = (self.least - 1) >> digit & 1
            reached.append(one * reached[-1] if bit else one + (1 - one) * reached[-1])
        return reached if self.least - 1 < 1 << len(self.noise.chances) - 1 else [*reached[:-1], Fraction(0)]

    @cached_property
    def _free(self) -> list[int]:
        return [whole * _ONE // self.noise.one for whole in self.noise.chances[1:]]

    @cached_property
    def _tight(self) -> list[int]:
        chances = []
        for digit, whole in enumerate(self.noise.chances[1:]):
            one, bit = Fraction(whole, self.noise.one), (self.least - 1) >> digit & 1
            chances.append(_ONE if bit else _fixed(one / (one + (1 - one) * self._reached[digit])))
        return chances


cached_tail = cache(Tail)


def _points(count: int, source: RandomSource) -> list[int]:
    drawn = source.words(count * FIXED_BITS // 64).astype("<u8").tobytes()  # in one call: there are many
    size = FIXED_BITS // 8
    return [int.from_bytes(drawn[start : start + size], "little") for start in range(0, len(drawn), size)]


def _fixed(chance: Fraction) -> int:
    return (chance.numerator << FIXED_BITS) // chance.denominator
