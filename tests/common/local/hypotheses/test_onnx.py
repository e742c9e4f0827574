"""Graphs as hypotheses: their labels and blocks; and what strangers may send instead, which is refused in one line."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES, hypothesis_kinds, ordinary_kinds, parse_hypothesis
from common.local.hypotheses.onnx import MAX_BYTES, MAX_NODES, MAX_NUMBERS, Onnx, evaluator, read_graph
from tests.common.local.hypotheses.onnx_models import FLOAT, INT64, ML, constant, linear, model, node, stump_trees, wire
from tests.tiers import for_each

FEATURES = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)


def labelled(*labels):
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
        ({"rivals": [{"kind": "onnx"}, [{"hypothesis": {"kind": "onnx"}}], 7]}, "onnx"),
        ({}, None),
        ("onnx", None),
    ],
)
def test_the_kind_is_read_before_anything_is_parsed(message, kind):
    assert hypothesis_kinds(message) == ({kind} if kind else set())


def test_a_graph_that_takes_too_long_is_stopped_and_refused_before_it_sees_a_record(monkeypatch):
    square = constant("square", np.eye(400))
    nodes = [node("MatMul", ["x", "square"], ["y"]), node("ArgMax", ["y"], ["label"], axis=1)]
    slow = wire(model(nodes, [square], decide=False, dimension=400))
    parse_hypothesis(slow)
    monkeypatch.setattr("common.local.hypotheses.onnx.MAX_SECONDS", 0.0)
    # A block long enough not to win the race.
    monkeypatch.setattr("common.local.hypotheses.onnx.BLOCK_NUMBERS", 1 << 25)
    with pytest.raises(BadMessage, match="takes more than 0 seconds"):
        parse_hypothesis(slow)


COPY = node("Neg", ["x"], ["score"])


def edited(change, start=linear):
    found = start()
    change(found)
    return found


def softmax(change):
    return edited(lambda m: change(m.graph.node[0]), lambda: model([node("Softmax", ["x"], ["score"], axis=1)]))


def outside(path):
    tensor = constant("w", [[0.5]] * 3)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=path)
    return tensor


def sized(dims, raw=b"", dtype=FLOAT):
    tensor = TensorProto(name="w", data_type=dtype, raw_data=raw)
    tensor.dims.extend(dims)
    return tensor


def nested(levels):
    """Return bytes with so many messages inside each other: sequences of sequences of ... as the type of the input."""
    inner = b""
    for _ in range(levels):
        inner = field(4, field(1, inner))
    return field(7, field(11, field(1, b"x") + field(2, inner)))


def field(number, content):
    length, size = b"", len(content)
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + content


def declared(element=FLOAT, shape=("n", 3), name="x"):
    return helper.make_tensor_value_info(name, element, list(shape))


def put(place, value):
    def change(found):
        target = getattr(found.graph, place)
        del target[:]
        target.extend([value] if not isinstance(value, list) else value)

    return change


def widened(width, *nodes):
    return model([node("MatMul", ["x", "w"], ["n"]), *nodes, COPY], [constant("w", np.ones((3, width)))])


CYCLE = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["a"], ["score"])]
GOOD = linear().SerializeToString()
HOSTILE = {
    "nothing": (b"", "IR version"),
    "text": (b"print('hello')", "not an ONNX model"),
    "cut off": (GOOD[:-7], "not an ONNX model"),
    "nested deeply": (nested(5000), "nested too deeply"),
    "nested a little": (nested(20), "IR version"),
    "too large": (GOOD + b"\x00" * (MAX_BYTES + 1 - len(GOOD)), "at most 1048576 bytes, found 1048577"),
    "twice too large": (b"\x00" * (2 << 20), "at most 1398104 characters"),
    "an old IR": (edited(lambda m: setattr(m, "ir_version", 3)), "IR version must be in"),
    "a future IR": (edited(lambda m: setattr(m, "ir_version", 1000)), "IR version must be in"),
    "no operator set": (edited(lambda m: m.ClearField("opset_import")), "each set named once"),
    "an operator set twice": (model([COPY], opsets=[("", 18), ("", 19)]), "each set named once"),
    "a set of a stranger": (model([COPY], opsets=[("", 18), ("com.microsoft", 1)]), "each set named once"),
    "many operator sets": (model([COPY], opsets=[(f"d{i}", 1) for i in range(1000)]), "each set named once"),
    "an old operator set": (model([COPY], opsets=[("", 11)]), "ai.onnx 18 to 21"),
    "a future operator set": (model([COPY], opsets=[("", 999)]), "ai.onnx 18 to 21"),
    "other trees": (model([COPY], opsets=[("", 18), (ML, 5)]), "ai.onnx.ml 3"),
    "a function": (edited(lambda m: m.functions.add(name="Neg", domain="")), "no functions"),
    "training": (edited(lambda m: m.training_info.add()), "no training"),
    "a loop": (model([node("Loop", ["x"], ["score"], body=helper.make_graph([], "inner", [], []))]), "operator 'Loop'"),
    "a graph in an attribute": (
        softmax(lambda n: n.attribute[0].MergeFrom(onnx.AttributeProto(type="GRAPH", g=onnx.GraphProto(name="inner")))),
        "must be of type 2",
    ),
    "a custom domain": (model([node("Neg", ["x"], ["score"], domain="evil")]), "domain 'evil' is not one"),
    "an operator of another domain": (model([node("Neg", ["x"], ["score"], domain=ML)]), "operator 'Neg' of domain"),
    "what may blow up": (model([node("Expand", ["x", "yes"], ["score"])]), "operator 'Expand'"),
    "randomness": (model([node("RandomNormalLike", ["x"], ["score"])]), "operator 'RandomNormalLike'"),
    "a cycle": (model(CYCLE), "'b', which no earlier node computes"),
    "an empty input": (model([node("Neg", [""], ["score"])]), "no earlier node computes"),
    "too many inputs": (model([node("Neg", ["x", "x"], ["score"])]), "Neg with 2 inputs"),
    "too many outputs": (model([node("Neg", ["x"], ["score", "more"])]), "Neg has 1 outputs"),
    "a name twice": (model([COPY, COPY]), "'score' is defined twice"),
    "a constant called as the input": (model([COPY], [constant("x", 1.0)]), "'x' is defined twice"),
    "no name": (model([node("Neg", ["x"], [""]), COPY]), "1 to 256 characters"),
    "a long name": (model([node("Neg", ["x"], ["n" * 257]), COPY]), "1 to 256 characters"),
    "an unknown attribute": (model([node("Neg", ["x"], ["score"], alpha=1.0)]), "attribute 'alpha'"),
    "an attribute twice": (softmax(lambda n: n.attribute.append(helper.make_attribute("axis", 1))), "have it twice"),
    "an attribute by reference": (softmax(lambda n: setattr(n.attribute[0], "ref_attr_name", "a")), "of type 2"),
    "a number for a list": (stump_trees(nodes_treeids=1.0), "'nodes_treeids' must be of type 7, found 1"),
    "a fraction for an axis": (model([node("Softmax", ["x"], ["score"], axis=1.0)]), "'axis' must be of type 2"),
    "an empty attribute": (edited(lambda m: m.graph.node[0].attribute[1].ClearField("ints"), stump_trees), "found 0"),
    "a long attribute": (stump_trees(nodes_treeids=[0] * (MAX_NUMBERS + 1)), "1 to 262144 entries, found 262145"),
    "NaN in an attribute": (stump_trees(threshold=float("nan")), "must be finite"),
    "NaN in a constant": (linear((1.0, float("nan"), 1.0)), "constants must be finite"),
    "a file": (model([COPY], [outside("w.bin")]), "in the model itself"),
    "a constant of text": (model([COPY], [sized([1], dtype=TensorProto.STRING)]), "float, double or int64"),
    "a huge constant": (model([COPY], [sized([2**62])]), "262144 numbers together"),
    "a product beyond all bounds": (model([COPY], [sized([2**40, 2**40])]), "262144 numbers together"),
    "a negative size": (model([COPY], [sized([-1, -1], b"\x00" * 4)]), "262144 numbers together"),
    "many axes": (model([COPY], [sized([1] * 1000, b"\x00" * 4)]), "at most 2 axes"),
    "fewer numbers than said": (model([COPY], [sized([3, 3], b"\x00" * 8)]), "holds 2 numbers"),
    "half a number": (model([COPY], [sized([1], b"\x00" * 6)]), "holds 1.5 numbers"),
    "many constants": (model([COPY], [constant(f"k{i}", 1.0) for i in range(MAX_NODES)]), "at most as many constants"),
    "many numbers": (
        model([COPY], [helper.make_tensor(k, INT64, [150_000], [0] * 150_000) for k in "kl"]),
        "262144 numbers together",
    ),
    "sparse constants": (edited(lambda m: m.graph.sparse_initializer.add()), "no sparse constants"),
    "many nodes": (model([*(node("Neg", ["x"], [f"n{i}"]) for i in range(MAX_NODES)), COPY]), "1 to 4096 nodes"),
    "no nodes": (edited(put("node", [])), "1 to 4096 nodes"),
    "a swarm of empty nodes": (field(7, b"\x0a\x00" * 500_000), "IR version"),
    "much work": (widened(2000, *(node("Exp", ["n"], [f"n{i}"]) for i in range(40))), "than 1048576 multiply-adds"),
    "wide matrices": (widened(40000, node("Concat", ["n", "n"], ["m"], axis=1)), "at most 65536 columns"),
    "no input": (edited(put("input", [])), "one input and one output"),
    "two inputs": (edited(put("input", [declared(), declared(name="z")])), "one input and one output"),
    "no output": (edited(put("output", [])), "one input and one output"),
    "two outputs": (edited(put("output", [declared(INT64, ("n", 1), n) for n in ("label", "z")])), "and one output"),
    "doubles in": (edited(put("input", declared(TensorProto.DOUBLE))), "input must be a float matrix"),
    "a list in": (edited(put("input", declared(shape=("n",)))), "input must be a float matrix"),
    "a sequence in": (edited(put("input", helper.make_tensor_sequence_value_info("x", FLOAT, [1]))), "a float matrix"),
    "so many rows": (edited(put("input", declared(shape=(7, 3)))), "any number of rows"),
    "any number of columns": (edited(put("input", declared(shape=("n", "d")))), "1 to 65536 columns"),
    "huge columns": (edited(put("input", declared(shape=("n", 2**60)))), "1 to 65536 columns"),
    "more columns than the weights": (edited(put("input", declared(shape=("n", 4)))), "must have 4 rows"),
    "float labels": (edited(put("output", declared(FLOAT, ("n", 1), "label"))), "output must be a int64 matrix"),
    "a list of labels": (edited(put("output", declared(INT64, ("n",), "label"))), "output must be a int64 matrix"),
    "two labels a row": (edited(put("output", declared(INT64, ("n", 2), "label"))), "one int64 label a row"),
    "scores for labels": (edited(put("output", declared(INT64, ("n", 1), "score"))), "one int64 label a row"),
    "a constant for labels": (edited(put("output", declared(INT64, ("n", 1), "yes"))), "one int64 label a row"),
    "labels three wide": (model([COPY]), "one int64 label a row"),
    "a name that is no text": (
        GOOD.replace(b"MatMul", b"\xff\xfe\xfd\xfc\xfb\xfa"),
        "not an ONNX model|codec can't decode|is not one of those",
    ),
}


@for_each("case", sorted(HOSTILE))
def test_hostile_models_are_refused_in_one_line_and_nothing_is_evaluated(case, monkeypatch):
    def never(*_):
        raise AssertionError("evaluated")

    monkeypatch.setattr("common.local.hypotheses.onnx.evaluator", never)
    raw, says = HOSTILE[case]
    with pytest.raises(BadMessage, match=says) as refused:
        parse_hypothesis(wire(raw))
    assert "\n" not in refused.value.detail
    assert len(refused.value.detail) < 500


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_random_bytes_are_refused(raw):
    with pytest.raises(BadMessage):
        parse_hypothesis(wire(raw))


MODELS = [GOOD, stump_trees().SerializeToString()]


@given(st.sampled_from(MODELS), st.data())
@settings(max_examples=400)
@pytest.mark.slow
def test_a_damaged_model_is_refused_or_a_hypothesis_like_any_other(raw, data):
    broken = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        broken[place] = data.draw(st.integers(0, 255))
    try:
        accepted = parse_hypothesis(wire(bytes(broken)))
    except BadMessage as error:
        assert "\n" not in error.detail  # noqa: PT017 - some are accepted
        return
    features = np.array([[1.0] * 8, [-3e38] * 8, [3e38] * 8], dtype=np.float32)
    if accepted.min_features <= 8:
        assert set(accepted.predict(features).tolist()) <= {-1, 1}


def test_a_model_that_only_the_runtime_refuses_is_refused_when_it_is_read():
    broken = bytearray(MODELS[1])
    broken[41] = 26
    with pytest.raises(BadMessage, match="ONNX Runtime cannot open it"):
        parse_hypothesis(wire(bytes(broken)))


def test_onnx_runtime_sees_nothing_that_was_not_checked():
    secret = "a-strangers-words"
    found = linear()
    found.doc_string = found.graph.doc_string = found.graph.name = found.producer_name = secret
    found.metadata_props.add(key=secret, value=secret)
    found.graph.node[0].name = found.graph.node[0].doc_string = secret
    found.graph.value_info.append(declared(FLOAT, ("n", 99), secret))
    found.graph.initializer[0].doc_string = secret
    unknown = found.SerializeToString() + field(15, secret.encode())
    clean = read_graph(unknown).model
    assert secret.encode() in unknown
    assert secret.encode() not in clean
    assert read_graph(GOOD).model == clean


def test_constants_may_be_listed_or_raw():
    listed = helper.make_tensor("w", FLOAT, [3, 1], [0.5, -1.0, 2.0])
    nodes = [node("MatMul", ["x", "w"], ["dot"]), node("Sub", ["dot", "b"], ["score"])]
    assert read_graph(model(nodes, [listed, constant("b", 0.25)]).SerializeToString()).model == read_graph(GOOD).model


def test_work_and_numbers_are_counted_from_shapes():
    graph = read_graph(GOOD)
    assert graph.dimension == 3
    # x, then a product of three, a difference, a comparison, a choice.
    assert graph.work == 3 + 3 + 1 + 1 + 1
    assert graph.numbers == 3 + 1 + 1 + 1 + 1


def test_what_onnx_itself_refuses_is_refused(monkeypatch):
    def refuse(*_, **__):
        raise onnx.checker.ValidationError("no\nway")

    monkeypatch.setattr("onnx.checker.check_model", refuse)
    with pytest.raises(ValueError, match=r"ONNX refuses it: no$"):
        read_graph(GOOD)


def test_the_evaluator_runs_on_one_thread_of_the_processor():
    session = evaluator(read_graph(GOOD).model)
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert options.optimized_model_filepath == ""
