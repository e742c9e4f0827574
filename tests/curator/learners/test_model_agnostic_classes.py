"""The model-agnostic learner of several classes: it learns them, at the cost of two, and refuses what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.data.distributions.class_clusters import ClassClusters
from common.local.hypotheses.argmax import Argmax
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from, parse_learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.sample.base import LocalSample
from curator.weights.reweighing import Reweighing
from curator.weights.sampling import Sampler
from tests.tiers import for_each

CLUSTERS = ClassClusters(side="target", d=3, classes=4, spread=0.1)
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 5}}
SPARSE = {"name": "sparse-vector", "epsilon": 90.0, "delta": 1e-3, "cutoff": 40, "estimate": 0.1}
N = 4000


def learner(**settings: Any) -> ModelAgnostic:
    known: dict[str, Any] = {
        "chunks": 80,
        "teacher": TREE,
        "student": {"classifier": "RidgeClassifier"},
        "aggregation": {"name": "gnmax", "noise": 5.0},
        "queries": 200,
        "classes": {"first": 3, "count": 4},
    }
    found = parse_learner({"name": "model-agnostic", **known, **settings})
    assert isinstance(found, ModelAgnostic)
    return found


def people(n: int, seed: int) -> Records:
    return CLUSTERS.draw(seed, np.arange(n))


PEOPLE, PUBLIC = people(N, 1), people(200, 2)


def sampler(records: Records = PEOPLE) -> Sampler:
    return Reweighing(len(records), 0.5, 0.1).sampler(LocalSample.of(records))


@for_each(
    "settings",
    [
        {},
        {"student": {"classifier": "RandomForestClassifier", "parameters": {"n_estimators": 20}}},
        {"aggregation": SPARSE},
        {"aggregation": {"name": "gnmax", "epsilon": 3.0, "delta": 1e-3}, "draws": 3000},
        {"by": "content"},
        {"protects": "labels"},
    ],
    ids=lambda settings: ", ".join(settings) or "plain",
)
def test_it_learns_the_classes_that_the_teachers_know(settings):
    chosen = learner(**settings)
    chosen.check(np.dtype(np.float32), 7)
    chosen.check_public(PUBLIC)
    chosen.check_people(N)
    learned = learn_from(chosen, sampler(), RandomSource.seeded(1), None, PUBLIC)
    assert isinstance(learned, Argmax)
    assert learned.mistakes(people(4000, 3)).mean() < 0.12
    assert learn_from(chosen, sampler(), RandomSource.seeded(1), None, PUBLIC) == learned
    assert parse_hypothesis(learned.wire()) == learned


def test_labels_and_the_public_points_classes_are_looked_at_by_nobody():
    blind = Records(PUBLIC.features.copy(), PUBLIC.labels)
    blind.features[:, 3:] = 0.0
    turned = Records(PEOPLE.features, -PEOPLE.labels)
    one = learn_from(learner(), sampler(), RandomSource.seeded(1), None, PUBLIC)
    assert learn_from(learner(), sampler(turned), RandomSource.seeded(1), None, blind) == one


def test_several_classes_cost_what_two_cost():
    assert learner().event(1.0) == learner(classes=None).event(1.0)


def test_points_without_an_answer_get_any_class_alike():
    chosen = learner(student={"classifier": "DecisionTreeClassifier"})
    grown: Any = chosen.transfer(PUBLIC.features[:, :3], np.full(200, -1), RandomSource.seeded(1).derive)
    # 200 draws of four classes: 50 each, standard deviation 6.1.
    assert (np.abs(np.bincount(grown.classes(PUBLIC.features), minlength=4) - 50) < 25).all()


@for_each(
    ("settings", "dimension", "says"),
    [
        ({}, 6, "stand in features 3 to 6, records have 6"),
        ({"student": {"classifier": "GaussianNB"}}, 7, "must be linear or made of trees"),
        ({"teacher": {"classifier": "LinearSVC", "parameters": {"C": -1.0}}}, 7, "LinearSVC cannot learn"),
        ({"teacher": {"classifier": "LogisticRegression", "parameters": {"solver": "liblinear"}}}, 7, "cannot learn"),
    ],
    ids=["columns", "graph", "parameters", "only two classes"],
)
def test_what_cannot_be_is_refused_before_anything_private_is_touched(settings, dimension, says):
    with pytest.raises(BadScenario, match=says):
        learner(**settings).check(np.dtype(np.float32), dimension)


@for_each("classes", [{"first": 0, "count": 4}, {"first": 3, "count": 1}, {"first": 3, "count": 65}, 4])
def test_settings_of_classes_that_cannot_be_are_refused(classes):
    with pytest.raises(BadInput, match="classes"):
        learner(classes=classes)
