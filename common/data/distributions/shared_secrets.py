"""Secret parities of which each person knows a share: many people share each, or one of very many."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Bits, Indices, Words
from common.core.values import Word
from common.data.distributions.base import DISTRIBUTIONS, Distribution
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.mechanisms.hadamard import parity
from common.local.records import Records
from common.numerics import counter
from common.numerics.kernels import njit
from common.numerics.loops import bits_of


@DISTRIBUTIONS.register("parity-chooses-secret")
class ParityChoosesSecretPeople(Distribution):
    """Definition 5.1 of "The power of synergy": (x, <x, r>, t, (s_{j,t}) for every j in {0,1}^c).

    Features are c uniform bits x, then the bits of t (uniform in 0..shares-1, most significant first), then 2^c bits:
    share t of secret j. The label is +1 iff <x, r> = 1. Secret j is the exclusive or of its ``shares`` shares.

    Attributes:
        c: Length of x, 1 to 16.
        shares: m + 1 of the paper.
        secret: r, as the features of x that it sums up.
        seed: Of the shares, which are independent fair bits.
    """

    name: Literal["parity-chooses-secret"] = "parity-chooses-secret"
    c: int = Field(ge=1, le=16)
    shares: int = Field(ge=2, le=1 << 16)
    secret: FeatureSet
    seed: Word = Field(default=0, ge=0, lt=1 << 62)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
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
        return self.c + self.share_bits + (1 << self.c)

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    def bit(self, which: int) -> int:
        """Return secret j: the exclusive or of all its shares."""
        numbers = np.arange(self.shares)
        return int(np.bitwise_xor.reduce(self._shares(numbers, np.array([which]))[:, 0]))

    def draw(self, seed: int, people: Indices) -> Records:
        return self.draw_columns(seed, people, None)

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
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


@DISTRIBUTIONS.register("one-of-many-parities")
class OneOfManyParitiesPeople(Distribution):
    """Definition 4.1 of "The power of synergy": half of the people hold (x, (<x, r_j>)_j), half (t, s_t).

    Features are the c bits of x, the 2^d bits <x, r_j>, a bit that is 1 if the person holds a share, the bits of t
    (uniform in 0..shares-1, most significant first) and the d bits of s_t. What a person does not hold is 0. All labels
    are +1. The parity that is wanted is number s, the exclusive or of all shares.

    Attributes:
        c: Length of x, 1 to 128.
        d: There are 2^d parities; 1 to 12.
        shares: m + 1 of the paper.
        seed: Of parities and shares, which are independent and uniform.
    """

    name: Literal["one-of-many-parities"] = "one-of-many-parities"
    c: int = Field(ge=1, le=128)
    d: int = Field(ge=1, le=12)
    shares: int = Field(ge=2, le=1 << 16)
    seed: Word = Field(default=0, ge=0, lt=1 << 62)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(c=70, d=3, shares=9),)

    @property
    def share_bits(self) -> int:
        """Length of t."""
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        return self.c + (1 << self.d) + 1 + self.share_bits + self.d

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    def wanted(self) -> int:
        """Return s, the number of the parity that is wanted."""
        return int(np.bitwise_xor.reduce(self._shares(np.arange(self.shares))))

    def parity(self, which: int) -> tuple[int, ...]:
        """Return r_j, as the features of x that it sums up."""
        words = self._parities()[which]
        return tuple(i for i in range(self.c) if (int(words[i >> 6]) >> (63 - (i & 63))) & 1)

    def draw(self, seed: int, people: Indices) -> Records:
        return self.draw_columns(seed, people, None)

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
        chosen = np.arange(self.dimension) if columns is None else columns
        words = np.empty((len(people), 4), dtype=np.uint64)
        counter.fill_words(counter.stream(seed, 0), people, words)
        holds = (words[:, 0] >> np.uint64(63)).astype(np.uint8)
        t = ((words[:, 1] >> np.uint64(32)) * np.uint64(self.shares)) >> np.uint64(32)
        asks = (1 - holds)[:, None]
        begin = self.c + (1 << self.d)
        features = np.zeros((len(people), len(chosen)), dtype=np.uint8)
        x = np.concatenate([bits_of(words[:, 2], min(self.c, 64)), bits_of(words[:, 3], max(0, self.c - 64))], axis=1)
        early, late = chosen < self.c, chosen >= begin
        features[:, early] = (x * asks)[:, chosen[early]]
        labels = chosen[~early & ~late] - self.c
        if len(labels):
            products = np.empty((len(people), len(labels)), dtype=np.uint8)
            _products(words[:, 2:], self._parities()[labels], products)
            features[:, ~early & ~late] = products * asks
        if late.any():
            of_t = bits_of(t << np.uint64(64 - self.share_bits), self.share_bits)
            of_s = bits_of(self._shares(t.astype(np.int64)) << np.uint64(64 - self.d), self.d)
            known = np.concatenate([holds[:, None], of_t * holds[:, None], of_s * holds[:, None]], axis=1)
            features[:, late] = known[:, chosen[late] - begin]
        return Records(features, np.ones(len(people), dtype=np.int8))

    def _shares(self, numbers: Indices) -> Words:
        words = np.empty((len(numbers), 1), dtype=np.uint64)
        counter.fill_words(counter.stream(self.seed, 1), numbers, words)
        return words[:, 0] >> np.uint64(64 - self.d)

    def _parities(self) -> Words:
        words = np.empty((1 << self.d, 2), dtype=np.uint64)
        counter.fill_words(counter.stream(self.seed, 2), np.arange(1 << self.d), words)
        words[:, 0] &= _mask(min(self.c, 64))
        words[:, 1] &= _mask(max(0, self.c - 64))
        return words


def _mask(count: int) -> np.uint64:
    return np.uint64(((1 << count) - 1) << (64 - count))


@njit
def _products(people: Words, parities: Words, products: Bits) -> None:
    for i in range(len(people)):
        for k in range(len(parities)):
            both = (people[i, 0] & parities[k, 0]) ^ (people[i, 1] & parities[k, 1])
            products[i, k] = parity(both)
