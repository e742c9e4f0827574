"""Independent coins, some of which are biased."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Indices
from common.numerics import counter
from common.people.distributions.base import DISTRIBUTIONS, Distribution
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.records import Records


@DISTRIBUTIONS.register("biased-coins")
class BiasedCoins(Distribution):
    """People with d independent 0/1 features: fair coins, but for some that have rates of their own. All labels are +1.

    Attributes
    ----------
    d
        Number of features, 1 <= d <= 65536.
    biased
        Which features are biased, strictly increasing.
    rates
        How often each of these is 1.
    """

    name: Literal["biased-coins"] = "biased-coins"
    d: int = Field(ge=1, le=1 << 16)
    biased: FeatureSet
    rates: tuple[float, ...] = ()

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one with a fair, a rare and a certain feature."""
        return (cls(d=70, biased=(0, 66), rates=(0.2, 1.0)),)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.biased and self.biased[-1] >= self.d:
            raise ValueError(f"feature {self.biased[-1]} is not in 0..{self.d - 1}")
        if len(self.rates) != len(self.biased) or not all(0.0 <= rate <= 1.0 for rate in self.rates):
            raise ValueError(f"{len(self.biased)} biased features need as many rates in [0, 1], found {self.rates}")
        return self

    @property
    def dimension(self) -> int:
        """Number of features, d."""
        return self.d

    @property
    def coordinate_bound(self) -> float:
        """Features are 0 or 1."""
        return 1.0

    def rate(self, feature: int) -> float:
        """Return how often a feature is 1."""
        return self.rates[self.biased.index(feature)] if feature in self.biased else 0.5

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), uint8 in {0, 1}, and labels."""
        features = np.empty((len(people), self.d), dtype=np.uint8)
        chances = np.array(self.rates, dtype=np.float64)
        counter.fill_bits(counter.stream(seed, 0), people, np.array(self.biased, dtype=np.int64), chances, features)
        return Records(features, np.ones(len(people), dtype=np.int8))
