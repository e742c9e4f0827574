"""A small ONNX graph: any model that is neither a half-space nor trees."""

from __future__ import annotations

import base64
import binascii
from functools import cached_property
from importlib.util import find_spec
from threading import Timer
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis
from common.local.hypotheses.onnx_graph import MAX_BYTES, Graph, evaluator, read_graph

MAX_NUMBERS = 1 << 20
"""Numbers computed in one go: a few megabytes."""
MAX_SECONDS = 10.0
"""How long a block of rows may take; a graph within the bounds on work takes well under a second."""


def require_packages() -> None:
    """Check that what reads and evaluates graphs is installed.

    Raises:
        ValueError: Says what to install.
    """
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

    The graph takes a float matrix of d columns with any number of rows, and gives one int64 label a row, shape
    (rows, 1). It is checked in full before anything is evaluated (:mod:`.graphs.parsing`): at most 1 MiB, 4096 nodes,
    2^18 constants, all finite, and only operators under which a row's label depends on that row alone
    (:mod:`.graphs.operators`): no loops, branches, functions, other domains or files. ONNX Runtime evaluates it on one
    thread, in blocks of rows. Its work is bounded from the shapes, 2^20 multiply-adds a row, which is about a
    millisecond; and its time by a trial on a block of zeros, before any record is touched: a graph for which that takes
    more than :data:`MAX_SECONDS` is stopped and refused. A limit on people's own blocks would let one record decide
    about the labels of others.

    Needs the packages onnx and onnxruntime (``pip install 'tandem-hybrid[onnx]'``). As these parse and run what
    strangers wrote, parties accept this kind only by their own choice (``by_choice``).

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
    def _is_graph(self) -> Onnx:
        require_packages()
        self._try()
        return self

    def _try(self) -> None:
        """Evaluate a block of zeros within the time limit."""
        from onnxruntime import RunOptions

        options = RunOptions()
        timer = Timer(MAX_SECONDS, lambda: setattr(options, "terminate", True))
        timer.start()
        try:
            self._session.run(["label"], {"x": np.zeros((self._rows, self.min_features), np.float32)}, options)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime has no class of its own for what was stopped
            stopped = f"a block of rows takes more than {MAX_SECONDS:g} seconds: send a smaller graph"
            raise ValueError(stopped if options.terminate else f"the graph cannot be evaluated: {error}") from None
        finally:
            timer.cancel()

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
        return max(1, MAX_NUMBERS // self._graph.numbers)

    @property
    def min_features(self) -> int:
        return self._graph.dimension

    def positive(self, features: AnyArray) -> AnyArray:
        found = np.empty(len(features), dtype=np.bool_)
        for start in range(0, len(features), self._rows):
            block = np.ascontiguousarray(features[start : start + self._rows, : self.min_features], dtype=np.float32)
            found[start : start + self._rows] = self._session.run(["label"], {"x": block})[0][:, 0] == 1
        return found
