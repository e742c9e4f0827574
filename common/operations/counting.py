"""Operations that count people: one feature's count, the most frequent feature, the values that many hold."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from common.core.errors import BadMessage
from common.core.values import Word
from common.operations.operation import OPERATIONS, Natural, Operation, Result, Whole


class ReleasedCount(Result):
    """The count with noise: it may lie outside 0..n."""

    count: Whole


@OPERATIONS.register("count")
class Count(Operation[ReleasedCount]):
    """Count the records of which a feature is 1, and release the number with noise, for ``epsilon``."""

    result: ClassVar = ReleasedCount
    kind: Literal["count"] = "count"
    feature: int = Field(ge=0, lt=1 << 20)
    epsilon: float = Field(ge=0.001, le=30.0)
    examples: ClassVar = ({"feature": 2, "epsilon": 1.0},)

    @property
    def min_features(self) -> int:
        return self.feature + 1


class SelectedFeature(Result):
    """The number of the selected feature, as one of the whole record."""

    feature: Natural


@OPERATIONS.register("select")
class Select(Operation[SelectedFeature]):
    """Select the feature that is 1 most often, among ``count`` ones from ``first`` on, for ``epsilon``."""

    result: ClassVar = SelectedFeature
    kind: Literal["select"] = "select"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    count: int = Field(ge=1, le=1 << 20)
    epsilon: float = Field(gt=0)
    examples: ClassVar = ({"first": 2, "count": 5, "epsilon": 1.0},)

    @property
    def min_features(self) -> int:
        return self.first + self.count

    def check(self, result: SelectedFeature) -> None:
        last = self.first + self.count - 1
        if not self.first <= result.feature <= last:
            raise BadMessage(f"feature must be from {self.first} to {last}, found {result.feature}")


class CountedHead(Result):
    """The listed values, the likeliest first, the noisy count of each (may be negative), and among how many people."""

    items: tuple[Word, ...]
    counts: tuple[Whole, ...]
    people: Whole


@OPERATIONS.register("head")
class HeadList(Operation[CountedHead]):
    """List the values that many people hold, at most ``most``, and count their holders among other people.

    The features from ``first`` on are the ``bits`` of a value, most significant first.
    """

    result: ClassVar = CountedHead
    kind: Literal["head"] = "head"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    most: int = Field(ge=1, le=1 << 12)
    epsilon: float = Field(ge=0.0025, le=60.0)  # half of it is that of geometric noise, from 0.001 to 30
    examples: ClassVar = ({"first": 1, "bits": 10, "most": 5, "epsilon": 2.0},)

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    def check(self, result: CountedHead) -> None:
        items = result.items
        if len(items) != len(result.counts) or len(set(items)) != len(items) or len(items) > self.most:
            raise BadMessage(f"{self.most} different items at most, each with a count, were asked for")
        if any(item >> self.bits for item in items):
            raise BadMessage(f"an item must have {self.bits} bits at most")
        if result.people < 1:
            raise BadMessage(f"people must be at least 1, found {result.people}")
