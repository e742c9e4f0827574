"""Gaussian differential privacy, against 60-digit arithmetic and its known answers."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.privacy.theorems.gaussian_dp import delta_of, epsilon_of, mu_allowed
from tests.tiers import for_each


def exact_gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@for_each("epsilon", [0.0, 1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 50.0, 300.0, 700.0])
@for_each("mu", [1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0])
def test_delta_is_the_exact_one_rounded_up(epsilon: float, mu: float) -> None:
    exact, found = exact_gaussian_delta(epsilon, mu), delta_of(mu, epsilon)
    assert found >= exact
    assert found <= exact * (1 + 1e-5) + 1e-300


def test_the_known_answer_of_the_calibration() -> None:
    assert mu_allowed(1.0, 1e-6) == pytest.approx(0.23670438066343571, rel=2e-12)
    assert mu_allowed(1.0, 1e-6) <= 0.23670438066343572


@for_each(("epsilon", "delta"), [(8.51, 1e-3), (8.99, 1e-4), (9.73, 1e-6), (10.54, 1e-9)])
def test_the_textbook_variance_fails_where_it_is_known_to_fail(epsilon: float, delta: float) -> None:
    def textbook(e: float) -> float:
        return delta_of(e / math.sqrt(2.0 * math.log(2.0 / delta)), e)

    assert textbook(epsilon - 0.02) <= delta < textbook(epsilon + 0.02)


@settings(max_examples=60)
@given(mu=st.floats(1e-3, 12.0), log_delta=st.floats(-30.0, -0.7))
def test_epsilon_is_the_least_on_the_private_side_and_inverts_mu(mu: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if 1e-6 < epsilon < 700.0:
        assert epsilon_of(mu_allowed(epsilon, delta), delta) <= epsilon
        assert delta_of(mu, epsilon * (1 - 1e-6)) > delta
        assert mu_allowed(epsilon, delta) == pytest.approx(mu, rel=1e-6)


def test_what_no_epsilon_can_describe_is_infinite() -> None:
    assert epsilon_of(1e3, 1e-9) == math.inf
    assert epsilon_of(37.0, 1e-6) == math.inf  # it is about 860, and the largest epsilon 700
    assert 600.0 < epsilon_of(32.0, 1e-6) < 700.0


def test_a_delta_that_suffices_without_any_epsilon_costs_none() -> None:
    for mu in (1e-3, 0.3, 2.0):
        assert epsilon_of(mu, delta_of(mu, 0.0)) == 0.0


@for_each(
    "call",
    [
        lambda: delta_of(1.0, -1.0),
        lambda: delta_of(math.nan, 1.0),
        lambda: mu_allowed(1.0, 0.0),
        lambda: mu_allowed(1.0, 1.0),
        lambda: mu_allowed(0.0, 0.1),
        lambda: epsilon_of(1.0, 0.0),
        lambda: epsilon_of(0.0, 0.1),
    ],
)
def test_numbers_out_of_range_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(BadInput):
        call()
