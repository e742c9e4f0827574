"""Which of some listed items mine is."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Indices, Words
from common.core.values import Word
from common.local.naming import Names
from common.local.queries.query import QUERIES, FrequencyQuery
from common.local.records import Records
from common.numerics.loops import pack


@QUERIES.register("listed")
class ListedQuery(FrequencyQuery):
    """The number of my item in a list, or the list's length if it is not there.

    Attributes:
        first, bits: The features that are the bits of my item, most significant first; 1 to 64 bits.
        items: The list: 1 to 4096 different items.
    """

    kind: Literal["listed"] = "listed"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    items: tuple[Annotated[Word, Field(lt=1 << 64)], ...] = Field(min_length=1, max_length=1 << 12)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(first=1, bits=3, items=(6, 0, 3)),)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if len(set(self.items)) != len(self.items):
            raise ValueError("the same item is listed twice")
        return self

    def asks(self, names: Names, slot: int) -> str:
        conditions = names.conditions(range(self.first, self.first + self.bits))
        return f"which of {len(self.items):,} listed combinations is yours, or none of them, of: {conditions}"

    @property
    def domain(self) -> int:
        return len(self.items) + 1

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    @property
    def columns(self) -> Indices:
        return np.arange(self.first, self.first + self.bits)

    @cached_property
    def _sorted(self) -> tuple[Words, Indices]:
        items = np.array(self.items, dtype=np.uint64)
        order = np.argsort(items)
        return items[order], order

    def evaluate(self, records: Records, slots: Indices) -> Words:
        items, order = self._sorted
        own = pack(records.features)
        places = np.minimum(np.searchsorted(items, own), len(items) - 1)
        found = np.where(items[places] == own, order[places], len(items))
        return found.astype(np.uint64)
