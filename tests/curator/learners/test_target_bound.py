"""Theorem B.1's bound as a number: the theorem, what its releases cost, what is refused, and whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.learners.adaptation import bound_mu, split
from common.numerics.randomness import RandomSource
from common.operations.operation import Learned
from common.operations.target_bound import LossClass, Released, TargetBound, target_bound
from common.scenario.loading import load
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, solve
from curator.learners.base import parse_learner
from curator.learners.discrepancy import discrepancy, private_value
from curator.learners.noisy_descent import Bounds
from deploy.checking import checked
from referee.view.wording import run_view
from tests.curator.learners.given import domains, replaced
from tests.support import Bench, audited
from tests.tiers import for_each

SOURCE = RandomSource.seeded(5)
COMMON = {"alpha": 0.4, "iterations": 200, "bound_share": 0.2}


def both(loss):
    return ConvexSettings(**COMMON) if loss == "squared" else NonconvexSettings(**COMMON, output="average")


@for_each("loss", ["squared", "logistic"])
def test_the_bound_holds_for_every_model_in_draw_after_draw_and_its_parts_are_not_loose_by_much(loss):
    """One feature, -1 or 1, and labels: L(D, w) is known, and the worst w is found on a grid."""
    draw, sizes, alpha, radius = np.random.default_rng(1), (60, 40), 0.4, 1.0
    grid = np.linspace(-radius, radius, 81)
    bounds = Bounds(loss, radius, 1.0)
    of_label = np.array([bounds.losses(grid, np.full(81, label)) for label in (-1.0, 1.0)])  # y x is -1 or 1
    chances = 0.9, 0.3  # that y x = 1, in the source and in the target
    true = [(1 - chance) * of_label[0] + chance * of_label[1] for chance in chances]
    missed = []
    for _ in range(400):
        shares = [draw.binomial(size, chance) / size for size, chance in zip(sizes, chances, strict=True)]
        means = [(1 - share) * of_label[0] + share * of_label[1] for share in shares]
        known = alpha * means[0] + (1 - alpha) * means[1] + alpha * np.max(means[1] - means[0])
        missed.append(np.max(true[1] - known))
    numbers = LossClass(bounds.complexity, bounds.width)
    exact = Released(0.0, 0.0, 0.0)
    found = target_bound("zero-one", 1.0, alpha, sizes, (exact, exact), exact, numbers)
    allowed = found.sampling + found.estimation
    assert max(missed) <= allowed
    assert max(missed) > allowed / 60


@for_each("loss", ["squared", "logistic"])
def test_the_weighted_complexity_is_at_most_c_times_the_length_of_the_weights(loss):
    draw = np.random.default_rng(2)
    weights = np.repeat([0.3 / 30, 0.7 / 20], [30, 20])
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    models = np.concatenate([size * np.column_stack([np.cos(angles), np.sin(angles)]) for size in (0.5, 1.0)])
    features = draw.normal(size=(50, 2))
    features /= np.linalg.norm(features, axis=1)[:, None]
    bounds = Bounds(loss, 1.0, 1.0)
    losses = np.array([bounds.losses(features @ model, np.sign(features[:, 0])) for model in models])
    signs = draw.choice([-1.0, 1.0], size=(4000, 50)) * weights
    mean = (signs @ losses.T).max(axis=1).mean()
    whole = bounds.complexity * np.linalg.norm(weights)
    assert whole / 10 < mean < whole


def test_the_right_side_is_that_of_theorem_b_1():
    found = target_bound(
        "squared", 0.25, 0.3, (100, 50), (Released(0.2, 0.0, 0.0), Released(0.4, 0.01, 0.0)),
        Released(0.5, 0.02, 0.001), LossClass(2.0, 4.0),
    )  # fmt: skip
    length = math.hypot(0.3 / 10, 0.7 / math.sqrt(50))
    z = 2.2414027276  # of 1 - .05/4
    assert found.empirical == pytest.approx(0.25 * 0.34)
    assert found.discrepancy == pytest.approx(0.25 * 0.15)
    assert found.noise == pytest.approx(0.25 * (0.7 * z * 0.01 + 0.3 * (z * 0.02 + 0.001)))
    assert found.sampling == pytest.approx(0.25 * length * (4.0 + 4.0 * math.sqrt(math.log(160) / 2)))
    more = 4.0 * (0.1 + 50**-0.5) + 4.0 * math.sqrt(0.03 * math.log(80) / 2)
    assert found.estimation == pytest.approx(0.25 * 0.3 * more)
    assert found.value == pytest.approx(sum(found.terms))
    assert "at most 0.5475 (" in found.in_words()
    more = TargetBound.parse({**found.wire(), "value": found.value + 1, "empirical": found.empirical + 1})
    assert "at most 1.5475, which says nothing" in more.in_words()


@for_each("private", ["target", "source"])
@for_each("loss", ["squared", "logistic"])
def test_without_noise_its_terms_are_those_of_the_samples(loss, private):
    given = domains(m=400, n=300, private=private, labels=loss == "logistic")
    settings = both(loss)
    found = solve(given, settings, None, SOURCE)
    bounds, scale = Bounds(loss, 1.0, 1.0), settings.tested[1]
    means = [
        bounds.losses(side.features @ found.weights, side.responses).mean() for side in (given.source, given.target)
    ]
    assert found.bound.empirical == pytest.approx(scale * (0.4 * means[0] + 0.6 * means[1]))
    assert found.bound.discrepancy == pytest.approx(scale * 0.4 * discrepancy(given, 1.0, 1.0, loss).value)
    assert found.bound.noise < 1e-3
    noisy = solve(given, settings, 0.5, SOURCE)
    assert noisy.bound.noise > 0.01
    assert noisy.bound.value >= sum(noisy.bound.terms)
    assert solve(given, settings.model_copy(update={"bound_share": 0.0}), 0.5, SOURCE).bound is None


def test_a_residual_clip_is_not_in_the_losses_that_the_bound_is_about():
    given = domains(m=400, n=300)
    clipped = ConvexSettings(**COMMON, residual_clip=0.01, start="public")
    found = solve(given, clipped, None, SOURCE)
    loss = [np.square(side.features @ found.weights - side.responses).mean() for side in (given.source, given.target)]
    assert found.bound.empirical == pytest.approx(0.4 * loss[0] + 0.6 * loss[1])
    assert found.bound.sampling == solve(given, ConvexSettings(**COMMON), None, SOURCE).bound.sampling


def test_where_the_model_is_outside_of_the_local_ball_any_discrepancy_is_allowed_for():
    given = domains(m=400, n=300)
    near = solve(given, ConvexSettings(**COMMON, start="public", local=0.9), None, SOURCE)
    far = solve(given, ConvexSettings(**COMMON, start="public", local=1e-3), None, SOURCE)
    assert near.bound.discrepancy < 0.4 * 4.0
    assert far.bound.discrepancy == pytest.approx(0.4 * 4.0)


@for_each("loss", ["squared", "logistic"])
def test_one_private_record_moves_the_loss_by_what_its_noise_is_for(loss):
    given, settings = domains(m=40, n=30, labels=loss == "logistic"), both(loss)
    weights = np.array([0.5, -0.4, 0.3, 0.2])
    bounds = Bounds(loss, float(np.linalg.norm(weights)), 1.0)
    worst = -weights / np.linalg.norm(weights)
    losses = [
        bounds.losses(replaced(given, (sign * worst).tolist(), 1.0).target.features @ weights, given.target.responses)
        for sign in (1.0, -1.0)
    ]
    ends = [bounds.losses(np.array([sign * -np.linalg.norm(weights)]), np.ones(1))[0] for sign in (1.0, -1.0)]
    assert abs(losses[0][1:] - losses[1][1:]).max() == 0.0
    assert abs(ends[0] - ends[1]) <= bounds.width * (1 + 1e-12)
    mu = 0.7
    assert sum(part**2 for part in (*split(settings, mu), bound_mu(settings, mu))) <= mu**2
    assert sum(part**2 for part in (*split(settings, mu), bound_mu(settings, mu))) > 0.999 * mu**2


def test_the_loss_is_released_with_noise_of_its_own_part_of_mu(monkeypatch):
    given, asked = domains(m=40, n=30), []

    def watched(value, greatest, moved, mu, source):
        asked.append((moved, mu))
        return private_value(value, greatest, moved, mu, source)

    monkeypatch.setattr("curator.learners.adaptation.private_value", watched)
    found = solve(given, both("squared"), 0.7, SOURCE)
    ((moved, mu),) = asked
    assert mu == bound_mu(both("squared"), 0.7)
    assert moved >= (np.linalg.norm(found.weights) + 1.0) ** 2 / 30


@for_each(
    ("settings", "wrong"),
    [
        ({"alpha_from": "discrepancy"}, "fixed beforehand"),
        ({"whitening": "public"}, "given features"),
        ({"discrepancy_share": 0.9}, "leave a part"),
        ({"bound_share": 1.0}, "less than 1"),
        ({"name": "network-adap"}, "no bound on a network"),
    ],
)
def test_a_bound_without_a_theorem_is_refused(settings, wrong):
    given = {"name": "cnvx-adap", "alpha": 0.3, "features": 3, "bound_share": 0.1, "mu": 1.0, **settings}
    with pytest.raises(BadScenario, match=wrong):
        parse_learner(given)


def test_a_choice_among_several_has_no_bound():
    learner = {"name": "cnvx-adap", "features": 3, "bound_share": 0.1}
    law = {"name": "negative-binomial", "gamma": 0.5, "most": 4}
    with pytest.raises(BadScenario, match="only the model is released"):
        parse_learner({"name": "chosen", "learner": learner, "grid": {"alpha": [0.3]}, "law": law, "mu": 1.0})


def test_a_curators_bound_that_is_not_the_sum_of_its_terms_is_refused():
    given = domains(m=40, n=30)
    bound = solve(given, both("squared"), 1.0, SOURCE).bound
    hypothesis = {"kind": "linear", "weights": [1.0], "threshold": 0.0}
    assert Learned.parse({"hypothesis": hypothesis, "bound": bound.wire()}).bound == bound
    for wrong in ({"value": 0.9 * bound.value}, {"noise": -0.1}, {"confidence": 1.0}, {"loss": "hinge"}):
        with pytest.raises(BadMessage):
            Learned.parse({"hypothesis": hypothesis, "bound": {**bound.wire(), **wrong}})
    assert "bound" not in Learned.parse({"hypothesis": hypothesis}).wire()
    assert TargetBound.parse(bound.wire()) == bound


@pytest.mark.slow
@for_each("name", ["domain-adaptation", "reverse-adaptation"])
def test_a_run_has_the_bound_in_its_result_and_its_audit_is_of_it(name, tmp_path):
    few = ("agents.count=40", "agents.batch=40", "agents.deadline=5", "baselines=[]")
    chosen = checked(load(name, [*few, "curator.learner.iterations=200", "curator.learner.bound_share=0.1"]))
    with Bench(tmp_path, chosen) as bench:
        result = bench.run()
        assert audited(bench).status == result["status"] == "done"
    found = TargetBound.parse(result["bound"])
    assert found.loss == chosen.agents.loss
    assert found.noise > 0.0
    assert found.in_words() in dict(run_view(chosen, result, result["rounds"]).facts).values()
