"""Cells of people: in which bin a model's score of me falls, in which public group I am, and what my label is."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Indices
from common.core.values import Value
from common.local.hypotheses.hypothesis import PlainHypothesis
from common.local.hypotheses.linear import GREATEST
from common.local.records import Groups, Records, group_of, number_of

MAX_CUTS = 255
MAX_ITEMS = 1 << 12
TILT_PARTS = 1024
"""Into so many parts the unit of a tilt is divided."""

Cut = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


class ScoreCells(Value):
    """A public partition of records: bins of a released model's score, in every group.

    Cell ``group * bins + bin``; an *item* is a cell with a label, number ``2 * cell + (label > 0)``. The shares of the
    items are all that thresholds, intercepts and calibrations of the model depend on.

    Attributes:
        hypothesis: Whose scores: of a kind that every party accepts.
        cuts: Ascending, at most 255: bin b holds the scores above b of them. A score that is not a number is in bin 0.
        groups: See :data:`common.local.records.Groups`.
    """

    hypothesis: PlainHypothesis
    cuts: tuple[Cut, ...] = Field(min_length=1, max_length=MAX_CUTS)
    groups: Groups = ()

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if any(low >= high for low, high in zip(self.cuts, self.cuts[1:], strict=False)):
            raise ValueError("cuts must ascend, no two alike")
        if len(set(self.groups)) != len(self.groups):
            raise ValueError("the same feature makes two groups")
        if self.items > MAX_ITEMS:
            raise ValueError(f"{self.items} items are more than {MAX_ITEMS}: fewer cuts or groups")
        return self

    @property
    def bins(self) -> int:
        """Number of bins of the score."""
        return len(self.cuts) + 1

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.bins * number_of(self.groups)

    @property
    def items(self) -> int:
        """Number of cells with a label."""
        return 2 * self.count

    @property
    def min_features(self) -> int:
        """Smallest number of features that records must have."""
        return max([self.hypothesis.min_features, *(group + 1 for group in self.groups)])

    def of(self, records: Records) -> Indices:
        """Return each record's cell, shape (n,), int64."""
        with np.errstate(all="ignore"):
            scores = np.nan_to_num(self.hypothesis.scores(records.features), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        bins = np.searchsorted(np.array(self.cuts), scores, side="left").astype(np.int64)
        return bins + self.bins * group_of(records.features, self.groups)

    def items_of(self, records: Records) -> Indices:
        """Return each record's item, shape (n,), int64."""
        return 2 * self.of(records) + (self.hypothesis.labels(records) > 0)


class Tilt(Value):
    """A weight for every item, as a :class:`~common.local.losses.Weighing`: what raking multiplies weights by.

    Attributes:
        cells: The cells.
        parts: One number an item, 0..1024 parts of 1.
    """

    cells: ScoreCells
    parts: tuple[Annotated[int, Field(strict=True, ge=0, le=TILT_PARTS)], ...] = Field(min_length=4)

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if len(self.parts) != self.cells.items:
            raise ValueError(f"{self.cells.items} items need as many weights, found {len(self.parts)}")
        return self

    @property
    def grain(self) -> int:
        return TILT_PARTS

    def count(self, records: Records) -> AnyArray:
        """Return each record's weight in whole parts, shape (n,), uint16."""
        return np.array(self.parts, dtype=np.uint16)[self.cells.items_of(records)]
