"""Few labels: what is read of whom, the unlabelled discrepancy; public people with other features, by a known map."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.data.population import FeatureMap, PublicPopulationSpec, open_public
from common.numerics.randomness import RandomSource
from common.scenario.loading import load
from curator.learners.adaptation import ConvexSettings, NonconvexSettings, prepare, solve
from curator.learners.base import parse_learner
from curator.learners.discrepancy import private_discrepancy
from curator.learners.domains import Domains, DomainSide, fit_public
from tests.curator.learners.given import domains, replaced
from tests.curator.learners.test_domains import apart, in_ball
from tests.tiers import for_each

SOURCE = RandomSource.seeded(5)
LINE = {"name": "drifting-line", "side": "source", "d": 4}
COMMON = {"alpha": 0.4, "iterations": 100, "labelled": 30}


def settings_of(loss):
    return ConvexSettings(**COMMON) if loss == "squared" else NonconvexSettings(**COMMON, output="average")


def relabelled(given, first):
    """Other labels for the target's people from number ``first`` on."""
    responses = given.target.responses.copy()
    responses[first:] *= -1.0
    return Domains(given.source, DomainSide(given.target.features, responses))


@for_each("loss", ["squared", "logistic"])
def test_labels_of_the_others_are_not_read_and_their_features_are(loss):
    given, settings = domains(m=60, n=100, labels=loss == "logistic"), settings_of(loss)
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
    given, settings = domains(m=60, n=100, labels=loss == "logistic"), settings_of(loss)
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
    prepare(domains(m=60, n=100), settings_of("squared"), 1.0, SOURCE)
    assert asked == [100]


@for_each(
    ("settings", "wrong"),
    [
        ({"bound_share": 0.1}, "labelled discrepancies"),
        ({"alpha_from": "discrepancy"}, "labelled discrepancies"),
        ({"private": "source"}, "all labels are read"),
        ({"name": "network-adap"}, "no unlabelled discrepancy"),
        ({"labelled": 0}, "greater than or equal to 1"),
    ],
)
def test_few_labels_without_a_theorem_are_refused(settings, wrong):
    with pytest.raises(BadScenario, match=wrong):
        parse_learner({"name": "cnvx-adap", "alpha": 0.3, "features": 3, "labelled": 9, "mu": 1.0, **settings})


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
    assert found.wanted == 3
    assert np.isfinite(found.moved(np.full((1, 3), np.finfo(np.float32).max))).all()


@for_each(
    "mapping",
    [
        {"rows": []},
        {"rows": [[[0, 1.0]]], "offsets": [1.0, 2.0]},
        {"rows": [[[-1, 1.0]]]},
        {"rows": [[[0, float("inf")]]]},
        {"rows": [[[6, 1.0]]]},
    ],
)
def test_a_map_that_is_none_is_refused(mapping):
    with pytest.raises(BadMessage):
        PublicPopulationSpec.parse({"count": 5, "distribution": {**LINE, "survey": "other"}, "mapping": mapping})


def test_public_people_with_other_features_and_no_map_are_refused():
    with pytest.raises(BadScenario, match="public people have 12 features, the curator's 11"):
        load("adaptation-few-labels", ["public.mapping=null"])
