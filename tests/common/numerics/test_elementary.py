"""Elementary functions: right to the last place, and the same for arrays and within compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.core.arrays import Floats
from common.numerics import elementary, loops
from common.numerics.kernels import njit
from tests.tiers import for_each

RANDOM = np.random.default_rng(0)


@njit
def exps(x: Floats, out: Floats) -> None:
    for i in range(len(x)):
        out[i] = loops.exp(x[i])


@njit
def logs(x: Floats, out: Floats) -> None:
    for i in range(len(x)):
        out[i] = loops.log(x[i])


@njit
def turns(x: Floats, cosines: Floats, sines: Floats) -> None:
    for i in range(len(x)):
        cosines[i], sines[i] = loops.turned(x[i])


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


def test_turns():
    x = np.concatenate([RANDOM.uniform(-1, 1, 20_000), np.arange(-8, 9) / 8])
    cosines, sines = np.empty_like(x), np.empty_like(x)
    turns(x, cosines, sines)
    for found, loop, function in zip(elementary.turned(x), (cosines, sines), (np.cos, np.sin), strict=True):
        np.testing.assert_array_equal(found, loop)
        np.testing.assert_allclose(found, function(2 * np.pi * x), rtol=0, atol=1e-15)


def test_cosines_of_any_angle():
    x = RANDOM.uniform(-1000, 1000, 20_000)
    np.testing.assert_allclose(elementary.cosine(x), np.cos(x), rtol=0, atol=1e-12)
