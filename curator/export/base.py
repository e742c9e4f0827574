"""How a classifier gets into a graph: one small function a class and method, found by the class's name.

A *writer* takes the graph, a fitted binary classifier and the name of a matrix of features, and returns the name of a
column: of ``decision_function``, or of the probability of the greater class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curator.export.graph import GraphWriter
from curator.export.trees import forest_of

Writer = Callable[[GraphWriter, Any, str], str]

DECISIONS: dict[str, Writer] = {}
PROBABILITIES: dict[str, Writer] = {}
MARGINS: dict[str, Writer] = {}
"""Only for classes whose ``predict`` is neither by the sign of their decision nor by the greater probability."""


class Unwritable(ValueError):
    """There is no writer for a class or a setting; never leaves this party as such."""


def writes(table: dict[str, Writer], *names: str) -> Callable[[Writer], Writer]:
    """Enter a writer for classes of scikit-learn."""

    def enter(writer: Writer) -> Writer:
        table.update(dict.fromkeys(names, writer))
        return writer

    return enter


def decision(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write ``decision_function``."""
    name = type(model).__name__
    if name in DECISIONS:
        return DECISIONS[name](graph, model, matrix)
    if hasattr(model, "coef_"):
        return graph("Add", graph("MatMul", matrix, model.coef_.reshape(-1, 1)), float(model.intercept_.ravel()[0]))
    forest = forest_of(model, np.zeros((1, model.n_features_in_)))
    if forest is None:
        raise Unwritable(f"the decision function of {name}")
    return graph.trees(matrix, forest)


def probability(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write the probability of the greater class."""
    if len(model.classes_) == 1:  # as in a bootstrap sample with one label only
        return graph.column(float(model.classes_[0] > 0))
    name = type(model).__name__
    if name not in PROBABILITIES:
        raise Unwritable(f"the probabilities of {name}")
    return PROBABILITIES[name](graph, model, matrix)


def response(graph: GraphWriter, model: Any, matrix: str) -> tuple[str, float]:
    """Write ``decision_function`` if there is one, else the probability; also return where it says yes: 0 or 1/2."""
    if hasattr(model, "decision_function"):
        return decision(graph, model, matrix), 0.0
    return probability(graph, model, matrix), 0.5


def margin(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write a column that is positive where ``predict`` gives the greater class."""
    name = type(model).__name__
    if name in MARGINS:
        return MARGINS[name](graph, model, matrix)
    value, threshold = response(graph, model, matrix)
    return graph("Sub", value, threshold) if threshold else value


def prediction(graph: GraphWriter, model: Any, matrix: str) -> str:
    """Write ``predict``: the classes, as numbers."""
    lesser, greater = (float(label) for label in (model.classes_[0], model.classes_[-1]))
    return graph("Where", graph("Greater", margin(graph, model, matrix), 0.0), greater, lesser)


def mean(graph: GraphWriter, columns: list[str], weights: list[float] | None = None) -> str:
    """Average columns."""
    shares = np.ones(len(columns)) if weights is None else np.asarray(weights, dtype=np.float64)
    return graph("MatMul", graph.join(columns), (shares / shares.sum()).reshape(-1, 1))
