"""The interface of hypotheses; half-spaces, the regression of one feature on earlier ones, and a small network."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from common.core.arrays import AnyArray, Bits, Floats, Indices, Labels, Singles
from common.core.registry import RegisteredValue, TypeRegistry
from common.local.naming import Names
from common.local.records import Records, column_labels
from common.numerics.kernels import (
    WIDTH,
    fma,
    load,
    load_some,
    magnitude,
    njit,
    njit_inlined,
    prefetch_near,
    singles,
    total,
)

_CELLS = 1 << 20  # features per block, so that intermediate results of a hypothesis fit in a few megabytes


class Hypothesis(RegisteredValue):
    """A classifier h: features -> {-1, +1}, as a frozen value with a ``kind`` and a JSON form.

    It is total: for any finite features it predicts -1 or +1, even if an intermediate result overflows.
    """

    kind: str

    by_choice: ClassVar[bool] = False  # whether a party accepts it only if its own policy names it
    nests: ClassVar[bool] = False  # whether it is composed of other hypotheses; then it cannot be part of another one

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features on which it is defined."""

    def rule(self, names: Names) -> str:
        """Return, in words for a person who is asked about it, what it predicts and from which columns."""
        return f"a rule that predicts {self.target(names)} from {names.among(self.inputs)}"

    def target(self, names: Names) -> str:
        """Return, in words, what it predicts, of which :meth:`labels` are the truth: here the label of a record."""
        return names.of_label

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the features that a prediction reads, ascending: here all below ``min_features``."""
        return tuple(range(self.min_features))

    def positive(self, features: AnyArray) -> AnyArray:
        """Return where it predicts +1, shape (n,), bool, for a few rows: a kind overrides this or :meth:`margins`."""
        return self.margins(features) > 0

    def predict(self, features: AnyArray) -> Labels:
        """Predict labels, (n,) int8 in {-1, +1}, for features of shape (n, d), d >= ``min_features``."""
        labels = np.empty(len(features), dtype=np.int8)
        rows = max(1, _CELLS // max(1, features.shape[1]))
        with np.errstate(all="ignore"):
            for start in range(0, len(features), rows):
                labels[start : start + rows] = self.positive(features[start : start + rows])
        labels *= 2
        labels -= 1
        return labels

    def margins(self, features: AnyArray) -> Singles:
        """Return the margin of each of n rows, shape (n,), float32, positive for +1: here -1 or +1, the prediction."""
        return self.predict(features).astype(np.float32)

    def scores(self, features: AnyArray) -> Floats:
        """Return scores that are comparable with other hypotheses' scores, shape (n,), float64: here the margins."""
        return self.margins(features).astype(np.float64)

    def values(self, features: AnyArray) -> Floats:
        """Return each row's prediction as a number in [0, 1], shape (n,), float64: here (1 + margin)/2, clipped."""
        with np.errstate(all="ignore"):
            return np.clip(np.nan_to_num((1.0 + self.margins(features).astype(np.float64)) / 2.0, nan=0.5), 0.0, 1.0)

    def responses(self, records: Records) -> Floats:
        """Return the true numbers in [0, 1] that the values predict, shape (n,): here (1 + label)/2."""
        return (1.0 + self.labels(records).astype(np.float64)) / 2.0

    def labels(self, records: Records) -> Labels:
        """Return the true labels that it predicts, shape (n,), int8: here the records' own."""
        return records.labels

    def mistakes(self, records: Records) -> Bits:
        """Return the 0/1 losses, shape (n,), uint8: 1 where the prediction differs from the label."""
        return np.not_equal(self.predict(records.features), self.labels(records)).view(np.uint8)


HYPOTHESES: TypeRegistry[Hypothesis] = TypeRegistry("hypothesis", __name__, "kind")
parse_hypothesis = HYPOTHESES.parse
AnyHypothesis = Annotated[SerializeAsAny[Hypothesis], BeforeValidator(HYPOTHESES.accept)]
"""A field of a value that holds any registered hypothesis."""


def ordinary_kinds() -> frozenset[str]:
    """Return the kinds that every party accepts by default."""
    return frozenset(name for name, kind in HYPOTHESES.items() if not kind.by_choice)


def plain_kinds() -> frozenset[str]:
    """Return the ordinary kinds that can be part of a composed hypothesis."""
    return frozenset(name for name in ordinary_kinds() if not HYPOTHESES[name].nests)


def _plain(value: Any) -> Any:
    kind, plain = getattr(value, "kind", value.get("kind") if isinstance(value, dict) else None), plain_kinds()
    if not isinstance(kind, str) or kind not in plain:
        names = ", ".join(sorted(plain))
        raise ValueError(f"a hypothesis of kind {kind!r:.40} cannot be part of another; these can: {names}")
    return HYPOTHESES.accept(value)


PlainHypothesis = Annotated[SerializeAsAny[Hypothesis], BeforeValidator(_plain)]
"""A field of a hypothesis that holds another one."""


def hypothesis_kinds(wire: Any) -> frozenset[str]:
    """Return the registered kinds of all hypotheses in a query's or operation's JSON form, before it is parsed.

    They are found under any key, also in nested objects and lists of the message, but not within a hypothesis.
    """
    kinds: set[str] = set()
    values = wire.values() if isinstance(wire, dict) else wire if isinstance(wire, list) else ()
    for value in (child for child in values if isinstance(child, dict | list)):
        kind = value.get("kind") if isinstance(value, dict) else None
        kinds |= {kind} if isinstance(kind, str) and kind in HYPOTHESES.names() else hypothesis_kinds(value)
    return frozenset(kinds)


MAX_WEIGHTS = 1 << 16
GREATEST = 1e30  # predictions are computed in float32, whose maximum is 3.4e38
_AHEAD = 4  # a row is prefetched this many rows ahead
_LINE = 64  # bytes in a cache line

PLANE: dict[str, Any] = {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.1}
"""A half-space for examples."""
Weight = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@HYPOTHESES.register("linear")
class Linear(Hypothesis):
    """The half-space h(x) = +1 if <w, x> > b else -1, over the first ``len(weights)`` features, 1 to 65536."""

    kind: Literal["linear"] = "linear"
    weights: tuple[Weight, ...] = Field(min_length=1, max_length=MAX_WEIGHTS)
    threshold: Weight
    examples: ClassVar = ({"weights": [0.5, -1.0, 2.0], "threshold": 0.25},)

    @cached_property
    def vector(self) -> Singles:
        """The weights, shape (d,)."""
        return np.asarray(self.weights, dtype=np.float32)

    @property
    def min_features(self) -> int:
        return len(self.weights)

    def margins(self, features: AnyArray) -> Singles:
        margins = np.empty(len(features), dtype=np.float32)
        _margins(features, self.vector, np.float32(self.threshold), margins)
        return margins

    def gaps(self, features: AnyArray, rows: Indices) -> Singles:
        """Return the given rows' margins, shape (k,), in half the time: same signs, but the last digits may differ.

        Each margin depends on its row only; ``features`` must be C-contiguous.
        """
        gaps = np.empty(len(rows), dtype=np.float32)
        _gaps(features, rows, self.vector, np.float32(self.threshold), gaps)
        return gaps

    def mistakes(self, records: Records) -> Bits:
        mistakes = np.empty(len(records), dtype=np.uint8)
        _mistakes(records.features, records.labels, self.vector, np.float32(self.threshold), mistakes)
        return mistakes


@njit
def row_product(features: AnyArray, row: int, weights: Singles) -> Any:
    """Return <w, x> in float32 by eight partial sums, always in the same order, with every product rounded."""
    stop = len(weights) // 8 * 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
    for j in range(0, stop, 8):
        s0 += weights[j] * np.float32(features[row, j])
        s1 += weights[j + 1] * np.float32(features[row, j + 1])
        s2 += weights[j + 2] * np.float32(features[row, j + 2])
        s3 += weights[j + 3] * np.float32(features[row, j + 3])
        s4 += weights[j + 4] * np.float32(features[row, j + 4])
        s5 += weights[j + 5] * np.float32(features[row, j + 5])
        s6 += weights[j + 6] * np.float32(features[row, j + 6])
        s7 += weights[j + 7] * np.float32(features[row, j + 7])
    product = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    for j in range(stop, len(weights)):
        product += weights[j] * np.float32(features[row, j])
    return product


@njit
def _margins(features: AnyArray, weights: Singles, threshold: Any, margins: Singles) -> None:
    for i in range(len(features)):
        margins[i] = row_product(features, i, weights) - threshold


@njit
def _mistakes(features: AnyArray, labels: Labels, weights: Singles, threshold: Any, mistakes: Bits) -> None:
    for i in range(len(features)):
        mistakes[i] = (row_product(features, i, weights) - threshold > 0.0) != (labels[i] > 0)


@njit
def _gaps(features: AnyArray, rows: Indices, weights: Singles, threshold: Any, gaps: Singles) -> None:
    share, width = _share(weights), features.shape[1]
    line = max(1, _LINE // features.itemsize)
    for k in range(len(rows)):
        ahead = rows[min(k + _AHEAD, len(rows) - 1)]
        for j in range(0, width, line):
            prefetch_near(features, ahead * width + j)
        gaps[k] = _gap(features, rows[k], weights, threshold, share)


@njit
def _share(weights: Singles) -> Any:
    return np.float32((2.1 * len(weights) + 16.0) * 2.0**-24)


@njit_inlined
def _gap(features: AnyArray, row: int, weights: Singles, threshold: Any, share: Any) -> Any:
    """Return <w, x> - b with vector instructions or, if its sign is uncertain near 0, with :func:`row_product`.

    So the sign is that of :func:`row_product`, in half the time. The effect of underflow is below 2^-100.
    """
    product, size = _sum_and_size(features, row, weights)
    gap = product - threshold
    if fma(share, size, np.float32(2.0**-100)) < abs(gap) < np.inf:
        return gap
    return row_product(features, row, weights) - threshold


@njit_inlined
def _sum_and_size(features: AnyArray, row: int, weights: Singles) -> tuple[Any, Any]:
    """Return <w, x>, and the sum of the absolute values of its products."""
    first, stop = row * features.shape[1], len(weights) // WIDTH * WIDTH
    sums = sizes = singles(0.0)
    for j in range(0, stop, WIDTH):
        product = load(weights, j) * singles(load(features, first + j))
        sums, sizes = sums + product, sizes + magnitude(product)
    if stop < len(weights):
        rest = len(weights) - stop
        product = load_some(weights, stop, rest) * singles(load_some(features, first + stop, rest))
        sums, sizes = sums + product, sizes + magnitude(product)
    return total(sums), total(sizes)


@HYPOTHESES.register("regressor")
class Regressor(Hypothesis):
    """The prediction <w, x> + b, clipped to [0, 1], of a feature that lies in [0, 1] by its public bounds.

    Its loss is the ``squared`` one (:mod:`common.local.losses`). As a classifier it predicts whether the response is
    above 1/2. The response is not among the first d features, from which it predicts.

    Attributes:
        center, spread: Mean and standard deviation of its predictions for the people that it was learned from, if
            these are known; no prediction depends on them.
    """

    kind: Literal["regressor"] = "regressor"
    weights: tuple[Weight, ...] = Field(min_length=1, max_length=MAX_WEIGHTS)
    intercept: Weight
    response: int = Field(ge=1, lt=1 << 17)
    center: float | None = Field(default=None, ge=0, le=1, exclude_if=lambda center: center is None)
    spread: float | None = Field(default=None, gt=0, le=1, exclude_if=lambda spread: spread is None)
    examples: ClassVar = (
        {"weights": [0.5, -1.0, 2.0], "intercept": 0.25, "response": 4},
        {"weights": [0.5, 0.1], "intercept": 0.25, "response": 2, "center": 0.5, "spread": 0.125},
    )

    @model_validator(mode="after")
    def _target_is_unseen(self) -> Self:
        if self.response < len(self.weights):
            raise ValueError(
                f"response = {self.response} is among the {len(self.weights)} features that the weights look at"
            )
        return self

    @cached_property
    def _half_space(self) -> Linear:
        return Linear(weights=self.weights, threshold=0.0)

    @property
    def min_features(self) -> int:
        return self.response + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(range(len(self.weights)))

    def target(self, names: Names) -> str:
        return names.among([self.response])

    def values(self, features: AnyArray) -> Floats:
        predicted = self._half_space.margins(features).astype(np.float64) + self.intercept
        return np.clip(np.nan_to_num(predicted, nan=0.5), 0.0, 1.0)

    def responses(self, records: Records) -> Floats:
        return np.clip(records.features[:, self.response].astype(np.float64), 0.0, 1.0)

    def margins(self, features: AnyArray) -> Singles:
        return (self.values(features) - 0.5).astype(np.float32)

    def labels(self, records: Records) -> Labels:
        return column_labels(records, self.response)

    def recalibrated(self, slope: float, intercept: float) -> Regressor:
        """Return the regression whose predictions are ``slope * v + intercept`` for predictions v, before clipping."""
        wire = {"weights": tuple(slope * weight for weight in self.weights), "response": self.response}
        return Regressor.parse({**wire, "intercept": slope * self.intercept + intercept})


MAX_HIDDEN = 1 << 10


@HYPOTHESES.register("network")
class Network(Hypothesis):
    """h(x) = +1 if <v, a> > c else -1, where a_j = z_j/(1 + |z_j|) and z_j = <w_j, x> - b_j for hidden unit j.

    The activation consists of sums, products and one division in single precision, which IEEE 754 rounds in one way
    only. So every party, and an exported graph, computes the same margin in every bit; tanh differs between libraries.

    Attributes:
        hidden: The w_j, 1 to 1024 of the same length; together at most 65536 numbers.
        thresholds: The b_j.
        output, threshold: The vector v, and c.
    """

    kind: Literal["network"] = "network"
    hidden: tuple[tuple[Weight, ...], ...] = Field(min_length=1, max_length=MAX_HIDDEN)
    thresholds: tuple[Weight, ...] = Field(min_length=1, max_length=MAX_HIDDEN)
    output: tuple[Weight, ...] = Field(min_length=1, max_length=MAX_HIDDEN)
    threshold: Weight
    examples: ClassVar = (
        {
            "hidden": [[0.5, -1.0, 2.0], [-2.0, 0.0, 1.0]],
            "thresholds": [0.1, -0.5],
            "output": [2.0, -1.5],
            "threshold": -0.25,
        },
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        units, width = len(self.hidden), len(self.hidden[0])
        if not len(self.thresholds) == len(self.output) == units or any(len(row) != width for row in self.hidden):
            raise ValueError("every hidden unit has the same number of weights, one threshold and one output weight")
        if not 1 <= width <= MAX_WEIGHTS // units:
            raise ValueError(f"the hidden weights are 1 to {MAX_WEIGHTS} numbers, found {units} units of {width}")
        return self

    @cached_property
    def layers(self) -> tuple[Singles, Singles, Singles]:
        """The w_j, shape (k, d), the b_j and v, shape (k,)."""
        w, b, v = (np.asarray(part, dtype=np.float32) for part in (self.hidden, self.thresholds, self.output))
        return w, b, v

    @property
    def min_features(self) -> int:
        return len(self.hidden[0])

    def margins(self, features: AnyArray) -> Singles:
        margins = np.empty(len(features), dtype=np.float32)
        _network_margins(features, *self.layers, np.float32(self.threshold), margins)
        return margins


@njit
def _network_margins(
    features: AnyArray, hidden: Singles, thresholds: Singles, output: Singles, threshold: Any, margins: Singles
) -> None:
    activations = np.empty((1, len(output)), dtype=np.float32)
    for i in range(len(features)):
        for j in range(len(output)):
            z = row_product(features, i, hidden[j]) - thresholds[j]
            activations[0, j] = z / (np.float32(1.0) + abs(z))
        margins[i] = row_product(activations, 0, output) - threshold
