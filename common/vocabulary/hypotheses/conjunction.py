"""A sparse conjunction: +1 iff all of a few features are set."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray
from common.vocabulary.hypotheses.base import HYPOTHESES, Hypothesis
from common.vocabulary.hypotheses.features import FeatureSet

MAX_LITERALS = 64


@HYPOTHESES.register("conjunction")
class Conjunction(Hypothesis):
    """h(x) = +1 if every one of the given features is above 1/2 (for 0/1 features: is 1), else -1.

    Attributes
    ----------
    features
        1 to 64 feature numbers, strictly increasing, each below 65536.
    """

    kind: Literal["conjunction"] = "conjunction"
    features: FeatureSet = Field(min_length=1, max_length=MAX_LITERALS)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of two features."""
        return (cls(features=(1, 3)),)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The features of the set."""
        return self.features

    @property
    def min_features(self) -> int:
        """One more than the last feature's number."""
        return self.features[-1] + 1

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict +1 where all are set."""
        found = np.ones(len(features), dtype=np.bool_)
        for feature in self.features:
            found &= features[:, feature] > 0.5
        return found
