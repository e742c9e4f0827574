"""A quadratic's greatest value on a ball: global, certified, hard case and all; and what DCA finds instead."""

import numpy as np
import pytest

from curator.learners.adaptation.public.trust_region import greatest_on_ball
from tests.tiers import thinned

RADII = (0.01, 1.0, 30.0)


def problem(seed, kind):
    draw = np.random.default_rng(seed)
    d = int(draw.integers(1, 6))
    quadratic = draw.normal(size=(d, d))
    quadratic, linear = quadratic + quadratic.T, draw.normal(size=d)
    first = np.linalg.eigh(quadratic)[1][:, -1]
    if kind == "hard":
        linear = 0.1 * (linear - first * (first @ linear))
    if kind == "nearly hard":
        linear = 0.1 * (linear - first * (first @ linear) * (1 - 1e-9))
    if kind == "concave":
        quadratic = -quadratic @ quadratic.T
    if kind == "tiny":
        linear *= 10.0 ** -float(draw.integers(5, 300))
    if kind == "flat":
        quadratic = np.zeros((d, d))
    return quadratic, linear


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("kind", ["usual", "hard", "nearly hard", "concave", "tiny", "flat"])
@pytest.mark.parametrize("seed", thinned(range(8), 3))
def test_no_point_of_the_ball_has_more_and_one_has_as_much(seed, kind, radius):
    quadratic, linear = problem(seed, kind)
    found = greatest_on_ball(quadratic, linear, 0.3, radius)
    size = 1.0 + np.abs(quadratic).max() * radius**2 + np.abs(linear).max() * radius
    points = np.random.default_rng(seed).normal(size=(4000, len(linear)))
    points *= radius / np.linalg.norm(points, axis=1)[:, None]
    points[::2] *= np.random.default_rng(seed + 1).uniform(size=(2000, 1))
    assert np.linalg.norm(found.point) <= radius * (1 + 1e-12)
    assert max(value(quadratic, linear, point) for point in points) <= found.value
    assert value(quadratic, linear, found.point) >= found.value - found.gap
    assert 0 <= found.gap <= 1e-10 * size


def test_one_dimension_against_a_grid():
    grid = np.linspace(-2, 2, 400_001)
    for a, b in ((1.0, -0.001), (1.0, 0.0), (-1.0, 0.5), (-0.1, 0.5), (0.0, 0.3)):
        exact = greatest_on_ball(np.array([[a]]), np.array([b]), 0.0, 2.0).value
        assert exact == pytest.approx((a * grid**2 - 2 * b * grid).max(), abs=1e-9)


def test_the_difference_of_convex_algorithm_stops_before():
    # w'w - 2 b'w = f - g, f = w'w: DCA goes to the end of the ball in the direction of f's gradient, and stays there.
    b, w = -0.001, -1.0
    for _ in range(100):
        w = float(np.sign(2 * w - 2 * b))
    assert w == -1.0
    assert w * w - 2 * b * w == pytest.approx(0.998)
    assert greatest_on_ball(np.eye(1), np.array([b]), 0.0, 1.0).value == pytest.approx(1.002)


def value(quadratic, linear, point):
    return float(point @ quadratic @ point - 2 * linear @ point) + 0.3
