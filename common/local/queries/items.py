"""Queries about an item, the integer that some features are the bits of: itself, its place in a list, a threshold."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices, Words
from common.core.values import Word
from common.local.naming import Names
from common.local.queries.query import QUERIES, AlikeQuery, BitsQuery, FrequencyQuery
from common.local.records import Records
from common.numerics.loops import pack


@QUERIES.register("item")
class ItemQuery(FrequencyQuery, BitsQuery):
    """My item, or a prefix of it: the question of frequency estimation.

    With several ``prefixes`` slot s says its first ``prefixes[s mod their number]`` bits: a group of agents for each
    length, in one question. Nothing in it depends on an answer.

    Attributes:
        prefixes: Lengths, each from 1 to ``bits``; by default the whole item alone.
    """

    kind: Literal["item"] = "item"
    prefixes: tuple[int, ...] = Field(default=(), max_length=64)
    examples: ClassVar = ({"bits": 5, "prefixes": [2, 5]}, {"first": 2, "bits": 3})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for length in self.prefixes:
            if not 1 <= length <= self.bits:
                raise ValueError(f"a prefix of {length} bits is none of an item of {self.bits}")
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.prefixes or (self.bits,)

    def asks(self, names: Names, slot: int) -> str:
        length = self.lengths[slot % len(self.lengths)]
        return (
            f"which of these are true of you, as one of {1 << length:,} combinations: {self.conditions(names, length)}"
        )

    @property
    def domain(self) -> int:
        return 1 << max(self.lengths)

    def evaluate(self, records: Records, slots: Indices) -> Words:
        items = pack(records.features)
        cut = self.bits - np.array(self.lengths, dtype=np.uint64)[slots % len(self.lengths)]
        return np.asarray(items >> cut, dtype=np.uint64)


@QUERIES.register("listed")
class ListedQuery(FrequencyQuery, BitsQuery):
    """The number of my item in a list of 1 to 4096 different ones, or the list's length if it is not there."""

    kind: Literal["listed"] = "listed"
    items: tuple[Annotated[Word, Field(lt=1 << 64)], ...] = Field(min_length=1, max_length=1 << 12)
    examples: ClassVar = ({"first": 1, "bits": 3, "items": [6, 0, 3]},)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if len(set(self.items)) != len(self.items):
            raise ValueError("the same item is listed twice")
        return self

    def asks(self, names: Names, slot: int) -> str:
        listed = f"which of {len(self.items):,} listed combinations is yours, or none of them"
        return f"{listed}, of: {self.conditions(names)}"

    @property
    def domain(self) -> int:
        return len(self.items) + 1

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
class ThresholdQuery(AlikeQuery, BitsQuery):
    """1 if my item is below a threshold, else 0: the question of a search for a quantile.

    Attributes:
        below: From 1 to 2^bits - 1: of any other the answer is known beforehand.
    """

    kind: Literal["threshold"] = "threshold"
    below: Word = Field(ge=1, lt=1 << 64)
    examples: ClassVar = ({"first": 1, "bits": 4, "below": 6},)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.below >> self.bits:
            raise ValueError(f"a threshold of {self.below} is above every item of {self.bits} bits")
        return self

    def asks(self, names: Names, slot: int) -> str:
        return (
            f"whether a binary number of {self.bits} digits is below {self.below:,}: its digits are 1 where these are "
            f"true of you, else 0: {self.conditions(names)}. The value is 1 if so, else 0"
        )

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return np.asarray(pack(records.features) < np.uint64(self.below), dtype=np.float64)
