"""scikit-learn's models, written down as data, must predict what the models do."""

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.local.hypotheses.rules import Constant
from common.local.hypotheses.trees import Trees
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import NonPrivate
from curator.export.hypotheses import as_hypothesis
from curator.learners.base import learn_from, parse_learner
from curator.learners.scikit import Scikit, classifiers
from curator.weights.reweighing import Reweighing
from tests.tiers import for_each, thinned

LINEAR = [
    ("LogisticRegression", {"C": 10.0}),
    ("LinearSVC", {}),
    ("Perceptron", {}),
    ("RidgeClassifier", {}),
    ("SGDClassifier", {}),
    ("LinearDiscriminantAnalysis", {}),
    ("SVC", {"kernel": "linear"}),
]
TREES = [
    ("DecisionTreeClassifier", {"max_leaf_nodes": 20}),
    ("ExtraTreeClassifier", {}),
    ("RandomForestClassifier", {"n_estimators": 12}),
    ("ExtraTreesClassifier", {"n_estimators": 12, "max_depth": 5}),
    ("GradientBoostingClassifier", {"n_estimators": 12, "learning_rate": 0.3}),
    ("HistGradientBoostingClassifier", {"max_iter": 5, "early_stopping": False}),
    ("AdaBoostClassifier", {"n_estimators": 12}),
    ("BaggingClassifier", {"n_estimators": 5, "max_features": 2}),
]


def people(n=600, seed=1):
    features = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    return Records(features, np.where(features[:, 0] * features[:, 1] + features[:, 2] > 0.2, 1, -1).astype(np.int8))


def sampler(records):
    return Reweighing(len(records), 0.5, 0.1).sampler(records)


@for_each(
    ("name", "parameters", "kind"),
    thinned([(*c, "linear") for c in LINEAR] + [(*c, "trees") for c in TREES], 6, several=True),
)
def test_the_hypothesis_predicts_what_the_model_does(name, parameters, kind):
    train, test = people(), people(2000, seed=2)
    model = classifiers()[name](**parameters)
    model.fit(train.features, train.labels)
    hypothesis = as_hypothesis(model, train.features[:1])
    assert hypothesis.kind == kind
    differ = np.count_nonzero(hypothesis.predict(test.features) != model.predict(test.features))
    assert differ <= 2  # ties and the last bit of float32


@pytest.mark.parametrize(("name", "parameters"), [LINEAR[0], TREES[2]])
def test_learns_from_draws_and_says_that_it_is_not_private(name, parameters):
    learner = Scikit(classifier=name, parameters=parameters, draws=500)
    learned = learn_from(learner, sampler(people()), RandomSource.seeded(1), None)
    assert learned.mistakes(people()).mean() < 0.25
    assert learner.event(1e-3) == NonPrivate()


def test_a_dummy_is_a_constant():
    learner = Scikit(classifier="DummyClassifier", draws=100)
    assert isinstance(learn_from(learner, sampler(people()), RandomSource.seeded(1), None), Constant)


def test_a_bootstrap_sample_with_one_label_only_is_a_leaf():
    records = people(40)
    records.labels[:] = -1
    records.labels[0] = 1
    model = classifiers()["RandomForestClassifier"](n_estimators=30, random_state=1)
    model.fit(records.features, records.labels)
    hypothesis = as_hypothesis(model, records.features[:1])
    np.testing.assert_array_equal(hypothesis.predict(records.features), model.predict(records.features))


def test_a_model_that_is_too_large_is_refused(monkeypatch):
    learner = Scikit(classifier="RandomForestClassifier", draws=500)
    monkeypatch.setattr(
        "curator.learners.scikit.as_hypothesis",
        lambda *_: Trees(roots=(0,), feature=(0,), threshold=(0.0,), left=(-1,), right=(-1,)),
    )
    with pytest.raises(BadScenario, match="too large"):
        learn_from(learner, sampler(people()), RandomSource.seeded(1), None)


def test_a_model_written_down_wrongly_is_refused(monkeypatch):
    monkeypatch.setattr("curator.learners.scikit.as_hypothesis", lambda *_: Constant(label=1))
    with pytest.raises(BadScenario, match="agrees with itself on"):
        learn_from(Scikit(classifier="LinearSVC", draws=100), sampler(people()), RandomSource.seeded(1), None)


@for_each(
    ("settings", "says"),
    [
        ({"classifier": "os.system"}, "no such classifier"),
        ({"classifier": "LinearRegression"}, "no such classifier"),
        (
            {"classifier": "LinearSVC", "parameters": {"c": 1.0}},
            "may not be given 'c'; allowed: C, class_weight",
        ),
        ({"classifier": "VotingClassifier"}, "missing 1 required"),
        ({"classifier": "LinearSVC", "parameters": {"C": {"__class__": "x"}}}, "parameters"),
    ],
)
def test_settings_that_name_no_classifier_are_refused(settings, says):
    with pytest.raises(BadInput, match=says):
        parse_learner({"name": "scikit", "draws": 100, **settings})


def test_parameters_that_the_classifier_refuses_are_named():
    with pytest.raises(BadScenario, match=r"LinearSVC cannot learn with \{'C': -1.0\}"):
        learn_from(
            Scikit(classifier="LinearSVC", parameters={"C": -1.0}, draws=100),
            sampler(people()),
            RandomSource.seeded(1),
            None,
        )
