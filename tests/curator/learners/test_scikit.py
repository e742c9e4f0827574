"""scikit-learn's models, written down as data, must predict what the models do."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.learners.scikit import SEVERAL
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from curator.export import as_hypothesis
from curator.learners.base import parse_learner
from curator.learners.scikit import Scikit, classifiers
from tests.curator.learners import given
from tests.tiers import for_each, thinned


def people(n=600, seed=1, transform=lambda features: features):
    features = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] + features[:, 2] > 0.2, 1, -1).astype(np.int8)
    return Records(transform(features), labels)


def learned(name, parameters=None, records=None, draws=300):
    records = people() if records is None else records
    return given.learned(Scikit(classifier=name, parameters=parameters or {}, draws=draws), records)


def test_a_bootstrap_sample_with_one_label_only_is_a_leaf():
    records = people(40)
    records.labels[:] = -1
    records.labels[0] = 1
    model = classifiers()["RandomForestClassifier"](n_estimators=30, random_state=1)
    model.fit(records.features, records.labels)
    hypothesis = as_hypothesis(model, records.features[:1])
    np.testing.assert_array_equal(hypothesis.predict(records.features), model.predict(records.features))


def test_a_model_written_down_wrongly_is_refused(monkeypatch):
    monkeypatch.setattr("curator.learners.scikit.as_hypothesis", lambda *_: Constant(label=1))
    with pytest.raises(BadScenario, match="agrees with itself on"):
        learned("LinearSVC")


@for_each(
    ("settings", "says"),
    [
        ({"classifier": "os.system"}, "no such classifier"),
        ({"classifier": "LinearRegression"}, "no such classifier"),
        ({"classifier": "LinearSVC", "parameters": {"c": 1.0}}, "may not be given 'c'; allowed: C, class_weight"),
        ({"classifier": "VotingClassifier"}, "missing 1 required"),
        ({"classifier": "LinearSVC", "parameters": {"C": {"__class__": "x"}}}, "parameters"),
        *(
            ({"classifier": name, "parameters": {"estimator": {"classifier": "LinearSVC"}}}, "several labels at once")
            for name in ("ClassifierChain", "MultiOutputClassifier")
        ),
    ],
)
def test_settings_that_name_no_classifier_are_refused(settings, says):
    with pytest.raises(BadInput, match=says):
        parse_learner({"name": "scikit", "draws": 100, **settings})


LOGISTIC = {"classifier": "LogisticRegression"}
BAYES = {"classifier": "GaussianNB"}
FOREST = {"classifier": "RandomForestClassifier", "parameters": {"n_estimators": 5, "max_depth": 4}}
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
NEAR = {"classifier": "KNeighborsClassifier"}
KERNEL = {"classifier": "SVC"}
MACHINE = {"classifier": "LinearSVC"}
MANY = {"estimators": [LOGISTIC, BAYES, FOREST]}

NEEDED = {
    "FixedThresholdClassifier": {"estimator": LOGISTIC}, "OneVsOneClassifier": {"estimator": LOGISTIC},
    "OneVsRestClassifier": {"estimator": LOGISTIC}, "OutputCodeClassifier": {"estimator": LOGISTIC, "code_size": 4.0},
    "SelfTrainingClassifier": {"estimator": LOGISTIC}, "StackingClassifier": {**MANY, "cv": 2},
    "TunedThresholdClassifierCV": {"estimator": LOGISTIC, "cv": 2}, "VotingClassifier": MANY,
}  # fmt: skip
"""Arguments without which scikit-learn builds none of these."""

QUICK = {
    "GaussianProcessClassifier": {"optimizer": None},
    "HistGradientBoostingClassifier": {"max_iter": 5, "early_stopping": False},
    "GradientBoostingClassifier": {"n_estimators": 10}, "RandomForestClassifier": {"n_estimators": 10},
    "ExtraTreesClassifier": {"n_estimators": 10}, "AdaBoostClassifier": {"n_estimators": 10},
    "LogisticRegressionCV": {"cv": 2, "Cs": 3}, "MLPClassifier": {"max_iter": 50},
    "RadiusNeighborsClassifier": {"radius": 4.0},
}  # fmt: skip
KINDS = {
    "linear": {
        "LinearDiscriminantAnalysis", "LinearSVC", "LogisticRegression", "LogisticRegressionCV", "SGDClassifier",
        "PassiveAggressiveClassifier", "Perceptron", "RidgeClassifier", "RidgeClassifierCV",
    },
    "trees": {
        "AdaBoostClassifier", "BaggingClassifier", "DecisionTreeClassifier", "ExtraTreeClassifier",
        "ExtraTreesClassifier", "GradientBoostingClassifier", "HistGradientBoostingClassifier",
        "RandomForestClassifier",
    },
    "constant": {"DummyClassifier"},
}  # fmt: skip
"""All others become graphs."""


COUNTS = {
    "CategoricalNB": lambda features: np.minimum(np.floor(np.abs(features)), 1.0),
    "ComplementNB": np.abs,
    "MultinomialNB": np.abs,
}
"""What these take: counts are not negative, and scikit-learn fails on categories that it has not seen."""


@pytest.fixture
def fitted(monkeypatch):
    """The last model that a learner wrote down, to be asked about other people."""
    models: list[Any] = []
    monkeypatch.setattr(
        "curator.learners.scikit.as_hypothesis", lambda model, x: models.append(model) or as_hypothesis(model, x)
    )
    return models


def agreement(name, parameters, fitted, transform=lambda features: features):
    """Learn; compare on people that the model has not seen."""
    hypothesis, test = learned(name, parameters, people(transform=transform)), people(1000, 2, transform).features
    with np.errstate(divide="ignore"):  # scikit-learn takes logarithms of empty classes
        predicted = fitted[-1].predict(test)
    again = parse_hypothesis(hypothesis.wire())
    return hypothesis.kind, float(np.mean((again.predict(test) > 0) == (predicted > 0)))


@pytest.mark.parametrize("name", thinned(sorted(set(classifiers()) - set(SEVERAL)), 14))
def test_every_classifier_gives_a_hypothesis_that_predicts_as_it_does(name, fitted, capfd):
    parameters: dict[str, Any] = {**NEEDED.get(name, {}), **QUICK.get(name, {})}
    kind, share = agreement(name, parameters, fitted, COUNTS.get(name, lambda features: features))
    assert kind == next((kind for kind, names in KINDS.items() if name in names), "onnx")
    assert share >= 0.997
    assert capfd.readouterr() == ("", "")  # nothing but the model tells of the draws


def of(name, **parameters):
    """Return a classifier inside another one, or with its parameters."""
    return {"classifier": name, "parameters": parameters}


BOOSTED, BAGGED = of("AdaBoostClassifier", n_estimators=3), of("BaggingClassifier", estimator=MACHINE, n_estimators=3)
SOFT = [
    of("GradientBoostingClassifier", n_estimators=5),
    of("GradientBoostingClassifier", n_estimators=5, loss="exponential"),
    of("HistGradientBoostingClassifier", max_iter=5), of("AdaBoostClassifier", n_estimators=5),
    of("BaggingClassifier", n_estimators=3, max_samples=0.1), of("SGDClassifier", loss="modified_huber"),
    of("SGDClassifier", loss="log_loss"), of("DummyClassifier"),
    of("VotingClassifier", estimators=[BAYES, TREE], voting="soft"),
    of("StackingClassifier", estimators=[BAYES, TREE], cv=2), of("OneVsRestClassifier", estimator=BAYES),
    of("FixedThresholdClassifier", estimator=BAYES),
]  # fmt: skip
SETTINGS = [
    of("KNeighborsClassifier", weights="distance", n_neighbors=7), of("KNeighborsClassifier", metric="manhattan"),
    of("KNeighborsClassifier", metric="chebyshev"), of("KNeighborsClassifier", p=3),
    of("RadiusNeighborsClassifier", radius=2.5, weights="distance", outlier_label=0),
    of("RadiusNeighborsClassifier", radius=0.5, outlier_label=1), of("SVC", kernel="poly", degree=2, coef0=1.0),
    of("SVC", kernel="sigmoid", gamma=0.1), of("SVC", gamma=0.3), of("NuSVC", nu=0.3),
    of("MLPClassifier", activation="tanh", hidden_layer_sizes=[8, 4], max_iter=30),
    of("MLPClassifier", activation="logistic", max_iter=30), of("MLPClassifier", activation="identity", max_iter=30),
    of("BernoulliNB", binarize=0.3), of("NearestCentroid", metric="manhattan"),
    of("NearestCentroid", priors="empirical"), of("LabelSpreading", kernel="knn", n_neighbors=5),
    of("LabelPropagation", gamma=2.0), of("CalibratedClassifierCV", method="isotonic", cv=2),
    of("CalibratedClassifierCV", method="temperature", cv=2),
    of("CalibratedClassifierCV", method="temperature", estimator=BAYES, cv=2),
    of("CalibratedClassifierCV", estimator=FOREST, cv=2),
    of("CalibratedClassifierCV", estimator={"classifier": "QuadraticDiscriminantAnalysis"}, cv=2),
    of("VotingClassifier", **MANY, voting="soft", weights=[1.0, 2.0, 3.0]),
    of("VotingClassifier", estimators=[KERNEL, NEAR, TREE], weights=[1.0, 2.0, 1.5]),
    of("VotingClassifier", estimators=SOFT, voting="soft"),
    of("StackingClassifier", estimators=[MACHINE, NEAR, KERNEL], passthrough=True, cv=2),
    of("StackingClassifier", estimators=[MACHINE, BAYES], stack_method="predict", cv=2),
    of("StackingClassifier", estimators=[MACHINE, BAYES], final_estimator=FOREST, cv=2),
    of("BaggingClassifier", estimator=LOGISTIC, n_estimators=3, max_features=2), BAGGED,
    of("BaggingClassifier", estimator=BAYES, n_estimators=12, max_samples=4),
    of("BaggingClassifier", estimator=of("KNeighborsClassifier", n_neighbors=1), n_estimators=15, max_samples=3),
    of("AdaBoostClassifier", estimator=LOGISTIC, n_estimators=3),
    of("CalibratedClassifierCV", estimator=of("AdaBoostClassifier", estimator=LOGISTIC, n_estimators=3), cv=2),
    of("CalibratedClassifierCV", estimator=BOOSTED, cv=2), of("CalibratedClassifierCV", estimator=BAGGED, cv=2),
    of("FixedThresholdClassifier", response_method="decision_function", threshold=0.5,
       estimator=of("StackingClassifier", estimators=[MACHINE, BAYES], cv=2, final_estimator=LOGISTIC)),
    of("CalibratedClassifierCV", estimator=of("FixedThresholdClassifier", estimator=MACHINE), cv=2),
    of("CalibratedClassifierCV", estimator=of("OneVsRestClassifier", estimator=MACHINE), cv=2),
    of("OneVsRestClassifier", estimator=BAYES), of("OneVsOneClassifier", estimator=BAYES),
    of("OutputCodeClassifier", estimator=BAYES, code_size=3.0),
    of("FixedThresholdClassifier", estimator=MACHINE, threshold=0.4),
    of("FixedThresholdClassifier", estimator=BAYES, threshold=0.3, response_method="predict_proba"),
    of("TunedThresholdClassifierCV", estimator=MACHINE, cv=2),
    of("OneVsRestClassifier", estimator=of("SelfTrainingClassifier", estimator=LOGISTIC)),
]  # fmt: skip


@pytest.mark.parametrize("place", thinned(range(len(SETTINGS)), 16), ids=str)
def test_settings_are_honoured(place, fitted):
    name, parameters = SETTINGS[place].values()
    assert agreement(name, parameters, fitted)[1] >= 0.997


@for_each(
    ("unwritable", "says"),
    [
        (of("KNeighborsClassifier"), "KNeighborsClassifier: its model is too large"),  # with as many neighbours
        (of("LinearSVC", C=-1.0), r"LinearSVC cannot learn with \{'C': -1.0\}"),
        (of("KNeighborsClassifier", metric="canberra"), "distances of metric 'canberra'"),
        (of("VotingClassifier", estimators=[of("GaussianProcessClassifier"), BAYES], voting="soft"), "of GaussianProc"),
        (of("VotingClassifier", estimators=[of("DummyClassifier", strategy="uniform"), BAYES], voting="soft"), "coin"),
        (of("DummyClassifier", strategy="uniform"), "agrees with itself on"),
    ],
)
def test_what_cannot_be_written_down_is_refused_with_its_reason(unwritable, says):
    with pytest.raises(BadScenario, match=says):
        learned(unwritable["classifier"], unwritable["parameters"], draws=40_000 if "too large" in says else 300)


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("common.local.hypotheses.onnx.find_spec", lambda name: None)
    with pytest.raises(BadScenario, match=r"pip install 'tandem-hybrid\[onnx\]'"):
        learned("GaussianNB")
    assert learned("LinearSVC").kind == "linear"


def test_neighbours_that_are_equally_near_are_no_disagreement():
    assert learned("KNeighborsClassifier", records=people(transform=np.round)).kind == "onnx"


def test_the_same_source_learns_the_same_again_also_inside():
    forests = {"estimators": [FOREST, of("ExtraTreesClassifier", n_estimators=3)]}
    assert learned("VotingClassifier", forests) == learned("VotingClassifier", forests)
