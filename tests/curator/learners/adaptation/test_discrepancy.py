"""The discrepancy: exact and certified on the ball, its sensitivity and private estimate; what DCA finds instead."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from curator.learners.adaptation import discrepancy as module
from curator.learners.adaptation.discrepancy import (
    TOLERANCE,
    curvatures,
    discrepancy,
    greatest_loss,
    greatest_on_ball,
    private_discrepancy,
    sensitivity,
)
from curator.learners.adaptation.domains import Domains, Side
from deploy.auditing.cases.adaptation_cases import by_dca, divided
from tests.curator.learners.adaptation.given import domains, replaced
from tests.tiers import for_each, thinned

LOSSES = ("squared", "logistic")


def searched(given, radius, loss):
    draw = np.random.default_rng(3)
    points = draw.normal(size=(40_000, given.dimension))
    points *= radius * draw.uniform(size=(len(points), 1)) ** 0.2 / np.linalg.norm(points, axis=1)[:, None]
    means = [mean_losses(side, points, loss) for side in (given.source, given.target)]
    return float(np.abs(means[0] - means[1]).max())


def mean_losses(side, points, loss):
    scores = points @ side.features.T
    if loss == "squared":
        return ((scores - side.responses) ** 2).mean(axis=1)
    return np.logaddexp(0.0, -scores * side.responses).mean(axis=1)


@for_each("radius", [0.3, 1.0, 3.0])
def test_squared_loss_is_what_a_search_finds(radius):
    given = domains(dimension=2)
    exact, found = discrepancy(given, radius, 1.0), searched(given, radius, "squared")
    assert found <= exact.value
    assert found == pytest.approx(exact.value, rel=5e-3)
    means = [mean_losses(side, exact.point[None], "squared")[0] for side in (given.source, given.target)]
    assert abs(means[0] - means[1]) == pytest.approx(exact.value, abs=1e-12)
    assert exact.gap < TOLERANCE * greatest_loss("squared", radius, 1.0)


@for_each("radius", [0.1, 1.0, 4.0, 20.0])
def test_the_logistic_bound_is_an_upper_bound(radius):
    given = domains(dimension=2, labels=True)
    found, bound = searched(given, radius, "logistic"), discrepancy(given, radius, 1.0, "logistic").value
    assert found <= bound
    if radius <= 1.0:
        assert bound <= 1.2 * found + 0.01
    assert private_discrepancy(given, radius, 1.0, None, RandomSource.seeded(1), "logistic") <= radius


@for_each("most", [1e-6, 0.1, 1.0, 5.0, 80.0])
def test_chord_and_tangent_hold_the_even_part_of_the_loss(most):
    scores = np.linspace(-most, most, 2001)
    even = np.logaddexp(0.0, -scores) + scores / 2 - np.log(2)
    tangent, chord = curvatures(most)
    assert (even <= tangent * scores**2 + 1e-12).all()
    assert (chord * scores**2 <= even + 1e-12).all()


@for_each("private", ["source", "target"])
@for_each("radius", [0.5, 3.0])
@for_each("loss", LOSSES)
def test_neighbours_are_no_farther_apart_than_the_sensitivity(loss, radius, private):
    given = domains(m=6, n=5, private=private, labels=loss == "logistic")
    bound = sensitivity(given, radius, 1.0, loss)
    draw, farthest = np.random.default_rng(5), 0.0
    before = discrepancy(given, radius, 1.0, loss).value
    for trial in range(60):
        features = draw.normal(size=4) if trial % 2 else np.eye(4)[0]
        features *= (-1.0) ** trial / np.linalg.norm(features)
        after = discrepancy(replaced(given, features.tolist(), (-1.0) ** (trial // 2)), radius, 1.0, loss).value
        farthest = max(farthest, abs(after - before))
    assert 0.05 * bound < farthest <= bound


def test_the_worst_neighbours_reach_it():
    # One person: all the difference that there can be, B/n, for a source that loses nothing anywhere near.
    source = Side(np.array([[1.0]]), np.array([1.0]))
    same, other = (Domains(source, Side(np.array([[1.0]]), np.array([y]))) for y in (1.0, -1.0))
    assert discrepancy(same, 1.0, 1.0).value == pytest.approx(0.0, abs=1e-12)
    assert discrepancy(other, 1.0, 1.0).value == pytest.approx(4.0)
    assert sensitivity(other, 1.0, 1.0) == pytest.approx(4.0, rel=1e-6)


def test_dca_jumps_by_more_than_its_claimed_sensitivity():
    # From one start, DCA goes to one end of the ball or to the other, as one of a thousand people decides.
    before, after = divided(1000, 499), divided(1000, 500)
    assert sensitivity(before, 1.0, 1.0) == pytest.approx(0.004, rel=1e-3)
    assert abs(by_dca(before) - by_dca(after)) == pytest.approx(2.0, abs=0.01)
    exact = [discrepancy(given, 1.0, 1.0).value for given in (before, after)]
    assert abs(exact[0] - exact[1]) <= 0.004
    assert min(by_dca(before), by_dca(after)) < min(exact) - 1.9  # far from the greatest value


def test_noise_has_the_deviation_that_mu_asks_for():
    given, mu = domains(m=4000, n=3000), 2.0
    exact = discrepancy(given, 1.0, 1.0).value
    source = RandomSource.seeded(7)
    drawn = np.array([private_discrepancy(given, 1.0, 1.0, mu, source.derive(i)) for i in range(800)])
    wanted = sensitivity(given, 1.0, 1.0) / mu
    assert abs(drawn.mean() - exact) < 5 * wanted / np.sqrt(len(drawn))
    assert drawn.std() == pytest.approx(wanted, rel=0.12)


def test_the_estimate_stays_in_its_range():
    given = domains(m=3, n=2)
    source = RandomSource.seeded(1)
    drawn = [private_discrepancy(given, 1.0, 1.0, 0.01, source.derive(i)) for i in range(50)]
    assert min(drawn) == 0.0
    assert max(drawn) == 4.0


@pytest.mark.parametrize("loss", LOSSES)
def test_a_value_that_is_not_certified_is_none(monkeypatch, loss):
    """The sensitivity counts on a computed value within eta of the exact one: a wider certificate is refused."""
    given, solved = domains(labels=loss == "logistic"), greatest_on_ball
    allowed = TOLERANCE * greatest_loss(loss, 1.0, 1.0)
    for gap in (allowed, 1.01 * allowed, math.nan):
        monkeypatch.setattr(module, "greatest_on_ball", lambda *given, gap=gap: solved(*given)._replace(gap=gap))
        if gap == allowed:
            assert discrepancy(given, 1.0, 1.0, loss).gap == gap
        else:
            with pytest.raises(ArithmeticError, match="has a gap of"):
                discrepancy(given, 1.0, 1.0, loss)


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


@for_each("radius", RADII)
@for_each("kind", ["usual", "hard", "nearly hard", "concave", "tiny", "flat"])
@for_each("seed", thinned(range(8), 3))
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
