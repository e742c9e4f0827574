"""Classifiers that are a formula in the features: logistic, naive Bayes, discriminants, perceptrons."""

from __future__ import annotations

from typing import Any

import numpy as np

from curator.export.base import DECISIONS, PROBABILITIES, Unwritable, decision, writes
from curator.export.graph import GraphWriter
from curator.export.trees import forest_of


@writes(
    PROBABILITIES,
    "LogisticRegression",
    "LogisticRegressionCV",
    "LinearDiscriminantAnalysis",
    "QuadraticDiscriminantAnalysis",
    "AdaBoostClassifier",
    "HistGradientBoostingClassifier",
)
def _logistic(graph: GraphWriter, model: Any, matrix: str) -> str:
    return graph("Sigmoid", decision(graph, model, matrix))


@writes(PROBABILITIES, "GradientBoostingClassifier")
def _boosted(graph: GraphWriter, model: Any, matrix: str) -> str:
    factor = 2.0 if model.loss == "exponential" else 1.0
    return graph("Sigmoid", graph("Mul", decision(graph, model, matrix), factor))


@writes(PROBABILITIES, "SGDClassifier")
def _descended(graph: GraphWriter, model: Any, matrix: str) -> str:
    value = decision(graph, model, matrix)
    if model.loss == "modified_huber":
        bounded = graph("Min", graph("Max", value, -1.0), 1.0)
        return graph("Div", graph("Add", bounded, 1.0), 2.0)
    return graph("Sigmoid", value)


@writes(
    PROBABILITIES,
    "DecisionTreeClassifier",
    "ExtraTreeClassifier",
    "RandomForestClassifier",
    "ExtraTreesClassifier",
)
def _shares(graph: GraphWriter, model: Any, matrix: str) -> str:
    forest = forest_of(model, np.zeros((1, model.n_features_in_)))
    assert forest is not None  # noqa: S101 - these four are made of trees
    return graph("Add", graph("Div", graph.trees(matrix, forest), float(len(forest.roots))), 0.5)


@writes(PROBABILITIES, "DummyClassifier")
def _dummy(graph: GraphWriter, model: Any, matrix: str) -> str:
    if model.strategy in ("stratified", "uniform"):
        raise Unwritable(f"coin flips, as DummyClassifier makes with strategy {model.strategy!r}")
    return graph.column(float(model.predict_proba(np.zeros((1, model.n_features_in_)))[0, 1]))


@writes(PROBABILITIES, "GaussianNB")
def _gaussian(graph: GraphWriter, model: Any, matrix: str) -> str:
    halves = [
        graph("Div", _square(graph, graph("Sub", matrix, center)), 2.0 * variance)
        for center, variance in zip(model.theta_, model.var_, strict=True)
    ]
    constants = _log(model.class_prior_) - 0.5 * np.log(model.var_).sum(axis=1)
    odds = graph("Add", graph.sum(graph("Sub", halves[0], halves[1])), float(constants[1] - constants[0]))
    return graph("Sigmoid", odds)


def _log(shares: Any) -> Any:
    """Take logarithms; of nothing, one that is finite (about -690) and outweighs all others."""
    return np.log(np.maximum(np.asarray(shares, dtype=np.float64), 1e-300))


def _square(graph: GraphWriter, name: str) -> str:
    return graph("Mul", name, name)


def _log_odds(graph: GraphWriter, matrix: str, slopes: Any, constants: Any) -> str:
    factor = (slopes[1] - slopes[0]).reshape(-1, 1)
    return graph("Add", graph("MatMul", matrix, factor), float(constants[1] - constants[0]))


@writes(PROBABILITIES, "MultinomialNB")
def _multinomial(graph: GraphWriter, model: Any, matrix: str) -> str:
    return graph("Sigmoid", _log_odds(graph, matrix, model.feature_log_prob_, model.class_log_prior_))


@writes(PROBABILITIES, "ComplementNB")
def _complement(graph: GraphWriter, model: Any, matrix: str) -> str:
    return graph("Sigmoid", _log_odds(graph, matrix, model.feature_log_prob_, (0.0, 0.0)))


@writes(PROBABILITIES, "BernoulliNB")
def _bernoulli(graph: GraphWriter, model: Any, matrix: str) -> str:
    if model.binarize is not None:
        matrix = graph.indicator(graph("Greater", matrix, float(model.binarize)))
    absent = _log(1.0 - np.exp(model.feature_log_prob_))
    constants = model.class_log_prior_ + absent.sum(axis=1)
    return graph("Sigmoid", _log_odds(graph, matrix, model.feature_log_prob_ - absent, constants))


@writes(PROBABILITIES, "CategoricalNB")
def _categorical(graph: GraphWriter, model: Any, matrix: str) -> str:
    whole = graph("Floor", matrix)
    terms = []
    for column, table in enumerate(model.feature_log_prob_):
        value = graph.columns(whole, np.array([column]))
        hits = graph.indicator(graph("Equal", value, np.arange(table.shape[1], dtype=np.float64)))
        terms.append(graph("MatMul", hits, (table[1] - table[0]).reshape(-1, 1)))
    prior = float(model.class_log_prior_[1] - model.class_log_prior_[0])
    return graph("Sigmoid", graph("Add", graph.sum(graph.join(terms)), prior))


@writes(DECISIONS, "QuadraticDiscriminantAnalysis")
def _quadratic(graph: GraphWriter, model: Any, matrix: str) -> str:
    scores = []
    for center, rotation, scaling, prior in zip(
        model.means_, model.rotations_, model.scalings_, model.priors_, strict=True
    ):
        turned = graph("MatMul", graph("Sub", matrix, center), rotation * scaling**-0.5)
        norm = graph.sum(_square(graph, turned))
        scores.append(graph("Add", graph("Mul", norm, -0.5), float(np.log(prior) - 0.5 * np.log(scaling).sum())))
    return graph("Sub", scores[1], scores[0])


@writes(PROBABILITIES, "MLPClassifier")
def _perceptrons(graph: GraphWriter, model: Any, matrix: str) -> str:
    operators = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": None}
    layers = list(zip(model.coefs_, model.intercepts_, strict=True))
    for depth, (weights, bias) in enumerate(layers, start=1):
        matrix = graph("Add", graph("MatMul", matrix, weights), bias)
        operator = operators[model.activation] if depth < len(layers) else "Sigmoid"
        matrix = graph(operator, matrix) if operator else matrix
    return matrix
