"""Every admitted operator computes what ONNX says, a row at a time; what would look across rows is refused."""

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from common.local.hypotheses.onnx import evaluator, read_graph
from common.local.hypotheses.onnx_operators import OPERATORS
from tests.common.local.hypotheses.onnx_models import ML, constant, model, node, stump_trees
from tests.tiers import for_each

TURN = [[0.5, 1.0], [-1.0, 0.25], [2.0, -0.5]]


def nodes(text):
    """Return the nodes of a text, as in ``t = Not(p); y = Cast<to=1>(t)``."""
    return [onnx.parser.parse_node(each) for each in text.split("; ")]


def fraction(name):
    """Score a column by its digits after the point: so that every bit of it counts."""
    return nodes(f"s = Mul({name}, scale); whole = Floor(s); digits = Sub(s, whole); score = Sub(digits, cut)")


def one(operator, inputs):
    return nodes(f"y = {operator}({inputs}); sum = ReduceSum(y, axes)") + fraction("sum")


def truth(operator, inputs):
    return nodes(f"t = {operator}({inputs}); y = Cast<to=1>(t); sum = ReduceSum(y, axes)") + fraction("sum")


POSITIVE, TESTED = nodes("a = Abs(x)"), nodes("p = Greater(x, row); q = Less(x, half)")
EXAMPLES = {
    **{name: one(name, "x") for name in ("Abs", "Neg", "Relu", "Floor", "Exp", "Sigmoid", "Tanh", "Reciprocal")},
    **{name: POSITIVE + one(name, "a") for name in ("Log", "Sqrt")},
    **{name: one(name, "x, row") for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    "Pow": POSITIVE + one("Pow", "a, row"),
    **{name: truth(name, "x, row") for name in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "Equal": nodes("f = Floor(x)") + truth("Equal", "f, row"),
    "Not": TESTED[:1] + truth("Not", "p"),
    **{name: TESTED + truth(name, "p, q") for name in ("And", "Or")},
    "Where": TESTED[:1] + one("Where", "p, x, row"),
    "Cast": nodes("d = Cast<to=11>(x); f = Cast<to=1>(d)") + one("Neg", "f"),
    "MatMul": one("MatMul", "x, turn"),
    **{
        name: nodes(f"r = {name}(x, axes)") + fraction("r")
        for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceLogSumExp")
    },
    "Softmax": nodes("soft = Softmax<axis=1>(x); m = MatMul(soft, turn)") + one("Neg", "m"),
    "ArgMax": nodes("i = ArgMax<axis=1>(x); score = Gather<axis=0>(list, i)"),
    "TopK": nodes("v, i = TopK<axis=1, largest=0>(x, two); g = Gather(list, i); m = Mul(v, g)") + one("Neg", "m"),
    "Gather": nodes("c = Gather<axis=1>(x, places)") + one("Mul", "c, row"),
    "Concat": nodes("c = Concat<axis=1>(x, x)") + one("Neg", "c"),
}


def constants(dtype, **values):
    return [constant(name, value, dtype) for name, value in values.items()]


CONSTANTS = [
    *constants(np.float32, row=[0.5, -1.0, 2.0], half=0.5, scale=0.613, cut=0.4567, turn=TURN, list=[-2.0, 0.5, 1.0]),
    *constants(np.int64, axes=[1], two=[2], places=[2, 0, 0]),
]


def double(example):
    wider = nodes("x64 = Cast<to=11>(x)")
    for old in example:
        new = onnx.NodeProto()
        new.CopyFrom(old)
        for place, name in enumerate(new.input):
            new.input[place] = {"x": "x64"}.get(name, name)
        if new.op_type == "Cast":
            new.attribute[0].i = 11
        wider.append(new)
    wider[-1].output[0] = "score64"
    wider += nodes("score = Cast<to=1>(score64)")
    wide = [
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(c).astype(np.float64), c.name)
        if c.data_type == onnx.TensorProto.FLOAT
        else c
        for c in CONSTANTS
    ]
    return model(wider, wide)


GRAPHS = {
    **{name: model(example, CONSTANTS) for name, example in EXAMPLES.items()},
    **{f"{name} in double": double(example) for name, example in EXAMPLES.items()},
    "TreeEnsembleRegressor": stump_trees(),
}
EXTREME = np.array([[3.4e38] * 3, [-3.4e38] * 3, [3.4e38, -3.4e38, 0.0], [0.0] * 3], dtype=np.float32)


def labels(graph, features):
    return evaluator(graph.model).run(["label"], {"x": features})[0]


def test_every_admitted_operator_has_an_example_here():
    assert {name for _, name in OPERATORS} == {name.partition(" ")[0] for name in GRAPHS}


@for_each("name", sorted(GRAPHS))
class TestOperator:
    def test_computes_what_onnx_says(self, name):
        # Half-integers on a grid, so that Equal and ties occur; the reference is ONNX's own, in plain NumPy.
        features = np.random.default_rng(1).integers(-6, 7, (200, 3)).astype(np.float32) / 2 + np.float32(0.125)
        expected = ReferenceEvaluator(GRAPHS[name]).run(None, {"x": features})[0]
        assert len(np.unique(expected)) == 2
        np.testing.assert_array_equal(labels(read_graph(GRAPHS[name].SerializeToString()), features), expected)

    def test_a_row_depends_on_no_other_and_never_fails(self, name):
        graph = read_graph(GRAPHS[name].SerializeToString())
        features = np.concatenate([EXTREME, np.random.default_rng(2).normal(size=(20, 3)).astype(np.float32)])
        together = labels(graph, features)
        assert together.shape == (len(features), 1)
        alone = np.concatenate([labels(graph, features[i : i + 1]) for i in range(len(features))])
        np.testing.assert_array_equal(together, alone)


def test_nan_sorts_last():
    chain = nodes(
        "nothing = Sub(x, x); nan = Div(nothing, nothing); c = Concat<axis=1>(nan, x); "
        "v, i = TopK<axis=1, largest=0>(c, two); score = Gather<axis=1>(v, second)"
    )
    graph = read_graph(model(chain, [*CONSTANTS, constant("second", [1], np.int64)]).SerializeToString())
    features = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, 3.0], [-1.0, 2.0, 3.0]], dtype=np.float32)
    assert labels(graph, features).ravel().tolist() == [1, -1, 1]


ACROSS = {
    "a sum over rows": ("score = ReduceSum(x, zeroth)", "axes = \\[1\\]"),
    "a sum over everything": ("score = ReduceSum(x, both)", "axes = \\[1\\]"),
    "a sum that drops an axis": ("score = ReduceSum<keepdims=0>(x, axes)", "keepdims = 1"),
    "a product of rows with rows": ("score = MatMul(x, x)", "input 1 must be a constant"),
    "a product from the left": ("score = MatMul(turn, x)", "input 0 must depend"),
    "softmax over rows": ("score = Softmax<axis=0>(x)", "axis must be 1"),
    "the greatest of all rows": ("i = ArgMax(x); score = Gather(list, i)", "axis must be 1"),
    "the least of all rows": ("score, i = TopK<axis=0, largest=0>(x, two)", "axis must be 1"),
    "rows chosen": ("score = Gather<axis=0>(x, places)", "along axis 1"),
    "rows chosen by rows": ("i = ArgMax<axis=1>(x); score = Gather<axis=0>(x, i)", "must be constant"),
    "rows joined": ("score = Concat<axis=0>(x, x)", "axis must be 1"),
    "a constant for each of some rows": ("score = Add(x, turn)", "one number or one row"),
    "nothing of the features": ("score = Add(row, row)", "must depend on the features"),
}
FAILING = {
    "a place outside the list": ("i = ArgMax<axis=1>(x); score = Gather<axis=0>(short, i)", "lie in a table of 2"),
    "a column that is not there": ("score = Gather<axis=1>(x, fourth)", "columns must lie in"),
    "more of the least than there are": ("score, i = TopK<axis=1, largest=0>(x, nine)", "k must be"),
    "none of the least": ("score, i = TopK<axis=1, largest=0>(x, none)", "k must be"),
    "the greatest": ("score, i = TopK<axis=1>(x, two)", "only the smallest"),
    "a factor of another size": ("score = MatMul(x, tall)", "must have 3 rows"),
    "rows of another width": ("score = Add(x, pair)", "3 columns or one"),
    "where, of another width": ("t = Greater(x, half); score = Where(t, pair, half)", "3 columns or one"),
    "two types": ("score = Add(x, wide)", "of one type"),
    "a type that is not its": ("score = Not(x)", "must be bool"),
    "a constant of a type that is not its": ("score = MatMul(x, wide)", "input 1 must be float"),
    "an order of truths": ("t = Greater(x, half); score = Greater(t, t)", "must be float or double"),
    "whole numbers": ("score = Cast<to=7>(x)", "to must be 1"),
    "a kept axis that is not": ("score = ArgMax<axis=1, keepdims=0>(x)", "keepdims must be 1"),
    "mixed parts": ("d = Cast<to=11>(x); score = Concat<axis=1>(x, d)", "of one type"),
    "a table of tables": ("i = ArgMax<axis=1>(x); score = Gather<axis=0>(turn, i)", "must be a list"),
}
MORE = [
    *constants(np.int64, zeroth=[0], both=[0, 1], nine=[9], none=[0], fourth=[3]),
    *constants(np.float32, short=[1.0, 2.0], pair=[1.0, 2.0], tall=np.ones((4, 1))),
    *constants(np.float64, wide=[1.0, 2.0, 3.0]),
]


@for_each("case", sorted({**ACROSS, **FAILING}))
def test_what_looks_across_rows_or_may_fail_is_refused(case):
    text, says = {**ACROSS, **FAILING}[case]
    with pytest.raises(ValueError, match=says):
        read_graph(model(nodes(text), [*CONSTANTS, *MORE]).SerializeToString())


@for_each(
    ("changes", "says"),
    [
        ({"nodes_truenodeids": [0, 0, 0, 0]}, "not a later node"),
        ({"nodes_truenodeids": [3, 0, 0, 0]}, "same tree"),
        ({"nodes_falsenodeids": [1, 0, 0, 0]}, "two parents"),
        ({"nodes_falsenodeids": [-1, 0, 0, 0]}, "not a later node"),
        ({"nodes_featureids": [3, 0, 0, 0]}, "a feature in \\[0, 3\\)"),
        ({"nodes_featureids": [-1, 0, 0, 0]}, "a feature in \\[0, 3\\)"),
        ({"nodes_modes": ["BRANCH_EQ", "LEAF", "LEAF", "LEAF"]}, "an empty LEAF"),
        ({"nodes_truenodeids": [1, 1, 0, 0]}, "an empty LEAF"),
        ({"nodes_treeids": [0, 0, 0, 5]}, "numbered from 0"),
        ({"nodes_nodeids": [0, 1, 1, 0]}, "numbered from 0"),
        ({"nodes_values": [0.0, 0.0]}, "one entry a node"),
        ({"nodes_values": None}, "one entry a node"),
        ({"target_nodeids": [1, 1, 0]}, "every leaf"),
        ({"target_treeids": [0, 0]}, "every leaf"),
        ({"target_ids": [0, 1, 0]}, "target 0"),
        ({"target_weights": [1.0]}, "one value"),
        ({"target_weights": [1e31, 1.0, 1.0]}, "threshold"),
        ({"n_targets": 2}, "one target"),
        ({"post_transform": "PROBIT"}, "not be transformed"),
        ({"aggregate_function": "MAX"}, "be summed"),
        ({"base_values": [1.0]}, "attribute 'base_values'"),
        ({"nodes_values_as_tensor": constant("t", [1.0])}, "attribute 'nodes_values_as_tensor'"),
    ],
)
def test_trees_are_held_to_the_rules_of_trees(changes, says):
    with pytest.raises(ValueError, match=says):
        read_graph(stump_trees(**changes).SerializeToString())


@given(st.data())
@settings(max_examples=150)
def test_any_accepted_chain_of_operators_keeps_rows_apart(data):
    unary = st.sampled_from([name for (domain, name), op in OPERATORS.items() if 1 in op.inputs and domain != ML])
    binary = st.sampled_from([name for (domain, name), op in OPERATORS.items() if 2 in op.inputs])
    names, chain = ["x"], []
    for step in range(data.draw(st.integers(1, 4))):
        pool = st.sampled_from([*names, *(c.name for c in [*CONSTANTS, *MORE])])
        operator = data.draw(st.one_of(unary, binary))
        count = 2 if 2 in OPERATORS["", operator].inputs else 1
        attributes = {
            name: data.draw(st.integers(-2, 2))
            for name in OPERATORS["", operator].attributes
            if data.draw(st.booleans())
        }
        outputs = [f"n{step}"] if operator != "TopK" else [f"n{step}", f"m{step}"]
        chain.append(node(operator, [data.draw(pool) for _ in range(count)], outputs, **attributes))
        names += outputs
    chain.append(node("ReduceMax", [names[-1], "axes"], ["score"]))
    try:
        graph = read_graph(model(chain, [*CONSTANTS, *MORE]).SerializeToString())
    except ValueError:
        return
    features = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3e38, -3e38, 1.0]], dtype=np.float32)
    np.testing.assert_array_equal(labels(graph, features)[0], labels(graph, features[:1])[0])
    np.testing.assert_array_equal(labels(graph, features)[2], labels(graph, features[2:])[0])
