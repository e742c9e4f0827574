"""The envelope of one step: above every triple in the ball, attained, and its chi-squared needs the ball."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from common.core.arrays import Floats
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.profiles import gaussian_excess, release_profile, step_profile
from tests.tiers import for_each

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
    ends = (
        0.5 * ratio * np.array([[-0.6, -0.8], [0.6, 0.8], [-0.6, -0.8]])
    )  # no axis of the grid: sums are exact to 1e-4
    triples = [in_disc(random, ratio) for _ in range(12)]
    for means in [*triples, ends]:
        p, q = laws(tv_bound, means)
        assert np.all(hockey_sticks(p, q) <= bound * (1 + 2e-3) + 1e-8 * tv_bound)
        assert np.all(hockey_sticks(q, p) <= bound * (1 + 2e-3) + 1e-8 * tv_bound)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.where(q > 0, (p - q) ** 2 / q, 0.0)
        assert squares.sum() * CELL <= profile.chi_squared * (1 + 1e-6)
    attained = hockey_sticks(*laws(tv_bound, ends))
    np.testing.assert_allclose(attained, bound, rtol=2e-3, atol=2e-6 * tv_bound)


def test_the_worst_geometry_above_level_one_is_not_the_worst_below() -> None:
    """So no single pair dominates: a pair that is worst on one side costs less than the envelope on the other."""
    tv_bound, ratio = 0.01, 2.0
    ends = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    p, q = laws(tv_bound, ends)
    bound = step_profile(tv_bound, ratio).at(LOSSES)
    assert hockey_sticks(p, q)[3] > 0.99 * bound[3]
    assert hockey_sticks(q, p)[3] < 0.1 * bound[3]


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
    with mpmath.workdps(50):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        exact = mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
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
