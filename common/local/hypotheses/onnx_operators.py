"""The operators that a graph may use: inputs, outputs and cost per row of each.

Every value that depends on the features is a matrix with one row per person; every other operand is a constant of the
graph. By each rule here, row i of an output depends only on row i of the inputs: no rule admits operators that combine
rows (a sum over axis 0, a transposed factor, ...). Privacy needs this: one person's answer, or weight, must not depend
on another's record. No admitted operator fails for some values of its inputs either, since that would stop the
evaluation of all rows at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from common.core.arrays import AnyArray
from common.core.errors import BadMessage
from common.local.hypotheses.rules import LEAF, Trees

MAX_WIDTH = 1 << 16  # columns of any matrix

ML = "ai.onnx.ml"
_HARD = 16  # cost of exp, log, ... in multiply-adds


@dataclass(frozen=True)
class RowMatrix:
    """A matrix with one row per person.

    Attributes:
        dtype: "float", "double", "bool" or "int64".
        width: Number of columns.
        below: If positive: its entries are whole numbers known to lie in [0, below), as positions do.
    """

    dtype: str
    width: int
    below: int = 0


Operand = RowMatrix | AnyArray  # an input of a node: a matrix of rows, or a constant


@dataclass(frozen=True)
class Node:
    """One node, as a rule sees it."""

    inputs: tuple[Operand, ...]
    attributes: Mapping[str, Any]

    def rows(self, position: int, *dtypes: str) -> RowMatrix:
        """Return an input that must be a matrix of rows, of one of the given types."""
        matrix = self.inputs[position]
        if not isinstance(matrix, RowMatrix):
            raise ValueError(f"input {position} must depend on the features")
        if matrix.dtype not in dtypes:
            raise ValueError(f"input {position} must be {' or '.join(dtypes)}, found {matrix.dtype}")
        return matrix

    def constant(self, position: int, dtype: str) -> AnyArray:
        """Return an input that must be a constant, of the given type."""
        operand = self.inputs[position]
        if isinstance(operand, RowMatrix):
            raise ValueError(f"input {position} must be a constant")
        if dtype_of(operand) != dtype:
            raise ValueError(f"input {position} must be {dtype}, found {dtype_of(operand)}")
        return operand

    def along_columns(self, default: int = -1) -> None:
        axis = self.attributes.get("axis", default)
        if axis not in (1, -1):
            raise ValueError(f"axis must be 1, across the columns, found {axis}")


Rule = Callable[[Node], tuple[tuple[RowMatrix, ...], int]]
"""Returns a node's outputs and its multiply-adds per row; raises ValueError for a node that is not admitted."""


@dataclass(frozen=True)
class Operator:
    """An admitted operator: its numbers of inputs, the types of its attributes, and its rule."""

    inputs: range
    attributes: Mapping[str, str]
    rule: Rule


def dtype_of(operand: Operand) -> str:
    """Return the ONNX name of an operand's type."""
    if isinstance(operand, RowMatrix):
        return operand.dtype
    return {"float32": "float", "float64": "double", "int64": "int64"}[operand.dtype.name]


def _width(operand: Operand) -> int:
    if isinstance(operand, RowMatrix):
        return operand.width
    if operand.size and (operand.ndim < 2 or operand.shape[0] == 1):
        return int(operand.shape[-1]) if operand.ndim else 1
    raise ValueError(f"a constant beside rows must be one number or one row, found shape {operand.shape}")


def _together(*operands: Operand) -> tuple[str, int]:
    """Return the common type and width of operands; those of width 1 are broadcast."""
    if not any(isinstance(operand, RowMatrix) for operand in operands):
        raise ValueError("at least one input must depend on the features")
    dtypes = {dtype_of(operand) for operand in operands}
    if len(dtypes) > 1:
        raise ValueError(f"inputs must be of one type, found {' and '.join(sorted(dtypes))}")
    return dtypes.pop(), _common_width(*operands)


def _common_width(*operands: Operand) -> int:
    widths = {_width(operand) for operand in operands}
    if len(widths - {1}) > 1:
        raise ValueError(f"inputs must have {max(widths)} columns or one")
    return max(widths)


def _elementwise(cost: int, dtypes: tuple[str, ...], node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, *dtypes)
    return (RowMatrix(matrix.dtype, matrix.width),), cost * matrix.width


def _pairs(cost: int, result: str | None, dtypes: tuple[str, ...], node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    dtype, width = _together(*node.inputs)
    if dtype not in dtypes:
        raise ValueError(f"inputs must be {' or '.join(dtypes)}, found {dtype}")
    return (RowMatrix(result or dtype, width),), cost * width


def _where(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    condition = node.rows(0, "bool")
    values = node.inputs[1:]
    dtype = _together(RowMatrix(dtype_of(values[0]), 1), *values)[0]
    width = _common_width(condition, *values)
    return (RowMatrix(dtype, width),), width


_CASTS = {1: "float", 11: "double"}


def _cast(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double", "bool")
    if node.attributes.get("to") not in _CASTS:
        raise ValueError(f"to must be 1 (float) or 11 (double), found {node.attributes.get('to')}")
    return (RowMatrix(_CASTS[node.attributes["to"]], matrix.width),), matrix.width


def _matmul(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double")
    factor = node.constant(1, matrix.dtype)
    if factor.ndim != 2 or factor.shape[0] != matrix.width or factor.size == 0:
        raise ValueError(f"the constant factor must have {matrix.width} rows, found shape {factor.shape}")
    return (RowMatrix(matrix.dtype, factor.shape[1]),), factor.size


def _reduce(cost: int, node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double")
    if node.constant(1, "int64").tolist() not in ([1], [-1]) or node.attributes.get("keepdims", 1) != 1:
        raise ValueError("a sum, or the like, goes over axes = [1], with keepdims = 1")
    return (RowMatrix(matrix.dtype, 1),), cost * matrix.width


def _softmax(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double")
    node.along_columns()
    return (matrix,), _HARD * matrix.width


def _argmax(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double")
    node.along_columns(default=0)
    if node.attributes.get("keepdims", 1) != 1:
        raise ValueError("keepdims must be 1")
    return (RowMatrix("int64", 1, below=matrix.width),), matrix.width


def _topk(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float", "double")
    k = node.constant(1, "int64")
    node.along_columns()
    if node.attributes.get("largest", 1) != 0 or node.attributes.get("sorted", 1) != 1:
        raise ValueError("only the smallest are taken, in order: largest = 0, sorted = 1")
    if k.shape != (1,) or not 1 <= int(k[0]) <= matrix.width:
        raise ValueError(f"k must be one number in [1, {matrix.width}], found {k.tolist()}")
    count = int(k[0])
    # Replacing NaN takes two further matrices as wide as the input.
    return (RowMatrix(matrix.dtype, count), RowMatrix("int64", count, below=matrix.width)), _HARD * matrix.width


def _gather(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    table, places = node.inputs
    axis = node.attributes.get("axis", 0)
    if isinstance(table, RowMatrix) and not isinstance(places, RowMatrix):
        if axis not in (1, -1) or dtype_of(places) != "int64" or places.ndim != 1 or places.size == 0:
            raise ValueError("columns are chosen by a constant list of int64, along axis 1")
        if places.min() < 0 or places.max() >= table.width:
            raise ValueError(f"columns must lie in [0, {table.width}), found {places.min()}..{places.max()}")
        return (RowMatrix(table.dtype, places.size, below=table.below),), places.size
    if isinstance(places, RowMatrix) and not isinstance(table, RowMatrix):
        if axis != 0 or table.ndim != 1:
            raise ValueError(f"a table that is looked into must be a list, found shape {table.shape}, axis {axis}")
        if not 0 < places.below <= len(table):
            raise ValueError(f"positions must be known to lie in a table of {len(table)}: from ArgMax or TopK")
        return (RowMatrix(dtype_of(table), places.width),), places.width
    raise ValueError("either the table or the positions must be constant")


def _concat(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    node.along_columns(default=0)
    parts = [node.rows(position, "float", "double") for position in range(len(node.inputs))]
    if len({part.dtype for part in parts}) > 1:
        raise ValueError("inputs must be of one type")
    width = sum(part.width for part in parts)
    return (RowMatrix(parts[0].dtype, width),), width


def _trees(node: Node) -> tuple[tuple[RowMatrix, ...], int]:
    matrix = node.rows(0, "float")
    defaults = {"n_targets": 1, "aggregate_function": b"SUM", "post_transform": b"NONE"}
    attributes = {**defaults, **node.attributes}
    if any(attributes[name] != value for name, value in defaults.items()):
        raise ValueError("trees must have one target, be summed, and not be transformed")
    columns = [list(attributes.get(f"nodes_{name}", [])) for name in _NODES]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("the lists of the trees' nodes must have one entry a node")
    places = list(zip(columns[0], columns[1], strict=True))
    roots: list[int] = [index for index, (_, node) in enumerate(places) if node == 0]
    sizes = [after - before for before, after in zip(roots, [*roots[1:], len(places)], strict=True)]
    if places != [(tree, node) for tree, size in enumerate(sizes) for node in range(size)]:
        raise ValueError("trees and their nodes must be numbered from 0, in order")
    leaves = [place for place, mode in zip(places, columns[3], strict=True) if mode == b"LEAF"]
    if list(zip(attributes.get("target_treeids", []), attributes.get("target_nodeids", []), strict=False)) != leaves:
        raise ValueError("every leaf, and nothing else, must have a value, in order")
    weights = list(attributes.get("target_weights", []))
    if list(attributes.get("target_ids", [])) != [0] * len(leaves) or len(weights) != len(leaves):
        raise ValueError("every leaf must have one value, of target 0")
    _check_forest(roots, columns, iter(weights), matrix.width)
    return (RowMatrix("float", 1),), len(places)


def _check_forest(roots: list[int], columns: list[list[Any]], weights: Any, width: int) -> None:
    """Validate the trees by the rules of :class:`~common.local.hypotheses.rules.Trees`: no cycle, no deep nesting."""
    nodes: list[tuple[int, float, int, int]] = []
    for tree, _, column, mode, value, true, false in zip(*columns, strict=True):
        if mode == b"LEAF" and (column, true, false) == (0, 0, 0):
            nodes.append((LEAF, next(weights), LEAF, LEAF))
        elif mode == b"BRANCH_LEQ" and 0 <= column < width:
            nodes.append((column, value, roots[tree] + true, roots[tree] + false))
        else:
            raise ValueError(f"a node must be an empty LEAF, or BRANCH_LEQ on a feature in [0, {width})")
    fields = ("feature", "threshold", "left", "right")
    try:
        Trees.parse({"roots": roots, **{field: [node[k] for node in nodes] for k, field in enumerate(fields)}})
    except BadMessage as error:
        raise ValueError(error.detail) from None


_FLOATING, _BOOL = ("float", "double"), ("bool",)
_ONE, _TWO = range(1, 2), range(2, 3)
_INT, _INTS, _FLOATS, _STRING, _STRINGS = "i", "ints", "floats", "s", "strings"

_NODES = dict.fromkeys(("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids"), _INTS)
_NODES |= {"modes": _STRINGS, "values": _FLOATS}
_TARGETS = {"treeids": _INTS, "nodeids": _INTS, "ids": _INTS, "weights": _FLOATS}
_TREES = {
    **{f"nodes_{name}": kind for name, kind in _NODES.items()},
    **{f"target_{name}": kind for name, kind in _TARGETS.items()},
    "n_targets": _INT,
    "aggregate_function": _STRING,
    "post_transform": _STRING,
}


def _admit(names: str, inputs: range, rule: Rule, **attributes: str) -> dict[tuple[str, str], Operator]:
    return {("", name): Operator(inputs, attributes, rule) for name in names.split()}


OPERATORS: dict[tuple[str, str], Operator] = {
    **_admit("Abs Neg Relu Floor", _ONE, partial(_elementwise, 1, _FLOATING)),
    **_admit("Exp Log Sqrt Reciprocal Sigmoid Tanh", _ONE, partial(_elementwise, _HARD, _FLOATING)),
    **_admit("Not", _ONE, partial(_elementwise, 1, _BOOL)),
    **_admit("Add Sub Mul Div Max Min", _TWO, partial(_pairs, 1, None, _FLOATING)),
    **_admit("Pow", _TWO, partial(_pairs, _HARD, None, _FLOATING)),
    **_admit("Greater GreaterOrEqual Less LessOrEqual Equal", _TWO, partial(_pairs, 1, "bool", _FLOATING)),
    **_admit("And Or", _TWO, partial(_pairs, 1, None, _BOOL)),
    **_admit("Where", range(3, 4), _where),
    **_admit("Cast", _ONE, _cast, to=_INT),
    **_admit("MatMul", _TWO, _matmul),
    **_admit("ReduceSum ReduceMean ReduceMax ReduceMin ReduceSumSquare", _TWO, partial(_reduce, 1), keepdims=_INT),
    **_admit("ReduceLogSumExp", _TWO, partial(_reduce, _HARD), keepdims=_INT),
    **_admit("Softmax", _ONE, _softmax, axis=_INT),
    **_admit("ArgMax", _ONE, _argmax, axis=_INT, keepdims=_INT),
    **_admit("TopK", _TWO, _topk, axis=_INT, largest=_INT, sorted=_INT),
    **_admit("Gather", _TWO, _gather, axis=_INT),
    **_admit("Concat", range(1, 257), _concat, axis=_INT),
    (ML, "TreeEnsembleRegressor"): Operator(_ONE, _TREES, _trees),
}
"""Every admitted operator, by domain and name."""
