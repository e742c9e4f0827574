"""Select the feature that is 1 most often."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.core.errors import BadMessage
from common.vocabulary.operations.base import OPERATIONS, Natural, Operation, Result


class SelectedFeature(Result):
    """The number of the selected feature, as one of the whole record."""

    feature: Natural


@OPERATIONS.register("select")
class Select(Operation[SelectedFeature]):
    """Select the feature that is 1 most often, among ``count`` ones from ``first`` on, and release its number.

    Attributes
    ----------
    epsilon
        What this costs.
    """

    result: ClassVar = SelectedFeature
    kind: Literal["select"] = "select"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    count: int = Field(ge=1, le=1 << 20)
    epsilon: float = Field(gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one among five features."""
        return (cls(first=2, count=5, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.first + self.count

    def check(self, result: SelectedFeature) -> None:
        """Refuse a feature that was not among those to select from."""
        last = self.first + self.count - 1
        if not self.first <= result.feature <= last:
            raise BadMessage(f"feature must be from {self.first} to {last}, found {result.feature}")
