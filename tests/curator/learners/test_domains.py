"""The discrepancy: exact and certified on the ball, its sensitivity and private estimate; what DCA finds instead."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.audits.adaptation_cases import by_dca, divided
from common.numerics.randomness import RandomSource
from curator.learners import discrepancy as module
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, prepare, scaled_steps, solve
from curator.learners.discrepancy import (
    TOLERANCE,
    curvatures,
    discrepancy,
    greatest_loss,
    greatest_on_ball,
    private_discrepancy,
    sensitivity,
)
from curator.learners.domains import (
    LEAST_CLIP,
    WANDER,
    Domains,
    DomainSide,
    fit_public,
    least_squares,
    logistic,
    logistic_in_ball,
)
from curator.learners.noisy_descent import sensitivities
from tests.curator.learners.given import domains, replaced
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
    source = DomainSide(np.array([[1.0]]), np.array([1.0]))
    same, other = (Domains(source, DomainSide(np.array([[1.0]]), np.array([y]))) for y in (1.0, -1.0))
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


def value(quadratic, linear, point):
    return float(point @ quadratic @ point - 2 * linear @ point) + 0.3


SOURCE = RandomSource.seeded(1)
WEIGHTS = np.array([0.3, -0.2, 0.1])


def side(rows, seed, deviation=0.05, weights=WEIGHTS):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, 3))
    features /= np.maximum(np.linalg.norm(features, axis=1), 1.0)[:, None]
    return DomainSide(features, np.clip(features @ weights + deviation * draw.normal(size=rows), -1, 1))


def labelled(rows, seed, sharp=4.0):
    given = side(rows, seed, 0.0)
    draw = np.random.default_rng(seed + 100)
    chances = 1 / (1 + np.exp(-sharp * 5 * given.responses))
    return DomainSide(given.features, np.where(draw.uniform(size=rows) < chances, 1.0, -1.0))


def settings(**given):
    return ConvexSettings(**{"alpha": 0.5, "iterations": 200, "output": "suffix", "residual_clip": "public", **given})


@pytest.mark.parametrize("private", ["target", "source"])
def test_the_public_clip_is_hubers_constant_of_the_public_residuals_only(private):
    public, own, other = side(4000, 1), side(50, 2), side(50, 3, deviation=0.9, weights=-3 * WEIGHTS)
    found = []
    for mine in (own, other):
        source, target = (mine, public) if private == "source" else (public, mine)
        found.append(settings().clipped(Domains(source, target, private)).residual_clip)
    assert found[0] == found[1]
    assert found[0] == pytest.approx(1.345 * 0.05, rel=0.06)
    assert settings(residual_clip=0.3).clipped(Domains(public, own)).residual_clip == 0.3


def test_noise_is_calibrated_to_the_clip_in_use_and_falls_with_it():
    given = Domains(side(400, 1), side(300, 2))
    whole, clipped = settings(residual_clip=None), settings(residual_clip=0.25)
    noises = [chosen.noise(given, 1.0) for chosen in (whole, clipped)]
    assert noises[0][0] / noises[1][0] == pytest.approx(2.0 / 0.25, rel=1e-2)
    assert noises[0][1] / noises[1][1] == pytest.approx((2.0 / 0.25) ** 2, rel=1e-2)
    assert settings(residual_clip=50.0).noise(given, 1.0) == noises[0]  # none exceeds Lambda r + 1
    public = settings().clipped(given)
    assert prepare(given, public, 1.0, SOURCE).noise[0] < 0.1 * noises[0][0]


@for_each("private", ["target", "source"])
@for_each("start", ["zero", "public"])
def test_one_record_moves_a_step_by_no_more_than_the_sensitivity_of_the_clip(private, start):
    # Without noise, one step of known size: what w moves is the gradient.
    public, own = side(60, 1), side(40, 2)
    chosen = settings(residual_clip=0.1, iterations=1, output="last", start=start, kappa_2=0.0)
    moved = []
    for record in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (0.0, 0.0)):
        features, responses = own.features.copy(), own.responses.copy()
        features[0], responses[0] = (record[0], 0.0, 0.0), record[1]
        mine = DomainSide(features, responses)
        given = Domains(mine, public, "source") if private == "source" else Domains(public, mine)
        step = scaled_steps(chosen, prepare(given, chosen, None, SOURCE)).weights
        moved.append(solve(given, chosen, None, SOURCE).weights / step)
    worst = max(float(np.linalg.norm(one - other)) for one in moved for other in moved)
    allowed = sensitivities(chosen.bounds, given, chosen.alpha)[0]
    assert 0.9 * allowed < worst <= allowed


def test_a_clip_of_residuals_that_are_all_zero_is_still_positive():
    exact = side(100, 1, deviation=0.0)
    assert fit_public(exact, "squared", 1.0, 1.0).residual_clip == 2.0 * LEAST_CLIP
    assert np.isfinite(solve(Domains(exact, side(30, 2)), settings(), 1.0, SOURCE).weights).all()


def test_least_squares_and_logistic_regression_of_the_public_side_within_the_ball():
    shares = np.full(500, 1 / 500)
    for radius in (0.1, 1.0):
        plain = least_squares(side(500, 1), shares, radius)
        assert fit_public(side(500, 1), "squared", radius, 1.0).weights == pytest.approx(plain)
    free = logistic(labelled(500, 1), shares, 1e-5)
    assert fit_public(labelled(500, 1), "logistic", 64.0, 1.0).weights == pytest.approx(free, rel=1e-2)
    inside = logistic_in_ball(labelled(500, 1), shares, 1e-5, 2.0)
    assert 0.998 * 2.0 < np.linalg.norm(inside) <= 2.0

    def loss(weights):
        return np.logaddexp(0.0, -labelled(500, 1).responses * (labelled(500, 1).features @ weights)).mean()

    others = np.random.default_rng(0).normal(size=(500, 3))
    others *= 2.0 / np.linalg.norm(others, axis=1)[:, None]
    assert loss(inside) <= min(loss(other) for other in others) + 1e-4


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_noise_of_the_length_of_the_reach_raises_the_public_loss_by_a_quarter(loss):
    given = side(2000, 1, 0.2) if loss == "squared" else labelled(2000, 1)
    found = fit_public(given, loss, 100.0, 1.0)

    def mean_loss(weights):
        scores = given.features @ weights
        each = (scores - given.responses) ** 2 if loss == "squared" else np.logaddexp(0, -given.responses * scores)
        return float(each.mean())

    noise = np.random.default_rng(2).normal(size=(2000, 3)) * found.reach / np.sqrt(3)
    raised = np.mean([mean_loss(found.weights + one) for one in noise]) / mean_loss(found.weights) - 1.0
    assert raised <= 1.05 * WANDER
    assert raised >= (0.95 if loss == "squared" else 0.1) * WANDER


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_good_public_source_is_kept_where_noise_drowns_the_target(loss):
    # 30 people at mu = .1: from 0, with noise for the greatest residual, nothing of the source is left.
    judges = side(2000, 9) if loss == "squared" else labelled(2000, 9)
    given = Domains(side(4000, 1), side(30, 2)) if loss == "squared" else Domains(labelled(4000, 1), labelled(30, 2))

    def error(weights):
        scores = judges.features @ weights
        if loss == "squared":
            return float(np.mean((scores - judges.responses) ** 2))
        return float(np.mean(np.logaddexp(0.0, -judges.responses * scores)))

    radius = 1.0 if loss == "squared" else 16.0
    kept, lost = [], []
    for seed in range(3):
        if loss == "squared":
            new = solve(given, settings(start="public"), 0.1, RandomSource.seeded(seed))
            old = solve(given, settings(residual_clip=None), 0.1, RandomSource.seeded(seed))
        else:
            common = {"alpha": 0.5, "iterations": 100, "output": "average", "radius": radius}
            new = solve(given, NonconvexSettings(**common, start="public"), 0.1, RandomSource.seeded(seed))
            old = solve(given, NonconvexSettings(**common), 0.1, RandomSource.seeded(seed))
        kept.append(error(new.weights))
        lost.append(error(old.weights))
    alone = error(fit_public(given.source, loss, radius, 1.0).weights)
    assert np.mean(kept) < 1.25 * alone
    assert np.mean(lost) > 1.5 * np.mean(kept)
