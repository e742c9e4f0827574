"""Is my item below a threshold: the question of a search for a quantile."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices
from common.core.values import Word
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery
from common.local.records import Records
from common.numerics.loops import pack


@QUERIES.register("threshold")
class ThresholdQuery(AlikeQuery):
    """1 if the integer that some of my features are the bits of, most significant first, is below a threshold, else 0.

    Features above 0 are ones, as in :class:`~common.local.queries.item.ItemQuery`.

    Attributes:
        first: The feature that is the most significant bit.
        bits: Length of the item, 1 to 64.
        below: From 1 to 2^bits - 1: of any other the answer is known beforehand.
    """

    kind: Literal["threshold"] = "threshold"
    first: int = Field(default=0, ge=0, le=1 << 20)
    bits: int = Field(ge=1, le=64)
    below: Word = Field(ge=1, lt=1 << 64)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(first=1, bits=4, below=6),)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.below >> self.bits:
            raise ValueError(f"a threshold of {self.below} is above every item of {self.bits} bits")
        return self

    def asks(self, names: Names, slot: int) -> str:
        conditions = names.conditions(range(self.first, self.first + self.bits))
        return (
            f"whether a binary number of {self.bits} digits is below {self.below:,}: its digits are 1 where these are "
            f"true of you, else 0: {conditions}. The value is 1 if so, else 0"
        )

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    @property
    def columns(self) -> Indices:
        return np.arange(self.first, self.first + self.bits)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(pack(records.features) < np.uint64(self.below), dtype=np.float64)
