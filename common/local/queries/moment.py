"""One moment of my record, alone or with my label: the question of the learner that asks once."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.naming import Names
from common.local.queries.query import QUERIES, Query
from common.local.records import Records


@QUERIES.register("moment")
class MomentQuery(Query):
    """Moment ``slot mod (2 d + 2)`` of the record (x, l), mapped to [0, 1].

    Moments 0..d-1 are the coordinates x_j, moments d..2d-1 are l x_j, moment 2d is l, moment 2d+1 is |x|^2. A moment m
    with bound M becomes (clip(m, -M, M) + M) / (2 M), so that an unbiased estimate v of the mean answer gives
    (2 v - 1) M for the mean moment. |x|^2, which is never negative, becomes min(|x|^2 / norm^2, 1). Nothing in the
    question depends on an answer: it can be asked of everybody at once.

    Attributes:
        dimension: d, the features that are looked at.
        bound: Public bound on |x_j|; greater ones are clipped.
        norm: Public bound on |x|; the square of a greater one is clipped.
    """

    kind: Literal["moment"] = "moment"
    dimension: int = Field(ge=1, le=1 << 16)
    bound: float = Field(gt=0)
    norm: float = Field(gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(dimension=3, bound=1.0, norm=2.0),)

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
