"""Queries about an item, the integer that some features are the bits of: itself, its place in a list, a threshold."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices, Words
from common.core.values import Word
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery, FrequencyQuery
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


@QUERIES.register("threshold")
class ThresholdQuery(AlikeQuery):
    """1 if the integer that some of my features are the bits of, most significant first, is below a threshold, else 0.

    Features above 0 are ones, as in :class:`~common.local.queries.items.ItemQuery`.

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
