"""A model as an ONNX file: raw columns in, the label out, equal to that of the audited answer.

The last digits of a sum depend on the order of its terms, and a label can depend on them. So the graph adds lengths in
the order of NumPy, and margins in that of :mod:`common.local.hypotheses.hypothesis`.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.data.loading import numbers_of, rows_of
from common.data.tables import Category, Missing, Number, longest
from common.local.hypotheses.composed import Argmax, Recalibrated, Relabelled
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, Linear, Network, Regressor
from common.local.hypotheses.onnx import DOUBLE, FLOAT, INT64, OPSETS, TEXT, GraphBuilder, Onnx, ensemble, read_graph
from common.local.hypotheses.onnx_operators import ML
from common.local.hypotheses.rules import Conjunction, Constant, Parity, Stump, Trees
from common.models.model import Model, target_of

_BLOCK = 128  # NumPy adds up to this many numbers in eight running sums, and the halves of longer rows separately


class RowsWriter(GraphBuilder):
    """A graph under construction, whose inputs are columns of raw values.

    Args:
        model: Determines the columns, and how they become features.

    Attributes:
        features: Name of the matrix of features, float32, one row per person; features that the model ignores are 0.
        inputs: Type of each input by name, in the order of the features.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.inputs: dict[str, int] = {}
        self.outputs: list[tuple[str, int, list[str]]] = []
        self.opset = OPSETS[0]
        self.features = self._features(model)

    def running(self, matrix: str, count: int) -> str:
        """Add the first ``count`` columns from left to right; return a column."""
        return self.columns(self("CumSum", matrix, np.int64(1)), [count - 1])

    def added(self, matrix: str, count: int, order: Sequence[int] = range(8)) -> str:
        """Add the first ``count`` columns: every eighth one, then these sums in pairs, in ``order``, then the rest."""
        full = count // 8 * 8
        if not full:
            return self.running(matrix, count)
        folded = self("Reshape", self.columns(matrix, np.arange(full)), np.array([-1, full // 8, 8], dtype=np.int64))
        last = self("Gather", self("CumSum", folded, np.int64(1)), np.int64(full // 8 - 1), axis=1)
        sums = [self.columns(last, [place]) for place in order]
        while len(sums) > 1:
            sums = [self("Add", *pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
        if full == count:
            return sums[0]
        rest = self.columns(matrix, np.arange(full, count))
        return self.running(self("Concat", sums[0], rest, axis=1), count - full + 1)

    def inline(self, model: Any, names: dict[str, str]) -> None:
        """Add another graph; ``names`` maps its input to a name here, and receives the names of all its results."""
        self.opset = max(self.opset, next(opset.version for opset in model.opset_import if opset.domain == ""))
        for tensor in model.graph.initializer:
            names[tensor.name] = self.constant(self.numpy.to_array(tensor))
        for node in model.graph.node:
            copy = type(node)()
            copy.CopyFrom(node)
            copy.name = ""
            copy.input[:] = [names[name] if name else "" for name in node.input]
            for place, name in enumerate(node.output):
                names[name] = copy.output[place] = f"v{len(self.nodes)}.{place}" if name else ""
            self.nodes.append(copy)

    def give(self, name: str, column: str, kind: int) -> None:
        flat = self("Reshape", column, np.array([-1], dtype=np.int64))
        self.nodes.append(self.helper.make_node("Identity", [flat], [name]))
        self.outputs.append((name, kind, ["rows"]))

    def finish(self, name: str, facts: dict[str, str]) -> bytes:
        """Return the model; ``facts`` are written into its metadata."""
        inputs = [(column, kind, ["rows", 1]) for column, kind in self.inputs.items()]
        model = self.model(name, inputs, self.outputs, self.opset, producer_name="tandem")
        self.helper.set_model_props(model, facts)
        return bytes(model.SerializeToString())

    def _features(self, model: Model) -> str:
        needed, first = model.inputs, 0
        blocks: list[Any] = []
        for feature in model.table.features:
            if needed.isdisjoint(range(first, first + feature.width)):
                blocks.append(feature.width)
            elif isinstance(feature, Number):
                blocks.append(self._number(feature))
            elif isinstance(feature, Missing):
                blocks.append(self._missing(model, feature))
            else:
                blocks.append(self._category(model, feature))
            first += feature.width
        rows, zero = self("Shape", next(iter(self.inputs)), start=0, end=1), self.numpy.from_array(np.zeros(1))
        for place, width in enumerate(blocks):
            if not isinstance(width, str):
                shape = self("Concat", rows, np.array([width], dtype=np.int64), axis=0)
                blocks[place] = self("ConstantOfShape", shape, value=zero)
        matrix = self("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
        if model.table.norm is not None:
            matrix = self._shortened(matrix, model.table.dimension, model.table.norm)
        return self("Cast", matrix, to=FLOAT)

    def _input(self, column: str, kind: int) -> str:
        name = column
        if self.inputs.get(column, kind) != kind:
            name = f"{column} (text)" if kind == TEXT else f"{column} (number)"
        self.inputs[name] = kind
        return name

    def _number(self, feature: Number) -> str:
        value = self._input(feature.column, DOUBLE)
        span = feature.high - feature.low
        present = self("Equal", value, value)  # false for NaN, which means a missing number
        filled = self("Where", present, value, np.float64(feature.low))
        scaled = self("Div", self("Sub", filled, np.float64(feature.low)), np.float64(span))
        clipped = self("Min", self("Max", scaled, np.float64(0.0)), np.float64(1.0))
        return self("Where", present, clipped, np.float64((feature.default - feature.low) / span))

    def _missing(self, model: Model, feature: Missing) -> str:
        if not any(isinstance(other, Number) and other.column == feature.column for other in model.table.features):
            return self._category(model, feature)
        value = self._input(feature.column, DOUBLE)
        return self("Where", self("Equal", value, value), np.float64(0.0), np.float64(1.0))

    def _category(self, model: Model, feature: Category | Missing) -> str:
        values = feature.texts(model.table.layout)
        groups = enumerate(feature.groups)
        texts = [(text, place) for place, group in groups for text in dict.fromkeys((*group, *values[place]))]
        place = self(
            "LabelEncoder",
            self._input(feature.column, TEXT),
            domain=ML,
            keys_strings=[text for text, _ in texts],
            values_int64s=[place for _, place in texts],
            default_int64=-1,
        )
        return self("Cast", self("Equal", place, np.arange(feature.width, dtype=np.int64)), to=DOUBLE)

    def _shortened(self, matrix: str, width: int, norm: float) -> str:
        squares = self("Mul", matrix, matrix)
        lengths = self("Sqrt", self._pairwise(squares, 0, width))
        factor = self("Div", np.float64(longest(norm)), self("Max", lengths, np.float64(norm / 2)))
        return self("Mul", matrix, self("Min", factor, np.float64(1.0)))

    def _pairwise(self, matrix: str, first: int, count: int) -> str:
        """Add columns in the order in which NumPy adds the numbers of a row."""
        if count > _BLOCK:
            half = count // 2 - count // 2 % 8
            return self("Add", self._pairwise(matrix, first, half), self._pairwise(matrix, first + half, count - half))
        return self.added(self.columns(matrix, np.arange(first, first + count)), count)


@dataclass(frozen=True)
class Written:
    """Columns of a graph that compute the outputs of a hypothesis.

    Attributes:
        positive: Whether it predicts +1.
        score: The score that is compared between classes, double.
        margin: For half-spaces, networks and recalibrated scores: the margin, float32.
    """

    positive: str
    score: str
    margin: str | None = None


def onnx_bytes(model: Model) -> bytes:
    """Return the ONNX model.

    Inputs have the names of the columns and the shape (rows, 1): numbers as doubles, NaN if missing; categories as
    texts without surrounding spaces. Outputs: ``label``, texts of shape (rows,), or ``value``, doubles, for a
    regression; also ``margin`` if the hypothesis has one, and ``probability`` if agents calibrated a score.

    Raises:
        BadInput: If the model's kind cannot be written as ONNX, or the model cannot be used on new rows.
    """
    graph, outcome = RowsWriter(model), target_of(model)
    hypothesis = model.hypothesis
    if isinstance(hypothesis, Argmax):
        scores = graph("Concat", *(write(scored, graph).score for scored in hypothesis.hypotheses), axis=1)
        winner = graph("ArgMax", scores, axis=1, keepdims=0)
        graph.give("label", graph("Gather", np.array(outcome.names), winner), TEXT)
    elif not outcome.names:
        value = _value(graph, hypothesis)
        scaled = graph("Mul", value, np.float64(outcome.high - outcome.low))
        graph.give("value", graph("Add", scaled, np.float64(outcome.low)), DOUBLE)
    else:
        outputs = write(hypothesis, graph)
        names = np.array(outcome.names)
        graph.give("label", graph("Where", outputs.positive, names[1:], names[:1]), TEXT)
        if outputs.margin is not None:
            graph.give("margin", outputs.margin, FLOAT)
        if model.calibrated is not None:
            odds = outputs if model.calibrated == hypothesis else write(model.calibrated, graph)
            graph.give("probability", graph("Sigmoid", graph("Cast", odds.margin, to=DOUBLE)), DOUBLE)
    return graph.finish(model.scenario, {"scenario": model.scenario, "predicts": outcome.column})


def onnx_inputs(model: Model, data: Any) -> dict[str, AnyArray]:
    """Return the graph's inputs for rows as in :func:`common.models.model.predict`, shape (n, 1), float64 or texts."""
    kinds = RowsWriter(model).inputs
    parts: dict[str, list[AnyArray]] = {name: [] for name in kinds}
    for piece in rows_of(data, frozenset(model.columns), model.table.layout):
        for name, kind in kinds.items():
            column = name if name in piece.frame.columns else name.rpartition(" (")[0]
            if kind == TEXT:
                values = np.array(piece.frame[column].to_list(), dtype=object)
            else:
                values = numbers_of(piece, column, model.table.layout)
            parts[name].append(values[:, None])
    return {name: np.concatenate(blocks) if blocks else np.zeros((0, 1)) for name, blocks in parts.items()}


@singledispatch
def write(hypothesis: Hypothesis, graph: RowsWriter) -> Written:
    """Write a hypothesis on ``graph.features`` into the graph; further kinds register their own functions here.

    Raises:
        BadInput: If the kind has no writer.
    """
    raise BadInput(f"a model of kind {hypothesis.kind!r} has no writer for ONNX: write .json, which takes all kinds")


def _of_sign(graph: RowsWriter, positive: str) -> Written:
    return Written(positive, graph("Where", positive, np.float64(1.0), np.float64(-1.0)))


def _products(graph: RowsWriter, weights: AnyArray, matrix: str | None = None) -> str:
    """Return <w, x>, added in the order of :class:`common.local.hypotheses.hypothesis.Linear`: a column, float32."""
    products = graph("Mul", graph.columns(matrix or graph.features, np.arange(len(weights))), weights)
    return graph.added(products, len(weights), (0, 4, 2, 6, 1, 5, 3, 7))


@write.register
def _(hypothesis: Linear, graph: RowsWriter) -> Written:
    margin = graph("Sub", _products(graph, hypothesis.vector), np.float32(hypothesis.threshold))
    return Written(graph("Greater", margin, np.float32(0.0)), graph("Cast", margin, to=DOUBLE), margin)


@write.register
def _(hypothesis: Network, graph: RowsWriter) -> Written:
    hidden, thresholds, output = hypothesis.layers
    units = [graph("Sub", _products(graph, unit), low) for unit, low in zip(hidden, thresholds, strict=True)]
    before = graph("Concat", *units, axis=1)
    activations = graph("Div", before, graph("Add", graph("Abs", before), np.float32(1.0)))
    margin = graph("Sub", _products(graph, output, activations), np.float32(hypothesis.threshold))
    return Written(graph("Greater", margin, np.float32(0.0)), graph("Cast", margin, to=DOUBLE), margin)


@write.register
def _(hypothesis: Relabelled, graph: RowsWriter) -> Written:
    return write(hypothesis.hypothesis, graph)


@write.register
def _(hypothesis: Recalibrated, graph: RowsWriter) -> Written:
    first = graph.columns(graph.features, [0])
    groups = graph("Cast", graph("Equal", first, first), to=DOUBLE)  # the last group has the rows of no other
    if hypothesis.groups:
        members = graph("Greater", graph.columns(graph.features, hypothesis.groups), np.float32(0.5))
        groups = graph("Concat", graph("Cast", members, to=DOUBLE), groups, axis=1)
    intercept = graph("Gather", np.array(hypothesis.intercepts), graph("ArgMax", groups, axis=1, keepdims=1))
    score = graph("Mul", write(hypothesis.hypothesis, graph).score, np.float64(hypothesis.slope))
    summed = graph("Add", score, intercept)
    clipped = graph("Min", graph("Max", summed, np.float64(-GREATEST)), np.float64(GREATEST))
    margin = graph("Cast", clipped, to=FLOAT)
    return Written(graph("Greater", margin, np.float32(0.0)), graph("Cast", margin, to=DOUBLE), margin)


@write.register
def _(hypothesis: Constant, graph: RowsWriter) -> Written:
    first = graph.columns(graph.features, [0])
    same = graph("Equal", first, first)
    return _of_sign(graph, same if hypothesis.label > 0 else graph("Not", same))


@write.register
def _(hypothesis: Stump, graph: RowsWriter) -> Written:
    column = graph("Cast", graph.columns(graph.features, [hypothesis.feature]), to=DOUBLE)
    above = graph("Greater", column, np.float64(hypothesis.threshold))
    return _of_sign(graph, above if hypothesis.sign > 0 else graph("Not", above))


def _set(graph: RowsWriter, features: tuple[int, ...]) -> str:
    above = graph("Greater", graph.columns(graph.features, features), np.float32(0.5))
    return graph("ReduceSum", graph("Cast", above, to=INT64), np.array([1], dtype=np.int64))


@write.register
def _(hypothesis: Conjunction, graph: RowsWriter) -> Written:
    count = np.int64(len(hypothesis.features))
    return _of_sign(graph, graph("Equal", _set(graph, hypothesis.features), count))


@write.register
def _(hypothesis: Parity, graph: RowsWriter) -> Written:
    if not hypothesis.features:
        return write(Constant(label=-1), graph)
    odd = graph("Mod", _set(graph, hypothesis.features), np.int64(2))
    return _of_sign(graph, graph("Equal", odd, np.int64(1)))


@write.register
def _(hypothesis: Trees, graph: RowsWriter) -> Written:
    """Find the leaf of each tree by its number, which is exact in float32; add the values in double precision."""
    trees, threshold = ensemble(hypothesis), np.array(hypothesis.threshold)
    leaves = graph(
        "TreeEnsembleRegressor",
        graph.features,
        domain=ML,
        n_targets=len(hypothesis.roots),
        target_ids=trees.tree.tolist(),
        target_weights=trees.leaves.astype(np.float32).tolist(),
        **trees.attributes,
    )
    values = graph("Gather", threshold, graph("Cast", leaves, to=INT64))
    first = graph.columns(values, [0])
    base = graph("Where", graph("Equal", first, first), np.float64(hypothesis.base), np.float64(0.0))
    score = graph.running(graph("Concat", base, values, axis=1), len(hypothesis.roots) + 1)
    return Written(graph("Greater", score, np.float64(0.0)), score)


@write.register
def _(hypothesis: Regressor, graph: RowsWriter) -> Written:
    value = _value(graph, hypothesis)
    score = graph("Cast", graph("Cast", graph("Sub", value, np.float64(0.5)), to=FLOAT), to=DOUBLE)
    return Written(graph("Greater", value, np.float64(0.5)), score)


@write.register
def _(hypothesis: Onnx, graph: RowsWriter) -> Written:
    """Append the checked graph to the columns; no byte of the received model gets into the file."""
    from onnx import ModelProto

    inner = ModelProto.FromString(read_graph(base64.b64decode(hypothesis.model)).model)
    names = {"x": graph.columns(graph.features, np.arange(hypothesis.min_features))}
    graph.inline(inner, names)
    return _of_sign(graph, graph("Equal", names["label"], np.int64(1)))


def _value(graph: RowsWriter, hypothesis: Hypothesis) -> str:
    if not isinstance(hypothesis, Regressor):
        raise BadInput(f"a model of kind {hypothesis.kind!r} predicts a number that cannot be written as ONNX")
    weights = np.asarray(hypothesis.weights, dtype=np.float32)
    score = graph("Add", graph("Cast", _products(graph, weights), to=DOUBLE), np.float64(hypothesis.intercept))
    return graph("Min", graph("Max", score, np.float64(0.0)), np.float64(1.0))
