"""Labels that are parities: biased (Appendix B of Kohen & Sheffet), and beside or under a threshold."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices, Words
from common.core.values import Word
from common.data.distributions.base import DISTRIBUTIONS, SIDES, Distribution
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.records import Records
from common.numerics import counter
from common.numerics.loops import bits_of, pack


@DISTRIBUTIONS.register("biased-parity")
class BiasedParity(Distribution):
    """People with d independent 0/1 features, labelled +1 iff an odd number of the ``secret`` ones is 1.

    T is uniform: every feature is a fair coin. Under S the first ``biased`` features are 1 with probability
    ``rate`` instead. With a single biased feature of a small rate, S is nearly as bad as chi^2(T||S) allows: a
    record with that feature set, without which the rank is not full, comes once in 4 X (1 - rate) records, and no
    more often than once in 4 X is what Claim B.2 promises.

    Attributes:
        side: Draw from S (``source``) or T (``target``).
        d: Number of features, 1 <= d <= 4096.
        secret: The features of the parity, strictly increasing.
        biased: How many features are biased under S, 0 to d.
        rate: How often each of these is 1 under S.
    """

    name: Literal["biased-parity"] = "biased-parity"
    side: Literal["source", "target"]
    d: int = Field(ge=1, le=4096)
    secret: FeatureSet
    biased: int = Field(default=0, ge=0)
    rate: float = Field(default=0.5, gt=0, lt=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return tuple(cls(side=side, d=70, secret=(0, 3, 66), biased=2, rate=0.2) for side in SIDES)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.secret and self.secret[-1] >= self.d:
            raise ValueError(f"feature {self.secret[-1]} of the secret is not in 0..{self.d - 1}")
        if self.biased > self.d:
            raise ValueError(f"biased = {self.biased} must be at most d = {self.d}")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (4 rate (1 - rate))^-biased."""
        return float((4.0 * self.rate * (1.0 - self.rate)) ** -self.biased)

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (2 min(rate, 1 - rate))^-biased."""
        return float((2.0 * min(self.rate, 1.0 - self.rate)) ** -self.biased)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d), dtype=np.uint8)
        special = np.arange(self.biased if self.side == "source" else 0)
        key = counter.stream(seed, 0 if self.side == "source" else 1)
        counter.fill_bits(key, people, special, np.full(len(special), self.rate), features)
        return Records(features, Parity(features=self.secret).predict(features))

    def density_ratios(self, seed: int, people: Indices) -> Floats:
        """Return the importance weights dT/dS of the people that :meth:`draw` returns, shape (n,)."""
        ones = self.draw(seed, people).features[:, : self.biased].sum(axis=1)
        return np.asarray((0.5 / self.rate) ** ones * (0.5 / (1.0 - self.rate)) ** (self.biased - ones))


_UNIT = 2.0**-53


class _ParityThreshold(Distribution):
    """x uniform in {0,1}^c; y = floor(2^b u^power) in {0,1}^b for a uniform u in (0, 1).

    Attributes:
        c: Length of x, 1 to 128.
        b: Length of y, 1 to 52.
        secret: k, as the features of x that it sums up.
        threshold: t: Thr(y) = 1 iff y >= t.
        power: 1: y is uniform; more: it is often small.
    """

    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    secret: FeatureSet
    threshold: Word = Field(ge=0)
    power: float = Field(default=1.0, gt=0, le=8)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls.parse({"c": 70, "b": 9, "secret": (0, 66), "threshold": 300, "power": 2.0}),)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.secret and self.secret[-1] >= self.c:
            raise ValueError(f"feature {self.secret[-1]} of the secret is not in 0..{self.c - 1}")
        if self.threshold >= 1 << self.b:
            raise ValueError(f"threshold = {self.threshold} is not below 2^{self.b}")
        return self

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    def values(self, records: Records) -> Words:
        """Return y of some people."""
        return pack(records.features[:, self.c : self.c + self.b])

    def _drawn(self, seed: int, people: Indices) -> tuple[Records, Words]:
        """Return x and the bits of y, labelled with the parity of x; and y."""
        words = np.empty((len(people), 3), dtype=np.uint64)
        counter.fill_words(counter.stream(seed, 0), people, words)
        x = np.concatenate([bits_of(words[:, 0], min(self.c, 64)), bits_of(words[:, 1], max(0, self.c - 64))], axis=1)
        u = ((words[:, 2] >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
        y = np.floor(np.ldexp(u**self.power, self.b)).astype(np.uint64)
        features = np.concatenate([x, bits_of(y << np.uint64(64 - self.b), self.b)], axis=1)
        return Records(features, Parity(features=self.secret).predict(x)), y


@DISTRIBUTIONS.register("parity-and-threshold")
class ParityAndThresholdPeople(_ParityThreshold):
    """Appendix A of "The power of synergy": (x, y, Par_k(x), Thr_t(y)); the parity is the label, Thr_t(y) a feature.

    See :class:`_ParityThreshold` for x, y and the attributes.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"

    @property
    def dimension(self) -> int:
        return self.c + self.b + 1

    def draw(self, seed: int, people: Indices) -> Records:
        records, y = self._drawn(seed, people)
        above = (y >= np.uint64(self.threshold)).view(np.uint8)
        return Records(np.concatenate([records.features, above[:, None]], axis=1), records.labels)


@DISTRIBUTIONS.register("parity-xor-threshold")
class ParityXorThresholdPeople(_ParityThreshold):
    """Section 3 of "The power of synergy": (x, y, Par_k(x) + Thr_t(y)); the label is the sum over F_2.

    See :class:`_ParityThreshold` for x, y and the attributes.
    """

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"

    @property
    def dimension(self) -> int:
        return self.c + self.b

    def draw(self, seed: int, people: Indices) -> Records:
        records, y = self._drawn(seed, people)
        flipped = np.where(y >= np.uint64(self.threshold), -1, 1).astype(np.int8)
        return Records(records.features, records.labels * flipped)
