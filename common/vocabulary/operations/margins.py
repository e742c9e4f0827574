"""Count the curator's people by the score that a model gives them, by group and by label."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.core.errors import BadMessage
from common.vocabulary.cells import ScoreCells
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.operations.base import OPERATIONS, Operation, Result, Whole

LEAST_EPSILON = 0.0025
"""Half of it, which is for each of two cells, is still more than the least of geometric noise."""


class NoisyMargins(Result):
    """One count an item (:class:`~common.vocabulary.cells.ScoreCells`), with noise: it may be negative."""

    counts: tuple[Whole, ...]


@OPERATIONS.register("margins")
class Margins(Operation[NoisyMargins]):
    """Count the people of each item, and release the counts with noise. Weights do not matter.

    Attributes
    ----------
    cells
        The items.
    epsilon
        What this costs, in [0.0025, 30].
    """

    result: ClassVar = NoisyMargins
    kind: Literal["margins"] = "margins"
    cells: ScoreCells
    epsilon: float = Field(ge=LEAST_EPSILON, le=30.0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about three bins in two groups."""
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
        return (cls(cells=ScoreCells(hypothesis=plane, cuts=(0.0, 1.0), groups=(4,)), epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """Those of the cells."""
        return self.cells.min_features

    def check(self, result: NoisyMargins) -> None:
        """Refuse another number of counts."""
        if len(result.counts) != self.cells.items:
            raise BadMessage(f"{self.cells.items} counts were asked for, found {len(result.counts)}")
