"""NCnvxAdap by networks: gradients, public bounds on them, sensitivities, what is released, and what it is worth."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.data.distributions.clusters import ClassRings
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import Linear, Network
from common.numerics.randomness import RandomSource
from curator.learners import networks
from curator.learners.adaptation import prepare, solve
from curator.learners.base import parse_learner
from curator.learners.domains import Domains, DomainSide
from curator.learners.networks import NetworkBounds, NetworkSettings, Shape
from curator.learners.noisy_descent import Rows, Steps, public_forces, sensitivities, unit_of
from tests.curator.learners.given import learned as learned_from
from tests.curator.learners.given import replaced
from tests.tiers import for_each

SOURCE = RandomSource.seeded(1)


def side(size: int, seed: int, classes: int = 3, dimension: int = 4) -> DomainSide:
    """People within ||x|| <= 1 of several classes, one of them without."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(size, dimension))
    features /= np.linalg.norm(features, axis=1)[:, None]
    codes = draw.integers(0, classes, size) / 64.0
    codes[0] = -1.0 / 64.0
    return DomainSide(features, codes)


def domains(m: int = 30, n: int = 20, classes: int = 3) -> Domains:
    return Domains(side(m, 1, classes), side(n, 2, classes))


def settings(**given: Any) -> NetworkSettings:
    common = {"alpha": 0.4, "hidden": 5, "outputs": 3, "radius": 3.0, "iterations": 50}
    return NetworkSettings(**{**common, "output": "last", "start": "zero", **given})


def passed(given: Domains, chosen: NetworkSettings, weights: Any) -> Any:
    """Return the private side's gradient, in the paper's unit, and its scales after one step, without noise."""
    prepared = prepare(given, chosen, None, SOURCE)._replace(discrepancy=0.0)
    sizes = given.sizes
    forces = public_forces(chosen, prepared, Steps(1.0, 1.0, 1.0), np.ones(sum(sizes)))
    private = given.target
    rows = Rows(private.features.astype(np.float32), private.responses, np.zeros(sizes[1]), np.ones(sizes[1]))
    gradient = chosen.pass_over([rows], weights, forces[1:]) * unit_of(chosen.bounds, given.shares(chosen.alpha))
    return gradient, rows.scales


def one_hot(given: DomainSide, classes: int = 3) -> Any:
    return (np.rint(given.responses * 64)[:, None] == np.arange(classes)).astype(float)


@for_each("hidden", [0, 5])
def test_the_gradient_is_that_of_the_mean_loss(hidden):
    shape, given = Shape(4, hidden, 3), side(30, 1)
    weights = np.random.default_rng(3).normal(size=3 * 6 + 20 if hidden else 12)
    found = shape.gradient(weights, given.features, one_hot(given))
    steps = 1e-6 * np.eye(len(weights))
    around = [
        [shape.gradient(weights + sign * step, given.features, one_hot(given))[0] for sign in (1, -1)] for step in steps
    ]
    assert found[1] == pytest.approx((np.array(around)[:, 0] - np.array(around)[:, 1]) / 2e-6, abs=1e-7)
    mean = settings(hidden=hidden, loss_clip=None).mean_loss(weights, given)
    assert mean == pytest.approx(found[0])


@for_each("hidden", [0, 5])
@for_each("clip", [None, 0.3])
def test_a_pass_adds_up_clipped_gradients_row_by_row(hidden, clip):
    given, chosen = domains(), settings(hidden=hidden, gradient_clip=clip, kappa_2=0.0)
    weights = np.random.default_rng(4).normal(size=chosen.bounds.parameters(4))
    shape, rows, wanted = chosen.shape(4), given.target.features, one_hot(given.target)
    slow = np.zeros(len(weights))
    for row, own in zip(rows, wanted, strict=True):
        gradient = shape.gradient(weights, row[None], own[None])[1]
        slow += gradient * min(1.0, (clip or math.inf) / max(float(np.linalg.norm(gradient)), 1e-12))
    gradient, scales = passed(given, chosen, weights)
    assert gradient == pytest.approx(slow * given.private_share(0.4), abs=1e-6)
    losses = [shape.gradient(weights, row[None], own[None])[0] for row, own in zip(rows, wanted, strict=True)]
    assert scales == pytest.approx(np.maximum(1.0, 1.0 + np.minimum(losses, 2.0) - chosen.kappa_1), abs=1e-5)


@for_each("hidden", [0, 5])
def test_public_bounds_hold_for_every_record_and_all_parameters(hidden):
    """G, the greatest loss and beta of NetworkBounds, at points of the ball and records within the norm."""
    bounds, shape = NetworkBounds("cross-entropy", 3.0, 1.0, hidden=hidden, outputs=3), Shape(4, hidden, 3)
    draw = np.random.default_rng(5)
    worst, steepest, bent = 0.0, 0.0, 0.0
    for number in range(300):
        weights = draw.normal(size=bounds.parameters(4)) * (1.0 if hidden else 10.0 ** draw.uniform(-1, 1))
        weights *= 3.0 / np.linalg.norm(weights)
        row, own = side(2, 100 + number).features[:1], np.eye(3)[[number % 3]]
        other = weights + 1e-5 * draw.normal(size=len(weights))
        (loss, gradient), (_, moved) = (shape.gradient(point, row, own) for point in (weights, other))
        worst, steepest = max(worst, loss), max(steepest, float(np.linalg.norm(gradient)))
        bent = max(bent, float(np.linalg.norm(moved - gradient) / np.linalg.norm(other - weights)))
    assert 0.2 * bounds.greatest < worst <= bounds.greatest
    assert 0.2 * bounds.slope < steepest <= bounds.slope
    assert bent <= bounds.smoothness


def unclipped(rows: Rows, weights: Any, shape: Shape, clip: float, *rest: Any) -> None:
    _MOVE(rows, weights, shape, 1e6, *rest)


_MOVE = networks.move_network_rows


@for_each("hidden", [0, 5])
def test_a_replaced_record_moves_the_gradient_by_at_most_its_sensitivity_and_without_clips_by_more(hidden, monkeypatch):
    given, chosen = domains(), settings(hidden=hidden, gradient_clip=0.2)
    first, second = sensitivities(chosen.bounds, given, chosen.alpha)
    draw, greatest, beyond = np.random.default_rng(6), 0.0, 0.0
    for number in range(40):
        weights = draw.normal(size=chosen.bounds.parameters(4)) * 0.2
        row = side(2, number).features[1]
        pair = [replaced(given, row.tolist(), code / 64.0) for code in (number % 3, (number + 1) % 3)]
        moved = np.linalg.norm(np.subtract(*(passed(side, chosen, weights)[0] for side in pair)))
        scales = np.abs(np.subtract(*(passed(side, chosen, weights)[1] for side in pair)))
        assert np.count_nonzero(scales) <= 1
        assert scales.max() <= second
        greatest = max(greatest, float(moved))
        with monkeypatch.context() as patched:
            patched.setattr(networks, "move_network_rows", unclipped)
            beyond = max(beyond, float(np.linalg.norm(np.subtract(*(passed(s, chosen, weights)[0] for s in pair)))))
    assert 0.8 * first < greatest <= first < beyond


def test_the_local_discrepancy_moves_by_at_most_b_over_n():
    chosen, given = settings(), domains(n=20)
    moved = 0.0
    for number in range(20):
        other = replaced(given, side(2, number).features[1].tolist(), (number % 3) / 64.0)
        found = [prepare(people, chosen, None, SOURCE).discrepancy for people in (given, other)]
        moved = max(moved, abs(found[0] - found[1]))
    assert 0.0 < moved <= chosen.bounds.greatest / 20


def test_a_record_without_a_class_says_nothing():
    given, chosen = domains(), settings()
    far = [replaced(given, row, code) for row, code in (([1.0, 0, 0, 0], -1 / 64), ([0, 1.0, 0, 0], 1.0))]
    one, other = (solve(people, chosen, 1.0, SOURCE).weights for people in far)
    assert np.array_equal(one, other)


@cache
def people(side: Any, seed: int, count: int) -> Any:
    return ClassRings(side=side).draw(seed, np.arange(count))


RINGS = {"name": "network-adap", "features": 2, "alpha": 0.1, "radius": 40.0, "iterations": 200, "output": "last"}


def learned(mu: float | None = 0.5, classes: int | None = 3, **more: Any) -> Any:
    wanted = None if classes is None else {"first": 2, "count": classes}
    settings = {**RINGS, "mu": mu, "classes": wanted, **more}
    return learned_from(settings, people("target", 1, 2000), public=people("source", 2, 3000))


def test_a_network_learns_what_no_linear_scores_do_and_more_than_the_public_side_knows():
    target = people("target", 3, 5000)
    network, linear, alone = learned(), learned(hidden=0), learned(iterations=1, step=1e-9)
    assert isinstance(network, Argmax)
    assert all(isinstance(scored, Network) for scored in network.hypotheses)
    assert all(isinstance(scored, Linear) for scored in linear.hypotheses)
    errors = [float(found.mistakes(target).mean()) for found in (network, alone, linear)]
    assert errors[0] < 0.25 < 0.35 < min(errors[1:])


def test_two_classes_are_the_label_and_whitening_changes_no_prediction_s_meaning():
    target = people("target", 3, 5000)
    for more in ({}, {"whitening": "public"}, {"hidden": 0}):
        found = learned(classes=None, **more)
        assert isinstance(found, Linear if more.get("hidden") == 0 else Network)
        if more != {"hidden": 0}:
            assert found.mistakes(target).mean() < 0.15


def test_with_much_privacy_loss_it_is_the_non_private_version():
    given, chosen = domains(m=400, n=300), settings(step=0.3)
    exact, free, noisy = (solve(given, chosen, mu, SOURCE).weights for mu in (None, 1e5, 0.05))
    assert np.abs(free - exact).max() < 0.02 < 0.1 < np.abs(noisy - exact).max()


@for_each(
    ("more", "says"),
    [
        ({"classes": {"first": 1, "count": 3}}, "among the 2 features"),
        ({"hidden": 1000, "features": 400}, "403002 numbers, more than 65536: take fewer hidden units"),
        ({"classes": {"first": 4, "count": 3}}, "up to number 6, people have 5"),
    ],
)
def test_a_network_that_cannot_be_is_refused(more, says):
    with pytest.raises(BadScenario, match=says):
        parse_learner({**RINGS, **more}).check(np.dtype(np.float32), 5)
