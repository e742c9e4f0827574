"""Classifiers that compare with the draws they were trained on: neighbours, kernels, centroids."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.core.arrays import Floats
from curator.export.base import DECISIONS, MARGINS, PROBABILITIES, Unwritable, writes
from curator.export.graph import GraphWriter

MAX_DIFFERENCES = 1 << 17
"""Above so many products of points and features, Euclidean distances come from one matrix product."""


def squared(graph: GraphWriter, matrix: str, points: Any) -> str:
    """Write squared Euclidean distances to points: exactly as by definition, unless that would be much work."""
    points = np.asarray(points, dtype=np.float64)
    if points.size <= MAX_DIFFERENCES:
        return powers(graph, matrix, points, 2.0)
    own = graph("ReduceSumSquare", matrix, np.array([1]))
    crossed = graph("MatMul", matrix, -2.0 * points.T)
    return graph("Max", graph("Add", graph("Add", crossed, (points**2).sum(axis=1)), own), 0.0)


def powers(graph: GraphWriter, matrix: str, points: Floats, power: float) -> str:
    """Write the sum over features of |x_j - t_j|^p (for infinite p the greatest |x_j - t_j|), a column a point t."""
    total = ""
    for feature, column in enumerate(points.T):
        apart = graph("Sub", graph.columns(matrix, np.array([feature])), column)
        if power == 2.0:
            term = graph("Mul", apart, apart)
        else:
            term = graph("Abs", apart)
            term = term if power in (1.0, np.inf) else graph("Pow", term, power)
        total = graph("Max" if power == np.inf else "Add", total, term) if total else term
    return total


def _distances(graph: GraphWriter, matrix: str, metric: str, parameters: Any, points: Any) -> str:
    power = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}.get(metric)
    if metric == "minkowski" and (parameters or {}).get("w") is None:
        power = float((parameters or {})["p"])
    if power is None:
        raise Unwritable(f"distances of metric {metric!r}")
    if power == 2.0:
        return graph("Sqrt", squared(graph, matrix, points))
    total = powers(graph, matrix, np.asarray(points, dtype=np.float64), power)
    return total if power in (1.0, np.inf) else graph("Pow", total, 1.0 / power)


def _weigh(graph: GraphWriter, distances: str, weights: Any, counted: str | None) -> str:
    """Return each neighbour's weight: 1, or one over its distance; those at distance 0 push all others aside."""
    if weights in (None, "uniform"):
        return counted or graph.indicator(graph("GreaterOrEqual", distances, 0.0))
    if weights != "distance":
        raise Unwritable("weights that are a function")
    here = graph.indicator(graph("Equal", distances, 0.0))
    any_here = graph("Greater", graph("ReduceMax", here, np.array([1])), 0.0)
    near = graph("Where", any_here, here, graph("Reciprocal", distances))
    return near if counted is None else graph("Mul", near, counted)


def _share(graph: GraphWriter, weights: str, positive: str) -> str:
    return graph("Div", graph.sum(graph("Mul", weights, positive)), graph.sum(weights))


@writes(PROBABILITIES, "KNeighborsClassifier")
def _nearest(graph: GraphWriter, model: Any, matrix: str) -> str:
    # The points have no public name in scikit-learn; the agreement on the draws guards this.
    distances = _distances(graph, matrix, model.effective_metric_, model.effective_metric_params_, model._fit_X)
    near, places = graph.several("TopK", 2, distances, np.array([model.n_neighbors]), axis=1, largest=0, sorted=1)
    positive = graph("Gather", model._y.ravel().astype(np.float64), places, axis=0)
    return _share(graph, _weigh(graph, near, model.weights, None), positive)


@writes(PROBABILITIES, "RadiusNeighborsClassifier")
def _within(graph: GraphWriter, model: Any, matrix: str) -> str:
    distances = _distances(graph, matrix, model.effective_metric_, model.effective_metric_params_, model._fit_X)
    counted = graph.indicator(graph("LessOrEqual", distances, float(model.radius)))
    weights = _weigh(graph, distances, model.weights, counted)
    votes = graph("MatMul", weights, model._y.reshape(-1, 1).astype(np.float64))
    total = graph.sum(weights)
    # Nobody around: scikit-learn gives the outlier's label, or fails where none is set; then it is the lesser class.
    alone = 0.0 if model.outlier_label_ is None else float(model.outlier_label_[0] == model.classes_[1])
    return graph("Where", graph("Greater", total, 0.0), graph("Div", votes, total), alone)


@writes(PROBABILITIES, "LabelPropagation", "LabelSpreading")
def _spread(graph: GraphWriter, model: Any, matrix: str) -> str:
    shares = np.nan_to_num(model.label_distributions_)
    if model.kernel == "rbf":
        near = graph("Exp", graph("Mul", squared(graph, matrix, model.X_), -float(model.gamma)))
        votes, total = (graph("MatMul", near, column.reshape(-1, 1)) for column in (shares[:, 1], shares.sum(axis=1)))
        return graph("Div", votes, total)
    wanted = np.array([model.n_neighbors])
    places = graph.several("TopK", 2, squared(graph, matrix, model.X_), wanted, axis=1, largest=0, sorted=1)[1]
    votes, total = (graph.sum(graph("Gather", column, places, axis=0)) for column in (shares[:, 1], shares.sum(axis=1)))
    return graph("Div", votes, total)


@writes(DECISIONS, "SVC", "NuSVC")
def _kernel_machine(graph: GraphWriter, model: Any, matrix: str) -> str:
    points = np.asarray(model.support_vectors_, dtype=np.float64)
    if model.kernel not in ("linear", "poly", "rbf", "sigmoid"):
        raise Unwritable(f"kernel {model.kernel!r}")
    width = float(model._gamma)
    if model.kernel == "rbf":
        near = graph("Exp", graph("Mul", squared(graph, matrix, points), -width))
    else:
        near = graph("MatMul", matrix, points.T)
    if model.kernel in ("poly", "sigmoid"):
        near = graph("Add", graph("Mul", near, width), float(model.coef0))
        near = graph("Tanh", near) if model.kernel == "sigmoid" else graph("Pow", near, float(model.degree))
    return graph("Add", graph("MatMul", near, model.dual_coef_.reshape(-1, 1)), float(model.intercept_[0]))


@writes(MARGINS, "GaussianProcessClassifier")
def _process(graph: GraphWriter, model: Any, matrix: str) -> str:
    inner = model.base_estimator_
    kernel = inner.kernel_.get_params()
    if {type(kernel.get(part)).__name__ for part in ("k1", "k2")} != {"ConstantKernel", "RBF"}:
        raise Unwritable(f"kernel {inner.kernel_}")
    # A constant factor does not change the sign: only the RBF part matters.
    scale = np.asarray(
        next(part.length_scale for part in (kernel["k1"], kernel["k2"]) if hasattr(part, "length_scale"))
    )
    near = graph("Exp", graph("Mul", squared(graph, graph("Div", matrix, scale), inner.X_train_ / scale), -0.5))
    return graph("MatMul", near, (inner.y_train_ - inner.pi_).reshape(-1, 1))


@writes(DECISIONS, "NearestCentroid")
def _centroids(graph: GraphWriter, model: Any, matrix: str) -> str:
    spread = np.where(model.within_class_std_dev_ != 0, model.within_class_std_dev_, 1.0)
    power = 1.0 if model.metric == "manhattan" else 2.0
    total = powers(graph, graph("Div", matrix, spread), model.centroids_ / spread, power)
    scores = graph("Sub", 2.0 * np.log(model.class_prior_), graph("Mul", total, total) if power == 1.0 else total)
    return graph("MatMul", scores, np.array([[-1.0], [1.0]]))


@writes(MARGINS, "NearestCentroid")
def _nearest_centroid(graph: GraphWriter, model: Any, matrix: str) -> str:
    if not np.isclose(model.class_prior_, 0.5).all():
        return _centroids(graph, model, matrix)
    power = 1.0 if model.metric == "manhattan" else 2.0
    return graph("MatMul", powers(graph, matrix, model.centroids_, power), np.array([[1.0], [-1.0]]))
