"""A network with one hidden layer, whose every operation is rounded alike on all machines."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Singles
from common.local.hypotheses.hypothesis import HYPOTHESES, MAX_WEIGHTS, Hypothesis, Weight, row_product
from common.numerics.kernels import njit

MAX_HIDDEN = 1 << 10


@HYPOTHESES.register("network")
class Network(Hypothesis):
    """h(x) = +1 if <v, a> > c else -1, where a_j = z_j/(1 + |z_j|) and z_j = <w_j, x> - b_j for hidden unit j.

    That activation is sums, products and one division in single precision, each of which IEEE 754 rounds in one way
    only: every party, and an exported graph, computes the same margin in every bit, which no two libraries' tanh do.

    Attributes:
        hidden: The w_j, 1 to 1024 of the same length; together at most 65536 numbers.
        thresholds: The b_j.
        output, threshold: V and c.
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
        _margins(features, *self.layers, np.float32(self.threshold), margins)
        return margins


@njit
def _margins(
    features: AnyArray, hidden: Singles, thresholds: Singles, output: Singles, threshold: Any, margins: Singles
) -> None:
    activations = np.empty((1, len(output)), dtype=np.float32)
    for i in range(len(features)):
        for j in range(len(output)):
            z = row_product(features, i, hidden[j]) - thresholds[j]
            activations[0, j] = z / (np.float32(1.0) + abs(z))
        margins[i] = row_product(activations, 0, output) - threshold
