"""Tasks: what is to be learned about people of whom there is more than one thing to learn."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from common.core.values import Value
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.relabelled import Relabelled, column_labels
from common.vocabulary.records import Records


class Task(Value):
    """Which label to predict, and from which features: a public view of a record.

    A view looks at one record at a time, so neighbouring samples stay neighbours in it, whatever is done next.

    Attributes
    ----------
    features
        The first so many features are what is looked at.
    label
        The feature that is the label, none of those (+1 where it is above 1/2); None: the record's own label.
    """

    features: int = Field(ge=1, le=1 << 16)
    label: int | None = Field(default=None, ge=1, lt=1 << 16)

    @model_validator(mode="after")
    def _blind(self) -> Self:
        if self.label is not None and self.label < self.features:
            raise ValueError(f"label = {self.label} is among the first {self.features} features: a model would see it")
        return self

    @property
    def min_features(self) -> int:
        """Smallest number of features that a record must have."""
        return self.features if self.label is None else self.label + 1

    def of(self, records: Records) -> Records:
        """Return the records as this task sees them (a copy)."""
        labels = records.labels if self.label is None else column_labels(records, self.label)
        return Records(np.ascontiguousarray(records.features[:, : self.features]), labels)

    def about(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return a hypothesis that was learned for this task as one about whole records.

        Raises
        ------
        BadMessage
            If it looks at the label, or is of a kind that not every party accepts.
        """
        if self.label is None:
            return hypothesis
        return Relabelled.parse({"column": self.label, "hypothesis": hypothesis})
