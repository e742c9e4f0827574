"""Gaussian differential privacy, against 60-digit arithmetic and its known answers."""

import math
from collections.abc import Sequence
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from common.core.arrays import Floats
from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.games import triple_profiles
from common.privacy.theorems.gaussian_dp import delta_of, epsilon_of, mu_allowed
from common.privacy.theorems.loss_grids import Composed, LossGrid, compose, connect_dots
from common.privacy.theorems.profiles import Profile, gaussian_excess, gaussian_profile, release_profile, step_profile
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
    assert epsilon_of(0.3, delta_of(0.3, 0.0)) == 0.0
    assert epsilon_of(37.0, 1e-6) == math.inf  # it is about 860, and the largest epsilon 700
    assert 600.0 < epsilon_of(32.0, 1e-6) < 700.0


AXIS = np.linspace(-9.0, 9.0, 361)
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


def test_means_at_pairwise_distance_alone_exceed_the_chi_squared_but_not_the_envelope() -> None:
    tv_bound, ratio = 1e-5, 2.0
    corners = np.array([[0.0, 0.0], [ratio, 0.0], [ratio / 2, ratio * math.sqrt(0.75)]])
    corners -= corners.mean(axis=0)
    p, q = laws(tv_bound, corners)
    profile = step_profile(tv_bound, ratio)
    assert ((p - q) ** 2 / q).sum() * CELL > 1.5 * profile.chi_squared
    assert np.all(hockey_sticks(p, q) <= profile.at(LOSSES) * (1 + 2e-3) + 1e-9)


@for_each("mu", [1e-4, 0.1, 1.0, 5.0])
@for_each("factor", [0.0, 0.3, 1.0, 3.0, 8.0])
def test_values_are_above_those_of_fifty_digits_and_close(mu: float, factor: float) -> None:
    epsilon = factor * mu
    exact = exact_gaussian_delta(epsilon, mu)
    found = float(gaussian_excess(mu, np.array([epsilon]))[0])
    assert exact <= found <= exact * (1 + mpmath.mpf(1e-9)) + mpmath.mpf(1e-13)
    assert found == pytest.approx(delta_of(mu, epsilon), rel=1e-9, abs=1e-13)


def test_a_step_at_small_s_keeps_its_digits() -> None:
    with mpmath.workdps(50):
        s, u, t = mpmath.mpf(1e-9), mpmath.mpf(0.5), mpmath.mpf(2e-9)
        e = mpmath.log1p(mpmath.expm1(t) / s)
        exact = s * (mpmath.ncdf(-e / u + u / 2) - mpmath.exp(e) * mpmath.ncdf(-e / u - u / 2))
    found = step_profile(1e-9, 0.5).at(np.array([2e-9]))[0]
    assert exact <= found <= exact * (1 + mpmath.mpf(1e-9))


def test_a_release_has_the_profile_of_randomized_response() -> None:
    profile = release_profile(1.0, 0.01)
    truth = math.e / (1 + math.e) - math.exp(0.25) / (1 + math.e)
    assert float(profile.at(np.array([0.25]))[0]) == pytest.approx(0.01 + 0.99 * truth, rel=1e-12)
    assert float(profile.at(np.array([1.5]))[0]) == pytest.approx(0.01)
    pure = release_profile(1.0, 0.0)
    p = 1 / (1 + math.exp(-1))
    assert pure.chi_squared == pytest.approx(p * p / (1 - p) + (1 - p) ** 2 / p - 1, rel=1e-12)


def test_with_all_mass_on_one_pair_the_bound_is_near_the_profile_of_two_gaussians_wherever_they_lie() -> None:
    # With s = 1 only B and C count, at 10 and 10.5 on a line: H = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu).
    levels, mu = np.array([0.0, 0.1]), 0.5
    exact = ndtr(mu / 2 - levels / mu) - np.exp(levels) * ndtr(-mu / 2 - levels / mu)
    for profile in triple_profiles(1.0, (100.0, 110.25, 105.0)):
        assert profile.chi_squared == math.inf  # none is known, and so none is claimed
        found = profile.at(levels)
        assert (found >= exact).all()
        assert (found <= exact + 0.03).all()


DELTA = 1e-6


def run(profile: Profile, count: int, width: float, delta: float = DELTA) -> Composed:
    grid = connect_dots(profile, width, 1e-4 * delta / count)
    assert grid is not None
    composed = compose([(grid, count)], width, delta)
    assert composed is not None
    return composed


def dominating(profile: Profile, width: float, losses: Sequence[float]) -> LossGrid:
    """Return a profile's grid, which is a pair of laws that dominates it."""
    grid = connect_dots(profile, width, 1e-12)
    assert grid is not None
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


def test_what_is_not_in_the_window_is_added() -> None:
    profile, width = gaussian_profile(0.1), 0.005
    grid = connect_dots(profile, width, 1e-12)
    assert grid is not None
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
    grid = connect_dots(gaussian_profile(1e-3), 1e-5, 1e-12)
    assert grid is not None
    assert compose([(grid, 10**10)], 1e-5, DELTA) is None
