"""The exponential mechanism in whole numbers: its weights, its law, and what of a draw can be seen from outside."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from common.core.arrays import Words
from common.numerics.randomness import RandomSource
from curator.mechanisms.exponential import _weights, choose_level
from curator.mechanisms.whole_numbers import place_of
from tests.tiers import for_each


@for_each("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0, 700.0])
def test_weights_are_the_exponentials_to_thirty_digits(epsilon: float) -> None:
    weights = _weights(epsilon, 2000)
    with mpmath.workdps(80):
        for j in {0, 1, len(weights) // 2, len(weights) - 1}:
            exact = mpmath.exp(-mpmath.mpf(j) * mpmath.mpf(epsilon) / 2) * mpmath.mpf(2) ** 192
            wanted = max(exact, mpmath.mpf(2) ** 128)
            assert 0 <= weights[j] / wanted - 1 + mpmath.mpf(2) ** -100 < 1e-15 * epsilon * (j + 1)
    assert len(weights) == 2001 or weights[-1] == 1 << 128


@for_each("epsilon", [0.01, 1.0, 8.0])
def test_each_step_of_the_weights_costs_less_than_half_of_epsilon(epsilon: float) -> None:
    """With the slack for both roundings of a probability: pure epsilon-DP, not almost."""
    weights = _weights(epsilon, 5000)
    with mpmath.workdps(80):
        least = mpmath.exp(-mpmath.mpf(epsilon) / 2) * (1 + mpmath.mpf(2) ** -90)
        for heavier, lighter in pairwise(weights):
            assert least < mpmath.mpf(lighter) / heavier < 1


class Counting(RandomSource):
    """A source that counts its words."""

    used = 0

    def words(self, count: int) -> Words:
        self.used += count
        return super().words(count)


def test_words_are_consumed_alike_whatever_the_counts_are() -> None:
    used = set()
    for seed in range(20):
        people = np.zeros(301, dtype=np.int64)
        people[seed :: 1 + 7 * seed] = 1 + 10**seed % 1013
        source = Counting(bytes([seed] * 32), simulated=True)
        choose_level(people, 1.0, source)
        used.add(source.used)
    assert used == {9}


def test_levels_far_behind_the_best_share_one_weight() -> None:
    """min(c, c_min + J) changes by at most one with each count, so the tail may be flat; here it is all the mass."""
    people = np.zeros(5001, dtype=np.int64)
    people[10], people[3000:3004] = 1, 1 << 60
    people[4000] = 1 << 61
    found = np.bincount([choose_level(people, 0.5, RandomSource.seeded(s)) for s in range(3000)], minlength=5001)
    weights = _weights(0.5, 5000)
    assert len(weights) < 200
    tail = Fraction(6 * (1 << 60) * weights[-1], 6 * (1 << 60) * weights[-1] + weights[0])
    assert found[10] == pytest.approx(3000 * float(1 - tail), abs=6 * 28)
    assert found[4000] == pytest.approx(2 * found[3000:3004].mean(), rel=0.2)


def test_a_place_is_found_by_its_weight() -> None:
    weights = [2, 0, 3, 1]
    assert [place_of(point, weights) for point in range(6)] == [0, 0, 2, 2, 2, 3]
