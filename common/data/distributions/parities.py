"""Parities: biased (Appendix B of Kohen & Sheffet), with or combined with a threshold, and of shared secrets."""

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Bits, Indices, Words
from common.core.values import Word
from common.data.distributions.base import DISTRIBUTIONS, PairedDistribution, UnitDistribution, of_both_sides
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.mechanisms.frequency import parity
from common.local.records import Records
from common.numerics import counter
from common.numerics.kernels import njit
from common.numerics.loops import bits_of, pack


def _check_secret(secret: tuple[int, ...], features: int) -> None:
    if secret and secret[-1] >= features:
        raise ValueError(f"feature {secret[-1]} of the secret is not in 0..{features - 1}")


@DISTRIBUTIONS.register("biased-parity")
class BiasedParity(UnitDistribution, PairedDistribution):
    """People with d independent 0/1 features, labelled +1 iff an odd number of the ``secret`` ones is 1.

    T is uniform: every feature is a fair coin. Under S the first ``biased`` features are 1 with probability ``rate``
    instead. With one such feature of a small rate, S is nearly as bad as chi^2(T||S) allows (Claim B.2).
    """

    feature_type: ClassVar = np.uint8
    name: Literal["biased-parity"] = "biased-parity"
    d: int = Field(ge=1, le=4096)
    secret: FeatureSet
    biased: int = Field(default=0, ge=0)
    rate: float = Field(default=0.5, gt=0, lt=1)

    examples: ClassVar = of_both_sides(d=70, secret=[0, 3, 66], biased=2, rate=0.2)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_secret(self.secret, self.d)
        if self.biased > self.d:
            raise ValueError(f"biased = {self.biased} must be at most d = {self.d}")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (4 rate (1 - rate))^-biased."""
        return float((4.0 * self.rate * (1.0 - self.rate)) ** -self.biased)

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (2 min(rate, 1 - rate))^-biased."""
        return float((2.0 * min(self.rate, 1.0 - self.rate)) ** -self.biased)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d), dtype=np.uint8)
        special = np.arange(self.biased if self.side == "source" else 0)
        counter.fill_bits(self.key(seed), people, special, np.full(len(special), self.rate), features)
        return Records(features, Parity(features=self.secret).predict(features))


class _ParityThreshold(UnitDistribution):
    """x uniform in {0,1}^c; y = floor(2^b u^power) in {0,1}^b for a uniform u in (0, 1): often small for power > 1.

    ``secret`` is k, given as the features of x in the parity, and ``threshold`` is t: Thr(y) = 1 iff y >= t.
    """

    feature_type: ClassVar = np.uint8
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    secret: FeatureSet
    threshold: Word = Field(ge=0)
    power: float = Field(default=1.0, gt=0, le=8)

    examples: ClassVar = ({"c": 70, "b": 9, "secret": [0, 66], "threshold": 300, "power": 2.0},)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_secret(self.secret, self.c)
        if self.threshold >= 1 << self.b:
            raise ValueError(f"threshold = {self.threshold} is not below 2^{self.b}")
        return self

    def values(self, records: Records) -> Words:
        return pack(records.features[:, self.c : self.c + self.b])

    def _sample(self, seed: int, people: Indices) -> tuple[Records, Words]:
        words = counter.words_of(counter.stream(seed, 0), people, 3)
        x = np.concatenate([bits_of(words[:, 0], min(self.c, 64)), bits_of(words[:, 1], max(0, self.c - 64))], axis=1)
        u = ((words[:, 2] >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        y = np.floor(np.ldexp(u**self.power, self.b)).astype(np.uint64)
        features = np.concatenate([x, bits_of(y << np.uint64(64 - self.b), self.b)], axis=1)
        return Records(features, Parity(features=self.secret).predict(x)), y


@DISTRIBUTIONS.register("parity-and-threshold")
class ParityAndThresholdPeople(_ParityThreshold):
    """Appendix A of "The power of synergy": (x, y, Par_k(x), Thr_t(y)); the parity is the label, Thr_t(y) a feature."""

    name: Literal["parity-and-threshold"] = "parity-and-threshold"

    @property
    def dimension(self) -> int:
        return self.c + self.b + 1

    def draw(self, seed: int, people: Indices) -> Records:
        records, y = self._sample(seed, people)
        above = (y >= np.uint64(self.threshold)).view(np.uint8)
        return Records(np.concatenate([records.features, above[:, None]], axis=1), records.labels)


@DISTRIBUTIONS.register("parity-xor-threshold")
class ParityXorThresholdPeople(_ParityThreshold):
    """Section 3 of "The power of synergy": (x, y, Par_k(x) + Thr_t(y)); the label is the sum over F_2."""

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"

    @property
    def dimension(self) -> int:
        return self.c + self.b

    def draw(self, seed: int, people: Indices) -> Records:
        records, y = self._sample(seed, people)
        flipped = np.where(y >= np.uint64(self.threshold), -1, 1).astype(np.int8)
        return Records(records.features, records.labels * flipped)


class _Shared(UnitDistribution):
    """Distributions of secret shares: ``shares`` of them, each with its number t, all derived from ``seed``."""

    feature_type: ClassVar = np.uint8
    shares: int = Field(ge=2, le=1 << 16)
    seed: Word = Field(default=0, ge=0, lt=1 << 62)

    @property
    def share_bits(self) -> int:
        """Number of bits of t."""
        return (self.shares - 1).bit_length()

    def draw(self, seed: int, people: Indices) -> Records:
        return self.draw_columns(seed, people, None)

    def _numbers(self, words: Words) -> tuple[Indices, Bits]:
        t = ((words >> np.uint64(32)) * np.uint64(self.shares)) >> np.uint64(32)
        return t.astype(np.int64), bits_of(t << np.uint64(64 - self.share_bits), self.share_bits)


@DISTRIBUTIONS.register("parity-chooses-secret")
class ParityChoosesSecretPeople(_Shared):
    """Definition 5.1 of "The power of synergy": (x, <x, r>, t, (s_{j,t}) for every j in {0,1}^c).

    Features are c uniform bits x, then the bits of t (uniform in 0..shares-1, most significant first), then 2^c bits:
    share t of secret j. The label is +1 iff <x, r> = 1. Secret j is the exclusive or of its ``shares`` shares.
    The shares are independent fair bits derived from ``seed``; ``secret`` is r, given as the features of x in <x, r>.
    """

    name: Literal["parity-chooses-secret"] = "parity-chooses-secret"
    c: int = Field(ge=1, le=16)
    secret: FeatureSet

    examples: ClassVar = ({"c": 5, "shares": 9, "secret": [0, 3]},)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_secret(self.secret, self.c)
        return self

    @property
    def dimension(self) -> int:
        return self.c + self.share_bits + (1 << self.c)

    def bit(self, which: int) -> int:
        """Return secret j: the exclusive or of all its shares."""
        numbers = np.arange(self.shares)
        return int(np.bitwise_xor.reduce(self._shares(numbers, np.array([which]))[:, 0]))

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
        chosen = np.arange(self.dimension) if columns is None else columns
        words = counter.words_of(counter.stream(seed, 0), people, 2)
        x = bits_of(words[:, 0], self.c)
        t, t_bits = self._numbers(words[:, 1])
        leading = np.concatenate([x, t_bits], axis=1)
        features = np.empty((len(people), len(chosen)), dtype=np.uint8)
        early = chosen < leading.shape[1]
        features[:, early] = leading[:, chosen[early]]
        features[:, ~early] = self._shares(t, chosen[~early] - leading.shape[1])
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
class OneOfManyParitiesPeople(_Shared):
    """Definition 4.1 of "The power of synergy": half of the people hold (x, (<x, r_j>)_j), half (t, s_t).

    Features are the c bits of x, the 2^d bits <x, r_j>, a bit that is 1 if the person holds a share, the bits of t
    (uniform in 0..shares-1, most significant first) and the d bits of s_t. Features of the half that a person does not
    hold are 0. All labels are +1. The parity to find is number s, the exclusive or of all shares.
    Parities and shares are independent and uniform, and derived from ``seed``.
    """

    name: Literal["one-of-many-parities"] = "one-of-many-parities"
    c: int = Field(ge=1, le=128)
    d: int = Field(ge=1, le=12)

    examples: ClassVar = ({"c": 70, "d": 3, "shares": 9},)

    @property
    def dimension(self) -> int:
        return self.c + (1 << self.d) + 1 + self.share_bits + self.d

    def target_index(self) -> int:
        """Return s, the number of the parity to find."""
        return int(np.bitwise_xor.reduce(self._shares(np.arange(self.shares))))

    def parity(self, which: int) -> tuple[int, ...]:
        """Return r_j as the features of x in the parity."""
        words = self._parities()[which]
        return tuple(i for i in range(self.c) if (int(words[i >> 6]) >> (63 - (i & 63))) & 1)

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
        chosen = np.arange(self.dimension) if columns is None else columns
        words = counter.words_of(counter.stream(seed, 0), people, 4)
        holds = (words[:, 0] >> np.uint64(63)).astype(np.uint8)
        t, t_bits = self._numbers(words[:, 1])
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
            s_bits = bits_of(self._shares(t) << np.uint64(64 - self.d), self.d)
            trailing = np.concatenate([holds[:, None], t_bits * holds[:, None], s_bits * holds[:, None]], axis=1)
            features[:, late] = trailing[:, chosen[late] - begin]
        return Records(features, np.ones(len(people), dtype=np.int8))

    def _shares(self, numbers: Indices) -> Words:
        return counter.words_of(counter.stream(self.seed, 1), numbers, 1)[:, 0] >> np.uint64(64 - self.d)

    def _parities(self) -> Words:
        words = counter.words_of(counter.stream(self.seed, 2), np.arange(1 << self.d), 2)
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
