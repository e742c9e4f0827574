"""Searches end on a value that was checked, near one that fails."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.arrays import Floats
from common.numerics import elementary, loops
from common.numerics.bisection import between, crossing, largest, least, lesser
from common.numerics.kernels import njit
from tests.tiers import for_each

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
    ask, held = recorded(lambda value: True)
    assert 4.0 <= largest(ask, 1.0, 1e-6, limit=8.0) == max(held) < 8.0


@given(bound=st.integers(0, 10**15), first=st.integers(0, 1000))
def test_the_least_integer(bound, first):
    assert least(lambda value: value >= bound, first) == max(bound, first)


def test_no_integer_up_to_the_most():
    assert least(lambda value: value >= 100, 1, most=128) == 100
    with pytest.raises(LookupError, match="nothing up to 64"):
        least(lambda value: value >= 100, 1, most=64)


@given(bound=st.integers(1, 10**12), more=st.floats(1.0, 50.0), first=st.integers(1, 10**6), share=st.floats(1e-4, 0.1))
def test_a_lesser_number_holds_and_one_less_by_a_share_does_not(bound, more, first, share):
    good, asked = math.ceil(more * max(bound, first)), []

    def holds(value: int) -> bool:
        asked.append(value)
        return value >= bound

    found = lesser(holds, good, first, share)
    assert max(bound, first) <= found <= max(bound, first) * (1.0 + 2.0 * share) + 2
    assert found in (good, *asked)
    assert min(asked, default=first) >= first
    asked.clear()
    assert lesser(lambda value: holds(value) and value == good, good, 1, share) == good
    assert len(asked) <= 2  # where a share less does not hold few others are asked


SHAPES: list[tuple[str, Callable[[float], float], float]] = [
    ("straight", lambda x: x - 3.0, 3.0),
    ("steep", lambda x: math.expm1(20.0 * (x - 3.0)), 3.0),
    ("flat", lambda x: (x - 3.0) ** 3, 3.0),
    ("a step", lambda x: -1.0 if x <= math.pi else 1e6, math.pi),
]


@for_each(("name", "excess", "root"), SHAPES, ids=[shape[0] for shape in SHAPES])
def test_it_ends_just_below_the_root(name: str, excess: Callable[[float], float], root: float) -> None:
    asked: list[float] = []

    def counted(x: float) -> float:
        asked.append(x)
        return excess(x)

    found = crossing(2.0, 4.0, counted, 1e-8)
    assert found in asked
    assert root * (1.0 - 2e-8) <= found <= root
    assert len(asked) < {"straight": 12, "steep": 60}.get(name, 100)
    assert 3.0 <= crossing(5.0, 1.0, lambda x: 3.0 - x, 1e-9) <= 3.0 * (1.0 + 1e-8)  # downwards as well


RANDOM = np.random.default_rng(0)


@njit
def exps(x: Floats, out: Floats) -> None:
    for i in range(len(x)):
        out[i] = loops.exp(x[i])


@njit
def logs(x: Floats, out: Floats) -> None:
    for i in range(len(x)):
        out[i] = loops.log(x[i])


def looped(work: Any, x: Floats) -> Floats:
    out = np.empty_like(x)
    work(x, out)
    return out


@for_each("x", [RANDOM.uniform(-708, 709, 20_000), RANDOM.uniform(-2, 2, 20_000), np.zeros(1)])
def test_exponentials(x):
    found = elementary.exp(x)
    assert (np.abs(found - np.exp(x)) <= np.spacing(np.exp(x))).all()
    np.testing.assert_array_equal(found, looped(exps, x))


def test_exponentials_end_in_zero_and_infinity():
    x = np.array([-1e9, -745.2, -745.0, 710.0, 1e9])
    expected = [0.0, 0.0, 5e-324, np.inf, np.inf]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(elementary.exp(x), expected)
    np.testing.assert_array_equal(looped(exps, x), expected)


@for_each("x", [np.exp(RANDOM.uniform(-708, 709, 20_000)), RANDOM.uniform(0.5, 2, 20_000), np.array([2.0**-1022, 1.0])])
def test_logarithms(x):
    found = elementary.log(x)
    assert (np.abs(found - np.log(x)) <= np.spacing(np.abs(np.log(x)))).all()
    np.testing.assert_array_equal(found, looped(logs, x))


def test_turns_and_cosines_of_any_angle():
    x = np.concatenate([RANDOM.uniform(-1, 1, 20_000), np.arange(-8, 9) / 8])
    for found, function in zip(elementary.turned(x), (np.cos, np.sin), strict=True):
        np.testing.assert_allclose(found, function(2 * np.pi * x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(elementary.cosine(1000 * x), np.cos(1000 * x), rtol=0, atol=1e-12)
