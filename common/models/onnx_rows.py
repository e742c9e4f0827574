"""Raw columns to features, as nodes of an ONNX graph: the same operations on the same numbers in the same order.

Sums of several numbers depend on their order in the last place, and a label can turn on it. So the graph adds as NumPy
does where lengths are concerned (pairwise, in eight running sums), and as :mod:`common.vocabulary.hypotheses.linear`
where margins are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common.data.tables.source import Category, Number, longest
from common.models.model import Model
from common.vocabulary.hypotheses.graphs.operators import ML
from common.vocabulary.hypotheses.graphs.parsing import ML_OPSET, OPSETS

FLOAT, DOUBLE, INT, TEXT = (
    int(kind) for kind in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING)
)
_BLOCK = 128
"""NumPy adds up to so many numbers in eight running sums, and halves of longer rows apart."""


class RowsWriter:
    """A graph under construction, whose inputs are columns of raw values.

    Parameters
    ----------
    model
        Says which columns, and how they become features.

    Attributes
    ----------
    features
        Name of the matrix of features, float32, one row a person; what the model leaves alone is 0.
    inputs, outputs
        What is known of each: the inputs by name, in the order of the features.
    opset
        Version of the operators.
    """

    def __init__(self, model: Model) -> None:
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], Any], Any] = {}
        self.inputs: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.opset = OPSETS[0]
        self.features = self._features(model)

    def __call__(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node; inputs are names of earlier results, or arrays. Return the name of its output."""
        name = f"v{len(self._nodes)}"
        given = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        self._nodes.append(helper.make_node(operator, given, [name], domain=domain, **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Return the name of a constant: of the array's own type, texts as texts."""
        array = np.asarray(value)
        if array.dtype.kind == "U":
            array = array.astype(object)
        content = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"c{len(self._constants)}")
        return str(self._constants[key].name)

    def columns(self, matrix: str, chosen: Any) -> str:
        """Choose columns."""
        return self("Gather", matrix, np.asarray(chosen, dtype=np.int64), axis=1)

    def running(self, matrix: str, count: int) -> str:
        """Add up ``count`` columns from the left to the right; return a column."""
        sums = self("CumSum", matrix, np.array(1, dtype=np.int64))
        return self.columns(sums, [count - 1])

    def eight(self, matrix: str, count: int) -> list[str]:
        """Add up every eighth of ``count`` columns, a multiple of eight; return the eight sums, columns."""
        folded = self("Reshape", self.columns(matrix, np.arange(count)), np.array([-1, count // 8, 8], dtype=np.int64))
        last = self("Gather", self("CumSum", folded, np.array(1, dtype=np.int64)), np.int64(count // 8 - 1), axis=1)
        return [self.columns(last, [place]) for place in range(8)]

    def inline(self, nodes: list[Any], constants: list[Any], names: dict[str, str], opset: int) -> None:
        """Add another graph's nodes; ``names`` has what its input is here, and gets what all its results are."""
        self.opset = max(self.opset, opset)
        for tensor in constants:
            names[tensor.name] = self.constant(numpy_helper.to_array(tensor))
        for node in nodes:
            copy = type(node)()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            copy.input.extend(names[name] if name else "" for name in node.input)
            for place, name in enumerate(node.output):
                names[name] = f"v{len(self._nodes)}.{place}" if name else ""
                copy.output.append(names[name])
            copy.name = ""
            self._nodes.append(copy)

    def give(self, name: str, column: str, kind: int) -> None:
        """Make a column an output of this name, shape (rows,)."""
        flat = self("Reshape", column, np.array([-1], dtype=np.int64))
        self._nodes.append(helper.make_node("Identity", [flat], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, ["rows"]))

    def finish(self, name: str, facts: dict[str, str]) -> bytes:
        """Return the model; ``facts`` are written into its metadata."""
        graph = helper.make_graph(
            self._nodes, name, list(self.inputs.values()), self.outputs, list(self._constants.values())
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=10, producer_name="tandem")
        helper.set_model_props(model, facts)
        return bytes(model.SerializeToString())

    # Columns to features --------------------------------------------------------------------------------------------

    def _features(self, model: Model) -> str:
        needed, first = model.inputs, 0
        parts: list[str | int] = []
        for feature in model.table.features:
            if needed.isdisjoint(range(first, first + feature.width)):
                parts.append(feature.width)
            else:
                parts.append(self._number(feature) if isinstance(feature, Number) else self._category(model, feature))
            first += feature.width
        rows = self("Shape", next(iter(self.inputs)), start=0, end=1)
        blocks = [part if isinstance(part, str) else self._zeros(rows, part) for part in parts]
        matrix = self("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
        if model.table.norm is not None:
            matrix = self._shortened(matrix, model.table.dimension, model.table.norm)
        return self("Cast", matrix, to=FLOAT)

    def _input(self, column: str, kind: int) -> str:
        name = column
        known = self.inputs.get(name)
        if known is not None and known.type.tensor_type.elem_type != kind:
            name = f"{column} (text)" if kind == TEXT else f"{column} (number)"
        if name not in self.inputs:
            self.inputs[name] = helper.make_tensor_value_info(name, kind, ["rows", 1])
        return name

    def _number(self, feature: Number) -> str:
        value = self._input(feature.column, DOUBLE)
        span = feature.high - feature.low
        there = self("Equal", value, value)  # NaN, which stands for a missing number, is none
        known = self("Where", there, value, np.float64(feature.low))
        scaled = self("Div", self("Sub", known, np.float64(feature.low)), np.float64(span))
        clipped = self("Min", self("Max", scaled, np.float64(0.0)), np.float64(1.0))
        fill = 0.0 if feature.fill is None else (feature.fill - feature.low) / span
        return self("Where", there, clipped, np.float64(fill))

    def _category(self, model: Model, feature: Category) -> str:
        means = feature.texts(model.table.layout)
        texts = [
            (text, place)
            for place, group in enumerate(feature.groups)
            for text in dict.fromkeys((*group, *means[place]))
        ]
        place = self(
            "LabelEncoder",
            self._input(feature.column, TEXT),
            domain=ML,
            keys_strings=[text for text, _ in texts],
            values_int64s=[place for _, place in texts],
            default_int64=-1,
        )
        return self("Cast", self("Equal", place, np.arange(feature.width, dtype=np.int64)), to=DOUBLE)

    def _zeros(self, rows: str, width: int) -> str:
        shape = self("Concat", rows, np.array([width], dtype=np.int64), axis=0)
        return self("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1)))

    def _shortened(self, matrix: str, width: int, norm: float) -> str:
        squares = self("Mul", matrix, matrix)
        lengths = self("Sqrt", self._pairwise(squares, 0, width))
        factor = self("Div", np.float64(longest(norm)), self("Max", lengths, np.float64(norm / 2)))
        return self("Mul", matrix, self("Min", factor, np.float64(1.0)))

    def _pairwise(self, matrix: str, first: int, count: int) -> str:
        """Add up columns as NumPy adds the numbers of a row."""
        if count > _BLOCK:
            half = count // 2 - count // 2 % 8
            return self("Add", self._pairwise(matrix, first, half), self._pairwise(matrix, first + half, count - half))
        block = self.columns(matrix, np.arange(first, first + count))
        whole = count // 8 * 8
        if not whole:
            return self.running(block, count)
        r = self.eight(block, whole)
        left = self("Add", self("Add", r[0], r[1]), self("Add", r[2], r[3]))
        right = self("Add", self("Add", r[4], r[5]), self("Add", r[6], r[7]))
        return self.then(self("Add", left, right), block, whole, count)

    def then(self, total: str, matrix: str, whole: int, count: int) -> str:
        """Add the columns from ``whole`` to ``count`` to a column, one after the other."""
        if whole == count:
            return total
        rest = self.columns(matrix, np.arange(whole, count))
        return self.running(self("Concat", total, rest, axis=1), count - whole + 1)
