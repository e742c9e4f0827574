"""A decision stump: one feature against one threshold."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray
from common.vocabulary.hypotheses.base import HYPOTHESES, Hypothesis
from common.vocabulary.hypotheses.linear import MAX_WEIGHTS, Weight


@HYPOTHESES.register("stump")
class Stump(Hypothesis):
    """h(x) = ``sign`` if x_j > ``threshold`` else ``-sign``.

    Attributes
    ----------
    feature
        j, 0 <= j < 65536.
    threshold
        In [-1e30, 1e30], compared in double precision.
    sign
        -1 or +1.
    """

    kind: Literal["stump"] = "stump"
    feature: int = Field(ge=0, lt=MAX_WEIGHTS)
    threshold: Weight
    sign: Literal[-1, 1]

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of each sign."""
        return (cls(feature=2, threshold=0.1, sign=-1), cls(feature=0, threshold=0.0, sign=1))

    @property
    def min_features(self) -> int:
        """One more than the feature's number."""
        return self.feature + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        """The one feature."""
        return (self.feature,)

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict +1 above the threshold (below it, if the sign is -1)."""
        return np.equal(features[:, self.feature] > np.float64(self.threshold), self.sign > 0)
