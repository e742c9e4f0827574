"""Queries for one coordinate of something: of my features, of my moments, of a gradient at my record."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.hypotheses.linear import PLANE, Linear
from common.local.naming import Names
from common.local.queries.query import QUERIES, Query
from common.local.records import Records


@QUERIES.register("coordinate")
class CoordinateQuery(Query):
    """Whether a feature is above 0; with several features slot s says feature ``first + s mod count``."""

    kind: Literal["coordinate"] = "coordinate"
    first: int = Field(ge=0, lt=1 << 20)
    count: int = Field(default=1, ge=1, le=1 << 20)
    examples: ClassVar = ({"first": 1, "count": 2}, {"first": 0})

    def asks(self, names: Names, slot: int) -> str:
        return f"whether {names.true(self.first + slot % self.count)}: the value is 1 if so, else 0"

    @property
    def min_features(self) -> int:
        return self.first + self.count

    @property
    def columns(self) -> Indices:
        return np.arange(self.first, self.first + self.count)

    @property
    def alike(self) -> bool:
        return self.count == 1

    def parts(self, slots: Indices) -> Indices:
        return slots % self.count

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(records.features[np.arange(len(records)), self.parts(slots)] > 0, dtype=np.float64)


@QUERIES.register("moment")
class MomentQuery(Query):
    """Moment ``slot mod (2 d + 2)`` of the record (x, l), mapped to [0, 1].

    Moments 0..d-1 are the coordinates x_j, moments d..2d-1 are l x_j, moment 2d is l, moment 2d+1 is |x|^2. A moment m
    with bound M becomes (clip(m, -M, M) + M) / (2 M), so that an unbiased estimate v of the mean answer gives
    (2 v - 1) M for the mean moment. |x|^2, which is never negative, becomes min(|x|^2 / norm^2, 1). Nothing in the
    question depends on an answer: it can be asked of everybody at once.

    Attributes:
        dimension: d, the features that are looked at.
        bound, norm: Public bounds on |x_j| and on |x|; greater ones are clipped.
    """

    kind: Literal["moment"] = "moment"
    dimension: int = Field(ge=1, le=1 << 16)
    bound: float = Field(gt=0)
    norm: float = Field(gt=0)
    examples: ClassVar = ({"dimension": 3, "bound": 1.0, "norm": 2.0},)

    @property
    def moments(self) -> int:
        """Number of different moments, 2 d + 2."""
        return 2 * self.dimension + 2

    def asks(self, names: Names, slot: int) -> str:
        d, moment = self.dimension, slot % self.moments
        if moment < d:
            return f"{names.among([moment])}, as a number from 0 to 1"
        if moment < 2 * d:
            return f"the product of {names.among([moment - d])} and {names.of_label}, as a number from 0 to 1"
        if moment == 2 * d:
            return f"whether {names.labelled(1)}: the value is 1 if so, else 0"
        return f"the sum of the squares of {names.among(range(d))}, as a number from 0 to 1"

    @property
    def min_features(self) -> int:
        return self.dimension

    def parts(self, slots: Indices) -> Indices:
        return slots % self.moments

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        d = self.dimension
        moment = self.parts(slots)
        labels = records.labels.astype(np.float64)
        own = records.features[np.arange(len(records)), moment % d].astype(np.float64)
        sign = np.where(moment < d, 1.0, labels)
        values = (np.clip(sign * own / self.bound, -1.0, 1.0) + 1.0) / 2.0
        values = np.where(moment == 2 * d, (labels + 1.0) / 2.0, values)
        squared = np.flatnonzero(moment == 2 * d + 1)
        lengths = np.square(records.features[squared, :d], dtype=np.float64).sum(axis=1)
        values[squared] = np.minimum(lengths / self.norm**2, 1.0)
        return np.asarray(values, dtype=np.float64)


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
    examples: ClassVar = ({"hypothesis": PLANE, "bound": 1.0},)

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
        from scipy.special import expit  # here: an agent reads all kinds of queries and is rarely asked this one

        labels = records.labels.astype(np.float64)
        slope = -labels * expit(-labels * self.hypothesis.margins(records.features))
        d = self.hypothesis.min_features
        coordinate = self.parts(slots)
        own = records.features[np.arange(len(records)), np.minimum(coordinate, d - 1)].astype(np.float64)
        gradient = slope * np.where(coordinate == d, -1.0, own)
        return np.asarray((np.clip(gradient / self.bound, -1.0, 1.0) + 1.0) / 2.0, dtype=np.float64)
