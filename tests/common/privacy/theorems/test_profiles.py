"""Bounds of steps and releases, and their composition, against 60-digit arithmetic and the truth in the ball."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.arrays import Floats
from common.privacy.theorems.composition import composed_delta, composed_epsilon, subsampled
from common.privacy.theorems.gaussian_dp import delta_of, epsilon_of, mu_allowed
from common.privacy.theorems.loss_grids import ComposedLosses, LossGrid, compose, connect_dots
from common.privacy.theorems.profiles import Profile, gaussian_excess, gaussian_profile, release_profile, step_profile
from common.privacy.theorems.renyi import ORDERS, closed_form, epsilon_at, profile, pure_rdp, rho_allowed, step_rdp
from tests.tiers import for_each


def exact_closed_form(order: int, tv_bound: float, ratio: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        s, u = mpmath.mpf(tv_bound), mpmath.mpf(ratio)
        total = 1 + mpmath.binomial(order, 2) * s**2 * mpmath.expm1(u * u)
        for j in range(3, order + 1):
            total += mpmath.binomial(order, j) * s**j * 2 * mpmath.exp(j * (j - 1) * u * u / 2)
        return mpmath.log(total) / (order - 1)


def exact_profile(order: int, tv_bound: float, ratio: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        s, u = mpmath.mpf(tv_bound), mpmath.mpf(ratio)

        def integrand(z: mpmath.mpf) -> mpmath.mpf:
            r = 1 + s * mpmath.expm1(u * z - u * u / 2)
            return (r**order + r ** (1 - order) - 1 - r) * mpmath.npdf(z)

        bulk = [order * u + k for k in (-4, 0, 4) if order * u + k > u / 2 + 1]
        cuts = sorted({u / 2 + k for k in (0, 1, 2, 4, 8, 16, 32)} | set(bulk) | {u / 2 + order * u + 40})
        return mpmath.log1p(mpmath.quad(integrand, [*cuts, mpmath.inf])) / (order - 1)


def true_divergence(order: int, tv_bound: float, means: np.ndarray) -> float:
    """D_order of (1-s)A + sB against (1-s)A + sC for unit Gaussians in the plane, on a grid."""
    p, q = laws(tv_bound, means)
    ratio = np.divide(p, q, out=np.zeros_like(p), where=q > 0)
    excess = np.where(q > 0, ratio**order - 1 - order * (ratio - 1), 0.0)
    return math.log1p(float((q * excess).sum() * CELL)) / (order - 1)


@for_each("order", [2, 3, 8, 32, 200])
@for_each("tv_bound", [1e-9, 1e-6, 1e-3, 0.05, 1.0])
@for_each("ratio", [0.01, 0.447, 1.0, 4.0])
def test_the_closed_form_is_its_formula_rounded_up(order: int, tv_bound: float, ratio: float) -> None:
    exact, found = exact_closed_form(order, tv_bound, ratio), closed_form(order, tv_bound, ratio)
    assert found >= exact
    assert found <= exact * (1 + 1e-10) or (found == math.inf and exact > 1.0)


LONG_INTEGRALS = {(3.0, 8), *((ratio, 64) for ratio in (0.05, 1.0, 3.0))}


@for_each("tv_bound", [1e-6, 0.05, 1.0])
@for_each(
    ("ratio", "order"),
    [
        pytest.param(*case, marks=[pytest.mark.thorough] if case in LONG_INTEGRALS else [])
        for case in product([0.05, 1.0, 3.0], [2, 8, 64])
    ],
)
def test_the_profile_is_its_integral_rounded_up(order: int, tv_bound: float, ratio: float) -> None:
    exact, found = exact_profile(order, tv_bound, ratio), profile(order, tv_bound, ratio)
    assert exact <= found <= exact * 1.05


@settings(max_examples=12)
@given(
    order=st.integers(2, 6),
    tv_bound=st.sampled_from([1e-3, 0.05, 0.3]),
    ratio=st.sampled_from([0.5, 1.0, 2.0]),
    angles=st.tuples(*[st.floats(0.0, 2 * math.pi)] * 3),
    radii=st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 3),
)
def test_both_bounds_are_above_the_truth_for_every_triple_in_the_ball(order, tv_bound, ratio, angles, radii):
    means = 0.5 * ratio * np.array([[r * math.cos(t), r * math.sin(t)] for r, t in zip(radii, angles, strict=True)])
    truth = true_divergence(order, tv_bound, means)
    assert closed_form(order, tv_bound, ratio) >= truth * (1 - 1e-6)
    assert profile(order, tv_bound, ratio) >= truth * (1 - 1e-6)


def test_pairwise_distances_alone_break_the_closed_form_but_not_the_profile() -> None:
    ratio, tv_bound = 2.0, 1e-4
    triangle = ratio / math.sqrt(3.0) * np.array([[math.cos(t), math.sin(t)] for t in (0.0, 2.0944, 4.1888)])
    truth = true_divergence(2, tv_bound, triangle)
    assert truth > 1.6 * closed_form(2, tv_bound, ratio)
    assert truth <= profile(2, tv_bound, ratio)


@for_each(("tv_bound", "ratio"), [(1e-4, 0.447), (0.01, 0.447), (0.01, 1.0)])
def test_never_above_and_up_to_four_times_below_the_without_replacement_bound(tv_bound: float, ratio: float) -> None:
    orders = [2, 4, 8, 16]
    other = RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
    source = round(1 / tv_bound)
    other.compose(SampledWithoutReplacementDpEvent(source, 1, GaussianDpEvent(1.0 / ratio)))
    for order, theirs in zip(orders, other._rdp, strict=True):
        assert theirs / 4.5 <= step_rdp(order, tv_bound, ratio) <= theirs


@settings(max_examples=40)
@given(order=st.sampled_from(ORDERS[:70]), log_s=st.floats(-20.0, 0.0), log_u=st.floats(-5.0, 1.0))
def test_a_step_costs_no_less_with_more_sampling_or_less_noise(order: int, log_s: float, log_u: float) -> None:
    here = step_rdp(order, math.exp(log_s), math.exp(log_u))
    assert here > 0.0
    assert step_rdp(order, min(1.0, math.exp(log_s) * 1.2), math.exp(log_u)) >= here * 0.999
    assert step_rdp(order, math.exp(log_s), math.exp(log_u) * 1.2) >= here


@for_each("epsilon", [1e-6, 0.1, 1.0, 20.0])
def test_the_divergence_of_randomized_response(epsilon: float) -> None:
    for order in (2, 5, 50):
        with mpmath.workdps(50):
            p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
            moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
            exact = mpmath.log(moment) / (order - 1)
        assert exact <= pure_rdp(order, epsilon) <= exact * (1 + 1e-8)


@given(order=st.sampled_from(ORDERS), epsilon=st.floats(1e-3, 50.0), log_delta=st.floats(-40.0, -0.1))
def test_the_allowed_divergence_converts_to_no_more_than_epsilon(order: int, epsilon: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    allowed = rho_allowed(order, epsilon, delta)
    assert allowed < 0 or epsilon_at(order, allowed, delta) <= epsilon
    assert epsilon_at(order, max(allowed, 0.0) + 1e-9 * epsilon + 1e-12, delta) > epsilon or allowed < 0
    assert epsilon_at(order, 0.0, delta) >= 0.0


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
def test_the_lemma_holds_for_every_outcome_of_draws_answered_one_by_one(epsilon, delta, tv_bound, draws):
    first, second = leaky_response(epsilon, delta)
    mixed = (1 - tv_bound) * second + tv_bound * first
    p, q = power(mixed, draws), power(second, draws)
    star, star_delta = subsampled(draws, tv_bound, epsilon, delta)
    assert max(hockey_stick(p, q, star), hockey_stick(q, p, star)) <= star_delta + 1e-15
    with mpmath.workdps(40):
        tight = draws * mpmath.log1p(mpmath.mpf(tv_bound) * mpmath.expm1(epsilon))  # the odds of a count
        assert tight <= star <= tight * (1 + mpmath.mpf(1e-12))
    assert (star_delta > 0.0) == (delta > 0.0)


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


@settings(max_examples=40)
@given(releases=st.integers(1, 10_000), epsilon=st.floats(1e-6, 2.0), log_delta=st.floats(-25.0, -1.0))
def test_the_inverse_ends_on_the_private_side(releases: int, epsilon: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    found = composed_epsilon(releases, epsilon, 0.0, delta)
    assert found <= releases * epsilon * (1 + 1e-12)
    assert composed_delta(releases, epsilon, 0.0, found) <= delta
    assert found == 0.0 or composed_delta(releases, epsilon, 0.0, found * (1 - 1e-6)) > delta


def test_where_no_epsilon_suffices_it_is_infinite_and_what_is_not_subsampled_keeps_its_own() -> None:
    assert (epsilon_at(2, 0.1, 0.0), rho_allowed(2, 1.0, 0.0)) == (math.inf, -math.inf)
    assert composed_epsilon(10, 0.1, 1e-6, 1e-6) == composed_epsilon(10, math.inf, 0.0, 1e-6) == math.inf
    assert composed_epsilon(10, 0.1, 0.0, 0.0) == pytest.approx(1.0)
    assert composed_epsilon(2, 1e300, 0.0, 1e-6) == pytest.approx(2e300)  # what is lost in doubles is more than 1
    assert composed_epsilon(10**7 + 1, 1e-9, 0.0, 1e-6) == math.inf  # too many for its tables: others add them up
    assert subsampled(2, 0.1, 1e4, 0.0) == (math.inf, 0.0)
    assert subsampled(2, 0.1, 1e4, 1e-6) == (math.inf, 1.0)
    assert subsampled(10_000, 0.5, 5.0, 1e-6)[1] == 1.0
    for epsilon in (0.1, 0.5, 1.0, 3.0, 800.0):
        assert subsampled(1, 1.0, epsilon, 0.0) == (epsilon, 0.0)
        assert composed_epsilon(1, epsilon, 0.0, 0.0) == epsilon


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
    of_array = float(gaussian_excess(mu, np.array([epsilon]))[0])
    assert exact <= of_array <= exact * (1 + mpmath.mpf(1e-9)) + mpmath.mpf(1e-13)
    assert of_array == pytest.approx(found, rel=1e-9, abs=1e-13)


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
    assert epsilon_of(0.3, delta_of(0.3, 0.0)) == 0.0
    assert epsilon_of(37.0, 1e-6) == math.inf  # it is about 860, and the largest epsilon 700
    assert 600.0 < epsilon_of(32.0, 1e-6) < 700.0


AXIS = np.linspace(-12.0, 12.0, 481)
PLANE = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1)
CELL = (AXIS[1] - AXIS[0]) ** 2
LOSSES = np.array([0.0, 1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0])


def laws(tv_bound: float, means: Floats) -> tuple[Floats, Floats]:
    a, b, c = (np.exp(-0.5 * ((PLANE - mean) ** 2).sum(-1)) / (2 * math.pi) for mean in means)
    return (1 - tv_bound) * a + tv_bound * b, (1 - tv_bound) * a + tv_bound * c


def hockey_sticks(p: Floats, q: Floats) -> Floats:
    return np.array([np.maximum(p - math.exp(loss) * q, 0.0).sum() * CELL for loss in LOSSES])


def in_disc(random: np.random.Generator, ratio: float) -> Floats:
    """Three points of the disc of diameter u, often on its rim."""
    angles = random.uniform(0.0, 2 * math.pi, 3)
    radii = 0.5 * ratio * np.minimum(1.0, 1.5 * np.sqrt(random.uniform(0.0, 1.0, 3)))
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)


@for_each(("tv_bound", "ratio"), [(0.01, 1.0), (0.05, 0.25), (0.3, 2.0), (1.0, 1.5), (0.001, 3.0)])
def test_no_triple_in_the_ball_exceeds_the_envelope_and_one_attains_it(tv_bound: float, ratio: float) -> None:
    profile, random = step_profile(tv_bound, ratio), np.random.default_rng(1)
    bound = profile.at(LOSSES)
    # No axis of the grid: sums are exact to 1e-4.
    ends = 0.5 * ratio * np.array([[-0.6, -0.8], [0.6, 0.8], [-0.6, -0.8]])
    triples = [in_disc(random, ratio) for _ in range(12)]
    for means in [*triples, ends]:
        p, q = laws(tv_bound, means)
        for found in (hockey_sticks(p, q), hockey_sticks(q, p)):
            assert np.all(found <= bound * (1 + 2e-3) + 1e-8 * tv_bound)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.where(q > 0, (p - q) ** 2 / q, 0.0)
        assert squares.sum() * CELL <= profile.chi_squared * (1 + 1e-6)
    np.testing.assert_allclose(hockey_sticks(p, q), bound, rtol=2e-3, atol=2e-6 * tv_bound)


def test_a_step_at_small_s_keeps_its_digits() -> None:
    with mpmath.workdps(50):
        s, u, t = mpmath.mpf(1e-9), mpmath.mpf(0.5), mpmath.mpf(2e-9)
        e = mpmath.log1p(mpmath.expm1(t) / s)
        exact = s * (mpmath.ncdf(-e / u + u / 2) - mpmath.exp(e) * mpmath.ncdf(-e / u - u / 2))
    found = step_profile(1e-9, 0.5).at(np.array([2e-9]))[0]
    assert exact <= found <= exact * (1 + mpmath.mpf(1e-9))


DELTA = 1e-6


def run(profile: Profile, count: int, width: float) -> ComposedLosses | None:
    return compose([(connect_dots(profile, width, 1e-4 * DELTA / count), count)], width, DELTA)


def dominating(profile: Profile, width: float, losses: Sequence[float]) -> LossGrid | None:
    """Return a profile's grid, which is a pair of laws that dominates it."""
    grid = connect_dots(profile, width, 1e-12)
    assert grid.rising.sum() + grid.falling.sum() + grid.failure <= 1.0 + 1e-15
    levels = np.exp(width * np.arange(1, len(grid.rising) + 1))
    for loss in losses:
        reached = grid.failure + np.maximum(grid.falling * (levels - math.exp(loss)), 0.0).sum()
        assert float(profile.at(np.array([loss]))[0]) <= reached + grid.shortfall
    return grid


def test_a_grid_dominates_the_profile_that_it_is_made_of() -> None:
    assert dominating(step_profile(0.01, 1.0), 1e-3, (0.0, 0.00049, 0.0123, 0.2)).shortfall < 1e-12


@for_each(("mu", "count"), [(1.0, 1), (0.1, 100), (0.01, 10_000), (0.001, 1_000_000)])
def test_gaussian_releases_compose_to_one(mu: float, count: int) -> None:
    composed = run(gaussian_profile(mu), count, mu / 12)
    for epsilon in (3.0, 4.9, 5.5):
        truth = delta_of(mu * math.sqrt(count), epsilon)
        assert truth * (1 - 1e-9) <= composed.delta(epsilon) <= 1.05 * truth + 1e-8


@for_each(("epsilon", "delta", "count"), [(0.1, 1e-9, 100), (0.01, 0.0, 10_000), (1.0, 1e-8, 3)])
def test_releases_compose_as_the_optimal_theorem_says(epsilon: float, delta: float, count: int) -> None:
    composed = run(release_profile(epsilon, delta), count, epsilon / 8)
    total = composed.epsilon(DELTA)
    truth = composed_delta(count, epsilon, delta, total)
    assert 0.9 * DELTA < truth <= DELTA * (1 + 1e-9)


@for_each(("mu", "count", "width"), [(0.1, 100, 0.005), (1.0, 1, 1e-3), (0.002, 1000, 2e-5)])
def test_delta_is_the_sum_over_the_masses_rounded_up(mu: float, count: int, width: float) -> None:
    composed = run(gaussian_profile(mu), count, width)
    weighed = composed.masses * np.exp(composed.log_scale - composed.tilt * composed.losses)
    for epsilon in (0.0, 0.31, 1.7, 4.2):
        terms = weighed * -np.expm1(np.minimum(epsilon - composed.losses, 0.0))
        exact = math.fsum(terms) + composed.beyond
        assert exact * (1.0 - 1e-13) <= composed.delta(epsilon) <= exact * (1.0 + 1e-6)


def test_what_is_not_in_the_window_is_added() -> None:
    profile, width = gaussian_profile(0.1), 0.005
    grid: Any = connect_dots(profile, width, 1e-12)
    grids = (grid, replace(grid, failure=1e-3), replace(grid, shortfall=1e-4))
    sound, leaky, short = (compose([(each, 100)], width, DELTA) for each in grids)
    assert sound.beyond < 1e-3 * DELTA
    assert leaky.delta(5.0) >= 0.09
    assert short.delta(5.0) >= sound.delta(5.0) + 0.0099


def test_the_bound_on_the_error_of_the_transform_is_small_and_not_zero() -> None:
    composed = run(gaussian_profile(0.001), 1_000_000, 1e-4)
    floor = float(composed.masses.min())
    assert 0.0 < floor < 1e-7
    assert composed.delta(0.0) <= 1.0


def test_a_grid_that_is_too_long_is_refused() -> None:
    assert connect_dots(gaussian_profile(1.0), 1e-7, 1e-12) is None
    assert compose([(connect_dots(gaussian_profile(1e-3), 1e-5, 1e-12), 10**10)], 1e-5, DELTA) is None
