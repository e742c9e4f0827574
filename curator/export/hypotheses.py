"""From a fitted classifier to a hypothesis: a constant, a half-space, trees, or else a graph."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.onnx import Onnx, require_packages
from common.local.hypotheses.rules import Constant
from curator.export.trees import forest_of


def as_hypothesis(model: Any, example: AnyArray) -> Hypothesis:
    """Write a fitted binary classifier (classes -1 and +1) down as data.

    Args:
        model: Fitted.
        example: Shape (1, d): where to read off the constant of a sum of trees.

    Raises:
        ValueError: If there is no way to write it down, or the result is too large; says why.
    """
    if type(model).__name__ == "DummyClassifier":
        return Constant(label=1 if model.predict(example)[0] > 0 else -1)
    forest = forest_of(model, example)
    if forest is not None:
        return forest
    if hasattr(model, "coef_"):
        weights = np.asarray(model.coef_, dtype=np.float64).ravel()
        return Linear(weights=tuple(weights.tolist()), threshold=-float(np.ravel(model.intercept_)[0]))
    return _as_graph(model, example.shape[1])


def _as_graph(model: Any, dimension: int) -> Onnx:
    require_packages()
    from curator.export import writers  # noqa: F401 - they enter themselves
    from curator.export.graph import GraphWriter, margin

    graph = GraphWriter(dimension)
    column = margin(graph, model, graph.features)
    return Onnx(model=base64.b64encode(graph.finish(column)).decode("ascii"))
