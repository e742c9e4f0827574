"""Composed losses: never below known answers, close to them, every stated error in place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.fourier import Composed, compose
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.loss_grids import connect_dots
from common.privacy.theorems.profiles import Profile, gaussian_profile, release_profile, step_profile
from tests.tiers import for_each

DELTA = 1e-6


def run(profile: Profile, count: int, width: float, delta: float = DELTA) -> Composed:
    grid = connect_dots(profile, width, 1e-4 * delta / count)
    assert grid is not None
    composed = compose([(grid, count)], width, delta)
    assert composed is not None
    return composed


def test_a_grid_dominates_the_profile_that_it_is_made_of() -> None:
    profile, width = step_profile(0.01, 1.0), 1e-3
    grid = connect_dots(profile, width, 1e-12)
    assert grid is not None
    levels = np.exp(width * np.arange(1, len(grid.rising) + 1))
    for loss in (0.0, 0.00049, 0.0123, 0.2):
        reached = grid.failure + np.maximum(grid.falling * (levels - math.exp(loss)), 0.0).sum()
        assert float(profile.at(np.array([loss]))[0]) <= reached + grid.shortfall
    assert grid.shortfall < 1e-12
    mass = grid.rising.sum() + grid.falling.sum() + grid.failure
    assert 0.0 < mass < 1.0


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


@pytest.mark.parametrize(("tv_bound", "ratio", "count"), [(0.01, 1.0, 1000), (0.05, 0.25, 2000)])
def test_steps_cost_at_least_what_their_worst_pairs_do(tv_bound: float, ratio: float, count: int) -> None:
    worst = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / ratio,
        sampling_prob=tv_bound,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=5e-5,
    )
    truth = worst.self_compose(count).get_epsilon_for_delta(1e-5)
    found = run(step_profile(tv_bound, ratio), count, 2e-3, 1e-5).epsilon(1e-5)
    assert truth <= found <= 1.25 * truth


def test_what_is_not_in_the_window_is_added() -> None:
    profile, width = gaussian_profile(0.1), 0.005
    grid = connect_dots(profile, width, 1e-12)
    assert grid is not None
    sound = compose([(grid, 100)], width, DELTA)
    leaky = compose([(replace(grid, failure=1e-3), 100)], width, DELTA)
    short = compose([(replace(grid, shortfall=1e-4), 100)], width, DELTA)
    assert sound is not None
    assert leaky is not None
    assert short is not None
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
