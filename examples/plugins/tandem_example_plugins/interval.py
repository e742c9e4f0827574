"""A hypothesis: whether a feature lies in an interval."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from tandem.extend import HYPOTHESES, AnyArray, Hypothesis

GREATEST = 1e30
Border = Annotated[float, Field(ge=-GREATEST, le=GREATEST)]


@HYPOTHESES.register("example-interval")
class Interval(Hypothesis):
    """h(x) = +1 if low < x_j <= high, else -1; never +1 where high <= low.

    Attributes:
        feature: j, 0 <= j < 65536.
        low, high: In [-1e30, 1e30].
    """

    kind: Literal["example-interval"] = "example-interval"
    feature: int = Field(ge=0, lt=1 << 16)
    low: Border
    high: Border

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about the second feature, and one that holds nobody."""
        return (cls(feature=1, low=0.25, high=0.75), cls(feature=0, low=0.0, high=0.0))

    @property
    def min_features(self) -> int:
        """One more than the feature's number."""
        return self.feature + 1

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict +1 inside."""
        own = features[:, self.feature].astype("float64")
        return (own > self.low) & (own <= self.high)
