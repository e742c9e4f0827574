"""Guarantees of the local randomizers, against 60-digit arithmetic and exhaustive checks."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.privacy.theorems import randomized_response as local
from tests.tiers import for_each


def exact_gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@settings(max_examples=60)
@given(epsilon=st.floats(1e-3, 60.0), log_delta=st.floats(-30.0, -1.0), sensitivity=st.floats(1e-3, 1e3))
def test_the_calibrated_sigma_is_private_and_nothing_much_smaller_is(
    epsilon: float, log_delta: float, sensitivity: float
) -> None:
    delta = math.exp(log_delta)
    sigma = local.analytic_gaussian_sigma(epsilon, delta, sensitivity)
    assert exact_gaussian_delta(epsilon, sensitivity / sigma) <= delta * (1 + 1e-14)
    assert exact_gaussian_delta(epsilon, sensitivity / (sigma * (1 - 1e-6))) > delta


def test_warner_known_answers() -> None:
    assert local.randomized_response_probability(1.0) == pytest.approx(0.731058578630005, rel=1e-14)
    assert local.randomized_response_epsilon(0.5) == 0.0
    assert local.randomized_response_epsilon(1.0) == math.inf


@given(epsilon=st.floats(1e-9, 700.0))
def test_warner_never_claims_more_than_the_odds_show(epsilon: float) -> None:
    probability = local.randomized_response_probability(epsilon)
    with mpmath.workdps(50):
        odds = mpmath.log(mpmath.mpf(probability) / (1 - mpmath.mpf(probability)))
    assert odds <= local.randomized_response_epsilon(probability) <= epsilon
    assert odds >= min(epsilon * (1 - 1e-7) - 1e-15, 12.0)


def exact_odds(probability: Fraction, symbols: int) -> mpmath.mpf:
    """Return p (k - 1)/(1 - p), to the digits that are set."""
    odds = probability * (symbols - 1) / (1 - probability)
    return mpmath.mpf(odds.numerator) / odds.denominator


@given(epsilon=st.floats(1e-6, 700.0), symbols=st.integers(2, 1 << 16))
def test_k_ary_response_is_private_and_no_more_truth_is(epsilon: float, symbols: int) -> None:
    probability = Fraction(local.k_ary_response_probability(epsilon, symbols))
    assert (probability * 2**53).denominator == 1
    assert Fraction(1, symbols) < probability < 1
    more = probability + Fraction(1, 2**50)
    with mpmath.workdps(60):
        assert exact_odds(probability, symbols) <= mpmath.exp(epsilon)
        assert more >= 1 or exact_odds(more, symbols) > mpmath.exp(epsilon)


def test_k_ary_response_known_answers() -> None:
    assert local.k_ary_response_probability(math.log(3), 4) == pytest.approx(0.5, rel=1e-14)
    assert local.k_ary_response_probability(1.0, 2) == pytest.approx(
        local.randomized_response_probability(1.0), rel=1e-14
    )
    assert local.k_ary_response_probability(700.0, 1 << 16) == 1 - 2.0**-53


def test_laplace_and_its_inverse() -> None:
    scale = local.laplace_scale(0.5, 2.0)
    assert scale == pytest.approx(4.0)
    assert scale > 4.0
    assert 0.5 < local.laplace_epsilon(4.0, 2.0) < 0.5 + 1e-14


@for_each(
    "call",
    [
        lambda: local.randomized_response_epsilon(0.49),
        lambda: local.randomized_response_epsilon(math.nan),
        lambda: local.randomized_response_probability(0.0),
        lambda: local.randomized_response_probability(math.inf),
        lambda: local.k_ary_response_probability(0.0, 3),
        lambda: local.k_ary_response_probability(math.nan, 3),
        lambda: local.k_ary_response_probability(701.0, 3),
        lambda: local.k_ary_response_probability(1.0, 1),
        lambda: local.laplace_scale(1.0, 0.0),
        lambda: local.laplace_epsilon(math.inf, 1.0),
        lambda: local.analytic_gaussian_sigma(1.0, 0.1, -1.0),
    ],
)
def test_numbers_out_of_range_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(BadInput):
        call()
