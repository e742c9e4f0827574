"""k-ary randomized response: about the item itself, or about a short hash of it (optimized local hashing)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Indices, Words
from common.core.errors import PolicyRefused
from common.local.mechanisms.frequency import FrequencyOracle, within
from common.local.mechanisms.mechanism import MECHANISMS, MIN_EPSILON, PureMechanism
from common.local.packing import MAX_SYMBOLS, answer_type
from common.numerics.counter import word
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.privacy.theorems.randomized_response import k_ary_response_probability


@MECHANISMS.register("krr")
class KaryResponse(FrequencyOracle, PureMechanism):
    """Answer with the own item with probability p = e^eps/(e^eps + k - 1), else with any other, all alike.

    Every answer has one of two probabilities, p and q = (1-p)/(k-1), for any the item is, and p/q <= e^eps. p is
    rounded down to a whole multiple of 1/2^53, coins and the other items are drawn with integers: exact. An answer
    supports the item that it names. The best oracle where k < 3 e^eps + 2; its variance grows with k (Kairouz, Bonawitz
    and Ramage 2016; Wang et al. 2017).
    """

    max_domain: ClassVar[int] = MAX_SYMBOLS

    name: Literal["krr"] = "krr"

    def symbols(self, domain: int) -> int:
        if not 2 <= domain <= self.max_domain:
            raise PolicyRefused(
                f"mechanism 'krr' names one of 2 to {self.max_domain} items, found {domain}: take olh or hadamard"
            )
        return domain

    def rates(self, domain: int) -> tuple[float, float]:
        truth = k_ary_response_probability(self.epsilon, self.symbols(domain))
        return truth, (1.0 - truth) / (domain - 1)

    def leaves(self, domain: int | None) -> str:
        self.answer_kind(domain)
        truth, other = self.rates(domain or 0)
        return (
            f"The number of one of {domain} items: your own item with probability {truth:.6g}, "
            f"each other one with probability {other:.6g}."
        )

    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> AnyArray:
        return respond(within(items, domain), self.symbols(domain), self.rates(domain)[0], source)

    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        named = np.bincount(answers, minlength=domain)
        return np.asarray(named[candidates.astype(np.int64)], dtype=np.int64)


def respond(symbols: Words, count: int, truth: float, source: RandomSource) -> AnyArray:
    """Tell each of n symbols out of ``count`` with probability ``truth``, else a uniform one of the others.

    Time does not depend on the symbols.
    """
    truthful = source.bernoullis(truth, len(symbols)).view(np.bool_)
    others = source.integers(count - 1, len(symbols))
    own = symbols.astype(np.int64)
    others += others >= own
    return np.where(truthful, own, others).astype(answer_type("bit" if count == 2 else count))


_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_BLOCK = 1 << 10


@MECHANISMS.register("olh")
class LocalHashing(FrequencyOracle, PureMechanism):
    """Hash the item to one of g = about e^eps + 1 buckets, then answer with the bucket by k-ary randomized response.

    The hash is a function that everybody knows; whichever it is, the answer is epsilon-DP. An answer supports every
    item that its hash sends to the bucket named: p = e^eps/(e^eps + g - 1), q = 1/g, for any domain up to 2^64. The
    variance of an item that few hold is 4 e^eps/(e^eps - 1)^2 per answer for the best g, e^eps + 1 (Wang, Blocki, Li
    and Jha 2017, Section 5).

    Each agent's hash is h(v) = floor(g ((a v_high + b v_low + c) mod 2^64 >> 32) / 2^32) for the two halves of v and
    words a, b, c that its public word determines. For uniform words the hashes of two items are independent and uniform
    (multiply-shift: Dietzfelbinger 1996), up to a share g/2^32, and this is all that p, q and the variance need.

    Attributes:
        epsilon: Privacy loss of one answer, in [1e-6, 11].
    """

    name: Literal["olh"] = "olh"
    epsilon: float = Field(ge=MIN_EPSILON, le=math.log(MAX_SYMBOLS - 2))

    @cached_property
    def buckets(self) -> int:
        """The g with the least variance of an item that few hold."""
        near = math.floor(math.exp(self.epsilon)) + 1
        return min((near, near + 1), key=self._variance)

    def _variance(self, buckets: int) -> float:
        truth = k_ary_response_probability(self.epsilon, buckets)
        q = 1.0 / buckets
        return q * (1.0 - q) / (truth - q) ** 2

    def symbols(self, domain: int) -> int:
        return self.buckets

    def rates(self, domain: int) -> tuple[float, float]:
        return k_ary_response_probability(self.epsilon, self.buckets), 1.0 / self.buckets

    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> AnyArray:
        hashed = np.empty(len(items), dtype=np.uint64)
        _hash(within(items, domain), publics, self.buckets, hashed)
        return respond(hashed, self.buckets, self.rates(domain)[0], source)

    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        counts = np.zeros(len(candidates), dtype=np.int64)
        for begin in range(0, len(candidates), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            some = candidates[block]
            _count(answers, publics, self.buckets, some >> _32, some & _LOW, bool((some >> _32).any()), counts[block])
        return counts


@njit
def _bucket(a: np.uint64, b: np.uint64, c: np.uint64, high: np.uint64, low: np.uint64) -> np.uint64:
    return (a * high + b * low + c) >> _32


@njit
def _hash(items: Words, publics: Words, buckets: int, out: Words) -> None:
    for i in range(len(items)):
        a, b, c = word(publics[i], 0), word(publics[i], 1), word(publics[i], 2)
        out[i] = (_bucket(a, b, c, items[i] >> _32, items[i] & _LOW) * np.uint64(buckets)) >> _32


@njit
def _count(
    answers: AnyArray, publics: Words, buckets: int, highs: Words, lows: Words, long: bool, counts: Indices
) -> None:
    """Add up, for each candidate, the answers that support it."""
    g = np.uint64(buckets)
    for i in range(len(answers)):
        a, b, c = word(publics[i], 0), word(publics[i], 1), word(publics[i], 2)
        # Bucket y is an interval of the 32 bits: one comparison, without a product.
        first = ((np.uint64(answers[i]) << _32) + g - np.uint64(1)) // g
        width = (((np.uint64(answers[i]) + np.uint64(1)) << _32) + g - np.uint64(1)) // g - first
        if long:
            for j in range(len(lows)):
                counts[j] += np.int64(_bucket(a, b, c, highs[j], lows[j]) - first < width)
        else:
            for j in range(len(lows)):
                counts[j] += np.int64(((b * lows[j] + c) >> _32) - first < width)
