"""An operation of the curator: how many of its people have a feature in an interval?"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from tandem.extend import (
    HANDLERS,
    OPERATIONS,
    Access,
    AnyArray,
    Event,
    NoisyCount,
    Operation,
    OperationHandler,
    Records,
    Release,
    Result,
    Standing,
    Whole,
)


class Counted(Result):
    """The count with noise: it may lie outside 0..n."""

    count: Whole


@OPERATIONS.register("example-count-inside")
class CountInside(Operation[Counted]):
    """Count the records with low < x_j <= high, and release the number with noise.

    Attributes:
        feature: j, 0 <= j < 65536.
        low, high: The interval.
        epsilon: What this costs, in [0.01, 30].
    """

    result: ClassVar = Counted
    kind: Literal["example-count-inside"] = "example-count-inside"
    feature: int = Field(ge=0, lt=1 << 16)
    low: float
    high: float
    epsilon: float = Field(ge=0.01, le=30)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about the third feature."""
        return (cls(feature=2, low=0.5, high=1.5, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """One more than the feature's number."""
        return self.feature + 1


@HANDLERS.register("example-count-inside")
class CountInsideHandler(OperationHandler[CountInside, Counted]):
    """A count with two-sided geometric noise: pure epsilon-DP on the sample itself."""

    def event(self, operation: CountInside, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: CountInside, access: Access, standing: Standing) -> Counted:
        """Release the noisy count."""

        def inside(records: Records) -> AnyArray:
            own = records.features[:, operation.feature].astype(np.float64)
            return (own > operation.low) & (own <= operation.high)

        return Counted(count=access.release(NoisyCount(operation.epsilon), inside))
