"""Hypotheses that are short rules: a constant, a conjunction, a stump, a parity."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from common.core.arrays import AnyArray, Bits
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis
from common.local.hypotheses.linear import MAX_WEIGHTS, Weight
from common.local.naming import Names
from common.numerics.kernels import njit


def _increasing(features: tuple[int, ...]) -> tuple[int, ...]:
    if any(after <= before for before, after in pairwise(features)):
        raise ValueError("features must be strictly increasing")
    return features


FeatureSet = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_WEIGHTS)], ...], AfterValidator(_increasing)]
"""Feature numbers, strictly increasing, each below 65536: one encoding of each set."""


@HYPOTHESES.register("constant")
class Constant(Hypothesis):
    """h(x) = ``label``: what is left to say when every draw has the same label."""

    kind: Literal["constant"] = "constant"
    label: Literal[-1, 1]
    examples: ClassVar = ({"label": -1}, {"label": 1})

    @property
    def min_features(self) -> int:
        return 0

    def rule(self, names: Names, article: str = "a") -> str:
        return f"the rule that {names.labelled(self.label)} for everybody"

    def positive(self, features: AnyArray) -> AnyArray:
        return np.full(len(features), self.label > 0)


MAX_LITERALS = 64


@HYPOTHESES.register("conjunction")
class Conjunction(Hypothesis):
    """h(x) = +1 if every one of the given features (1 to 64) is above 1/2 (for 0/1 features: is 1), else -1."""

    kind: Literal["conjunction"] = "conjunction"
    features: FeatureSet = Field(min_length=1, max_length=MAX_LITERALS)
    examples: ClassVar = ({"features": [1, 3]},)

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.features

    @property
    def min_features(self) -> int:
        return self.features[-1] + 1

    def positive(self, features: AnyArray) -> AnyArray:
        found = np.ones(len(features), dtype=np.bool_)
        for feature in self.features:
            found &= features[:, feature] > 0.5
        return found


@HYPOTHESES.register("stump")
class Stump(Hypothesis):
    """h(x) = ``sign`` if x_j > ``threshold`` else ``-sign``, j = ``feature``, compared in double precision."""

    kind: Literal["stump"] = "stump"
    feature: int = Field(ge=0, lt=MAX_WEIGHTS)
    threshold: Weight
    sign: Literal[-1, 1]
    examples: ClassVar = ({"feature": 2, "threshold": 0.1, "sign": -1}, {"feature": 0, "threshold": 0.0, "sign": 1})

    @property
    def min_features(self) -> int:
        return self.feature + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.feature,)

    def positive(self, features: AnyArray) -> AnyArray:
        return np.equal(features[:, self.feature] > np.float64(self.threshold), self.sign > 0)


MAX_FEATURES = 4096


@HYPOTHESES.register("parity")
class Parity(Hypothesis):
    """h(x) = +1 if an odd number of the given features (0 to 4096) is above 1/2 (for 0/1 ones: is 1), else -1."""

    kind: Literal["parity"] = "parity"
    features: FeatureSet = Field(max_length=MAX_FEATURES)
    examples: ClassVar = ({"features": [0, 2, 3]}, {"features": []})

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.features

    @property
    def min_features(self) -> int:
        return self.features[-1] + 1 if self.features else 0

    @cached_property
    def mask(self) -> Bits:
        """The set as a 0/1 vector of shape (min_features,), uint8."""
        mask = np.zeros(self.min_features, dtype=np.uint8)
        mask[list(self.features)] = 1
        return mask

    def positive(self, features: AnyArray) -> AnyArray:
        if features.dtype != np.uint8:
            features = (features[:, : self.min_features] > 0.5).view(np.uint8)
        odd = np.empty(len(features), dtype=np.bool_)
        _fold(features, self.mask, odd)
        return odd


@njit
def _fold(features: Bits, mask: Bits, odd: AnyArray) -> None:
    for i in range(len(features)):
        count, row = 0, features[i]
        for j in range(len(mask)):
            count += int((row[j] != 0) & (mask[j] != 0))
        odd[i] = count & 1
