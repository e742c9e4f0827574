"""A model as an ONNX file: raw columns in, the label out, the same label as the audited answer has.

Inputs are named as the columns are, each of shape (rows, 1): numbers as doubles, NaN where one is missing; categories
as texts without spaces around them. Outputs: ``label``, texts of shape (rows,), or ``value``, doubles, of a regression;
for half-spaces ``margin`` and ``probability`` as well.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.data.tables.frames import rows_of
from common.data.tables.loading import numbers_of
from common.models.model import Model
from common.models.onnx_rows import DOUBLE, FLOAT, INT, TEXT, RowsWriter
from common.models.outcome import outcome_of
from common.vocabulary.hypotheses.argmax import Argmax
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.conjunction import Conjunction
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.graphs.ensemble import ensemble
from common.vocabulary.hypotheses.graphs.operators import ML
from common.vocabulary.hypotheses.graphs.parsing import read_graph
from common.vocabulary.hypotheses.linear import GREATEST, Linear
from common.vocabulary.hypotheses.onnx import Onnx
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.hypotheses.recalibrated import Recalibrated
from common.vocabulary.hypotheses.regressor import Regressor
from common.vocabulary.hypotheses.relabelled import Relabelled
from common.vocabulary.hypotheses.stump import Stump
from common.vocabulary.hypotheses.trees import Trees


@dataclass(frozen=True)
class Written:
    """Columns of a graph that say what a hypothesis says.

    Attributes
    ----------
    positive
        Whether it predicts +1.
    score
        What is compared between classes, double.
    margin
        Of a half-space, or of a score that was recalibrated: the margin, float32.
    """

    positive: str
    score: str
    margin: str | None = None


def onnx_bytes(model: Model) -> bytes:
    """Return the ONNX model.

    Raises
    ------
    BadInput
        If the model's kind cannot be written so, or the model cannot be used on new rows.
    """
    graph, outcome = RowsWriter(model), outcome_of(model)
    found = model.hypothesis
    if isinstance(found, Argmax):
        winner = _winner(graph, found)
        graph.give("label", graph("Gather", np.array(outcome.names), winner), TEXT)
    elif not outcome.names:
        value = _value(graph, found)
        graph.give(
            "value",
            graph("Add", graph("Mul", value, np.float64(outcome.high - outcome.low)), np.float64(outcome.low)),
            DOUBLE,
        )
    else:
        written = write(found, graph)
        names = np.array(outcome.names)
        graph.give("label", graph("Where", written.positive, names[1:], names[:1]), TEXT)
        if written.margin is not None:
            graph.give("margin", written.margin, FLOAT)
            graph.give("probability", graph("Sigmoid", graph("Cast", written.margin, to=DOUBLE)), DOUBLE)
    return graph.finish(model.scenario, {"scenario": model.scenario, "predicts": outcome.column})


def onnx_inputs(model: Model, data: Any) -> dict[str, AnyArray]:
    """Return rows as the ONNX file takes them: by name, shape (n, 1), float64 or texts.

    Parameters
    ----------
    model
        The model that was exported.
    data
        As :func:`common.models.predicting.predict` takes it.
    """
    given = RowsWriter(model).inputs
    parts: dict[str, list[AnyArray]] = {name: [] for name in given}
    for piece in rows_of(data, frozenset(model.columns), model.table.layout):
        for name, info in given.items():
            column = name if name in piece.frame.columns else name.rpartition(" (")[0]
            if info.type.tensor_type.elem_type == TEXT:
                values = np.array(piece.frame[column].to_list(), dtype=object)
            else:
                values = numbers_of(piece, column, model.table.layout)
            parts[name].append(values[:, None])
    return {name: np.concatenate(found) if found else np.zeros((0, 1)) for name, found in parts.items()}


@singledispatch
def write(hypothesis: Hypothesis, graph: RowsWriter) -> Written:
    """Write what a hypothesis says of ``graph.features``; a kind of one's own registers a function of its own here.

    Raises
    ------
    BadInput
        If nobody has said how.
    """
    raise BadInput(
        f"nobody has said how a model of kind {hypothesis.kind!r} is written as ONNX: write .json, which has all kinds"
    )


def _of_sign(graph: RowsWriter, positive: str) -> Written:
    return Written(positive, graph("Where", positive, np.float64(1.0), np.float64(-1.0)))


def _products(graph: RowsWriter, weights: AnyArray) -> str:
    """Return <w, x> as :class:`common.vocabulary.hypotheses.linear.Linear` adds it up: a column, float32."""
    count = len(weights)
    products = graph("Mul", graph.columns(graph.features, np.arange(count)), weights)
    whole = count // 8 * 8
    if not whole:
        return graph.running(products, count)
    s = graph.eight(products, whole)
    left = graph("Add", graph("Add", s[0], s[4]), graph("Add", s[2], s[6]))
    right = graph("Add", graph("Add", s[1], s[5]), graph("Add", s[3], s[7]))
    return graph.then(graph("Add", left, right), products, whole, count)


@write.register
def _(hypothesis: Linear, graph: RowsWriter) -> Written:
    margin = graph("Sub", _products(graph, hypothesis.vector), np.float32(hypothesis.threshold))
    return Written(graph("Greater", margin, np.float32(0.0)), graph("Cast", margin, to=DOUBLE), margin)


@write.register
def _(hypothesis: Relabelled, graph: RowsWriter) -> Written:
    return write(hypothesis.hypothesis, graph)


@write.register
def _(hypothesis: Recalibrated, graph: RowsWriter) -> Written:
    first = graph.columns(graph.features, [0])
    others = graph("Cast", graph("Equal", first, first), to=DOUBLE)  # who is in no group is in a last one
    if hypothesis.groups:
        held = graph("Greater", graph.columns(graph.features, hypothesis.groups), np.float32(0.5))
        others = graph("Concat", graph("Cast", held, to=DOUBLE), others, axis=1)
    intercept = graph("Gather", np.array(hypothesis.intercepts), graph("ArgMax", others, axis=1, keepdims=1))
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
    """Return how many features of a set are above 1/2: a column of whole numbers."""
    above = graph("Greater", graph.columns(graph.features, features), np.float32(0.5))
    return graph("ReduceSum", graph("Cast", above, to=INT), np.array([1], dtype=np.int64))


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
    """Find the leaf of each tree by its number, which float32 holds exactly; add their values in double precision."""
    found, threshold = ensemble(hypothesis), np.array(hypothesis.threshold)
    leaves = graph(
        "TreeEnsembleRegressor",
        graph.features,
        domain=ML,
        n_targets=len(hypothesis.roots),
        target_ids=found.tree.tolist(),
        target_weights=found.leaves.astype(np.float32).tolist(),
        **found.attributes,
    )
    values = graph("Gather", threshold, graph("Cast", leaves, to=INT))
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
    """Put the checked graph behind the columns; no byte of what was received gets into the file."""
    from onnx import ModelProto

    inner = ModelProto.FromString(read_graph(base64.b64decode(hypothesis.model)).model)
    names = {"x": graph.columns(graph.features, np.arange(hypothesis.min_features))}
    opset = next(found.version for found in inner.opset_import if found.domain == "")
    graph.inline(list(inner.graph.node), list(inner.graph.initializer), names, opset)
    return _of_sign(graph, graph("Equal", names["label"], np.int64(1)))


def _value(graph: RowsWriter, hypothesis: Hypothesis) -> str:
    """Return the prediction of a regression in [0, 1]: a column, double."""
    if not isinstance(hypothesis, Regressor):
        raise BadInput(f"a model of kind {hypothesis.kind!r} predicts a number that cannot be written as ONNX")
    weights = np.asarray(hypothesis.weights, dtype=np.float32)
    score = graph("Add", graph("Cast", _products(graph, weights), to=DOUBLE), np.float64(hypothesis.intercept))
    return graph("Min", graph("Max", score, np.float64(0.0)), np.float64(1.0))


def _winner(graph: RowsWriter, hypothesis: Argmax) -> str:
    scores = [write(scored, graph).score for scored in hypothesis.hypotheses]
    return graph("ArgMax", graph("Concat", *scores, axis=1), axis=1, keepdims=0)
