"""One coordinate of the gradient of the logistic loss at my record: the agents-only baseline."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.hypotheses.linear import Linear
from common.local.naming import Names
from common.local.queries.query import QUERIES, Query
from common.local.records import Records


@QUERIES.register("gradient")
class GradientQuery(Query):
    """Coordinate ``slot mod (d + 1)`` of the gradient of ln(1 + e^{-l (<w, x> - b)}), mapped to [0, 1].

    The gradient is ``-l s (x, -1)`` with s = 1/(1 + e^{l (<w, x> - b)}): coordinates 0..d-1 belong to w,
    coordinate d to b. A coordinate g becomes (clip(g, -B, B) + B) / (2B), so that an unbiased estimate v of
    the mean answer gives (2v - 1) B for the mean coordinate. As slots do not depend on records, asking each
    agent one coordinate of d + 1 is a random-coordinate descent that costs each agent one answer.

    Attributes:
        hypothesis: w and b.
        bound: B > 0, a public bound on a coordinate: max(1, the largest absolute feature) clips nothing.
    """

    kind: Literal["gradient"] = "gradient"
    hypothesis: Linear
    bound: float = Field(gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(hypothesis=Linear(weights=(0.5, -1.0, 2.0), threshold=0.1), bound=1.0),)

    def asks(self, names: Names, slot: int) -> str:
        d = self.hypothesis.min_features
        place = slot % (d + 1)
        what = "its threshold" if place == d else f"its weight of {names.among([place])}"
        return (
            f"how {self.hypothesis.rule(names)} should change {what} to fit you better: a number from 0 to 1, computed "
            f"from all of these"
        )

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features

    def parts(self, slots: Indices) -> Indices:
        return slots % (self.hypothesis.min_features + 1)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        from scipy.special import (
            expit,  # here, since an agent reads all kinds of queries and is rarely asked this one
        )

        labels = records.labels.astype(np.float64)
        slope = -labels * expit(-labels * self.hypothesis.margins(records.features))
        d = self.hypothesis.min_features
        coordinate = self.parts(slots)
        own = records.features[np.arange(len(records)), np.minimum(coordinate, d - 1)].astype(np.float64)
        gradient = slope * np.where(coordinate == d, -1.0, own)
        return np.asarray((np.clip(gradient / self.bound, -1.0, 1.0) + 1.0) / 2.0, dtype=np.float64)
