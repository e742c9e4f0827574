"""What the public side decides beforehand: the clip of residuals, the start, and how far noise may go."""

from __future__ import annotations

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from curator.learners.adaptation.algorithms import (
    ConvexSettings,
    NonconvexSettings,
    fit_convex,
    prepare,
    scaled_steps,
    solve_convex,
)
from curator.learners.adaptation.algorithms import solve_nonconvex as solve_nonconvex
from curator.learners.adaptation.domains import Domains, Side
from curator.learners.adaptation.noisy_descent import sensitivities
from curator.learners.adaptation.public_fits import (
    LEAST_CLIP,
    WANDER,
    fit_public,
    least_squares,
    logistic,
    logistic_in_ball,
)
from tests.tiers import for_each

SOURCE = RandomSource.seeded(1)
WEIGHTS = np.array([0.3, -0.2, 0.1])


def side(rows, seed, deviation=0.05, weights=WEIGHTS):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, 3))
    features /= np.maximum(np.linalg.norm(features, axis=1), 1.0)[:, None]
    return Side(features, np.clip(features @ weights + deviation * draw.normal(size=rows), -1, 1))


def labelled(rows, seed, sharp=4.0):
    given = side(rows, seed, 0.0)
    draw = np.random.default_rng(seed + 100)
    chances = 1 / (1 + np.exp(-sharp * 5 * given.responses))
    return Side(given.features, np.where(draw.uniform(size=rows) < chances, 1.0, -1.0))


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
        mine = Side(features, responses)
        given = Domains(mine, public, "source") if private == "source" else Domains(public, mine)
        step = scaled_steps(chosen, prepare(given, chosen, None, SOURCE)).weights
        moved.append(solve_convex(given, chosen, None, SOURCE).weights / step)
    worst = max(float(np.linalg.norm(one - other)) for one in moved for other in moved)
    allowed = sensitivities(chosen.bounds, given, chosen.alpha)[0]
    assert 0.9 * allowed < worst <= allowed


def test_a_clip_of_residuals_that_are_all_zero_is_still_positive():
    exact = side(100, 1, deviation=0.0)
    assert fit_public(exact, "squared", 1.0, 1.0).residual_clip == 2.0 * LEAST_CLIP
    assert np.isfinite(fit_convex(Domains(exact, side(30, 2)), settings(), 1.0, SOURCE)).all()


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
            new = solve_convex(given, settings(start="public"), 0.1, RandomSource.seeded(seed))
            old = solve_convex(given, settings(residual_clip=None), 0.1, RandomSource.seeded(seed))
        else:
            common = {"alpha": 0.5, "iterations": 100, "output": "average", "radius": radius}
            new = solve_nonconvex(given, NonconvexSettings(**common, start="public"), 0.1, RandomSource.seeded(seed))
            old = solve_nonconvex(given, NonconvexSettings(**common), 0.1, RandomSource.seeded(seed))
        kept.append(error(new.weights))
        lost.append(error(old.weights))
    alone = error(fit_public(given.source, loss, radius, 1.0).weights)
    assert np.mean(kept) < 1.25 * alone
    assert np.mean(lost) > 1.5 * np.mean(kept)
