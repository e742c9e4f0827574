"""Adaptation: the discrepancy, certified and private; what the public side says; learners, and what they refuse."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest

from benchmarks.audits.adaptation_cases import by_dca, divided
from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Regressor
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners import discrepancy as module
from curator.learners.adaptation import (
    AdaptationLearner,
    ConvexSettings,
    NonconvexSettings,
    prepare,
    scaled_steps,
    solve,
)
from curator.learners.base import parse_learner
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
from tests.curator.learners.given import domains, learned, replaced
from tests.tiers import for_each, thinned

LOSSES = ("squared", "logistic")


def mean_losses(side, points, loss):
    scores = points @ side.features.T
    each = (scores - side.responses) ** 2 if loss == "squared" else np.logaddexp(0.0, -scores * side.responses)
    return each.mean(axis=1)


def excess(given, points, loss):
    """Return by how much the target's mean loss is above the source's, at most, at points."""
    return np.max(mean_losses(given.target, points, loss) - mean_losses(given.source, points, loss))


def apart(given, points, loss):
    return max(excess(given, points, loss), excess(Domains(given.target, given.source), points, loss))


def in_ball(count, dimension, radius):
    draw = np.random.default_rng(3)
    points = draw.normal(size=(count, dimension))
    return points * radius * draw.uniform(size=(count, 1)) ** 0.2 / np.linalg.norm(points, axis=1)[:, None]


@for_each("radius", [0.3, 1.0, 3.0])
def test_squared_loss_is_what_a_search_finds(radius):
    given = domains(dimension=2)
    exact, found = discrepancy(given, radius, 1.0), apart(given, in_ball(40_000, 2, radius), "squared")
    assert found <= exact.value
    assert found == pytest.approx(exact.value, rel=5e-3)
    assert apart(given, exact.point[None], "squared") == pytest.approx(exact.value, abs=1e-12)
    assert exact.gap < TOLERANCE * greatest_loss("squared", radius, 1.0)


@for_each("radius", [0.1, 1.0, 4.0, 20.0])
def test_the_logistic_bound_is_an_upper_bound(radius):
    given = domains(dimension=2, labels=True)
    found = apart(given, in_ball(40_000, 2, radius), "logistic")
    bound = discrepancy(given, radius, 1.0, "logistic").value
    assert found <= bound
    assert radius > 1.0 or bound <= 1.2 * found + 0.01
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


def test_dca_jumps_by_more_than_its_claimed_sensitivity():
    # From one start, DCA goes to one end of the ball or to the other, as one of a thousand people decides.
    before, after = divided(1000, 499), divided(1000, 500)
    assert sensitivity(before, 1.0, 1.0) == pytest.approx(0.004, rel=1e-3)
    assert abs(by_dca(before) - by_dca(after)) == pytest.approx(2.0, abs=0.01)
    exact = [discrepancy(given, 1.0, 1.0).value for given in (before, after)]
    assert abs(exact[0] - exact[1]) <= 0.004
    assert min(by_dca(before), by_dca(after)) < min(exact) - 1.9  # far from the greatest value


def test_noise_has_the_deviation_that_mu_asks_for_and_stays_in_range():
    given, source = domains(m=4000, n=3000), RandomSource.seeded(7)
    drawn = np.array([private_discrepancy(given, 1.0, 1.0, 2.0, source.derive(i)) for i in range(800)])
    wanted = sensitivity(given, 1.0, 1.0) / 2.0
    assert abs(drawn.mean() - discrepancy(given, 1.0, 1.0).value) < 5 * wanted / np.sqrt(len(drawn))
    assert drawn.std() == pytest.approx(wanted, rel=0.12)
    wild = [private_discrepancy(domains(m=3, n=2), 1.0, 1.0, 0.01, source.derive(i)) for i in range(50)]
    assert (min(wild), max(wild)) == (0.0, 4.0)


@for_each("loss", LOSSES)
def test_a_value_that_is_not_certified_is_none(monkeypatch, loss):
    """The sensitivity counts on a computed value within eta of the exact one: a wider certificate is refused."""
    given, solved = domains(labels=loss == "logistic"), greatest_on_ball
    allowed = TOLERANCE * greatest_loss(loss, 1.0, 1.0)
    for gap, refused in ((allowed, False), (1.01 * allowed, True), (math.nan, True)):
        monkeypatch.setattr(module, "greatest_on_ball", lambda *given, gap=gap: solved(*given)._replace(gap=gap))
        with pytest.raises(ArithmeticError, match="has a gap of") if refused else nullcontext():
            assert discrepancy(given, 1.0, 1.0, loss).gap == gap


def problem(seed, kind):
    draw = np.random.default_rng(seed)
    d = int(draw.integers(1, 6))
    quadratic, linear = draw.normal(size=(d, d)), draw.normal(size=d)
    quadratic = quadratic + quadratic.T
    first = np.linalg.eigh(quadratic)[1][:, -1]
    along = first * (first @ linear)
    changed = {
        "hard": (quadratic, 0.1 * (linear - along)), "nearly hard": (quadratic, 0.1 * (linear - along * (1 - 1e-9))),
        "concave": (-quadratic @ quadratic.T, linear), "flat": (np.zeros((d, d)), linear),
        "tiny": (quadratic, linear * 10.0 ** -float(draw.integers(5, 300))),
    }  # fmt: skip
    return changed.get(kind, (quadratic, linear))


@for_each("radius", [0.01, 1.0, 30.0])
@for_each("kind", ["usual", "hard", "nearly hard", "concave", "tiny", "flat"])
@for_each("seed", thinned(range(8), 3))
def test_no_point_of_the_ball_has_more_and_one_has_as_much(seed, kind, radius):
    quadratic, linear = problem(seed, kind)

    def value(points):
        return np.einsum("ki,ij,kj->k", points, quadratic, points) - 2 * points @ linear + 0.3

    found = greatest_on_ball(quadratic, linear, 0.3, radius)
    size = 1.0 + np.abs(quadratic).max() * radius**2 + np.abs(linear).max() * radius
    assert np.linalg.norm(found.point) <= radius * (1 + 1e-12)
    assert value(in_ball(4000, len(linear), radius)).max() <= found.value
    assert value(found.point[None])[0] >= found.value - found.gap
    assert 0 <= found.gap <= 1e-10 * size


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


def between(public, own, private):
    """Return both domains, of which the private side is one or the other."""
    return Domains(*((own, public) if private == "source" else (public, own)), private)


@for_each("private", ["target", "source"])
def test_the_public_clip_is_hubers_constant_of_the_public_residuals_only(private):
    public, others = side(4000, 1), (side(50, 2), side(50, 3, deviation=0.9, weights=-3 * WEIGHTS))
    found = [settings().clipped(between(public, own, private)).residual_clip for own in others]
    assert found[0] == found[1] == pytest.approx(1.345 * 0.05, rel=0.06)
    assert settings(residual_clip=0.3).clipped(between(public, others[0], private)).residual_clip == 0.3


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
    given, moved = between(side(60, 1), side(40, 2), private), []
    chosen = settings(residual_clip=0.1, iterations=1, output="last", start=start, kappa_2=0.0)
    for feature, response in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (0.0, 0.0)):
        given = replaced(given, [feature, 0.0, 0.0], response)
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
    losses = mean_losses(labelled(500, 1), np.vstack([inside, in_ball(500, 3, 2.0)]), "logistic")
    assert losses[0] <= losses.min() + 1e-4


@for_each("loss", LOSSES)
def test_noise_of_the_length_of_the_reach_raises_the_public_loss_by_a_quarter(loss):
    given = side(2000, 1, 0.2) if loss == "squared" else labelled(2000, 1)
    found = fit_public(given, loss, 100.0, 1.0)
    noise = np.random.default_rng(2).normal(size=(2000, 3)) * found.reach / np.sqrt(3)
    losses = mean_losses(given, found.weights + np.vstack([np.zeros(3), noise]), loss)
    raised = losses[1:].mean() / losses[0] - 1.0
    assert (0.95 if loss == "squared" else 0.1) * WANDER <= raised <= 1.05 * WANDER


@for_each(("loss", "people", "radius"), [("squared", side, 1.0), ("logistic", labelled, 16.0)])
def test_a_good_public_source_is_kept_where_noise_drowns_the_target(loss, people, radius):
    # 30 people at mu = .1: from 0, with noise for the greatest residual, nothing of the source is left.
    judges, given = people(2000, 9), Domains(people(4000, 1), people(30, 2))
    if loss == "squared":
        new, old = settings(start="public"), settings(residual_clip=None)
    else:
        old = NonconvexSettings(alpha=0.5, iterations=100, output="average", radius=radius)
        new = old.model_copy(update={"start": "public"})
    alone = fit_public(given.source, loss, radius, 1.0).weights
    fits = [solve(given, one, 0.1, RandomSource.seeded(seed)).weights for one in (new, old) for seed in range(3)]
    losses = mean_losses(judges, np.array([alone, *fits]), loss)
    assert losses[1:4].mean() < 1.25 * losses[0]
    assert losses[4:].mean() > 1.5 * losses[1:4].mean()


COMMON = {"features": 3, "alpha": 0.3, "norm": 1.0, "radius": 3.0, "iterations": 1500, "kappa_1": 5.0, "mu": 3.0}
REGRESSION = {**COMMON, "name": "cnvx-adap", "response": 4}
LABELS = {**COMMON, "name": "ncnvx-adap", "output": "average"}


def records_of(n, seed, shift=0.0):
    """Three features, one that nobody may look at, and a response in [0, 1] that the label is about."""
    draw = np.random.default_rng(seed)
    features = draw.uniform(size=(n, 5)).astype(np.float32)
    line = np.array([0.5, -0.3 + shift, 0.2])
    features[:, 4] = np.clip(0.55 + (features[:, :3] - 0.5) @ line + 0.02 * draw.normal(size=n), 0, 1)
    return Records(features, np.where(features[:, 4] > 0.5, 1, -1).astype(np.int8))


@for_each("private", ["target", "source"])
def test_a_regressor_of_the_response_column(private):
    own, public, test = records_of(3000, 1), records_of(2000, 2), records_of(2000, 3)
    if private == "source":
        own, public = public, own
    found = learned({**REGRESSION, "private": private}, own, public=public)
    assert isinstance(found, Regressor)
    assert (found.response, len(found.weights)) == (4, 3)
    assert float(((found.values(test.features) - found.responses(test)) ** 2).mean()) < 0.003


def test_without_privacy_weights_and_intercept_are_those_of_least_squares():
    own = records_of(3000, 1)
    exact = {"mu": None, "alpha": 0.001, "kappa_1": 100.0, "kappa_2": 0.0, "output": "last"}
    found = learned({**REGRESSION, **exact}, own, public=records_of(50, 2))
    design = np.column_stack([own.features[:, :3], np.ones(len(own))]).astype(np.float64)
    plain = np.linalg.lstsq(design, own.features[:, 4].astype(np.float64))[0]
    assert np.abs(np.array([*found.weights, found.intercept]) - plain).max() < 0.02


@for_each("settings", [REGRESSION, LABELS])
def test_what_it_cannot_adapt_from_is_refused_first(settings):
    learner, regression = parse_learner(settings), parse_learner(REGRESSION)
    few = Records(np.zeros((4, 2), np.float32), np.ones(4, np.int8))
    for refused, says in (
        (lambda: learner.check_public(None), "section public"),
        (lambda: learner.check_public(few), "same features"),
        (lambda: learner.check(np.dtype(np.float32), 2), "people have 2"),
        (lambda: regression.check(np.dtype(np.float32), 4), "people have 4"),
    ):
        with pytest.raises(BadScenario, match=says):
            refused()
    learner.check(np.dtype(np.float32), 5)
    learner.check_public(records_of(5, 1))


@for_each(
    ("settings", "says"),
    [
        ({**REGRESSION, "response": 2}, "among the 3 features"),
        ({**REGRESSION, "mu": 1e-6}, "too small for 1500 iterations"),
        ({**LABELS, "response": 4}, "unknown key"),
        *(({**settings, "alpha": alpha}, "alpha") for settings in (REGRESSION, LABELS) for alpha in (0.0, 1.0)),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(BadScenario, match=says):
        parse_learner(settings)


def correlated(n, seed):
    """People whose features are far from the middle, narrow, and nearly the same number."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=n)
    features = np.zeros((n, 5), dtype=np.float32)
    features[:, :3] = 0.9 + 0.01 * (common[:, None] + 0.3 * draw.normal(size=(n, 3)))
    line = 12.0 * (features[:, 0] - features[:, 1]) + 4.0 * (features[:, 2] - 0.9)
    features[:, 4] = np.clip(0.5 + line + 0.02 * draw.normal(size=n), 0, 1)
    return Records(features, np.where(features[:, 4] > 0.5, 1, -1).astype(np.int8))


@for_each("private", ["target", "source"])
@for_each("intercept", [True, False])
def test_whitening_by_the_public_sample_learns_what_narrow_correlated_features_say(private, intercept):
    own, public, test = correlated(2000, 1), correlated(2000, 2), correlated(2000, 3)
    settings = {**REGRESSION, "iterations": 600, "private": private, "intercept": intercept, "output": "suffix"}
    errors = {}
    for kind in ("none", "public"):
        found = learned({**settings, "whitening": kind}, own, public=public)
        errors[kind] = float(((found.values(test.features) - found.responses(test)) ** 2).mean())
    assert errors["public"] < 0.003
    assert errors["none"] > 2.0 * errors["public"]


def test_whitening_takes_nothing_from_the_private_side():
    own, public = correlated(300, 1), correlated(300, 2)
    shifted = Records(own.features * np.float32(0.5), own.labels)
    learner = parse_learner({**REGRESSION, "whitening": "public"})
    assert isinstance(learner, AdaptationLearner)
    scaling = learner._scaling(public)
    moved, halved = (learner._side(records, scaling=scaling).features for records in (own, shifted))
    assert not np.allclose(moved, halved)
    alone = learner._side(own.take(np.array([0])), scaling=scaling)
    assert alone.features[0] == pytest.approx(moved[0], rel=1e-12)  # each row by itself
    assert np.mean(np.linalg.norm(learner._side(public, scaling=scaling).features[:, :3], axis=1) < 1.0) > 0.7


@for_each("loss", ["squared", "logistic"])
def test_the_one_sided_discrepancy_is_one_of_the_two_signs(loss):
    given = domains(m=40, n=30, labels=loss == "logistic")
    swapped = Domains(given.target, given.source)
    one, other = (discrepancy(pair, 1.0, 1.0, loss, one_sided=True).value for pair in (given, swapped))
    assert max(one, other) == discrepancy(given, 1.0, 1.0, loss).value
    assert one != other
    found = excess(given, in_ball(2000, 4, 1.0), loss)
    assert found <= one
    if loss == "squared":
        assert found > 0.9 * one


def test_alpha_from_the_discrepancy_minimises_theorem_b_1_s_bound_and_is_at_most_the_one_given():
    chosen = ConvexSettings(alpha=0.9, alpha_from="discrepancy")
    bounds, sizes = chosen.bounds, (300, 200)
    factor = 2.0 * bounds.slope * chosen.radius + bounds.width * np.sqrt(np.log(40.0) / 2.0)

    def bound(alpha, d):
        return alpha * d + factor * np.hypot(alpha / np.sqrt(sizes[0]), (1.0 - alpha) / np.sqrt(sizes[1]))

    grid = np.linspace(1e-6, 0.9, 20_001)
    found = [chosen.weighted(sizes, d).alpha for d in (0.0, 0.2, 0.5, 1.0, 4.0)]
    for d, alpha in zip((0.0, 0.2, 0.5, 1.0, 4.0), found, strict=True):
        assert bound(alpha, d) <= bound(grid, d).min() + 1e-9
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(300 / 500)  # without a discrepancy every record weighs the same
    assert chosen.model_copy(update={"alpha": 0.4}).weighted(sizes, 0.0).alpha == pytest.approx(0.4)
    assert ConvexSettings(alpha=0.9).weighted(sizes, 0.5).alpha == 0.9


def test_alpha_is_a_function_of_the_released_estimate_and_everything_after_is_as_if_it_were_given():
    given = domains(m=300, n=200)
    common = {"iterations": 50, "radius": 1.0, "one_sided": True}
    chosen = ConvexSettings(alpha=0.9, alpha_from="discrepancy", **common)
    estimate = prepare(given, chosen, 1.0, SOURCE).discrepancy
    alpha = chosen.weighted(given.sizes, estimate).alpha
    assert 1e-3 < alpha < 0.6
    fixed = ConvexSettings(alpha=alpha, **common)
    assert prepare(given, fixed, 1.0, SOURCE).noise == prepare(given, chosen, 1.0, SOURCE).noise
    assert np.array_equal(solve(given, fixed, 1.0, SOURCE).weights, solve(given, chosen, 1.0, SOURCE).weights)


@for_each("loss", ["squared", "logistic"])
def test_the_local_discrepancy_is_that_of_a_ball_around_the_public_fit_and_moves_by_its_own_sensitivity(loss):
    given, centre = domains(m=40, n=30, labels=loss == "logistic"), np.array([0.3, -0.2, 0.1, 0.0])
    local = discrepancy(given, 0.2, 1.0, loss, one_sided=True, around=centre)
    draw = np.random.default_rng(1)
    steps = draw.normal(size=(1000, 4))
    found = excess(given, centre + 0.2 * steps / np.linalg.norm(steps, axis=1)[:, None], loss)
    assert found <= local.value
    assert found == pytest.approx(local.value, abs=0.02)
    assert np.linalg.norm(local.point - centre) <= 0.2 + 1e-12
    assert local.value < discrepancy(given, 1.0, 1.0, loss, one_sided=True).value
    reach = 0.2 + float(np.linalg.norm(centre))
    for number in range(20):
        row = draw.normal(size=4)
        other = replaced(given, (row / np.linalg.norm(row)).tolist(), 1.0 if number % 2 else -1.0)
        moved = abs(discrepancy(other, 0.2, 1.0, loss, one_sided=True, around=centre).value - local.value)
        assert moved <= sensitivity(given, reach, 1.0, loss)
