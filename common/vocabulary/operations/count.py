"""Count the records of which a feature is 1."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.vocabulary.operations.base import OPERATIONS, Operation, Result, Whole


class NoisyCount(Result):
    """The count with noise: it may lie outside 0..n."""

    count: Whole


@OPERATIONS.register("count")
class Count(Operation[NoisyCount]):
    """Count the records of which a feature is 1, and release the number with noise.

    Attributes
    ----------
    epsilon
        What this costs, in [0.001, 30].
    """

    result: ClassVar = NoisyCount
    kind: Literal["count"] = "count"
    feature: int = Field(ge=0, lt=1 << 20)
    epsilon: float = Field(ge=0.001, le=30.0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of the third feature."""
        return (cls(feature=2, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.feature + 1
