"""One bit of the Hadamard code of my cell and label: how a released model scores me, and what my label is."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from common.core.arrays import Floats, Indices
from common.local.cells import ScoreCells
from common.local.hypotheses.linear import Linear
from common.local.naming import Names
from common.local.queries.code import CodedQuery, code_bits
from common.local.queries.query import QUERIES
from common.local.records import Records


@QUERIES.register("score")
class ScoreQuery(CodedQuery):
    """<r, v> over F_2: v the number of my item (:class:`~common.local.cells.ScoreCells`), r my slot's public row.

    With randomized response this is Hadamard response: one bit an agent estimates the shares of all items at once, each
    with a variance of at most 1/(n (2p-1)^2), however many there are.

    Attributes:
        cells: The items.
    """

    kind: Literal["score"] = "score"
    cells: ScoreCells

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        return (
            cls(cells=ScoreCells(hypothesis=plane, cuts=(-1.0, 0.0, 0.5)), public=5),
            cls(cells=ScoreCells(hypothesis=plane, cuts=(0.0,), groups=(1, 4)), public=7),
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
