"""Composition theorems against brute force: every outcome of small discrete mechanisms is enumerated."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import common as pld_common
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.privacy.theorems.composition import composed_delta, composed_epsilon, subsampled
from tests.tiers import for_each


def leaky_response(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Laws on 4 outcomes of the (epsilon, delta)-DP release that dominates all others."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = np.array([delta, (1 - delta) * p, (1 - delta) * (1 - p), 0.0])
    return one, one[::-1].copy()


def power(law: np.ndarray, times: int) -> np.ndarray:
    joint = np.ones(1)
    for _ in range(times):
        joint = np.outer(joint, law).ravel()
    return joint


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def exact_composed_delta(k: int, epsilon: float, delta: float, target: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, d, t = mpmath.mpf(epsilon), mpmath.mpf(delta), mpmath.mpf(target)
        pure = sum(
            mpmath.binomial(k, j) * max(mpmath.mpf(0), mpmath.exp((k - j) * e) - mpmath.exp(t + j * e))
            for j in range(k + 1)
        )
        return 1 - (1 - d) ** k * (1 - pure / (1 + mpmath.exp(e)) ** k)


@for_each("epsilon", [0.1, 1.0, 3.0])
@for_each("delta", [0.0, 1e-3, 0.1])
@for_each("tv_bound", [1e-3, 0.2, 1.0])
@for_each("draws", [1, 2, 4])
def test_the_lemma_holds_for_every_outcome_of_draws_answered_one_by_one(
    epsilon: float, delta: float, tv_bound: float, draws: int
) -> None:
    first, second = leaky_response(epsilon, delta)
    mixed = (1 - tv_bound) * second + tv_bound * first
    p, q = power(mixed, draws), power(second, draws)
    star, star_delta = subsampled(draws, tv_bound, epsilon, delta)
    assert hockey_stick(p, q, star) <= star_delta + 1e-15
    assert hockey_stick(q, p, star) <= star_delta + 1e-15


@for_each("draws", [1, 3, 10])
def test_the_lemma_is_tight_for_a_count_with_geometric_odds(draws: int) -> None:
    epsilon, tv_bound = 0.7, 0.05
    odds = math.prod([(1 - tv_bound) + tv_bound * math.exp(epsilon)] * draws)
    star, star_delta = subsampled(draws, tv_bound, epsilon, 0.0)
    assert star == pytest.approx(math.log(odds), rel=1e-12)
    assert star >= math.log(odds)
    assert star_delta == 0.0


def test_the_printed_claim_is_false_and_the_lemma_is_not() -> None:
    tv_bound, epsilon, delta = 1e-3, 0.1, 0.1
    first, second = leaky_response(epsilon, delta)
    mixed = (1 - tv_bound) * second + tv_bound * first
    printed_epsilon = 6 * epsilon * tv_bound
    printed_delta = 4 * printed_epsilon * delta * tv_bound
    assert printed_delta == pytest.approx(2.4e-7)
    assert hockey_stick(mixed, second, printed_epsilon) > 400 * printed_delta
    star, star_delta = subsampled(1, tv_bound, epsilon, delta)
    assert star_delta == pytest.approx(1e-4, rel=1e-12)
    assert hockey_stick(mixed, second, star) == pytest.approx(star_delta, rel=1e-9)


def test_one_draw_of_the_whole_sample_is_the_learner_itself() -> None:
    star, star_delta = subsampled(1, 1.0, 0.5, 1e-6)
    assert star == pytest.approx(0.5, rel=1e-12)
    assert star_delta == pytest.approx(1e-6, rel=1e-12)


def test_a_learner_without_privacy_has_none_after_subsampling() -> None:
    assert subsampled(2, 0.1, 1e4, 0.0) == (math.inf, 0.0)
    assert subsampled(2, 0.1, 1e4, 1e-6) == (math.inf, 1.0)
    assert subsampled(10_000, 0.5, 5.0, 1e-6)[1] == 1.0


@for_each("releases", [1, 2, 3, 5])
@for_each("epsilon", [0.1, 1.0])
@for_each("delta", [0.0, 1e-3, 0.2])
def test_composition_equals_the_enumeration_of_all_outcomes(releases: int, epsilon: float, delta: float) -> None:
    first, second = leaky_response(epsilon, delta)
    p, q = power(first, releases), power(second, releases)
    for target in (0.0, 0.3 * releases * epsilon, 0.9 * releases * epsilon):
        brute = hockey_stick(p, q, target)
        assert composed_delta(releases, epsilon, delta, target) == pytest.approx(brute, rel=1e-9, abs=1e-13)


@settings(max_examples=40)
@given(
    releases=st.integers(1, 150),
    epsilon=st.floats(1e-6, 5.0),
    delta=st.sampled_from([0.0, 1e-12, 1e-6, 0.1]),
    share=st.floats(0.0, 1.0),
)
def test_composition_is_the_formula_rounded_up(releases: int, epsilon: float, delta: float, share: float) -> None:
    target = share * releases * epsilon
    exact = min(exact_composed_delta(releases, epsilon, delta, target), mpmath.mpf(1))
    assert exact <= composed_delta(releases, epsilon, delta, target) <= exact * (1 + 1e-8) + 1e-12


@pytest.mark.parametrize(("k", "epsilon"), [(1000, "1e-2"), pytest.param(100_000, "1e-3", marks=pytest.mark.slow)])
def test_very_many_releases_agree_with_high_precision(k: int, epsilon: str) -> None:
    with mpmath.workdps(30):
        e, t = mpmath.mpf(epsilon), mpmath.mpf("1.2")
        term, total = mpmath.exp(k * e), mpmath.mpf(0)
        for j in range(k // 2):
            gap = (k - 2 * j) * e - t
            if gap <= 0:
                break
            total += term * -mpmath.expm1(-gap)
            term *= mpmath.mpf(k - j) / (j + 1) * mpmath.exp(-e)
        exact = total / (1 + mpmath.exp(e)) ** k
    assert exact <= composed_delta(k, float(epsilon), 0.0, 1.2) <= exact * (1 + 1e-6)


def test_composition_agrees_with_privacy_loss_distributions() -> None:
    parameters = pld_common.DifferentialPrivacyParameters(0.05, 1e-8)
    many = privacy_loss_distribution.from_privacy_parameters(parameters).self_compose(200)
    assert composed_epsilon(200, 0.05, 1e-8, 1e-5) == pytest.approx(many.get_epsilon_for_delta(1e-5), rel=2e-3)


@settings(max_examples=40)
@given(releases=st.integers(1, 10_000), epsilon=st.floats(1e-6, 2.0), log_delta=st.floats(-25.0, -1.0))
def test_the_inverse_ends_on_the_private_side(releases: int, epsilon: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    found = composed_epsilon(releases, epsilon, 0.0, delta)
    assert found <= releases * epsilon * (1 + 1e-12)
    assert composed_delta(releases, epsilon, 0.0, found) <= delta
    assert found == 0.0 or composed_delta(releases, epsilon, 0.0, found * (1 - 1e-6)) > delta


def test_where_no_epsilon_suffices_it_is_infinite() -> None:
    assert composed_epsilon(10, 0.1, 1e-6, 1e-6) == math.inf
    assert composed_epsilon(10, math.inf, 0.0, 1e-6) == math.inf
    assert composed_epsilon(10, 0.1, 0.0, 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("releases", [0, 10**9])
def test_too_many_releases_are_refused(releases: int) -> None:
    with pytest.raises(BadInput):
        composed_delta(releases, 0.1, 0.0, 1.0)


def test_a_mechanism_on_the_sample_itself_costs_exactly_what_it_declares() -> None:
    for epsilon in (0.1, 0.5, 1.0, 3.0, 800.0):
        assert subsampled(1, 1.0, epsilon, 0.0) == (epsilon, 0.0)
        assert composed_epsilon(1, epsilon, 0.0, 0.0) == epsilon
