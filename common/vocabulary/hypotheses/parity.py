"""A parity: +1 iff an odd number of some features is set."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Bits
from common.numerics.kernels import njit
from common.vocabulary.hypotheses.base import HYPOTHESES, Hypothesis
from common.vocabulary.hypotheses.features import FeatureSet

MAX_FEATURES = 4096


@HYPOTHESES.register("parity")
class Parity(Hypothesis):
    """h(x) = +1 if an odd number of the given features is above 1/2 (for 0/1 features: is 1), else -1.

    Attributes
    ----------
    features
        0 to 4096 feature numbers, strictly increasing, each below 65536. None at all: always -1.
    """

    kind: Literal["parity"] = "parity"
    features: FeatureSet = Field(max_length=MAX_FEATURES)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of three features, and that of none."""
        return (cls(features=(0, 2, 3)), cls(features=()))

    @property
    def inputs(self) -> tuple[int, ...]:
        """The features of the set."""
        return self.features

    @property
    def min_features(self) -> int:
        """One more than the last feature's number."""
        return self.features[-1] + 1 if self.features else 0

    @cached_property
    def mask(self) -> Bits:
        """The set as a 0/1 vector of shape (least_dimension,), uint8."""
        mask = np.zeros(self.min_features, dtype=np.uint8)
        mask[list(self.features)] = 1
        return mask

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict +1 where the number is odd."""
        if features.dtype != np.uint8:
            features = (features[:, : self.min_features] > 0.5).view(np.uint8)
        odd = np.empty(len(features), dtype=np.bool_)
        _fold(features, self.mask, odd)
        return odd


@njit
def _fold(features: Bits, mask: Bits, odd: AnyArray) -> None:
    """Count the masked features of each row; unlike a sum over F_2, this compiles to wide words."""
    for i in range(len(features)):
        count, row = 0, features[i]
        for j in range(len(mask)):
            count += int((row[j] != 0) & (mask[j] != 0))
        odd[i] = count & 1
