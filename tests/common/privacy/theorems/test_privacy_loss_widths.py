"""Widths of loss grids: few steps with little noise have a finite price, which falls as noise grows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.tightness import epsilon_of_pair
from common.privacy.accountants.base import ACCOUNTANTS
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.fourier import compose_profiles
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.loss_grids import connect_dots
from common.privacy.theorems.profiles import gaussian_profile, release_profile, step_profile


def claimed(tv_bound: float, ratio: float, steps: int, delta: float) -> float:
    event = SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio)
    return ACCOUNTANTS["pld"]().epsilon([(event, 1)], delta)


def test_a_thousand_rare_steps_with_little_noise_have_a_price() -> None:
    """Grids fine enough for the many small losses could not reach the few large ones: nothing was shown."""
    prices = [claimed(1e-4, ratio, 1000, 1e-5) for ratio in (1.5, 2.0, 4.0, 10.0)]
    assert prices == pytest.approx([0.05446, 0.5435, 13.983, 150.26], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tv_bound", "steps", "delta"),
    [(0.01, 5, 1e-6), (0.001, 20, 1e-5), (1e-4, 1000, 1e-5), (1e-5, 10_000, 1e-6), (0.3, 3, 1e-8), (1e-6, 100, 1e-9)],
)
def test_epsilon_falls_as_noise_grows(tv_bound: float, steps: int, delta: float) -> None:
    prices = [claimed(tv_bound, ratio, steps, delta) for ratio in np.geomspace(0.05, 10.0, 24)]
    assert all(math.isfinite(price) for price in prices)
    assert all(less < more for less, more in pairwise(prices))


@pytest.mark.slow
@pytest.mark.parametrize(("tv_bound", "ratio", "steps"), [(1e-4, 2.0, 1000), (0.01, 2.0, 5), (1e-3, 2.0, 100)])
def test_few_heavy_steps_cost_at_most_a_fifth_more_than_one_pair_does(
    tv_bound: float, ratio: float, steps: int
) -> None:
    pair = epsilon_of_pair(tv_bound, ratio, steps, 1e-5)
    assert pair is not None
    assert pair * (1.0 - 1e-3) <= claimed(tv_bound, ratio, steps, 1e-5) <= 1.2 * pair


@pytest.mark.parametrize("steps", [1, 10_000])
def test_the_width_suits_small_losses_too(steps: int) -> None:
    found = compose_profiles([(gaussian_profile(1.0 / math.sqrt(steps)), steps)], 1e-6)
    assert found is not None
    exact = epsilon_of(1.0, 1e-6)
    assert exact <= found.epsilon(1e-6) <= 1.001 * exact


def test_nothing_is_shown_where_every_useful_grid_is_too_long() -> None:
    assert compose_profiles([(gaussian_profile(1e-6), 10**12)], 1e-6) is None


def test_a_release_without_mass_at_zero_is_put_on_narrow_cells() -> None:
    """Randomized response has all of its mass at its two losses, and slopes between narrow cells are rounded."""
    profile = release_profile(0.0035, 2e-12)
    for width in (1.4e-5, 2e-6):
        grid = connect_dots(profile, width, 1e-12)
        assert grid is not None
        assert grid.rising.sum() + grid.falling.sum() + grid.failure <= 1.0 + 1e-15
        levels = np.exp(width * np.arange(1, len(grid.rising) + 1))
        for loss in (0.0, 0.001, 0.0034):
            reached = grid.failure + float(np.maximum(grid.falling * (levels - math.exp(loss)), 0.0).sum())
            assert float(profile.at(np.array([loss]))[0]) <= reached + grid.shortfall
    steps = step_profile(1e-4, 0.447)
    found = compose_profiles([(steps, 1000), (profile, 1)], 1e-5)
    assert found is not None
    assert 0.0 < found.epsilon(1e-5) < 0.02
