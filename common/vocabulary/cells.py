"""Cells of people: in which bin a model's score of me falls, in which public group I am, and what my label is."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Indices
from common.core.values import Value
from common.vocabulary.hypotheses.base import PlainHypothesis
from common.vocabulary.hypotheses.linear import GREATEST
from common.vocabulary.records import Records

MAX_CUTS = 255
MAX_GROUPS = 31
MAX_ITEMS = 1 << 12
TILT_PARTS = 1024
"""Into so many parts the unit of a tilt is divided."""

Cut = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


class ScoreCells(Value):
    """A public partition of records: bins of a released model's score, in every group.

    Cell ``group * bins + bin``; an *item* is a cell with a label, number ``2 * cell + (label > 0)``. The shares of the
    items are all that thresholds, intercepts and calibrations of the model depend on.

    Attributes
    ----------
    hypothesis
        Whose scores: of a kind that every party accepts.
    cuts
        Ascending, at most 255: bin b holds the scores above b of them. A score that is not a number is in bin 0.
    groups
        Features, at most 31: group g is of those whose feature ``groups[g]`` is above 1/2, the first of several. Who
        has none is in the last group. Without any there is one group.
    """

    hypothesis: PlainHypothesis
    cuts: tuple[Cut, ...] = Field(min_length=1, max_length=MAX_CUTS)
    groups: tuple[Annotated[int, Field(ge=0, lt=1 << 16)], ...] = Field(default=(), max_length=MAX_GROUPS)

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
        return self.bins * (len(self.groups) + 1 if self.groups else 1)

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
        return bins + self.bins * self._group(records.features)

    def _group(self, features: AnyArray) -> Indices:
        if not self.groups:
            return np.zeros(len(features), dtype=np.int64)
        held = features[:, list(self.groups)] > 0.5
        return np.where(held.any(axis=1), held.argmax(axis=1), len(self.groups)).astype(np.int64)

    def items_of(self, records: Records) -> Indices:
        """Return each record's item, shape (n,), int64."""
        return 2 * self.of(records) + (self.hypothesis.labels(records) > 0)


class Tilt(Value):
    """A weight for every item, as a :class:`~common.vocabulary.weighing.Weighing`: what raking multiplies weights by.

    Attributes
    ----------
    cells
        The cells.
    parts
        One number an item, 0..1024 parts of 1.
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
        """1024."""
        return TILT_PARTS

    def count(self, records: Records) -> AnyArray:
        """Return each record's weight in whole parts, shape (n,), uint16."""
        return np.array(self.parts, dtype=np.uint16)[self.cells.items_of(records)]
