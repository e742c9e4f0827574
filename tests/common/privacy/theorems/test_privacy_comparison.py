"""The price of a small release beside a pad: the theorem's condition, by direct integration, and broken twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from common.core.arrays import Floats
from common.privacy.theorems.comparison import gaussian_price
from common.privacy.theorems.profiles import release_profile, step_profile
from tests.tiers import for_each

GRID = np.linspace(-10.0, 12.0, 20001)


def profile(mu: float, losses: Floats) -> Floats:
    """delta_G(x; mu) for any real x, (1 - e^x)_+ not taken off."""
    return ndtr(-losses / mu + mu / 2) - np.exp(losses) * ndtr(-losses / mu - mu / 2)


def beside_the_pad(tv_bound: float, means: tuple[float, float, float], pad: float, levels: Floats) -> Floats:
    """int P F_pad(a Q/P) - F_pad(a) for unit Gaussians on a line, by the trapezoid."""
    a, b, c = (np.exp(-0.5 * (GRID - mean) ** 2) / math.sqrt(2 * math.pi) for mean in means)
    p, q = (1 - tv_bound) * a + tv_bound * b, (1 - tv_bound) * a + tv_bound * c
    losses = np.log(q / p)
    width = GRID[1] - GRID[0]
    gains = profile(pad, levels[:, None] + losses[None, :]) - profile(pad, levels)[:, None]
    return (gains * p).sum(axis=1) * width


@for_each(("tv_bound", "ratio", "pad"), [(1e-3, 0.25, 0.01), (0.05, 0.5, 0.3), (0.01, 1.0, 0.2)])
def test_every_triple_beside_the_pad_is_below_the_gaussian_of_that_price(
    tv_bound: float, ratio: float, pad: float
) -> None:
    allowance = 1e-9
    price = gaussian_price(step_profile(tv_bound, ratio), pad, allowance)
    assert price >= step_profile(tv_bound, ratio).chi_squared * 0.99
    levels = np.linspace(-9.0 * pad, 9.0 * pad, 61)
    allowed = profile(math.sqrt(pad * pad + price), levels) - profile(pad, levels)
    half = 0.5 * ratio
    for means in [(-half, half, -half), (half, half, -half), (0.0, half, -half), (-half, half, half), (0.0, half, 0.0)]:
        gained = beside_the_pad(tv_bound, means, pad, levels)
        assert np.all(gained <= allowed + allowance + 1e-13)


def test_half_the_price_is_exceeded() -> None:
    tv_bound, ratio, pad = 1e-3, 0.25, 0.01
    price = gaussian_price(step_profile(tv_bound, ratio), pad, 1e-12)
    levels = np.linspace(-3.0 * pad, 3.0 * pad, 21)
    allowed = profile(math.sqrt(pad * pad + 0.9 * price), levels) - profile(pad, levels)
    gained = beside_the_pad(tv_bound, (-0.125, 0.125, -0.125), pad, levels)
    assert np.max(gained - allowed) > 1e-8


def test_a_wide_pad_makes_it_the_chi_squared_and_a_narrow_one_nothing() -> None:
    profile_ = step_profile(1e-5, 0.2)
    square = profile_.chi_squared
    assert square <= gaussian_price(profile_, 1e-2, 1e-14) <= 1.001 * square
    assert gaussian_price(profile_, 1e-3, 1e-14) > gaussian_price(profile_, 1e-2, 1e-14)
    assert math.isinf(gaussian_price(profile_, 1e-6, 1e-14))


def test_without_a_chi_squared_the_envelope_itself_is_charged() -> None:
    profile_ = step_profile(1e-4, 1.0)
    envelope = gaussian_price(replace(profile_, chi_squared=math.inf), 0.1, 1e-14)
    assert 1.3 * profile_.chi_squared < envelope < 2.0 * profile_.chi_squared


def test_a_pure_release_beside_a_wide_pad_costs_about_the_square_of_its_epsilon() -> None:
    assert gaussian_price(release_profile(1e-4, 0.0), 0.05, 1e-12) == pytest.approx(1e-8, rel=0.02)
