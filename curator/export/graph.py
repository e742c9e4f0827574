"""Put a graph together, node by node, and find the writer of each class by the class's name.

A *writer* takes the graph, a fitted binary classifier and the name of a matrix of features, and returns the name of a
column: of ``decision_function``, or of the probability of the greater class. :mod:`curator.export.writers` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common.core.arrays import AnyArray
from common.local.hypotheses.onnx_graph import ML_OPSET, OPSETS, ensemble
from common.local.hypotheses.onnx_operators import ML
from common.local.hypotheses.trees import Trees
from curator.export.trees import forest_of

Term = str | float | AnyArray
"""What a node takes: the name of an earlier result, or a constant."""

FLOAT, DOUBLE = int(TensorProto.FLOAT), int(TensorProto.DOUBLE)


class GraphWriter:
    """A graph under construction. Numbers are doubles: the models were fitted in double precision.

    Args:
        dimension: Columns of the features.

    Attributes:
        features: Name of the features, a double matrix with one row a person.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        self.features = self("Cast", "x", to=DOUBLE)

    def __call__(self, operator: str, *inputs: Term, **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, outputs: int, *inputs: Term, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with some outputs; return their names."""
        names = [f"v{len(self._nodes)}.{position}" for position in range(outputs)]
        given = [item if isinstance(item, str) else self._constant(np.asarray(item)) for item in inputs]
        self._nodes.append(helper.make_node(operator, given, names, domain=domain, **attributes))
        return names

    def _constant(self, array: AnyArray) -> str:
        array = array if array.dtype == np.int64 else array.astype(np.float64)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"c{len(self._constants)}")
        return str(self._constants[key].name)

    def sum(self, matrix: str) -> str:
        """Add up the columns."""
        return self("ReduceSum", matrix, np.array([1]))

    def column(self, value: float) -> str:
        """Return a column that holds a number in every row."""
        first = self("Gather", self.features, np.array([0]), axis=1)
        return self("Where", self("Equal", first, first), float(value), float(value))

    def columns(self, matrix: str, chosen: AnyArray) -> str:
        """Choose columns."""
        return self("Gather", matrix, np.asarray(chosen, dtype=np.int64), axis=1)

    def join(self, columns: list[str]) -> str:
        """Put matrices side by side."""
        while len(columns) > 1:
            columns = [self("Concat", *columns[i : i + 256], axis=1) for i in range(0, len(columns), 256)]
        return columns[0]

    def indicator(self, truth: str) -> str:
        """Turn true and false into 1 and 0."""
        return self("Cast", truth, to=DOUBLE)

    def trees(self, matrix: str, forest: Trees) -> str:
        """Sum up trees."""
        found = ensemble(forest)
        total = self.several(
            "TreeEnsembleRegressor",
            1,
            self("Cast", matrix, to=FLOAT),
            domain=ML,
            n_targets=1,
            target_ids=[0] * len(found.leaves),
            target_weights=np.array(forest.threshold)[found.leaves].astype(np.float32).tolist(),
            **found.attributes,
        )[0]
        return self("Add", self("Cast", total, to=DOUBLE), forest.base)

    def finish(self, margin: str) -> bytes:
        """Return the model whose label is 1 where ``margin``, a column, is positive, and -1 elsewhere."""
        truth = self("Greater", margin, 0.0)
        self._nodes.append(
            helper.make_node("Where", [truth, self._constant(np.array(1)), self._constant(np.array(-1))], ["label"])
        )
        graph = helper.make_graph(
            self._nodes,
            "hypothesis",
            [helper.make_tensor_value_info("x", FLOAT, ["rows", self._dimension])],
            [helper.make_tensor_value_info("label", int(TensorProto.INT64), ["rows", 1])],
            list(self._constants.values()),
        )
        sets = [helper.make_opsetid("", OPSETS[0]), helper.make_opsetid(ML, ML_OPSET)]
        return bytes(helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString())


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
