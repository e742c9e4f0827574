"""Secrets that many people share: every person knows one share of each, and a record of a parity."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Bits, Indices
from common.numerics import counter
from common.numerics.bits import bits_of
from common.numerics.kernels import njit
from common.people.distributions.base import DISTRIBUTIONS, Distribution
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.records import Records


@DISTRIBUTIONS.register("parity-chooses-secret")
class ParityChoosesSecret(Distribution):
    """Definition 5.1 of "The power of synergy": (x, <x, r>, t, (s_{j,t}) for every j in {0,1}^c).

    Features are c uniform bits x, then the bits of t (uniform in 0..shares-1, most significant first), then 2^c bits:
    share t of secret j. The label is +1 iff <x, r> = 1. Secret j is the exclusive or of its ``shares`` shares.

    Attributes
    ----------
    c
        Length of x, 1 to 16.
    shares
        m + 1 of the paper.
    secret
        r, as the features of x that it sums up.
    seed
        Of the shares, which are independent fair bits.
    """

    name: Literal["parity-chooses-secret"] = "parity-chooses-secret"
    c: int = Field(ge=1, le=16)
    shares: int = Field(ge=2, le=1 << 16)
    secret: FeatureSet
    seed: int = Field(default=0, ge=0, lt=1 << 62)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of 32 secrets."""
        return (cls(c=5, shares=9, secret=(0, 3)),)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.secret and self.secret[-1] >= self.c:
            raise ValueError(f"feature {self.secret[-1]} of the secret is not in 0..{self.c - 1}")
        return self

    @property
    def share_bits(self) -> int:
        """Length of t."""
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        """Length of x, of t, and 2^c."""
        return self.c + self.share_bits + (1 << self.c)

    @property
    def coordinate_bound(self) -> float:
        """Features are 0 or 1."""
        return 1.0

    def bit(self, which: int) -> int:
        """Return secret j: the exclusive or of all its shares."""
        numbers = np.arange(self.shares)
        return int(np.bitwise_xor.reduce(self._shares(numbers, np.array([which]))[:, 0]))

    def draw(self, seed: int, people: Indices) -> Records:
        """Return all features, shape (n, dimension), uint8 in {0, 1}, and labels."""
        return self.draw_columns(seed, people, None)

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
        """Return some features, without drawing the others."""
        wanted = np.arange(self.dimension) if columns is None else columns
        words = np.empty((len(people), 2), dtype=np.uint64)
        counter.fill_words(counter.stream(seed, 0), people, words)
        x = bits_of(words[:, 0], self.c)
        t = ((words[:, 1] >> np.uint64(32)) * np.uint64(self.shares)) >> np.uint64(32)
        known = np.concatenate([x, bits_of(t << np.uint64(64 - self.share_bits), self.share_bits)], axis=1)
        features = np.empty((len(people), len(wanted)), dtype=np.uint8)
        early = wanted < known.shape[1]
        features[:, early] = known[:, wanted[early]]
        features[:, ~early] = self._shares(t.astype(np.int64), wanted[~early] - known.shape[1])
        return Records(features, Parity(features=self.secret).predict(x))

    def _shares(self, numbers: Indices, secrets: Indices) -> Bits:
        """Return share ``numbers[i]`` of secret ``secrets[k]``, shape (n, secrets)."""
        bits = np.empty((len(numbers), len(secrets)), dtype=np.uint8)
        _fill(counter.stream(self.seed, 1), numbers, secrets, bits)
        return bits


@njit
def _fill(key: np.uint64, numbers: Indices, secrets: Indices, bits: Bits) -> None:
    for i in range(len(numbers)):
        begin = counter.start(key, numbers[i])
        for k in range(len(secrets)):
            j = secrets[k]
            bits[i, k] = (counter.word(begin, j >> 6) >> np.uint64(j & 63)) & np.uint64(1)
