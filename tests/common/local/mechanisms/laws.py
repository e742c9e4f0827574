"""The exact laws of answers: of values by definition; of items by the sampler, run for every outcome of its coins."""

from collections import defaultdict
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from common.core.arrays import Bits, Indices, Words
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import GRID, BitMechanism, Laplace, Mechanism
from common.numerics.randomness import RandomSource

PEOPLE = 100_000
SIGMAS = 5.5
"""Means and variances are compared at 5.5 standard errors: 4e-8 each, below 1e-5 over the suites."""


def draw(mechanism: Mechanism, values: Any, seed: int = 7) -> Any:
    return mechanism.randomize(values, RandomSource.seeded(seed, str(mechanism)))


def likelihoods(mechanism: Mechanism, value: float) -> dict[float, float]:
    """The exact law of one answer, from the parameters and the definition in the docstring."""
    if isinstance(mechanism, BitMechanism):
        # What the sampler compares a uniform 53-bit integer with, in integers.
        low = GRID - int(mechanism.truth * GRID)
        ones = low + round(value * (GRID - 2 * low))
        return {1: ones / GRID, 0: (GRID - ones) / GRID}
    assert isinstance(mechanism, Laplace)
    q = mechanism.ratio
    noise = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-41, 42)}
    return {z: value * noise[z - 1] + (1 - value) * noise[z] for z in range(-40, 42)}


def words(*values: int) -> Words:
    return np.array(values, dtype=np.uint64)


def publics(count: int, public: int = 11) -> Words:
    return public_words(public, np.arange(count))


class Undecided(Exception):
    def __init__(self, outcomes: list[tuple[int, Fraction]]) -> None:
        super().__init__()
        self.outcomes = outcomes


class Chosen(RandomSource):
    """Coins that fall as they are told to, one agent's at a time."""

    def __init__(self, outcomes: tuple[int, ...]) -> None:
        super().__init__(bytes(32), simulated=True)
        self._outcomes = list(outcomes)

    def _next(self, law: list[tuple[int, Fraction]], count: int) -> int:
        assert count == 1
        if not self._outcomes:
            raise Undecided(law)
        return self._outcomes.pop(0)

    def words(self, count: int) -> Words:
        raise AssertionError("an oracle's coins come from bernoullis and integers")

    def bernoullis(self, probability: float, count: int) -> Bits:
        one = Fraction(probability)
        assert (one * 2**53).denominator == 1, "the sampler would round this probability"
        return np.array([self._next([(0, 1 - one), (1, one)], count)], dtype=np.uint8)

    def integers(self, bound: int, count: int) -> Indices:
        each = Fraction(1, bound)
        return np.array([self._next([(i, each) for i in range(bound)], count)], dtype=np.int64)


def law(oracle: FrequencyOracle, item: int, domain: int, public: int) -> dict[int, Fraction]:
    """Return the exact law of one agent's answer, given its public word."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    open_paths: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while open_paths:
        path, chance = open_paths.pop()
        try:
            answer = oracle.randomize(words(item), domain, words(public), Chosen(path))
        except Undecided as coin:
            open_paths += [((*path, outcome), chance * share) for outcome, share in coin.outcomes]
        else:
            found[int(answer[0])] += chance
    assert sum(found.values()) == 1
    return found


def odds(epsilon: float) -> Any:
    return mpmath.exp(mpmath.mpf(epsilon))


def as_real(fraction: Fraction) -> Any:
    return mpmath.mpf(fraction.numerator) / fraction.denominator
