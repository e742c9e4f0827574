"""Queries for one bit of a Hadamard code: of my item, or of my cell of a released model's score and my label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices, Words
from common.core.values import Word
from common.local.hypotheses.linear import PLANE
from common.local.losses import ScoreCells
from common.local.mechanisms.frequency import parity, public_words
from common.local.naming import Names
from common.local.queries.query import QUERIES, Answers, Query
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.loops import pack


class CodedQuery(Query):
    """One bit of the Hadamard code of an item: which one is public.

    Attributes:
        public: Public randomness: with the slot it determines each agent's row. Any value is safe.
    """

    public: Word = Field(ge=0, lt=1 << 63)

    @property
    @abstractmethod
    def code_bits(self) -> int:
        """Length of an item's number."""

    def rows(self, slots: Indices) -> Indices:
        """Return each slot's row, below 2^code_bits."""
        return (public_words(self.public, slots) & np.uint64((1 << self.code_bits) - 1)).astype(np.int64)


Questions = list[tuple[CodedQuery, Answers]]  # queries about a code, each with its answers


@QUERIES.register("code")
class CodeQuery(CodedQuery):
    """<r, v> + s over F_2: v my item, r a public random row for my slot, s a bit of mine; 1/2 if I have no item.

    With randomized response this is Hadamard response (:mod:`common.local.mechanisms.frequency`) about items with a
    sign. The mean of (-1)^{answer + <r, v>} over the agents is their share that holds v with sign +, less that with
    sign -: one answer serves both signs, where an oracle for pairs (v, s) spends every other one on v alone.

    Attributes:
        first: The feature that is the item's most significant bit.
        bits: Length of the item, 1 to 63.
        sign: The feature that is s; ``label``: 1 if the label is +1; None: 0.
        present: The feature that is 1 if there is an item; None: there is one.
    """

    kind: Literal["code"] = "code"
    first: int = Field(ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=63)
    sign: Annotated[int, Field(ge=0, lt=1 << 20)] | Literal["label"] | None = None
    present: int | None = Field(default=None, ge=0, lt=1 << 20)
    examples: ClassVar = (
        {"public": 11, "first": 1, "bits": 5, "sign": 7, "present": 0},
        {"public": 3, "first": 0, "bits": 3, "sign": "label"},
    )

    def asks(self, names: Names, slot: int) -> str:
        row = int(self.rows(np.array([slot], dtype=np.int64))[0])
        chosen = [self.first + i for i in range(self.bits) if row >> (self.bits - 1 - i) & 1]
        chosen += [self.sign] if isinstance(self.sign, int) else []
        label = [names.labelled(1)] if self.sign == "label" else []
        asked = "nothing about you, the value is 0 for everybody"
        if chosen or label:
            conditions = names.conditions(chosen, *label)
            asked = f"whether an odd number of these are true of you: {conditions}. The value is 1 if so, else 0"
        return asked if self.present is None else f"{asked}, but 1/2 unless {names.true(self.present)}"

    @property
    def min_features(self) -> int:
        return max([self.first + self.bits, *(column + 1 for column in self._further)])

    @property
    def columns(self) -> Indices:
        return np.array([*range(self.first, self.first + self.bits), *self._further], dtype=np.int64)

    @property
    def _further(self) -> list[int]:
        sign = [self.sign] if isinstance(self.sign, int) else []
        return sign + ([] if self.present is None else [self.present])

    @property
    def code_bits(self) -> int:
        return self.bits

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        features = records.features
        values = code_bits(pack(features[:, : self.bits]), self.rows(slots))
        further = iter(range(self.bits, features.shape[1]))
        if self.sign == "label":
            values ^= records.labels > 0
        elif self.sign is not None:
            values ^= features[:, next(further)] > 0
        if self.present is None:
            return values.astype(np.float64)
        return np.where(features[:, next(further)] > 0, values.astype(np.float64), 0.5)


def code_bits(items: Words, rows: Indices) -> Words:
    """Return <r, v> over F_2 of each item's number v and row r, shape (n,), uint64 in {0, 1}."""
    values = np.empty(len(items), dtype=np.uint64)
    _products(items, rows.astype(np.uint64), values)
    return values


@njit
def _products(items: Words, rows: Words, values: Words) -> None:
    for i in range(len(items)):
        values[i] = parity(items[i] & rows[i])


@QUERIES.register("score")
class ScoreQuery(CodedQuery):
    """<r, v> over F_2: v the number of my item (:class:`~common.local.losses.ScoreCells`), r my slot's public row.

    With randomized response this is Hadamard response: one bit an agent estimates the shares of all items at once, each
    with a variance of at most 1/(n (2p-1)^2), however many there are.
    """

    kind: Literal["score"] = "score"
    cells: ScoreCells
    examples: ClassVar = (
        {"public": 5, "cells": {"hypothesis": PLANE, "cuts": [-1.0, 0.0, 0.5]}},
        {"public": 7, "cells": {"hypothesis": PLANE, "cuts": [0.0], "groups": [1, 4]}},
    )

    @property
    def code_bits(self) -> int:
        return (self.cells.items - 1).bit_length()

    def asks(self, names: Names, slot: int) -> str:
        cells = self.cells
        model = cells.hypothesis
        parts = [f"in which of {cells.bins} ranges the score of {model.rule(names)} is for you"]
        if cells.groups:
            parts.append(f"which of these is true first ({names.conditions(cells.groups)})")
        return f"one binary digit that is made of {', '.join(parts)}, and {model.target(names)}: the value is 0 or 1"

    @property
    def min_features(self) -> int:
        return self.cells.min_features

    def parts(self, slots: Indices) -> Indices:
        return self.rows(slots)

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        return code_bits(self.cells.items_of(records).astype(np.uint64), self.rows(slots)).astype(np.float64)
