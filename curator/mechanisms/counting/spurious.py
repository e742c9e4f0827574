"""Cells that nobody holds and whose noise reaches a threshold: how many, which, and by how much, in whole numbers."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import ClassVar

from common.local.mechanisms.laplace import FLAT_BITS, Laplace
from common.numerics.randomness import RandomSource
from curator.mechanisms.choices.whole_numbers import random_bits

FIXED_BITS = 384
"""Chances are multiples of 2^-384."""
_ONE = 1 << FIXED_BITS
_RANK_BITS = 192


def how_many(cells: int, chance: Fraction, most: int, source: RandomSource) -> int:
    """Draw a binomial number of successes given that it is at most ``most``, by ``most`` coins, all flipped.

    The number is that of the successes before the first failure (:func:`coins`).

    Parameters
    ----------
    cells
        In 0..2^64.
    chance
        In (0, 1).
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

    Each of the choices has its probability to within 2^-128 of it.
    """
    taken: list[int] = []
    drawn: list[int] = []
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


@lru_cache(maxsize=64)
def rare_noise(epsilon: float) -> RareNoise:
    """Return the noise, whose chances are worked out once."""
    return RareNoise(epsilon=epsilon)


@cache
def tail_of(noise: Laplace, least: int) -> Tail:
    """Return the noise given that it reaches a threshold, worked out once."""
    return Tail(noise, least)


@dataclass(frozen=True)
class Tail:
    """The noise of :class:`~common.local.mechanisms.laplace.Laplace` given that it reaches a threshold.

    Attributes
    ----------
    noise
        The law, as it is drawn: by binary digits, and flat behind them.
    least
        The threshold, in 1..2^39.
    """

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
        """Chances that abs(Z) - 1 is flat, or of digits, and at least ``least - 1``."""
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
        """Chances of each digit where those above are the bits of ``least - 1`` and the number is no smaller."""
        chances = []
        for digit, whole in enumerate(self.noise.chances[1:]):
            one, bit = Fraction(whole, self.noise.one), (self.least - 1) >> digit & 1
            chances.append(_ONE if bit else _fixed(one / (one + (1 - one) * self._reached[digit])))
        return chances


def _points(count: int, source: RandomSource) -> Iterator[int]:
    """Draw integers uniform on 0..2^384-1."""
    size = FIXED_BITS // 8
    drawn = source.words(count * size // 8).astype("<u8").tobytes()
    return (int.from_bytes(drawn[begin : begin + size], "little") for begin in range(0, len(drawn), size))


def _fixed(chance: Fraction) -> int:
    return (chance.numerator << FIXED_BITS) // chance.denominator
