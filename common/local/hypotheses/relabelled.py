"""Tasks, which are public views of a record, and hypotheses that say which label they are about."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Labels, Singles
from common.core.values import Value
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis, PlainHypothesis
from common.local.hypotheses.linear import Linear
from common.local.naming import Names
from common.local.records import Records


@HYPOTHESES.register("relabelled")
class Relabelled(Hypothesis):
    """``hypothesis``, held against the label that stands in a column of the features: +1 where that is above 1/2.

    Records with several labels hold all but their own as features, behind those that hypotheses look at. A loss on
    another label is then one more public function of the record, and everything that holds for losses holds for it.

    Attributes:
        column: The feature that is the label.
        hypothesis: Looks at features before that one only.
    """

    nests: ClassVar[bool] = True

    kind: Literal["relabelled"] = "relabelled"
    column: int = Field(ge=0, lt=1 << 16)
    hypothesis: PlainHypothesis

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(column=4, hypothesis=Linear(weights=(0.5, -1.0, 2.0), threshold=0.25)),)

    @model_validator(mode="after")
    def _blind(self) -> Self:
        if self.hypothesis.min_features > self.column:
            raise ValueError(
                f"the label is feature {self.column}: a hypothesis about it must look at features before it only, this "
                f"one needs {self.hypothesis.min_features}"
            )
        return self

    @property
    def min_features(self) -> int:
        return self.column + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.hypothesis.inputs

    def target(self, names: Names) -> str:
        return f"whether {names.true(self.column, 0.5)}"

    def labels(self, records: Records) -> Labels:
        return column_labels(records, self.column)

    def positive(self, features: AnyArray) -> AnyArray:
        return self.hypothesis.positive(features[:, : self.column])

    def margins(self, features: AnyArray) -> Singles:
        return self.hypothesis.margins(features[:, : self.column])

    def probabilities(self, features: AnyArray) -> Floats:
        return self.hypothesis.probabilities(features[:, : self.column])


def column_labels(records: Records, column: int) -> Labels:
    """Return +1 where a feature is above 1/2, else -1, shape (n,), int8."""
    labels = (records.features[:, column] > 0.5).astype("int8")
    labels *= 2
    labels -= 1
    return labels


class Task(Value):
    """Which label to predict, and from which features: a public view of a record.

    A view looks at one record at a time, so neighbouring samples stay neighbours in it, for any later computation.

    Attributes:
        features: The first so many features are what is looked at.
        label: The feature that is the label, none of those (+1 where it is above 1/2); None: the record's own label.
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

        Raises:
            BadMessage: If it looks at the label, or is of a kind that not every party accepts.
        """
        if self.label is None:
            return hypothesis
        return Relabelled.parse({"column": self.label, "hypothesis": hypothesis})
