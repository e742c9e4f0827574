"""Reweigh the records by a public table of their items: raking."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from common.vocabulary.cells import ScoreCells, Tilt
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.operations.base import OPERATIONS, Operation
from common.vocabulary.operations.reweigh import Reweighed


@OPERATIONS.register("rake")
class Rake(Operation[Reweighed]):
    """Multiply every record's weight by exp(-eta (1 - tilt)), the tilt being that of its item. Releases nothing.

    Attributes
    ----------
    tilt
        A number in [0, 1] for each item. That of a person is a function of their record and of this message, so what
        is proven of reweighing by losses holds for it.
    """

    result: ClassVar = Reweighed
    kind: Literal["rake"] = "rake"
    tilt: Tilt

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about two bins."""
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        return (cls(tilt=Tilt(cells=ScoreCells(hypothesis=plane, cuts=(0.0,)), parts=(0, 1024, 512, 300))),)

    @property
    def min_features(self) -> int:
        """Those of the cells."""
        return self.tilt.cells.min_features

    @property
    def reweighs_by(self) -> Tilt:
        """The tilt."""
        return self.tilt
