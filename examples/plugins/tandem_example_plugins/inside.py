"""A query: is my feature in an interval?"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from tandem.extend import QUERIES, Floats, Indices, Names, Query, Records


@QUERIES.register("example-inside")
class InsideQuery(Query):
    """1 if low < x_j <= high, else 0.

    Attributes:
        feature: j, 0 <= j < 65536.
        low, high: The interval.
    """

    kind: Literal["example-inside"] = "example-inside"
    feature: int = Field(ge=0, lt=1 << 16)
    low: float
    high: float

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about the second feature."""
        return (cls(feature=1, low=0.25, high=0.75),)

    def asks(self, names: Names, slot: int) -> str:
        """Say it to the person whose record it is about."""
        return f"whether {names.among([self.feature])} is in an interval: the value is 1 if so, else 0"

    @property
    def min_features(self) -> int:
        """One more than the feature's number."""
        return self.feature + 1

    @property
    def columns(self) -> Indices:
        """The feature: of records that have very many, an agent reads this one only."""
        return np.array([self.feature])

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        """Return 0 or 1 per record, shape (n,)."""
        own = records.features[:, 0].astype(np.float64)
        return np.asarray((own > self.low) & (own <= self.high), dtype=np.float64)
