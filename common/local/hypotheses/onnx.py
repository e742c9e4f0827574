"""A small ONNX graph: any model that is neither a half-space nor trees.

Only the protobuf decoder reads the untrusted bytes. The decoded graph is validated node by node against
:data:`~common.local.hypotheses.onnx_operators.OPERATORS`. Then a clean model is built from the validated parts
only, with new names and without documentation, metadata or unknown fields; only this model is evaluated.
"""

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from threading import Timer
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Indices
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis
from common.local.hypotheses.onnx_operators import MAX_WIDTH, ML, OPERATORS, Node, Operand, RowMatrix
from common.local.hypotheses.rules import LEAF, Trees

MAX_BYTES = 1 << 20
MAX_NODES = 1 << 12
MAX_NUMBERS = 1 << 18  # numbers in all constants together, and in one attribute

MAX_WORK = 1 << 20
"""Multiply-adds for one row, about a millisecond. Each computed number costs at least one: this bounds memory too."""

GREATEST_NAME = 256
OPSETS = range(18, 22)
ML_OPSET = 3
IR_VERSIONS = range(8, 12)


FLOAT, INT64, TEXT, DOUBLE = 1, 7, 8, 11  # ONNX element types


class GraphBuilder:
    """A builder of an ONNX graph, with its nodes and each constant once."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self._constants: dict[Any, Any] = {}

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node with one output; inputs are names of earlier results, or constants. Return the output's name."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, outputs: int, *inputs: Any, domain: str = "", **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}.{place}" for place in range(outputs)]
        input_names = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        self.nodes.append(self.helper.make_node(operator, input_names, names, domain=domain, **attributes))
        return names

    def constant(self, value: Any) -> str:
        """Add a constant if it is new, with the array's own type (strings as strings), and return its name."""
        array = np.asarray(value)
        array = array.astype(object) if array.dtype.kind == "U" else array
        content = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            self._constants[key] = self.numpy.from_array(array, f"c{len(self._constants)}")
        return str(self._constants[key].name)

    def columns(self, matrix: str, indices: Any) -> str:
        return self("Gather", matrix, np.asarray(indices, dtype=np.int64), axis=1)

    def model(self, name: str, inputs: list[Any], outputs: list[Any], opset: int = OPSETS[0], **more: Any) -> Any:
        """Return the model; each input and output is (name, element type, shape)."""
        inputs, outputs = ([self.helper.make_tensor_value_info(*item) for item in side] for side in (inputs, outputs))
        graph = self.helper.make_graph(self.nodes, name, inputs, outputs, list(self._constants.values()))
        sets = [self.helper.make_opsetid("", opset), self.helper.make_opsetid(ML, ML_OPSET)]
        return self.helper.make_model(graph, opset_imports=sets, ir_version=10, **more)


@dataclass(frozen=True)
class Graph:
    """A model that passed every check.

    Attributes:
        dimension: Number of features that it reads.
        work: Upper bound on the multiply-adds per row.
        numbers: Upper bound on the numbers computed per row, and so on the memory to evaluate it.
        model: The clean model: input "x", float (rows, dimension); output "label", int64 (rows, 1).
    """

    dimension: int
    work: int
    numbers: int
    model: bytes


def read_graph(raw: bytes) -> Graph:
    """Validate a model in full, without evaluating it; a ValueError states the constraint and what was found."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"a model has at most {MAX_BYTES} bytes, found {len(raw)}")
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    try:
        model = ModelProto.FromString(raw)
    except DecodeError:
        raise ValueError("the bytes are not an ONNX model, or one that is nested too deeply") from None
    return _GraphReader(_opset(model)).read(model.graph)


def _opset(model: Any) -> int:
    if model.ir_version not in IR_VERSIONS:
        raise ValueError(f"the IR version must be in [8, 11], found {model.ir_version}")
    if len(model.functions) or len(model.training_info):
        raise ValueError("a model may have no functions and no training information")
    opsets = [(opset.domain, opset.version) for opset in model.opset_import[:3]]
    versions = dict(opsets)
    if (
        len(versions) < len(opsets)
        or len(model.opset_import) > 2
        or not set(versions) <= {"", ML}
        or "" not in versions
    ):
        raise ValueError(f"operators must be those of ai.onnx, and of {ML}, each set named once")
    if versions[""] not in OPSETS or versions.get(ML, ML_OPSET) != ML_OPSET:
        raise ValueError(f"operator sets must be ai.onnx 18 to 21 and {ML} {ML_OPSET}, found {versions}")
    return int(versions[""])


class _GraphReader(GraphBuilder):
    """A reader that goes through an untrusted graph once, in the order of its nodes, and builds a clean one."""

    def __init__(self, opset: int) -> None:
        super().__init__()
        self._opset = opset
        self._values: dict[str, tuple[str, Operand]] = {}
        """For each name in the untrusted graph: its name in the clean graph, and the type and shape of its value."""
        self._constant_count = self._work = self._numbers = 0

    def read(self, graph: Any) -> Graph:
        self._check_counts(graph)
        dimension = self._matrix(graph.input[0], FLOAT, "input")
        self._define(graph.input[0].name, "x", RowMatrix("float", dimension))
        self._work = self._numbers = dimension
        for tensor in graph.initializer:
            array, new_name = self._array(tensor), f"c{len(self._constants)}"
            self._define(tensor.name, new_name, array)
            self._constants[new_name] = self.numpy.from_array(array, new_name)
        for number, node in enumerate(graph.node):
            try:
                self._node(node)
            except ValueError as error:
                raise ValueError(f"node {number}: {error}") from None
            if self._work > MAX_WORK:
                raise ValueError(f"node {number}: evaluating a row takes more than {MAX_WORK} multiply-adds")
        output = graph.output[0]
        width = self._matrix(output, INT64, "output")
        new_name, value = self._values.get(output.name, ("", None))
        if width != 1 or not isinstance(value, RowMatrix) or (value.dtype, value.width) != ("int64", 1):
            raise ValueError("the output must be computed by a node: one int64 label a row, shape (rows, 1)")
        return Graph(dimension, self._work, self._numbers, self._clean(dimension, new_name))

    @staticmethod
    def _check_counts(graph: Any) -> None:
        if len(graph.input) != 1 or len(graph.output) != 1:
            raise ValueError(
                f"a model must have one input and one output, found {len(graph.input)} and {len(graph.output)}"
            )
        if not 1 <= len(graph.node) <= MAX_NODES or len(graph.initializer) > MAX_NODES:
            raise ValueError(
                f"a model has 1 to {MAX_NODES} nodes and at most as many constants, "
                f"found {len(graph.node)} and {len(graph.initializer)}"
            )
        if len(graph.sparse_initializer):
            raise ValueError("a model may have no sparse constants")

    def _define(self, name: str, new_name: str, value: Operand) -> None:
        if not 1 <= len(name) <= GREATEST_NAME:
            raise ValueError(f"a name has 1 to {GREATEST_NAME} characters, found {len(name)}")
        if name in self._values:
            raise ValueError(f"{name[:40]!r} is defined twice")
        self._values[name] = new_name, value

    def _matrix(self, value: Any, element: int, role: str) -> int:
        """Return the number of columns of a declared matrix, whose number of rows must be open."""
        tensor = value.type.tensor_type
        dims = tensor.shape.dim
        if not value.type.HasField("tensor_type") or tensor.elem_type != element or len(dims) != 2:
            kind = "float" if element == FLOAT else "int64"
            raise ValueError(f"the {role} must be a {kind} matrix with one row a person")
        if dims[0].HasField("dim_value") or not 1 <= dims[1].dim_value <= MAX_WIDTH:
            raise ValueError(f"the {role} must have any number of rows and 1 to {MAX_WIDTH} columns")
        return int(dims[1].dim_value)

    def _array(self, tensor: Any) -> AnyArray:
        kinds = {FLOAT: "<f4", DOUBLE: "<f8", INT64: "<i8"}
        if tensor.data_location != tensor.DEFAULT or len(tensor.external_data):
            raise ValueError("a constant must lie in the model itself, not in another file")
        if tensor.data_type not in kinds or tensor.HasField("segment"):
            raise ValueError(f"a constant must be float, double or int64, found type {tensor.data_type}")
        kind = np.dtype(kinds[tensor.data_type])
        shape = list(tensor.dims[:3])
        # Each size is checked before it is multiplied: the product of untrusted sizes may be astronomical.
        count = math.prod(size if 0 <= size <= MAX_NUMBERS else MAX_NUMBERS + 1 for size in shape)
        self._constant_count += count
        if len(shape) > 2 or self._constant_count > MAX_NUMBERS:
            raise ValueError(f"constants have at most 2 axes and {MAX_NUMBERS} numbers together, found {shape}")
        listed = {"f4": tensor.float_data, "f8": tensor.double_data, "i8": tensor.int64_data}[kind.str[1:]]
        length = len(listed) or len(tensor.raw_data) / kind.itemsize
        if length != count:
            raise ValueError(f"a constant of shape {shape} holds {length:g} numbers")
        flat = np.array(listed, dtype=kind) if len(listed) else np.frombuffer(tensor.raw_data, dtype=kind)
        if not np.isfinite(flat).all():
            raise ValueError("constants must be finite")
        return flat.reshape(shape)

    def _node(self, node: Any) -> None:
        domain, name = node.domain, node.op_type
        operator = OPERATORS.get((domain, name))
        if operator is None:
            raise ValueError(f"operator {name[:40]!r} of domain {domain[:40]!r} is not one of those that are allowed")
        if len(node.input) not in operator.inputs:
            raise ValueError(f"{name} with {len(node.input)} inputs is not allowed")
        missing = next((item for item in node.input if item not in self._values), None)
        if missing is not None:
            raise ValueError(f"{name} takes {missing[:40]!r}, which no earlier node computes")
        attributes = self._attributes(node, operator.attributes)
        input_names, values = zip(*(self._values[item] for item in node.input), strict=True)
        try:
            results, work = operator.rule(Node(values, attributes))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if len(node.output) != len(results) or any(result.width > MAX_WIDTH for result in results):
            raise ValueError(f"{name} has {len(results)} outputs, of at most {MAX_WIDTH} columns")
        computed = sum(result.width for result in results)
        self._work += max(work, computed)
        self._numbers += computed
        names = [f"v{len(self.nodes)}_{position}" for position in range(len(results))]
        for output, new, result in zip(node.output, names, results, strict=True):
            self._define(output, new, result)
        inputs = list(input_names)
        if name == "TopK":
            inputs[0] = self._comparable(inputs[0], Node(values, {}).rows(0, "float", "double"))
        self.nodes.append(self.helper.make_node(name, inputs, names, domain=domain, **attributes))

    def _comparable(self, name: str, value: RowMatrix) -> str:
        """Replace NaN by infinity, since sorting is defined only for numbers that can all be compared."""
        self._numbers += 2 * value.width
        infinity = np.array(np.inf, dtype={"float": np.float32, "double": np.float64}[value.dtype])
        constant, test, result = (f"{prefix}{len(self.nodes)}" for prefix in ("infinity", "nan", "comparable"))
        self._constants[constant] = self.numpy.from_array(infinity, constant)
        self.nodes.append(self.helper.make_node("IsNaN", [name], [test]))
        self.nodes.append(self.helper.make_node("Where", [test, constant, name], [result]))
        return result

    @staticmethod
    def _attributes(node: Any, allowed: Mapping[str, str]) -> dict[str, Any]:
        types = {"i": 2, "s": 3, "floats": 6, "ints": 7, "strings": 8}
        attributes: dict[str, Any] = {}
        for attribute in node.attribute[: len(allowed) + 1]:
            name = attribute.name
            if name not in allowed or name in attributes:
                raise ValueError(f"{node.op_type} may not have the attribute {name[:40]!r}, or have it twice")
            kind = allowed[name]
            if attribute.type != types[kind] or attribute.ref_attr_name:
                raise ValueError(f"attribute {name!r} must be of type {types[kind]}, found {attribute.type}")
            value = getattr(attribute, kind)
            if kind in ("floats", "ints", "strings"):
                if not 1 <= len(value) <= MAX_NUMBERS:
                    raise ValueError(f"attribute {name!r} must have 1 to {MAX_NUMBERS} entries, found {len(value)}")
                value = list(value)
            if kind == "floats" and not np.isfinite(value).all():
                raise ValueError(f"attribute {name!r} must be finite")
            attributes[name] = value
        return attributes

    def _clean(self, dimension: int, output: str) -> bytes:
        from onnx import checker, shape_inference

        self.nodes.append(self.helper.make_node("Identity", [output], ["label"]))
        features, label = ("x", FLOAT, ["rows", dimension]), ("label", INT64, ["rows", 1])
        model = self.model("hypothesis", [features], [label], self._opset)
        try:
            checker.check_model(model, full_check=True)
        except (checker.ValidationError, shape_inference.InferenceError) as error:
            raise ValueError(f"ONNX refuses it: {str(error).partition(chr(10))[0]}") from None
        return bytes(model.SerializeToString())


def evaluator(model: bytes) -> Any:
    """Open a session of ONNX Runtime on a clean model: CPU only, one thread, no optimization of the graph, no log.

    ValueError if it cannot be opened: in some places the runtime is stricter than the standard.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has no class of its own for all of its errors
        raise ValueError(f"ONNX Runtime cannot open it: {str(error).partition(chr(10))[0]}") from None


class Ensemble(NamedTuple):
    """Nodes and leaves in the form that the operator ``TreeEnsembleRegressor`` takes.

    Attributes:
        attributes: All attributes except ``target_ids`` and ``target_weights``: what a leaf adds to which target.
        leaves, tree: Shape (leaves,): indices in the hypothesis' arrays, in the order of the targets; their trees.
    """

    attributes: dict[str, list[Any]]
    leaves: Indices
    tree: Indices


def ensemble(trees: Trees) -> Ensemble:
    """Return the trees in the form from which the operator finds each row's leaves.

    Features are float32, so x <= t is equivalent to x <= (t rounded down to float32): every row finds the same leaf as
    with the hypothesis in double precision.
    """
    feature, threshold, roots = np.array(trees.feature), np.array(trees.threshold), np.array(trees.roots)
    tree = np.searchsorted(roots, np.arange(len(feature)), side="right") - 1
    start, inner = roots[tree], feature != LEAF
    node = np.arange(len(feature)) - start
    single = threshold.astype(np.float32)
    lower = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    attributes: dict[str, list[Any]] = {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": node.tolist(),
        "nodes_featureids": np.where(inner, feature, 0).tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_values": np.where(inner, lower, 0.0).tolist(),
        "nodes_truenodeids": np.where(inner, np.array(trees.left) - start, 0).tolist(),
        "nodes_falsenodeids": np.where(inner, np.array(trees.right) - start, 0).tolist(),
        "target_treeids": tree[~inner].tolist(),
        "target_nodeids": node[~inner].tolist(),
    }
    leaves = np.flatnonzero(~inner)
    return Ensemble(attributes, leaves, tree[leaves])


BLOCK_NUMBERS = 1 << 20  # numbers computed per block of rows: a few megabytes
MAX_SECONDS = 10.0  # limit for a block of rows; a graph within the bounds on work takes well under a second


def require_packages() -> None:
    """Check that the packages that read and evaluate graphs are installed; a ValueError states what to install."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} must be installed for graphs: pip install 'tandem-hybrid[onnx]'")


_HALF_SPACE = """
<ir_version: 10, opset_import: ["": 18, "ai.onnx.ml": 3]>
half_space (float[n, 3] x) => (int64[n, 1] label)
<float[3, 1] weights = {0.5, -1.0, 2.0}, float[1] threshold = {0.25}, int64[1] yes = {1}, int64[1] no = {-1}>
{
    dot = MatMul(x, weights)
    above = Greater(dot, threshold)
    label = Where(above, yes, no)
}
"""


@HYPOTHESES.register("onnx")
class Onnx(Hypothesis):
    """h(x) = +1 if the graph's label of x is 1, else -1; every other label counts as -1.

    The graph takes a float matrix of d columns with any number of rows, and returns one int64 label per row, shape
    (rows, 1). It is validated in full before it is evaluated: at most 1 MiB, 4096 nodes, 2^18 constants, all finite,
    and only operators for which a row's label depends on that row alone (:mod:`.onnx_operators`). ONNX Runtime
    evaluates it on one thread, in blocks of rows. Before any record is read, its work is bounded from the shapes, and
    its time by a trial on a block of zeros: if that takes more than :data:`MAX_SECONDS`, the graph is stopped and
    refused. A time limit on blocks of people's records would let one record decide about the labels of others.

    It needs the packages onnx and onnxruntime (``pip install 'tandem-hybrid[onnx]'``). As these parse and run untrusted
    input, a party accepts this kind only if its own policy names it (``by_choice``).

    Attributes:
        model: Base64 of the ONNX model (operator sets ai.onnx 18 to 21, ai.onnx.ml 3).
    """

    by_choice: ClassVar[bool] = True
    kind: Literal["onnx"] = "onnx"
    model: str = Field(max_length=4 * -(-MAX_BYTES // 3))

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        from onnx.parser import parse_model

        return (cls(model=base64.b64encode(parse_model(_HALF_SPACE).SerializeToString()).decode("ascii")),)

    @model_validator(mode="after")
    def _is_graph(self) -> Self:
        require_packages()
        from onnxruntime import RunOptions

        options = RunOptions()
        timer = Timer(MAX_SECONDS, lambda: setattr(options, "terminate", True))
        timer.start()
        try:
            self._session.run(["label"], {"x": np.zeros((self._rows, self.min_features), np.float32)}, options)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime has no class of its own for what was stopped
            message = f"a block of rows takes more than {MAX_SECONDS:g} seconds: send a smaller graph"
            raise ValueError(message if options.terminate else f"the graph cannot be evaluated: {error}") from None
        finally:
            timer.cancel()
        return self

    @cached_property
    def _graph(self) -> Graph:
        try:
            return read_graph(base64.b64decode(self.model, validate=True))
        except binascii.Error:
            raise ValueError("the model must be base64") from None

    @cached_property
    def _session(self) -> Any:
        return evaluator(self._graph.model)

    @property
    def _rows(self) -> int:
        return max(1, BLOCK_NUMBERS // self._graph.numbers)

    @property
    def min_features(self) -> int:
        return self._graph.dimension

    def positive(self, features: AnyArray) -> AnyArray:
        positive = np.empty(len(features), dtype=np.bool_)
        for start in range(0, len(features), self._rows):
            block = np.ascontiguousarray(features[start : start + self._rows, : self.min_features], dtype=np.float32)
            positive[start : start + self._rows] = self._session.run(["label"], {"x": block})[0][:, 0] == 1
        return positive
