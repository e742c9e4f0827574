"""Classifiers made of classifiers: voting, stacking, bagging, boosting, calibration, thresholds, codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from curator.export.base import (
    DECISIONS,
    MARGINS,
    PROBABILITIES,
    Unwritable,
    decision,
    margin,
    mean,
    prediction,
    probability,
    response,
    writes,
)
from curator.export.graph import GraphWriter
from curator.export.neighbours import powers
from curator.export.trees import forest_of


@writes(MARGINS, "VotingClassifier")
def _vote(graph: GraphWriter, model: Any, matrix: str) -> str:
    if model.voting == "soft":
        return graph("Sub", _mean_probability(graph, model, matrix), 0.5)
    votes = [graph.indicator(graph("Greater", margin(graph, inner, matrix), 0.0)) for inner in model.estimators_]
    return graph("Sub", mean(graph, votes, model._weights_not_none), 0.5)


@writes(PROBABILITIES, "VotingClassifier")
def _mean_probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    shares = [probability(graph, inner, matrix) for inner in model.estimators_]
    return mean(graph, shares, model._weights_not_none)


def _stacked(graph: GraphWriter, model: Any, matrix: str) -> str:
    ways = {"predict_proba": probability, "decision_function": decision, "predict": prediction}
    columns = [
        ways[method](graph, inner, matrix) for method, inner in zip(model.stack_method_, model.estimators_, strict=True)
    ]
    return graph.join([*columns, matrix] if model.passthrough else columns)


@writes(MARGINS, "StackingClassifier")
def _stack_margin(graph: GraphWriter, model: Any, matrix: str) -> str:
    return margin(graph, model.final_estimator_, _stacked(graph, model, matrix))


@writes(PROBABILITIES, "StackingClassifier")
def _stack_probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    return probability(graph, model.final_estimator_, _stacked(graph, model, matrix))


@writes(DECISIONS, "StackingClassifier")
def _stack_decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    return decision(graph, model.final_estimator_, _stacked(graph, model, matrix))


@writes(PROBABILITIES, "BaggingClassifier")
def _bag_probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    shares = []
    for inner, features in zip(model.estimators_, model.estimators_features_, strict=True):
        chosen = graph.columns(matrix, features)
        if hasattr(inner, "predict_proba"):
            shares.append(probability(graph, inner, chosen))
        else:
            shares.append(graph.indicator(graph("Greater", margin(graph, inner, chosen), 0.0)))
    return mean(graph, shares)


@writes(MARGINS, "BaggingClassifier")
def _bag_margin(graph: GraphWriter, model: Any, matrix: str) -> str:
    return graph("Sub", _bag_probability(graph, model, matrix), 0.5)


@writes(DECISIONS, "BaggingClassifier")
def _bag_decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    pairs = zip(model.estimators_, model.estimators_features_, strict=True)
    return mean(graph, [decision(graph, inner, graph.columns(matrix, features)) for inner, features in pairs])


@writes(DECISIONS, "AdaBoostClassifier")
def _boost(graph: GraphWriter, model: Any, matrix: str) -> str:
    forest = forest_of(model, np.zeros((1, model.n_features_in_)))
    if forest is not None:
        # scikit-learn counts both classes: twice the mean of the signs.
        return graph("Mul", graph.trees(matrix, forest), 2.0 / float(model.estimator_weights_.sum()))
    votes = [prediction(graph, inner, matrix) for inner in model.estimators_]
    lesser, greater = (float(label) for label in model.classes_)
    share = mean(graph, votes, model.estimator_weights_[: len(votes)].tolist())
    return graph("Mul", graph("Sub", share, (greater + lesser) / 2), 4.0 / (greater - lesser))


@writes(PROBABILITIES, "CalibratedClassifierCV")
def _calibrate(graph: GraphWriter, model: Any, matrix: str) -> str:
    return mean(graph, [_calibrated(graph, inner, matrix) for inner in model.calibrated_classifiers_])


def _calibrated(graph: GraphWriter, model: Any, matrix: str) -> str:
    value, threshold = response(graph, model.estimator, matrix)
    calibrator = model.calibrators[0]
    if model.method == "sigmoid":
        return graph("Sigmoid", graph("Sub", graph("Mul", value, -float(calibrator.a_)), float(calibrator.b_)))
    if model.method == "isotonic":
        # A polygon through the thresholds, constant outside, as a sum of ramps.
        places, heights = np.asarray(calibrator.X_thresholds_), np.asarray(calibrator.y_thresholds_)
        if len(places) == 1:
            return graph.column(float(heights[0]))
        lengths = np.diff(places)
        ramps = graph("Min", graph("Max", graph("Sub", value, places[:-1]), 0.0), lengths)
        return graph("Add", graph("MatMul", ramps, (np.diff(heights) / lengths).reshape(-1, 1)), float(heights[0]))
    if threshold:
        least = 1e-12
        opposite = graph("Log", graph("Add", graph("Sub", graph.column(1.0), value), least))
        odds = graph("Sub", graph("Log", graph("Add", value, least)), opposite)
        return graph("Sigmoid", graph("Mul", odds, float(calibrator.beta_)))
    return graph("Sigmoid", graph("Mul", value, 2.0 * float(calibrator.beta_)))


@writes(MARGINS, "OneVsRestClassifier", "OneVsOneClassifier")
def _only(graph: GraphWriter, model: Any, matrix: str) -> str:
    value, threshold = response(graph, model.estimators_[0], matrix)
    return graph("Sub", value, threshold)


@writes(DECISIONS, "OneVsRestClassifier")
def _only_decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    return decision(graph, model.estimators_[0], matrix)


@writes(PROBABILITIES, "OneVsRestClassifier")
def _only_probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    return probability(graph, model.estimators_[0], matrix)


@writes(MARGINS, "OutputCodeClassifier")
def _code(graph: GraphWriter, model: Any, matrix: str) -> str:
    answers = []
    for column, inner in zip(model.code_book_.T, model.estimators_, strict=True):
        # A column of the code with one value only was learned as that constant.
        constant = float(column[0] > 0) if column[0] == column[1] else None
        answers.append(response(graph, inner, matrix)[0] if constant is None else graph.column(constant))
    apart = powers(graph, graph.join(answers), model.code_book_, 2.0)
    return graph("MatMul", apart, np.array([[1.0], [-1.0]]))


@writes(MARGINS, "SelfTrainingClassifier")
def _self_trained(graph: GraphWriter, model: Any, matrix: str) -> str:
    return margin(graph, model.estimator_, matrix)


@writes(DECISIONS, "SelfTrainingClassifier", "FixedThresholdClassifier", "TunedThresholdClassifierCV")
def _inner_decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    return decision(graph, model.estimator_, matrix)


@writes(PROBABILITIES, "SelfTrainingClassifier", "FixedThresholdClassifier", "TunedThresholdClassifierCV")
def _inner_probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    return probability(graph, model.estimator_, matrix)


@writes(MARGINS, "FixedThresholdClassifier", "TunedThresholdClassifierCV")
def _threshold(graph: GraphWriter, model: Any, matrix: str) -> str:
    method = model.response_method
    if method == "auto":
        method = "predict_proba" if hasattr(model.estimator_, "predict_proba") else "decision_function"
    column = {"predict_proba": probability, "decision_function": decision}[method]
    threshold = getattr(model, "best_threshold_", None)
    if threshold is None:
        threshold = model.threshold
        threshold = (0.5 if method == "predict_proba" else 0.0) if threshold == "auto" else threshold
    if getattr(model, "pos_label", None) not in (None, model.classes_[1]):
        raise Unwritable("a positive label other than 1")
    # At the threshold the answer is yes.
    above = graph("GreaterOrEqual", column(graph, model.estimator_, matrix), float(threshold))
    return graph.indicator(above)
