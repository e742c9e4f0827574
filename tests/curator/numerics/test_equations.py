"""Equations over F_2 against brute force: rank, solutions, and a point that is uniform among them."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from curator.numerics.equations import Equations
from tests.tiers import for_each


class EveryWord:
    """A source that gives one word again and again: all of them in turn are the law of a source of fair coins."""

    def __init__(self, word):
        self._word = word

    def words(self, count):
        return np.full(count, self._word, dtype=np.uint64)


def system(coefficients, values):
    coefficients = np.asarray(coefficients, dtype=np.uint8)
    equations = Equations(coefficients.shape[1])
    equations.add(coefficients, np.asarray(values, dtype=np.uint8))
    return equations


def plain_rank(rows):
    """Rank over F_2 with Python's integers."""
    basis: list[Any] = []
    for row in rows:
        number = int("".join(map(str, row)), 2) if len(row) else 0
        for known in basis:
            number = min(number, number ^ known)
        if number:
            basis.append(number)
    return len(basis)


@settings(max_examples=150)
@given(st.data())
def test_points_are_uniform_on_exactly_the_solutions(data):
    unknowns = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * (unknowns + 1)), max_size=6))
    table = np.array(rows, dtype=np.uint8).reshape(-1, unknowns + 1)
    equations = system(table[:, :-1], table[:, -1])
    solutions = {a for a in product((0, 1), repeat=unknowns) if all((table[:, :-1] @ np.array(a)) % 2 == table[:, -1])}
    assert equations.consistent == bool(solutions)
    assert equations.rank == plain_rank(table[:, :-1].tolist())
    if solutions:
        drawn = Counter(tuple(equations.point(EveryWord(word)).tolist()) for word in range(1 << unknowns))
        assert set(drawn) == solutions
        assert len(set(drawn.values())) == 1
    else:
        with pytest.raises(BadInput, match="inconsistent"):
            equations.point(RandomSource.seeded(1))


@for_each("unknowns", [1, 2, 63, 64, 65, 127, 128, 200, 1024])
def test_every_width_finds_a_planted_secret(unknowns):
    generator = np.random.default_rng(unknowns)
    secret = generator.integers(0, 2, unknowns).astype(np.uint8)
    coefficients = generator.integers(0, 2, (unknowns + 40, unknowns)).astype(np.uint8)
    values = (coefficients @ secret % 2).astype(np.uint8)
    equations = system(coefficients, values)
    assert equations.rank == unknowns
    assert equations.consistent
    np.testing.assert_array_equal(equations.point(RandomSource.seeded(1)), secret)
    equations.add(coefficients[:1], 1 - values[:1])
    assert not equations.consistent
    assert equations.rank == unknowns


@for_each("count", [0, 3, 64, 65, 130])
def test_rank_is_that_of_plain_elimination(count):
    generator = np.random.default_rng(count)
    coefficients = (generator.random((count, 70)) < 0.03).astype(np.uint8)
    equations = system(coefficients.reshape(-1, 70), np.zeros(count))
    assert equations.rank == plain_rank(coefficients.tolist())


def test_a_point_solves_a_system_with_many_solutions():
    generator = np.random.default_rng(1)
    coefficients = generator.integers(0, 2, (50, 130)).astype(np.uint8)
    values = generator.integers(0, 2, 50).astype(np.uint8)
    equations = system(coefficients, values)
    points = [equations.point(RandomSource.seeded(seed)) for seed in range(20)]
    assert all((coefficients @ point % 2 == values).all() for point in points)
    assert len({point.tobytes() for point in points}) == 20


def test_neither_order_nor_pieces_change_the_point():
    generator = np.random.default_rng(2)
    coefficients = generator.integers(0, 2, (3000, 90)).astype(np.uint8)
    coefficients[:, 7] = 0
    values = (coefficients @ generator.integers(0, 2, 90) % 2).astype(np.uint8)
    whole = system(coefficients, values)
    pieces = Equations(90)
    for rows in np.array_split(generator.permutation(3000), 11):
        pieces.add(coefficients[rows], values[rows])
    assert whole.rank == pieces.rank == 89
    for seed in range(5):
        first, second = (system.point(RandomSource.seeded(seed)) for system in (whole, pieces))
        np.testing.assert_array_equal(first, second)


def test_what_does_not_fit_is_refused_and_changes_nothing():
    equations = system([[1, 0]], [1])
    with pytest.raises(BadInput, match="2 unknowns"):
        equations.add(np.ones((1, 3), dtype=np.uint8), np.ones(1, dtype=np.uint8))
    with pytest.raises(BadInput, match="2 equations"):
        equations.add(np.ones((1, 2), dtype=np.uint8), np.ones(2, dtype=np.uint8))
    assert equations.rank == 1
    with pytest.raises(BadInput, match="at least one unknown"):
        Equations(0)
    assert repr(equations) == "Equations(unknowns=2)"
