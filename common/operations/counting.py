"""Operations that count or weigh people: counts, selections, frequent values; reweighing, raking, weighted shares."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats
from common.core.errors import BadMessage
from common.core.values import Word
from common.local.hypotheses.hypothesis import AnyHypothesis
from common.local.hypotheses.linear import PLANE
from common.local.losses import HypothesisLoss, Loss, ScoreCells, Tilt
from common.operations.operation import MAX_WHOLE, OPERATIONS, Natural, Operation, Result, Whole


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


class Reweighed(Result):
    """Nothing: the weights are the curator's own."""


@OPERATIONS.register("reweigh")
class Reweigh(Operation[Reweighed]):
    """Multiply every record's weight by exp(-eta (1 - loss of any hypothesis)). Releases nothing."""

    result: ClassVar = Reweighed
    kind: Literal["reweigh"] = "reweigh"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"
    examples: ClassVar = ({"hypothesis": {"kind": "conjunction", "features": [1, 3]}},)

    @property
    def min_features(self) -> int:
        return self.hypothesis.min_features

    @property
    def reweighs_by(self) -> HypothesisLoss:
        return HypothesisLoss(self.hypothesis, self.loss)


@OPERATIONS.register("rake")
class Rake(Operation[Reweighed]):
    """Multiply every record's weight by exp(-eta (1 - tilt)), the tilt being that of its item. Releases nothing.

    A person's tilt is a function of their record and of this message, so what is proven of reweighing by losses holds.
    """

    result: ClassVar = Reweighed
    kind: Literal["rake"] = "rake"
    tilt: Tilt
    examples: ClassVar = ({"tilt": {"cells": {"hypothesis": PLANE, "cuts": [0.0]}, "parts": [0, 1024, 512, 300]}},)

    @property
    def min_features(self) -> int:
        return self.tilt.cells.min_features

    @property
    def reweighs_by(self) -> Tilt:
        return self.tilt


LEAST_EPSILON = 0.0025  # with it, and with as many items as there may be, noise on the grid can still be drawn


class NoisyMargins(Result):
    """The weighted margins with noise, on a public grid.

    Attributes:
        shares: One an item of the cells, in units, of which ``whole`` make 1: with noise negative, or above that.
        whole: A power of two, which follows from public numbers.
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

    The noise has scale 2 s/epsilon, s a bound on one person's weight: 1/n before the first reweigh, 1/(kappa n) after
    some.
    """

    result: ClassVar = NoisyMargins
    kind: Literal["margins"] = "margins"
    cells: ScoreCells
    epsilon: float = Field(ge=LEAST_EPSILON, le=30.0)
    examples: ClassVar = ({"cells": {"hypothesis": PLANE, "cuts": [0.0, 1.0], "groups": [4]}, "epsilon": 1.0},)

    @property
    def min_features(self) -> int:
        return self.cells.min_features

    def check(self, result: NoisyMargins) -> None:
        if len(result.shares) != self.cells.items:
            raise BadMessage(f"{self.cells.items} shares were asked for, found {len(result.shares)}")
        if result.whole & (result.whole - 1):
            raise BadMessage(f"a share of 1 is a power of two of units, found {result.whole}")
