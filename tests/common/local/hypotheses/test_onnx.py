"""Graphs as hypotheses: their labels, their blocks, and what they need installed."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES, hypothesis_kinds, ordinary_kinds, parse_hypothesis
from common.local.hypotheses.onnx import Onnx
from tests.common.local.hypotheses.onnx_models import constant, linear, model, node, wire
from tests.tiers import for_each

FEATURES = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)


def labelled(*labels):
    """Return a graph that labels a row by which of its features is greatest."""
    nodes = [node("ArgMax", ["x"], ["i"], axis=1), node("Gather", ["table", "i"], ["label"], axis=0)]
    return model(nodes, [constant("table", labels, np.int64)], decide=False)


@for_each("labels", [(-1, 1, 1), (0, 1, 1), (7, 1, 1), (-(2**63), 1, 1)])
def test_a_label_other_than_1_counts_as_minus_1(labels):
    predicted = parse_hypothesis(wire(labelled(*labels))).predict(FEATURES)
    np.testing.assert_array_equal(predicted, np.where(FEATURES.argmax(axis=1) == 0, -1, 1))


def test_a_graph_may_label_with_positions():
    graph = model([node("ArgMax", ["x"], ["label"], axis=1)], decide=False, dimension=2)
    predicted = parse_hypothesis(wire(graph)).predict(FEATURES)
    np.testing.assert_array_equal(predicted, np.where(FEATURES[:, 1] > FEATURES[:, 0], 1, -1))


def test_memory_is_bounded_by_blocks_of_rows(monkeypatch):
    hypothesis: Any = parse_hypothesis(wire(linear()))
    whole = hypothesis.predict(FEATURES)
    sizes = []

    class Session:
        def run(self, outputs, inputs):
            sizes.append(len(inputs["x"]))
            return inner.run(outputs, inputs)

    inner, hypothesis.__dict__["_session"] = hypothesis._session, Session()
    monkeypatch.setattr("common.local.hypotheses.onnx.BLOCK_NUMBERS", 70)
    np.testing.assert_array_equal(hypothesis.predict(FEATURES), whole)
    assert sizes == [10] * 30  # seven numbers a row


@for_each("text", ["****", "AAA", "ä", "CAo\n"])
def test_what_is_no_base64_is_refused(text):
    with pytest.raises(BadMessage, match=r"must be base64|ASCII"):
        parse_hypothesis({"kind": "onnx", "model": text})


def test_without_its_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("common.local.hypotheses.onnx.find_spec", lambda name: None)
    with pytest.raises(
        BadMessage, match=r"onnx and onnxruntime must be installed.*pip install 'tandem-hybrid\[onnx\]'"
    ):
        parse_hypothesis(wire(linear()))


def test_it_is_the_one_kind_that_is_accepted_by_choice_only():
    assert ordinary_kinds() == set(HYPOTHESES.names()) - {"onnx"}
    assert Onnx.by_choice


@for_each(
    ("message", "kind"),
    [
        ({"hypothesis": {"kind": "onnx", "model": 7}}, "onnx"),
        ({"hypothesis": {"kind": "linear"}}, "linear"),
        ({"hypothesis": {"kind": "unknown"}}, None),
        ({"hypothesis": {"kind": ["onnx"]}}, None),
        ({"hypothesis": "onnx"}, None),
        ({"cells": {"hypothesis": {"kind": "onnx"}}}, "onnx"),
        ({"tilt": {"cells": {"hypothesis": {"kind": "onnx"}}}}, "onnx"),
        ({"kind": "linear", "second": {"kind": "onnx"}}, "onnx"),
        ({}, None),
        ("onnx", None),
    ],
)
def test_the_kind_is_read_before_anything_is_parsed(message, kind):
    assert hypothesis_kinds(message) == ({kind} if kind else set())


def test_a_graph_that_takes_too_long_is_stopped_and_refused_before_it_sees_a_record(monkeypatch):
    square = constant("square", np.eye(400, dtype=np.float32), np.float32)
    nodes = [node("MatMul", ["x", "square"], ["y"]), node("ArgMax", ["y"], ["label"], axis=1)]
    slow = wire(model(nodes, [square], decide=False, dimension=400))
    parse_hypothesis(slow)
    monkeypatch.setattr("common.local.hypotheses.onnx.MAX_SECONDS", 0.0)
    monkeypatch.setattr(
        "common.local.hypotheses.onnx.BLOCK_NUMBERS", 1 << 25
    )  # a block long enough not to win the race
    with pytest.raises(BadMessage, match="takes more than 0 seconds"):
        parse_hypothesis(slow)
