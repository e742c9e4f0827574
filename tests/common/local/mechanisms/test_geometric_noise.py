"""The law of two-sided geometric noise, counted out: pure epsilon-DP in every cell, in a time that says nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np

from common.core.arrays import Words
from common.local.mechanisms.laplace import FLAT, FLAT_BITS, LIMIT, Laplace, _coins
from common.numerics.randomness import RandomSource
from curator.mechanisms.whole_numbers import FINEST, FineNoise
from tests.tiers import for_each

EPSILONS = [0.001, 0.01, 0.3, 1.0, 2.5, 8.0, 30.0]
FINE = [FineNoise(epsilon=epsilon) for epsilon in (FINEST, 1e-8, 1e-5, 0.001, 1.0, 30.0)]
NOISE = [*(Laplace(epsilon=epsilon) for epsilon in EPSILONS), *FINE]


def digits_law(noise: Laplace, number: int) -> Fraction:
    """Return the probability of a number by its digits and the flat part."""
    law = 1 - Fraction(1, 1 << 64)
    for digit, chance in enumerate(noise.chances[1:]):
        law *= Fraction(chance if number >> digit & 1 else noise.one - chance, noise.one)
    return (law if number < 1 << len(noise.chances) - 1 else Fraction(0)) + (FLAT if number < 1 << FLAT_BITS else 0)


def law(noise: Laplace, z: int) -> Fraction:
    """Return P(Z = z), exactly."""
    other = Fraction(noise.chances[0], noise.one)
    return 1 - other if z == 0 else other / 2 * digits_law(noise, abs(z) - 1)


@for_each("noise", NOISE, ids=repr)
def test_no_two_neighbouring_integers_differ_by_more_than_e_to_the_epsilon(noise: Laplace) -> None:
    """At every carry, and where the digits end: P(z + 1) / P(z) is in [q, 1], which is e^-epsilon or more."""
    q = Fraction(noise.ratio)
    with mpmath.workdps(50):
        assert mpmath.mpf(q.numerator) / q.denominator >= mpmath.exp(-mpmath.mpf(noise.epsilon))
    end = 1 << len(noise.chances) - 1
    carries = {0, 1, 2, 3, *(1 << j for j in range(len(noise.chances))), *range(end - 3, end + 3)}
    for z in sorted(carries | {z + 1 for z in carries}):
        assert q <= law(noise, z + 1) / law(noise, z) <= 1, z
    assert law(noise, end + 1) == law(noise, 1 << FLAT_BITS) > 0
    flat = law(noise, end + 1)
    most = 1 << FLAT_BITS - 2  # numbers of up to 2^38 are cut within the flat part
    beyond = flat * ((1 << FLAT_BITS) - int(LIMIT) - most)
    assert beyond >= flat / (1 / q - 1)
    assert end <= most


@for_each("noise", NOISE, ids=repr)
def test_the_law_is_the_geometric_one(noise: Laplace) -> None:
    q = Fraction(noise.ratio)
    for z in (0, 1, 2, 5, 17):
        wanted = (1 - q) / (1 + q) * q**z
        assert abs(law(noise, z) - wanted) <= Fraction(1, 1 << 60) * wanted + FLAT


class Written(RandomSource):
    """A source of equal words, which counts them."""

    def __init__(self, word: int) -> None:
        super().__init__(bytes(32), simulated=True)
        self.word, self.calls = word, list[int]()

    def words(self, count: int) -> Words:
        self.calls.append(count)
        return np.full(count, self.word, dtype=np.uint64)


@for_each("noise", NOISE, ids=repr)
def test_words_are_consumed_by_epsilon_and_number_alone(noise: Laplace) -> None:
    """An earlier sampler went on as long as coins came up: at epsilon = 1 its time told Z = 0 in 41% of draws."""
    used, drawn = [], set()
    for word in (0, 1, 1 << 62, 1 << 63, (1 << 64) - 1):
        source = Written(word)
        drawn.add(noise.noise(3, source)[0])
        used.append(source.calls)
    assert used == used[:1] * len(used)
    assert len(drawn) > 1


def test_coins_make_the_number_that_they_stand_for() -> None:
    noise = Laplace(epsilon=1.0)
    assert Written(0).words(1)[0] == 0
    assert noise.noise(1, Written(0))[0] == 1.0  # every coin says yes, and the number is the flat part's first
    likely = [digit for digit, chance in enumerate(noise.chances[1:]) if chance >> 64 > 1]
    assert noise.noise(1, Written(1))[0] == -1.0 - sum(2.0**digit for digit in likely)
    assert noise.noise(1, Written((1 << 64) - 1))[0] == 0.0


class Given:
    """Stands for a source: the words that it gives are known."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self._words = iter(words)

    def words(self, count: int) -> Words:
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


@for_each("count", [1, 2, 3])
def test_a_coin_comes_up_for_just_as_many_numbers_as_its_chance_says(count: int) -> None:
    """Number below chance, exactly: each word decides only where those before it are equal, and no last one ties."""
    words = (5, 7, 3)[:count]

    def number(digits: tuple[int, ...]) -> int:
        return sum(digit << 64 * place for place, digit in enumerate(reversed(digits)))

    for drawn in product(*((word - 1, word, word + 1) for word in words)):
        source: Any = Given(drawn)
        assert bool(_coins(number(words), count, 1, source)[0]) == (number(drawn) < number(words))
