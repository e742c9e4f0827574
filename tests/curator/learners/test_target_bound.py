"""Theorem B.1's bound as a number; few labels, and public people with other features, by a known map."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.data.population import FeatureMap, PublicPopulationSpec, open_public
from common.learners.adaptation import bound_mu, split
from common.numerics.randomness import RandomSource
from common.operations.operation import Learned
from common.operations.target_bound import LossClass, Released, TargetBound, target_bound
from common.scenario.loading import load
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, prepare, solve
from curator.learners.base import parse_learner
from curator.learners.discrepancy import discrepancy, private_discrepancy, private_value
from curator.learners.domains import Domains, DomainSide, fit_public
from curator.learners.noisy_descent import Bounds
from deploy.checking import checked
from referee.view.wording import run_view
from tests.curator.learners.given import domains, replaced
from tests.curator.learners.test_domains import apart, in_ball
from tests.support import Bench, audited
from tests.tiers import for_each

SOURCE = RandomSource.seeded(5)
COMMON = {"alpha": 0.4, "iterations": 200, "bound_share": 0.2}


def settings_of(loss, common=COMMON):
    return ConvexSettings(**common) if loss == "squared" else NonconvexSettings(**common, output="average")


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
    assert "if both samples were drawn independently" in found.in_words()
    more = TargetBound.parse({**found.wire(), "value": found.value + 1, "empirical": found.empirical + 1})
    assert "at most 1.5475, which says nothing" in more.in_words()


@for_each("private", ["target", "source"])
@for_each("loss", ["squared", "logistic"])
def test_without_noise_its_terms_are_those_of_the_samples(loss, private):
    given = domains(m=400, n=300, private=private, labels=loss == "logistic")
    settings = settings_of(loss)
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
    given, settings = domains(m=40, n=30, labels=loss == "logistic"), settings_of(loss)
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
    found = solve(given, settings_of("squared"), 0.7, SOURCE)
    ((moved, mu),) = asked
    assert mu == bound_mu(settings_of("squared"), 0.7)
    assert moved >= (np.linalg.norm(found.weights) + 1.0) ** 2 / 30


@for_each(
    ("settings", "wrong"),
    [
        ({"bound_share": 0.1, "alpha_from": "discrepancy"}, "fixed beforehand"),
        ({"bound_share": 0.1, "whitening": "public"}, "given features"),
        ({"bound_share": 0.1, "discrepancy_share": 0.9}, "leave a part"),
        ({"bound_share": 1.0}, "less than 1"),
        ({"bound_share": 0.1, "name": "network-adap"}, "no bound on a network"),
        ({"labelled": 9, "bound_share": 0.1}, "labelled discrepancies"),
        ({"labelled": 9, "alpha_from": "discrepancy"}, "labelled discrepancies"),
        ({"labelled": 9, "private": "source"}, "all labels are read"),
        ({"labelled": 9, "name": "network-adap"}, "no unlabelled discrepancy"),
        ({"labelled": 0}, "greater than or equal to 1"),
    ],
)
def test_what_has_no_theorem_is_refused(settings, wrong):
    with pytest.raises(BadScenario, match=wrong):
        parse_learner({"name": "cnvx-adap", "alpha": 0.3, "features": 3, "mu": 1.0, **settings})


def test_a_choice_among_several_has_no_bound():
    learner = {"name": "cnvx-adap", "features": 3, "bound_share": 0.1}
    law = {"name": "negative-binomial", "gamma": 0.5, "most": 4}
    with pytest.raises(BadScenario, match="only the model is released"):
        parse_learner({"name": "chosen", "learner": learner, "grid": {"alpha": [0.3]}, "law": law, "mu": 1.0})


def test_a_curators_bound_that_is_not_the_sum_of_its_terms_is_refused():
    given = domains(m=40, n=30)
    bound = solve(given, settings_of("squared"), 1.0, SOURCE).bound
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


# Few labels -----------------------------------------------------------------------------------------------------------

LINE = {"name": "drifting-line", "side": "source", "d": 4}
FEW = {"alpha": 0.4, "iterations": 100, "labelled": 30}


def relabelled(given, first):
    """Other labels for the target's people from number ``first`` on."""
    responses = given.target.responses.copy()
    responses[first:] *= -1.0
    return Domains(given.source, DomainSide(given.target.features, responses))


@for_each("loss", ["squared", "logistic"])
def test_labels_of_the_others_are_not_read_and_their_features_are(loss):
    given, settings = domains(m=60, n=100, labels=loss == "logistic"), settings_of(loss, FEW)
    found = solve(given, settings, 1.0, SOURCE).weights
    assert np.array_equal(found, solve(relabelled(given, 30), settings, 1.0, SOURCE).weights)
    assert not np.array_equal(found, solve(relabelled(given, 29), settings, 1.0, SOURCE).weights)
    features = given.target.features.copy()
    features[30:] = 0.0
    other = Domains(given.source, DomainSide(features, given.target.responses))
    assert not np.array_equal(found, solve(other, settings, 1.0, SOURCE).weights)
    few = given.first_of_target(30)
    alone = settings.model_copy(update={"labelled": None})
    assert prepare(given, settings, 1.0, SOURCE).noise == prepare(few, alone, 1.0, SOURCE).noise


@for_each("loss", ["squared", "logistic"])
def test_the_unlabelled_discrepancy_is_against_the_public_fit_and_moves_as_little_as_its_noise_is_for(loss):
    given, settings = domains(m=60, n=100, labels=loss == "logistic"), settings_of(loss, FEW)
    found = prepare(given, settings, None, SOURCE).discrepancy
    fit = fit_public(given.source, loss, 1.0, 1.0).weights
    said = [side.features @ fit for side in (given.source, given.target)]
    labels = [np.clip(h, -1, 1) if loss == "squared" else np.where(h > 0, 1.0, -1.0) for h in said]
    pairs = zip((given.source, given.target), labels, strict=True)
    worst = apart(Domains(*(DomainSide(side.features, own) for side, own in pairs)), in_ball(3000, 4, 1.0), loss)
    assert worst <= found
    assert worst > (0.9 if loss == "squared" else 0.4) * found
    bound = 4.0 if loss == "squared" else 1.0  # the widths of the losses of one record
    draw = np.random.default_rng(1)
    for number in range(20):
        row = draw.normal(size=4)
        other = replaced(given, (row / np.linalg.norm(row)).tolist(), 1.0 if number % 2 else -1.0)
        assert abs(prepare(other, settings, None, SOURCE).discrepancy - found) <= bound / 100 * 1.01


def test_the_noise_of_the_discrepancy_is_for_all_people_and_not_for_those_with_labels(monkeypatch):
    asked = []

    def watched(given, *rest, **more):
        asked.append(given.people)
        return private_discrepancy(given, *rest, **more)

    monkeypatch.setattr("curator.learners.noisy_descent.private_discrepancy", watched)
    prepare(domains(m=60, n=100), settings_of("squared", FEW), 1.0, SOURCE)
    assert asked == [100]


def test_more_labels_than_people_are_refused_before_anything_is_charged():
    learner = parse_learner({"name": "cnvx-adap", "alpha": 0.3, "features": 3, "labelled": 9, "mu": 1.0})
    learner.check_people(9)
    with pytest.raises(BadScenario, match="the first 9 people have labels, the curator has 8"):
        learner.check_people(8)


def test_a_known_map_makes_the_same_people_of_another_survey():
    rows = [[[4, -1.0]], [[3, -1.0]], [[2, -1.0]], [[1, -1.0]], [[0, 1.0]]]
    mapping = {"rows": rows, "offsets": [1, 1, 1, 1, 0]}
    other = PublicPopulationSpec.parse({"count": 50, "distribution": {**LINE, "survey": "other"}, "mapping": mapping})
    own = PublicPopulationSpec.parse({"count": 50, "distribution": LINE})
    raw = PublicPopulationSpec.parse({"count": 50, "distribution": {**LINE, "survey": "other"}})
    assert (raw.dimension, other.dimension, own.dimension) == (6, 5, 5)
    found, wanted = open_public(other, None, 3), open_public(own, None, 3)
    assert found.features == pytest.approx(wanted.features, abs=1e-6)
    assert np.array_equal(found.labels, wanted.labels)
    assert open_public(raw, None, 3).features[:, :5] != pytest.approx(wanted.features, abs=0.1)


def test_a_map_is_affine_and_of_each_row_by_itself():
    draw = np.random.default_rng(1)
    features = draw.normal(size=(20, 3)).astype(np.float32)
    found = FeatureMap.parse({"rows": [[[0, 2.0], [2, -0.5]], [], [[1, 1e6]]], "offsets": [0.0, 3.0, 1.0]})
    moved = found.moved(features)
    assert moved[:, 0] == pytest.approx(2.0 * features[:, 0] - 0.5 * features[:, 2], abs=1e-5)
    assert (moved[:, 1] == 3.0).all()
    assert np.array_equal(found.moved(features[7:8]), moved[7:8])
    assert found.needed_features == 3
    assert np.isfinite(found.moved(np.full((1, 3), np.finfo(np.float32).max))).all()


@for_each(
    "mapping",
    [
        {"rows": []}, {"rows": [[[0, 1.0]]], "offsets": [1.0, 2.0]}, {"rows": [[[-1, 1.0]]]},
        {"rows": [[[0, float("inf")]]]}, {"rows": [[[6, 1.0]]]},
    ],
)  # fmt: skip
def test_a_map_that_is_none_is_refused(mapping):
    with pytest.raises(BadMessage):
        PublicPopulationSpec.parse({"count": 5, "distribution": {**LINE, "survey": "other"}, "mapping": mapping})


def test_public_people_with_other_features_and_no_map_are_refused():
    with pytest.raises(BadScenario, match="public people have 12 features, the curator's 11"):
        load("adaptation-few-labels", ["public.mapping=null"])
