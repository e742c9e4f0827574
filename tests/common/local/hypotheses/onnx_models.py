"""Small ONNX models for tests, good and hostile."""

import base64

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
ML = "ai.onnx.ml"


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, **attributes)


def constant(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype=dtype), name)


LABELS = [constant("zero", 0.0), constant("yes", 1, np.int64), constant("no", -1, np.int64)]
DECIDE = [node("Greater", ["score", "zero"], ["above"]), node("Where", ["above", "yes", "no"], ["label"])]
"""The end of a graph: the label is 1 where the column "score" is positive."""


def model(nodes, constants=(), *, dimension=3, decide=True, opsets=None, ir=10):
    """Return a model whose nodes compute "score" from "x" (or "label", if they decide themselves)."""
    graph = helper.make_graph(
        [*nodes, *(DECIDE if decide else [])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", dimension])],
        [helper.make_tensor_value_info("label", INT64, ["n", 1])],
        [*constants, *LABELS],
    )
    sets = [helper.make_opsetid(*pair) for pair in (opsets or [("", 18), (ML, 3)])]
    return helper.make_model(graph, opset_imports=sets, ir_version=ir)


def linear(weights=(0.5, -1.0, 2.0), threshold=0.25):
    nodes = [node("MatMul", ["x", "w"], ["dot"]), node("Sub", ["dot", "b"], ["score"])]
    column = np.asarray(weights).reshape(-1, 1)
    return model(nodes, [constant("w", column), constant("b", threshold)], dimension=len(column))


def stump_trees(threshold=0.2, **changes):
    attributes = {
        "n_targets": 1, "nodes_treeids": [0, 0, 0, 1], "nodes_nodeids": [0, 1, 2, 0], "nodes_featureids": [1, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], "nodes_values": [threshold, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0, 0], "nodes_falsenodeids": [2, 0, 0, 0],
        "target_treeids": [0, 0, 1], "target_nodeids": [1, 2, 0], "target_ids": [0, 0, 0],
        "target_weights": [-1.0, 1.0, 0.5],
    }  # fmt: skip
    given = {name: value for name, value in {**attributes, **changes}.items() if value is not None}
    return model([node("TreeEnsembleRegressor", ["x"], ["score"], domain=ML, **given)])


def wire(raw):
    raw = raw if isinstance(raw, bytes) else raw.SerializeToString()
    return {"kind": "onnx", "model": base64.b64encode(raw).decode()}
