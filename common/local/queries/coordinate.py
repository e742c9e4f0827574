"""One feature of my record, as a bit."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices
from common.local.naming import Names
from common.local.queries.query import QUERIES, Query
from common.local.records import Records


@QUERIES.register("coordinate")
class CoordinateQuery(Query):
    """Whether a feature is above 0; with several features slot s says feature ``first + s mod count``.

    Attributes:
        first: The feature, or the first of them.
        count: How many.
    """

    kind: Literal["coordinate"] = "coordinate"
    first: int = Field(ge=0, lt=1 << 20)
    count: int = Field(default=1, ge=1, le=1 << 20)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(first=1, count=2), cls(first=0))

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
