"""Linear regression of one feature on those before it."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Labels, Singles
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis
from common.local.hypotheses.linear import MAX_WEIGHTS, Linear, Weight
from common.local.hypotheses.relabelled import column_labels
from common.local.naming import Names
from common.local.records import Records


@HYPOTHESES.register("regressor")
class Regressor(Hypothesis):
    """The prediction <w, x> + b, clipped to [0, 1], of a feature that lies in [0, 1] by its public bounds.

    Its loss is the ``squared`` one (:mod:`common.local.losses`). As a classifier it says on which side of 1/2 the
    response is, and is held against that.

    Attributes:
        weights: Of the first d features, d numbers in [-1e30, 1e30].
        intercept: b.
        response: The feature that is predicted, none of the first d.
    """

    kind: Literal["regressor"] = "regressor"
    weights: tuple[Weight, ...] = Field(min_length=1, max_length=MAX_WEIGHTS)
    intercept: Weight
    response: int = Field(ge=1, lt=1 << 17)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(weights=(0.5, -1.0, 2.0), intercept=0.25, response=4),)

    @model_validator(mode="after")
    def _blind(self) -> Self:
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

    def positive(self, features: AnyArray) -> AnyArray:
        return self.values(features) > 0.5

    def labels(self, records: Records) -> Labels:
        return column_labels(records, self.response)
