"""scikit-learn's models, written down as data, must predict what the models do."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.data.distributions.gaussians import GaussianHalfSpace
from common.learners.scikit import SEVERAL
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.hypotheses.trees import Trees
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import NonPrivate
from curator.export import as_hypothesis
from curator.learners import svm
from curator.learners.base import learn_from, parse_learner
from curator.learners.scikit import Scikit, classifiers
from curator.learners.svm import Svm
from curator.sample.reweighing import Reweighing
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
        ({"classifier": "LinearSVC", "parameters": {"c": 1.0}}, "may not be given 'c'; allowed: C, class_weight"),
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


LOGISTIC = {"classifier": "LogisticRegression"}
BAYES = {"classifier": "GaussianNB"}
FOREST = {"classifier": "RandomForestClassifier", "parameters": {"n_estimators": 5, "max_depth": 4}}
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
NEAR = {"classifier": "KNeighborsClassifier"}
KERNEL = {"classifier": "SVC"}
MACHINE = {"classifier": "LinearSVC"}
MANY = {"estimators": [LOGISTIC, BAYES, FOREST]}

NEEDED = {
    "FixedThresholdClassifier": {"estimator": LOGISTIC},
    "OneVsOneClassifier": {"estimator": LOGISTIC},
    "OneVsRestClassifier": {"estimator": LOGISTIC},
    "OutputCodeClassifier": {"estimator": LOGISTIC, "code_size": 4.0},
    "SelfTrainingClassifier": {"estimator": LOGISTIC},
    "StackingClassifier": {**MANY, "cv": 2},
    "TunedThresholdClassifierCV": {"estimator": LOGISTIC, "cv": 2},
    "VotingClassifier": MANY,
}
"""Arguments without which scikit-learn builds none of these."""

QUICK = {
    "GaussianProcessClassifier": {"optimizer": None},
    "HistGradientBoostingClassifier": {"max_iter": 5, "early_stopping": False},
    "GradientBoostingClassifier": {"n_estimators": 10},
    "RandomForestClassifier": {"n_estimators": 10},
    "ExtraTreesClassifier": {"n_estimators": 10},
    "AdaBoostClassifier": {"n_estimators": 10},
    "LogisticRegressionCV": {"cv": 2, "Cs": 3},
    "MLPClassifier": {"max_iter": 50},
    "RadiusNeighborsClassifier": {"radius": 4.0},
}
KINDS = {
    "linear": {
        "LinearDiscriminantAnalysis",
        "LinearSVC",
        "LogisticRegression",
        "LogisticRegressionCV",
        "PassiveAggressiveClassifier",
        "Perceptron",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
    },
    "trees": {
        "AdaBoostClassifier",
        "BaggingClassifier",
        "DecisionTreeClassifier",
        "ExtraTreeClassifier",
        "ExtraTreesClassifier",
        "GradientBoostingClassifier",
        "HistGradientBoostingClassifier",
        "RandomForestClassifier",
    },
    "constant": {"DummyClassifier"},
}
"""All others become graphs."""


def classifiers_people(n=300, seed=1, transform=lambda features: features):
    features = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] + features[:, 2] > 0.2, 1, -1).astype(np.int8)
    return Records(transform(features), labels)


COUNTS = {"CategoricalNB": lambda features: np.floor(np.abs(features)), "ComplementNB": np.abs, "MultinomialNB": np.abs}
"""What these take: counts are not negative."""


def learned(name, parameters, records, draws=300):
    learner = Scikit(classifier=name, parameters=parameters, draws=draws)
    return learn_from(learner, Reweighing(len(records), 0.5, 0.1).sampler(records), RandomSource.seeded(1), None)


@pytest.fixture
def fitted(monkeypatch):
    """The last model that a learner wrote down, to be asked about other people."""
    from curator.learners import scikit

    models = []

    def remember(model, example):
        models.append(model)
        return write(model, example)

    write = scikit.as_hypothesis  # type: ignore[attr-defined]
    monkeypatch.setattr(scikit, "as_hypothesis", remember)
    return models


def agreement(name, parameters, fitted, transform=lambda features: features):
    """Learn; compare on people that the model has not seen."""
    train, test = classifiers_people(transform=transform), classifiers_people(1000, seed=2, transform=transform)
    if name == "CategoricalNB":  # scikit-learn fails on categories that it has not seen
        test = Records(np.minimum(test.features, train.features.max(axis=0)), test.labels)
    hypothesis = learned(name, parameters, train)
    again = parse_hypothesis(hypothesis.wire())
    with np.errstate(divide="ignore"):  # scikit-learn takes logarithms of empty classes
        predicted = fitted[-1].predict(test.features)
    return hypothesis.kind, float(np.mean((again.predict(test.features) > 0) == (predicted > 0)))


@pytest.mark.parametrize("name", thinned(sorted(set(classifiers()) - set(SEVERAL)), 14))
def test_every_classifier_gives_a_hypothesis_that_predicts_as_it_does(name, fitted, capfd):
    parameters: dict[str, Any] = {**NEEDED.get(name, {}), **QUICK.get(name, {})}
    transform = COUNTS.get(name, lambda features: features)
    kind, share = agreement(name, parameters, fitted, transform)
    assert kind == next((kind for kind, names in KINDS.items() if name in names), "onnx")
    assert share >= 0.997
    assert capfd.readouterr() == ("", "")  # nothing but the model tells of the draws


def test_the_only_ones_refused_are_those_for_several_labels_at_once():
    assert SEVERAL == ("ClassifierChain", "MultiOutputClassifier")
    for name in SEVERAL:
        with pytest.raises(Exception, match="predicts several labels at once; people have one"):
            parse_learner({"name": "scikit", "classifier": name, "parameters": {"estimator": LOGISTIC}, "draws": 10})


SETTINGS = [
    ("KNeighborsClassifier", {"weights": "distance", "n_neighbors": 7}),
    ("KNeighborsClassifier", {"metric": "manhattan"}),
    ("KNeighborsClassifier", {"metric": "chebyshev"}),
    ("KNeighborsClassifier", {"p": 3}),
    ("RadiusNeighborsClassifier", {"radius": 2.5, "weights": "distance", "outlier_label": 0}),
    ("RadiusNeighborsClassifier", {"radius": 0.5, "outlier_label": 1}),
    ("SVC", {"kernel": "poly", "degree": 2, "coef0": 1.0}),
    ("SVC", {"kernel": "sigmoid", "gamma": 0.1}),
    ("SVC", {"gamma": 0.3}),
    ("NuSVC", {"nu": 0.3}),
    ("MLPClassifier", {"activation": "tanh", "hidden_layer_sizes": [8, 4], "max_iter": 30}),
    ("MLPClassifier", {"activation": "logistic", "max_iter": 30}),
    ("MLPClassifier", {"activation": "identity", "max_iter": 30}),
    ("BernoulliNB", {"binarize": 0.3}),
    ("NearestCentroid", {"metric": "manhattan"}),
    ("NearestCentroid", {"priors": "empirical"}),
    ("LabelSpreading", {"kernel": "knn", "n_neighbors": 5}),
    ("LabelPropagation", {"gamma": 2.0}),
    ("CalibratedClassifierCV", {"method": "isotonic", "cv": 2}),
    ("CalibratedClassifierCV", {"method": "temperature", "cv": 2}),
    ("CalibratedClassifierCV", {"method": "temperature", "estimator": BAYES, "cv": 2}),
    ("CalibratedClassifierCV", {"estimator": FOREST, "cv": 2}),
    ("CalibratedClassifierCV", {"estimator": {"classifier": "QuadraticDiscriminantAnalysis"}, "cv": 2}),
    ("VotingClassifier", {**MANY, "voting": "soft", "weights": [1.0, 2.0, 3.0]}),
    ("VotingClassifier", {"estimators": [KERNEL, NEAR, TREE], "weights": [1.0, 2.0, 1.5]}),
    (
        "VotingClassifier",
        {
            "estimators": [
                {"classifier": "GradientBoostingClassifier", "parameters": {"n_estimators": 5}},
                {"classifier": "GradientBoostingClassifier", "parameters": {"n_estimators": 5, "loss": "exponential"}},
                {"classifier": "HistGradientBoostingClassifier", "parameters": {"max_iter": 5}},
                {"classifier": "AdaBoostClassifier", "parameters": {"n_estimators": 5}},
                {"classifier": "BaggingClassifier", "parameters": {"n_estimators": 3, "max_samples": 0.1}},
                {"classifier": "SGDClassifier", "parameters": {"loss": "modified_huber"}},
                {"classifier": "SGDClassifier", "parameters": {"loss": "log_loss"}},
                {"classifier": "DummyClassifier"},
                {"classifier": "VotingClassifier", "parameters": {"estimators": [BAYES, TREE], "voting": "soft"}},
                {"classifier": "StackingClassifier", "parameters": {"estimators": [BAYES, TREE], "cv": 2}},
                {"classifier": "OneVsRestClassifier", "parameters": {"estimator": BAYES}},
                {"classifier": "FixedThresholdClassifier", "parameters": {"estimator": BAYES}},
            ],
            "voting": "soft",
        },
    ),
    ("StackingClassifier", {"estimators": [MACHINE, NEAR, KERNEL], "passthrough": True, "cv": 2}),
    ("StackingClassifier", {"estimators": [MACHINE, BAYES], "stack_method": "predict", "cv": 2}),
    ("StackingClassifier", {"estimators": [MACHINE, BAYES], "final_estimator": FOREST, "cv": 2}),
    ("BaggingClassifier", {"estimator": LOGISTIC, "n_estimators": 3, "max_features": 2}),
    ("BaggingClassifier", {"estimator": MACHINE, "n_estimators": 3}),
    ("BaggingClassifier", {"estimator": BAYES, "n_estimators": 12, "max_samples": 4}),
    (
        "BaggingClassifier",
        {
            "estimator": {"classifier": "KNeighborsClassifier", "parameters": {"n_neighbors": 1}},
            "n_estimators": 15,
            "max_samples": 3,
        },
    ),
    ("AdaBoostClassifier", {"estimator": LOGISTIC, "n_estimators": 3}),
    (
        "CalibratedClassifierCV",
        {
            "estimator": {"classifier": "AdaBoostClassifier", "parameters": {"estimator": LOGISTIC, "n_estimators": 3}},
            "cv": 2,
        },
    ),
    (
        "CalibratedClassifierCV",
        {"estimator": {"classifier": "AdaBoostClassifier", "parameters": {"n_estimators": 3}}, "cv": 2},
    ),
    (
        "CalibratedClassifierCV",
        {
            "estimator": {"classifier": "BaggingClassifier", "parameters": {"estimator": MACHINE, "n_estimators": 3}},
            "cv": 2,
        },
    ),
    (
        "FixedThresholdClassifier",
        {
            "estimator": {
                "classifier": "StackingClassifier",
                "parameters": {"estimators": [MACHINE, BAYES], "cv": 2, "final_estimator": LOGISTIC},
            },
            "response_method": "decision_function",
            "threshold": 0.5,
        },
    ),
    (
        "CalibratedClassifierCV",
        {"estimator": {"classifier": "FixedThresholdClassifier", "parameters": {"estimator": MACHINE}}, "cv": 2},
    ),
    (
        "CalibratedClassifierCV",
        {"estimator": {"classifier": "OneVsRestClassifier", "parameters": {"estimator": MACHINE}}, "cv": 2},
    ),
    ("OneVsRestClassifier", {"estimator": BAYES}),
    ("OneVsOneClassifier", {"estimator": BAYES}),
    ("OutputCodeClassifier", {"estimator": BAYES, "code_size": 3.0}),
    ("FixedThresholdClassifier", {"estimator": MACHINE, "threshold": 0.4}),
    ("FixedThresholdClassifier", {"estimator": BAYES, "threshold": 0.3, "response_method": "predict_proba"}),
    ("TunedThresholdClassifierCV", {"estimator": MACHINE, "cv": 2}),
    (
        "OneVsRestClassifier",
        {"estimator": {"classifier": "SelfTrainingClassifier", "parameters": {"estimator": LOGISTIC}}},
    ),
]


@pytest.mark.parametrize("place", thinned(range(len(SETTINGS)), 16), ids=lambda place: f"{SETTINGS[place][0]}-{place}")
def test_settings_are_honoured(place, fitted):
    name, parameters = SETTINGS[place]
    assert agreement(name, parameters, fitted)[1] >= 0.997


@for_each(
    ("name", "parameters", "says"),
    [
        ("KNeighborsClassifier", {"metric": "canberra"}, "distances of metric 'canberra'"),
        (
            "VotingClassifier",
            {"estimators": [{"classifier": "GaussianProcessClassifier"}, BAYES], "voting": "soft"},
            "the probabilities of GaussianProcess",
        ),
        (
            "VotingClassifier",
            {
                "estimators": [{"classifier": "DummyClassifier", "parameters": {"strategy": "uniform"}}, BAYES],
                "voting": "soft",
            },
            "coin flips",
        ),
        ("DummyClassifier", {"strategy": "uniform"}, "agrees with itself on"),
    ],
)
def test_what_cannot_be_written_down_is_refused_with_its_reason(name, parameters, says):
    with pytest.raises(BadScenario, match=says):
        learned(name, parameters, classifiers_people())


def test_a_graph_that_is_too_large_is_refused():
    with pytest.raises(BadScenario, match="KNeighborsClassifier: its model is too large"):
        learned("KNeighborsClassifier", {}, classifiers_people(100), draws=40_000)


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("common.local.hypotheses.onnx.find_spec", lambda name: None)
    with pytest.raises(BadScenario, match=r"pip install 'tandem-hybrid\[onnx\]'"):
        learned("GaussianNB", {}, classifiers_people())
    assert learned("LinearSVC", {}, classifiers_people()).kind == "linear"


def test_neighbours_that_are_equally_near_are_no_disagreement():
    grid = classifiers_people(transform=lambda features: np.round(features))
    assert learned("KNeighborsClassifier", {}, grid).kind == "onnx"


def test_the_same_source_learns_the_same_again_also_inside():
    forests = {"estimators": [FOREST, {"classifier": "ExtraTreesClassifier", "parameters": {"n_estimators": 3}}]}
    first, second = (learned("VotingClassifier", forests, classifiers_people()) for _ in range(2))
    assert first == second


def test_settings_travel_as_json():
    learner = Scikit(classifier="VotingClassifier", parameters=MANY, draws=10)
    assert parse_learner(learner.wire()) == learner


def svm_sampler(n=6000, d=60):
    people = GaussianHalfSpace(side="source", d=d, close=4, sigma_source=1.0, sigma_target=0.1, share=0.1)
    records = people.draw(1, np.arange(n))
    return Reweighing(n, None, 0.01).sampler(records), records


def test_its_hypothesis_makes_no_mistake_on_its_own_draws():
    draws, records = svm_sampler()
    source = RandomSource.seeded(1)
    learned = learn_from(Svm(draws=4000), draws, RandomSource.seeded(1), None)
    assert learned.mistakes(draws.draws(4000, source.derive("draws"))).sum() == 0
    assert 0 < learned.mistakes(records).mean() < 0.02


def test_without_intercept_the_threshold_is_zero():
    draws, _ = svm_sampler()
    learned: Any = learn_from(Svm(draws=500, intercept=0.0), draws, RandomSource.seeded(1), None)
    assert learned.threshold == 0.0
    assert len(learned.weights) == 60


def test_it_begins_at_the_hypothesis_released_last(monkeypatch):
    draws, _ = svm_sampler()
    begun = []
    minimize = svm.minimize
    monkeypatch.setattr(svm, "minimize", lambda *all, **more: begun.append(all[1]) or minimize(*all, **more))
    learner = Svm(draws=500, intercept=2.0)
    first: Any = learn_from(learner, draws, RandomSource.seeded(1), None)
    learn_from(learner, draws, RandomSource.seeded(2), first)
    np.testing.assert_allclose(begun[1], [*first.weights, -first.threshold / 2.0], rtol=1e-12)
    # Another kind of hypothesis, or of another dimension, is no start.
    learn_from(learner, draws, RandomSource.seeded(3), Constant(label=1))
    learn_from(learner, draws, RandomSource.seeded(3), Linear(weights=(1.0,) * 5, threshold=0.0))
    assert [not start.any() for start in begun] == [True, False, True, True]


def test_at_the_minimum_the_start_is_forgotten():
    draws, _ = svm_sampler()
    learner = Svm(draws=1000, penalty=1.0, until="minimum")
    one: Any = learn_from(learner, draws, RandomSource.seeded(4), None)
    other = learn_from(learner, draws, RandomSource.seeded(4), Linear(weights=(3.0,) * 60, threshold=1.0))
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-6)  # type: ignore[attr-defined]


@for_each("wrong", [{"draws": 0}, {"penalty": 0.0}, {"penalty": 1e30}, {"until": "exact"}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(BadScenario, match=next(iter(wrong))):
        parse_learner({"name": "svm", "draws": 100} | wrong)
