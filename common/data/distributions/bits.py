"""Bits: biased coins without labels, sparse conjunctions (Section 4 of Kohen & Sheffet), items of a large domain."""

from functools import cached_property
from math import prod
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from common.core.arrays import Floats, Indices, Words
from common.core.values import Value, Word
from common.data.distributions.base import DISTRIBUTIONS, PairedDistribution, UnitDistribution, of_both_sides
from common.local.hypotheses.rules import FeatureSet
from common.local.records import Records
from common.numerics import counter
from common.numerics.loops import bits_of


def _shares(shares: tuple[float, ...]) -> tuple[float, ...]:
    if not abs(sum(shares) - 1.0) < 1e-9:
        raise ValueError(f"the shares of all values add up to 1, found {sum(shares):g}")
    return shares


Shares = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=2, max_length=64), AfterValidator(_shares)
]
"""The share of each of 2 to 64 values."""


@DISTRIBUTIONS.register("biased-coins")
class BiasedCoins(UnitDistribution):
    """People with d independent 0/1 features: fair coins, but for the ``biased`` ones, which are 1 at these rates.

    All labels are +1.
    """

    feature_type: ClassVar = np.uint8
    name: Literal["biased-coins"] = "biased-coins"
    d: int = Field(ge=1, le=1 << 16)
    biased: FeatureSet
    rates: tuple[float, ...] = ()

    examples: ClassVar = ({"d": 70, "biased": [0, 66], "rates": [0.2, 1.0]},)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.biased and self.biased[-1] >= self.d:
            raise ValueError(f"feature {self.biased[-1]} is not in 0..{self.d - 1}")
        if len(self.rates) != len(self.biased) or not all(0.0 <= rate <= 1.0 for rate in self.rates):
            raise ValueError(f"{len(self.biased)} biased features need as many rates in [0, 1], found {self.rates}")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    def rate(self, feature: int) -> float:
        return self.rates[self.biased.index(feature)] if feature in self.biased else 0.5

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d), dtype=np.uint8)
        chances = np.array(self.rates, dtype=np.float64)
        counter.fill_bits(counter.stream(seed, 0), people, np.array(self.biased, dtype=np.int64), chances, features)
        return Records(features, np.ones(len(people), dtype=np.int8))


@DISTRIBUTIONS.register("categories")
class Categories(UnitDistribution):
    """People who each have one of k values, with these shares; feature x is 1 for value x alone. All labels are +1."""

    feature_type: ClassVar = np.uint8
    name: Literal["categories"] = "categories"
    shares: Shares

    examples: ClassVar = ({"shares": [0.2, 0.5, 0.3]},)

    @property
    def dimension(self) -> int:
        return len(self.shares)

    def draw(self, seed: int, people: Indices) -> Records:
        values = drawn(np.array(self.shares), seed, people)
        features = (values[:, None] == np.arange(self.dimension)).astype(np.uint8)
        return Records(features, np.ones(len(people), dtype=np.int8))


def drawn(shares: Floats, seed: int, people: Indices) -> Indices:
    """Draw each person's value from values with these shares, shape (n,)."""
    u = (counter.words_of(counter.stream(seed, 0), people, 1)[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.minimum(np.searchsorted(np.cumsum(shares), u, side="right"), len(shares) - 1)


class Rate(Value):
    """Features that are not fair coins: how often each of them is 1 under S and under T."""

    features: tuple[int, ...] = Field(min_length=1)
    source: float = Field(gt=0, lt=1)
    target: float = Field(gt=0, lt=1)


@DISTRIBUTIONS.register("sparse-conjunction")
class SparseConjunction(UnitDistribution, PairedDistribution):
    """People with d independent 0/1 features, labelled +1 iff the two features ``truth`` are both 1.

    All features are fair coins except those in ``rates``. If a feature of the truth and another one are both
    nearly always 1 under S, a conjunction with the other one has a small loss under S. If T is different, its
    loss there is larger, which cannot be seen from S alone.
    """

    feature_type: ClassVar = np.uint8
    name: Literal["sparse-conjunction"] = "sparse-conjunction"
    d: int = Field(ge=2, le=1 << 16)
    truth: tuple[int, int]
    rates: tuple[Rate, ...] = ()

    examples: ClassVar = of_both_sides(
        d=70,
        truth=[3, 66],
        rates=[{"features": [66], "source": 0.8, "target": 0.5}, {"features": [1], "source": 0.5, "target": 0.6}],
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        special = [feature for rate in self.rates for feature in rate.features]
        if len(set(special)) < len(special):
            raise ValueError("a feature has more than one rate")
        if self.truth[0] == self.truth[1]:
            raise ValueError(f"the truth must have two different features, found {self.truth[0]} twice")
        beyond = [feature for feature in (*self.truth, *special) if not 0 <= feature < self.d]
        if beyond:
            raise ValueError(f"feature {beyond[0]} is not in 0..{self.d - 1}")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = product of q^2/p + (1-q)^2/(1-p), rates p under S, q under T."""
        pq = [(rate.source, rate.target, len(rate.features)) for rate in self.rates]
        return prod((q**2 / p + (1.0 - q) ** 2 / (1.0 - p)) ** count for p, q, count in pq)

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = product of max(q/p, (1-q)/(1-p))."""
        pq = [(rate.source, rate.target, len(rate.features)) for rate in self.rates]
        return prod(max(q / p, (1.0 - q) / (1.0 - p)) ** count for p, q, count in pq)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d), dtype=np.uint8)
        rates = [(feature, getattr(rate, self.side)) for rate in self.rates for feature in rate.features]
        special = np.array([feature for feature, _ in rates], dtype=np.int64)
        chances = np.array([chance for _, chance in rates], dtype=np.float64)
        counter.fill_bits(self.key(seed), people, special, chances, features)
        first, second = self.truth
        return Records(features, np.where(features[:, first] & features[:, second], np.int8(1), np.int8(-1)))


@DISTRIBUTIONS.register("zipf-items")
class ZipfItems(UnitDistribution):
    """Each person holds one of ``items`` strings of b bits, the r-th with probability proportional to r^-power.

    The strings are a hash of the seed. Features are the bits, most significant first; all labels are +1.

    With ``pairs`` = (p, u) a string is a query, its first p bits, and a URL, and each query has u URLs: the u-th of the
    q-th query is held with probability proportional to (q u)^-power.
    """

    feature_type: ClassVar = np.uint8
    name: Literal["zipf-items"] = "zipf-items"
    b: int = Field(ge=8, le=64)
    items: int = Field(ge=1, le=1 << 20)
    power: float = Field(default=1.0, gt=0, le=8)
    seed: Word = Field(default=0, ge=0, lt=1 << 62)
    pairs: tuple[int, int] | None = Field(default=None, exclude_if=lambda pairs: pairs is None)

    examples: ClassVar = ({"b": 64, "items": 50}, {"b": 40, "items": 20, "pairs": [16, 4]})

    @model_validator(mode="after")
    def _whole_queries(self) -> Self:
        if self.pairs and not (0 < self.pairs[0] < self.b and self.pairs[1] > 0 and self.items % self.pairs[1] == 0):
            raise ValueError(
                f"pairs are bits of the query, below {self.b}, and the URLs of each, of {self.items} pairs"
            )
        return self

    @property
    def dimension(self) -> int:
        return self.b

    @cached_property
    def shares(self) -> Floats:
        ranks = np.arange(self.items)
        weights = (ranks + 1.0) ** -self.power
        if self.pairs is not None:
            urls = self.pairs[1]
            weights = ((ranks // urls + 1.0) * (ranks % urls + 1.0)) ** -self.power
        return np.asarray(weights / weights.sum())

    @cached_property
    def strings(self) -> Words:
        """The strings as integers, the most frequent first, shape (items,). Some may be equal by chance."""
        words = counter.words_of(counter.stream(self.seed, 1), np.arange(self.items), 1)
        strings = words[:, 0] >> np.uint64(64 - self.b)
        if self.pairs is None:
            return strings
        behind = np.uint64(self.b - self.pairs[0])
        first = strings[np.arange(self.items) // self.pairs[1] * self.pairs[1]]  # all URLs of a query share its bits
        return first >> behind << behind | strings & (np.uint64(1) << behind) - np.uint64(1)

    def draw(self, seed: int, people: Indices) -> Records:
        ranks = drawn(self.shares, seed, people)
        features = bits_of(self.strings[ranks] << np.uint64(64 - self.b), self.b)
        return Records(features, np.ones(len(people), dtype=np.int8))
