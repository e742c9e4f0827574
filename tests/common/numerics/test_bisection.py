"""Searches end on a value that was checked, near one that fails."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.numerics.bisection import between, largest, least

BOUNDS = st.floats(1e-300, 1e300)


def recorded(holds: Callable[[float], bool]) -> tuple[Callable[[float], bool], set[float]]:
    held: set[float] = set()

    def ask(value: float) -> bool:
        if holds(value):
            held.add(value)
        return value in held

    return ask, held


@given(bound=BOUNDS, first=st.floats(1e-3, 1e3))
def test_the_largest_value_was_checked_and_lies_within_the_width(bound, first):
    ask, held = recorded(lambda value: value <= bound)
    found = largest(ask, first, 1e-9)
    assert found in held
    assert bound * (1.0 - 1.001e-9) <= found <= bound


@given(bound=BOUNDS)
def test_the_good_side_may_be_above(bound):
    good = 4.0 * bound
    ask, held = recorded(lambda value: value >= bound)
    found = between(good, 0.0, ask, 1e-12)
    assert found in held | {good}
    assert bound <= found <= bound * (1.0 + 1.001e-12)


def test_a_width_of_nothing_ends_at_neighbouring_doubles():
    assert between(1.0, 2.0, lambda value: value * value <= 2.0, 0.0) == math.nextafter(math.sqrt(2.0), 0.0)
    assert between(0.0, 1.0, lambda value: False, 0.0) == 0.0


def test_what_is_noisy_near_the_bound_still_ends_on_a_value_that_was_checked():
    ask, held = recorded(lambda value: value < 1.0 or (value < 1.001 and int(value * 1e9) % 3 == 0))
    assert largest(ask, 0.3, 1e-12) in held


def test_values_beyond_the_limit_are_not_tried():
    tried: list[float] = []

    def always(value: float) -> bool:
        tried.append(value)
        return True

    assert 4.0 <= largest(always, 1.0, 1e-6, limit=8.0) < 8.0
    assert max(tried) < 8.0


@given(bound=st.integers(0, 10**15), first=st.integers(0, 1000))
def test_the_least_integer(bound, first):
    assert least(lambda value: value >= bound, first) == max(bound, first)


def test_no_integer_up_to_the_most():
    assert least(lambda value: value >= 100, 1, most=128) == 100
    with pytest.raises(LookupError, match="nothing up to 64"):
        least(lambda value: value >= 100, 1, most=64)
