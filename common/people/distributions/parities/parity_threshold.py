"""People with a parity of some bits and a threshold of a number: side by side, or added up."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Indices, Words
from common.numerics import counter
from common.numerics.bits import bits_of, pack
from common.people.distributions.base import DISTRIBUTIONS, Distribution
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.records import Records

_UNIT = 2.0**-53


class _ParityThreshold(Distribution):
    """x uniform in {0,1}^c; y = floor(2^b u^power) in {0,1}^b for a uniform u in (0, 1).

    Attributes
    ----------
    c
        Length of x, 1 to 128.
    b
        Length of y, 1 to 52.
    secret
        k, as the features of x that it sums up.
    threshold
        t: Thr(y) = 1 iff y >= t.
    power
        1: y is uniform; more: it is often small.
    """

    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    secret: FeatureSet
    threshold: int = Field(ge=0)
    power: float = Field(default=1.0, gt=0, le=8)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of more than 64 bits, with numbers that are often small."""
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
        """Features are 0 or 1."""
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
class ParityAndThreshold(_ParityThreshold):
    """Appendix A of "The power of synergy": (x, y, Par_k(x), Thr_t(y)); the parity is the label, Thr_t(y) a feature.

    See :class:`_ParityThreshold` for x, y and the attributes.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"

    @property
    def dimension(self) -> int:
        """Length of x, of y, and one."""
        return self.c + self.b + 1

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, c + b + 1), uint8 in {0, 1}, and labels."""
        records, y = self._drawn(seed, people)
        above = (y >= np.uint64(self.threshold)).view(np.uint8)
        return Records(np.concatenate([records.features, above[:, None]], axis=1), records.labels)


@DISTRIBUTIONS.register("parity-xor-threshold")
class ParityXorThreshold(_ParityThreshold):
    """Section 3 of "The power of synergy": (x, y, Par_k(x) + Thr_t(y)); the label is the sum over F_2.

    See :class:`_ParityThreshold` for x, y and the attributes.
    """

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"

    @property
    def dimension(self) -> int:
        """Length of x and of y."""
        return self.c + self.b

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, c + b), uint8 in {0, 1}, and labels."""
        records, y = self._drawn(seed, people)
        flipped = np.where(y >= np.uint64(self.threshold), -1, 1).astype(np.int8)
        return Records(records.features, records.labels * flipped)
