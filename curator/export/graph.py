"""Put a graph together, node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common.core.arrays import AnyArray
from common.local.hypotheses.onnx_graph import ML_OPSET, OPSETS, ensemble
from common.local.hypotheses.onnx_operators import ML
from common.local.hypotheses.trees import Trees

Term = str | float | AnyArray
"""What a node takes: the name of an earlier result, or a constant."""

FLOAT, DOUBLE = int(TensorProto.FLOAT), int(TensorProto.DOUBLE)


class GraphWriter:
    """A graph under construction. Numbers are doubles: the models were fitted in double precision.

    Parameters
    ----------
    dimension
        Columns of the features.

    Attributes
    ----------
    features
        Name of the features, a double matrix with one row a person.
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
        kept = array if array.dtype == np.int64 else array.astype(np.float64)
        key = (kept.dtype.str, kept.shape, kept.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(kept, f"c{len(self._constants)}")
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
