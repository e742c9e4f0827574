"""Release the weighted shares of the curator's people by the score that a model gives them, by group and by label."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats
from common.core.errors import BadMessage
from common.vocabulary.cells import ScoreCells
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.operations.base import MAX_WHOLE, OPERATIONS, Operation, Result, Whole

LEAST_EPSILON = 0.0025
"""With it, and with as many items as there may be, noise on the grid can still be drawn."""


class NoisyMargins(Result):
    """The weighted margins with noise, on a public grid.

    Attributes
    ----------
    shares
        One an item (:class:`~common.vocabulary.cells.ScoreCells`), in units: with noise negative or above ``whole``.
    whole
        How many units make a share of 1, a power of two. It follows from public numbers.
    """

    shares: tuple[Whole, ...]
    whole: Annotated[int, Field(strict=True, ge=1, le=MAX_WHOLE)]

    @property
    def fractions(self) -> Floats:
        """The shares as parts of 1, shape (items,), exact."""
        return np.array(self.shares, dtype=np.float64) / self.whole


@OPERATIONS.register("margins")
class Margins(Operation[NoisyMargins]):
    """Release the share of each item in the curator's people, with noise: each counts as much as their weight now.

    Where nothing was reweighed all weights are alike, and these are plain shares.

    Attributes
    ----------
    cells
        The items.
    epsilon
        What this costs, in [0.0025, 30]. The noise has scale 2 s/epsilon, s a bound on one person's weight: 1/n before
        the first reweigh, 1/(kappa n) after some.
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
        """Refuse another number of shares, or units that are no power of two."""
        if len(result.shares) != self.cells.items:
            raise BadMessage(f"{self.cells.items} shares were asked for, found {len(result.shares)}")
        if result.whole & (result.whole - 1):
            raise BadMessage(f"a share of 1 is a power of two of units, found {result.whole}")
