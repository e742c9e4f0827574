"""My item, or a prefix of it: the question of frequency estimation."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Indices, Words
from common.local.naming import Names
from common.local.queries.query import QUERIES, FrequencyQuery
from common.local.records import Records
from common.numerics.loops import pack


@QUERIES.register("item")
class ItemQuery(FrequencyQuery):
    """The integer that some of my features are the bits of, most significant first; of ``bits`` ones the first few.

    With several ``prefixes`` slot s says its first ``prefixes[s mod their number]`` bits: a group of agents for each
    length, in one question. Nothing in it depends on an answer. Features above 0 are ones.

    Attributes:
        first: The feature that is the most significant bit.
        bits: Length of the whole item, 1 to 64.
        prefixes: Lengths, each from 1 to ``bits``; by default the whole item alone.
    """

    kind: Literal["item"] = "item"
    first: int = Field(default=0, ge=0, le=1 << 20)
    bits: int = Field(ge=1, le=64)
    prefixes: tuple[int, ...] = Field(default=(), max_length=64)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(bits=5, prefixes=(2, 5)), cls(first=2, bits=3))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for length in self.prefixes:
            if not 1 <= length <= self.bits:
                raise ValueError(f"a prefix of {length} bits is none of an item of {self.bits}")
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        """Prefix length of each group."""
        return self.prefixes or (self.bits,)

    def asks(self, names: Names, slot: int) -> str:
        length = self.lengths[slot % len(self.lengths)]
        conditions = names.conditions(range(self.first, self.first + length))
        return f"which of these are true of you, as one of {1 << length:,} combinations: {conditions}"

    @property
    def domain(self) -> int:
        return 1 << max(self.lengths)

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    @property
    def columns(self) -> Indices:
        return np.arange(self.first, self.first + self.bits)

    def evaluate(self, records: Records, slots: Indices) -> Words:
        items = pack(records.features)
        cut = self.bits - np.array(self.lengths, dtype=np.uint64)[slots % len(self.lengths)]
        return np.asarray(items >> cut, dtype=np.uint64)
