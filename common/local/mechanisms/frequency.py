"""Frequency oracles: randomize one item of a public domain, and estimate each item's share; krr, olh and hadamard."""

import math
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Bits, Floats, Indices, Words
from common.core.errors import PolicyRefused
from common.local.mechanisms.mechanism import MECHANISMS, MIN_EPSILON, LocalRandomizer, PureMechanism
from common.local.packing import MAX_SYMBOLS, AnswerKind, answer_type
from common.numerics.counter import stream, word, words_of
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.privacy.rounding import EXP_BITS, exp_below
from common.privacy.theorems.randomized_response import k_ary_response_probability

MAX_LISTED = 1 << 24  # largest number of items that are estimated at once


class FrequencyOracle(LocalRandomizer):
    """A local randomizer for an item v in {0, ..., k-1}: a "pure" protocol of Wang, Blocki, Li and Jha (2017).

    An answer y *supports* some items. It supports the agent's own item with probability p and any other with
    probability q < p, the same for all. If C(v) of n answers support v, then

        f(v) = (C(v)/n - q) / (p - q)

    is an unbiased estimate of the share of agents that hold v. Given their items, C(v) is a sum of independent coins,
    n_v of them with bias p and n - n_v with bias q, so that (Theorem 2 there)

        Var f(v) = (n_v p (1-p) + (n - n_v) q (1-q)) / (n (p-q))^2,   exactly.

    Some oracles need *public* randomness: a word for each agent that all parties know. p and q are probabilities over
    that word, too, so estimates depend on its distribution. Privacy does not: :attr:`guarantee` holds for every word.
    """

    max_domain: ClassVar[int] = 1 << 64  # number of items of the largest domain that it supports

    @abstractmethod
    def symbols(self, domain: int) -> int:
        """Return the number of different answers for a domain of k items."""

    @abstractmethod
    def rates(self, domain: int) -> tuple[float, float]:
        """Return p and q."""

    @abstractmethod
    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> AnyArray:
        """Randomize each of n items independently.

        Args:
            items: Shape (n,), uint64; an item beyond the domain is replaced by the domain's last.
            domain: k, from 2 to 2^64.
            publics: Shape (n,): each agent's public word; any values.

        Returns:
            Shape (n,), of :func:`common.local.packing.answer_type`.
        """

    @abstractmethod
    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        """Return C(v) of each candidate v, int64; time is at most proportional to answers times candidates."""

    def extended_supports(
        self, answers: AnyArray, domain: int, publics: Words, prefixes: Words, length: int
    ) -> Indices:
        """Return C(v) of every item v that continues one of k prefixes by ``length`` bits, shape (k, 2^length), int64.

        Column e of a prefix's row is the item (prefix << length) + e.
        """
        ends = np.arange(1 << length, dtype=np.uint64)
        items = np.asarray((prefixes[:, None] << np.uint64(length)) + ends, dtype=np.uint64)
        return self.supports(answers, domain, publics, items.reshape(-1)).reshape(items.shape)

    def shares(self, supports: Indices, answers: int, domain: int) -> Floats:
        """Return the unbiased estimates f(v) from C(v) and the number of answers."""
        p, q = self.rates(domain)
        return np.asarray((supports / max(answers, 1) - q) / (p - q), dtype=np.float64)

    def variance(self, share: float, domain: int) -> float:
        """Return n Var f(v) if the given share of n agents hold v (exact; items are fixed)."""
        p, q = self.rates(domain)
        return (share * p * (1.0 - p) + (1.0 - share) * q * (1.0 - q)) / (p - q) ** 2

    def answer_kind(self, domain: int | None) -> AnswerKind:
        if domain is None:
            raise PolicyRefused(f"mechanism {self.name!r} randomizes an item, the query says a value in [0, 1]")
        symbols = self.symbols(domain)
        return "bit" if symbols == 2 else symbols


def public_words(public: int, slots: Indices) -> Words:
    """Return the public random word of each slot, shape (n,), from a question's public randomness."""
    return words_of(stream(public, 0), slots, 1)[:, 0]


def within(items: Words, domain: int) -> Words:
    """Return the items, with those beyond the domain replaced by its last."""
    return np.asarray(np.minimum(items, np.uint64(domain - 1)), dtype=np.uint64)


@MECHANISMS.register("krr")
class KaryResponse(FrequencyOracle, PureMechanism):
    """Report the own item with probability p = e^eps/(e^eps + k - 1), else one of the others uniformly at random.

    For any item, every answer has one of two probabilities, p and q = (1-p)/(k-1), and p/q <= e^eps. p is rounded down
    to a whole multiple of 1/2^53, and coins and other items are drawn with integers, so sampling is exact. An answer
    supports the item that it names. This is the best oracle if k < 3 e^eps + 2; its variance grows with k (Kairouz,
    Bonawitz and Ramage 2016; Wang et al. 2017).
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
        counts = np.bincount(answers, minlength=domain)
        return np.asarray(counts[candidates.astype(np.int64)], dtype=np.int64)


def respond(symbols: Words, count: int, truth: float, source: RandomSource) -> AnyArray:
    """Return each of n symbols out of ``count`` with probability ``truth``, else a uniform one of the others.

    The running time does not depend on the symbols.
    """
    truthful = source.bernoullis(truth, len(symbols)).view(np.bool_)
    replacements = source.integers(count - 1, len(symbols))
    values = symbols.astype(np.int64)
    replacements += replacements >= values
    return np.where(truthful, values, replacements).astype(answer_type("bit" if count == 2 else count))


_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_BLOCK = 1 << 10


@MECHANISMS.register("olh")
class LocalHashing(FrequencyOracle, PureMechanism):
    """Hash the item to one of g = about e^eps + 1 buckets, then answer with the bucket by k-ary randomized response.

    The hash function is public; the answer is epsilon-DP for every hash function. An answer supports every item that
    its hash maps to the named bucket: p = e^eps/(e^eps + g - 1), q = 1/g, for any domain up to 2^64. The variance for
    an item that few hold is 4 e^eps/(e^eps - 1)^2 per answer for the best g, e^eps + 1 (Wang, Blocki, Li and Jha 2017,
    Section 5).

    Each agent's hash is h(v) = floor(g ((a v_high + b v_low + c) mod 2^64 >> 32) / 2^32) for the two halves of v and
    words a, b, c that its public word determines. For uniform words the hashes of two items are independent and uniform
    (multiply-shift: Dietzfelbinger 1996), up to a share g/2^32; p, q and the variance need nothing else.

    Attributes:
        epsilon: Privacy loss of one answer, in [1e-6, 11].
    """

    name: Literal["olh"] = "olh"
    epsilon: float = Field(ge=MIN_EPSILON, le=math.log(MAX_SYMBOLS - 2))

    @cached_property
    def buckets(self) -> int:
        """The number of buckets g with the least variance for an item that few hold."""
        guess = (exp_below(self.epsilon) >> EXP_BITS) + 1
        return min((guess, guess + 1), key=self._variance)

    def _variance(self, buckets: int) -> float:
        truth = k_ary_response_probability(self.epsilon, buckets)
        q = 1.0 / buckets
        return q * (1.0 - q) / ((truth - q) * (truth - q))

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
            part = candidates[block]
            _count(answers, publics, self.buckets, part >> _32, part & _LOW, bool((part >> _32).any()), counts[block])
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
    g = np.uint64(buckets)
    for i in range(len(answers)):
        a, b, c = word(publics[i], 0), word(publics[i], 1), word(publics[i], 2)
        # Bucket y is an interval of 32-bit values, so one comparison replaces a product.
        first = ((np.uint64(answers[i]) << _32) + g - np.uint64(1)) // g
        width = (((np.uint64(answers[i]) + np.uint64(1)) << _32) + g - np.uint64(1)) // g - first
        if long:
            for j in range(len(lows)):
                counts[j] += np.int64(_bucket(a, b, c, highs[j], lows[j]) - first < width)
        else:
            for j in range(len(lows)):
                counts[j] += np.int64(((b * lows[j] + c) >> _32) - first < width)


_ONE = np.uint64(1)


@MECHANISMS.register("hadamard")
class HadamardResponse(FrequencyOracle, PureMechanism):
    """Answer with one bit of the item's Hadamard code, by randomized response; which bit is public.

    The Hadamard matrix of order 2^b has the entry (-1)^<r, v> in row r and column v, where <,> is the inner product of
    the bits. The agent's row is given by the low b bits of its public word. The answer is <r, v>, truthful with
    probability e^eps/(1 + e^eps): for any row it is Warner's response about a bit. An answer supports the half of the
    items whose entry in that row it equals. For a uniform row two items agree with probability exactly 1/2 (rows of
    the matrix are orthogonal), so p = e^eps/(1 + e^eps) and q = 1/2.

    The variance for an item that few hold is (e^eps + 1)^2/(e^eps - 1)^2 per answer: a quarter more than local hashing
    at epsilon = 1, and the same in the limit of epsilon to 0. But an answer is one bit, and one transform of b 2^b
    steps estimates all items (Acharya, Sun and Zhang 2019; Bassily, Nissim, Stemmer and Thakurta 2017).
    """

    name: Literal["hadamard"] = "hadamard"

    @cached_property
    def truth(self) -> float:
        """Probability of a truthful bit, a whole multiple of 1/2^53."""
        return k_ary_response_probability(self.epsilon, 2)

    def symbols(self, domain: int) -> int:
        return 2

    def rates(self, domain: int) -> tuple[float, float]:
        return self.truth, 0.5

    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> Bits:
        bits = inner_products(within(items, domain), publics).astype(np.uint8)
        return np.asarray(bits ^ source.bernoullis(self.truth, len(items)) ^ 1, dtype=np.uint8)

    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        counts = np.zeros(len(candidates), dtype=np.int64)
        _count_entries(answers, publics, candidates, counts)
        return counts

    def extended_supports(
        self, answers: AnyArray, domain: int, publics: Words, prefixes: Words, length: int
    ) -> Indices:
        """Return the same counts, by one transform of size 2^length for each prefix.

        <r, v> is <r_high, prefix> + <r_low, e> (mod 2), so given the prefix every answer is about e alone. Time is
        proportional to prefixes times (answers + length 2^length).
        """
        sums = np.zeros((len(prefixes), 1 << length), dtype=np.int64)
        for row, prefix in zip(sums, prefixes, strict=True):
            _fold(answers, publics, prefix, np.uint64(length), row)
            walsh_hadamard(row)
        return np.asarray((len(answers) + sums) // 2, dtype=np.int64)


@njit
def parity(word: np.uint64) -> np.uint64:
    """Return whether a word has an odd number of ones."""
    word ^= word >> np.uint64(32)
    word ^= word >> np.uint64(16)
    word ^= word >> np.uint64(8)
    word ^= word >> np.uint64(4)
    word ^= word >> np.uint64(2)
    word ^= word >> np.uint64(1)
    return word & _ONE


def inner_products(items: Words, rows: Words) -> Words:
    """Return <r, v> over F_2 of each item's number v and row r, shape (n,), uint64 in {0, 1}."""
    return np.asarray(np.bitwise_count(items & rows) & np.uint8(1), dtype=np.uint64)


@njit
def _count_entries(answers: AnyArray, rows: Words, candidates: Words, counts: Indices) -> None:
    for i in range(len(answers)):
        row, answer = rows[i], np.uint64(answers[i])
        for j in range(len(candidates)):
            counts[j] += np.int64(parity(candidates[j] & row) == answer)


@njit
def _fold(answers: AnyArray, rows: Words, prefix: np.uint64, length: np.uint64, sums: Indices) -> None:
    low = (_ONE << length) - _ONE
    for i in range(len(answers)):
        flip = parity(prefix & (rows[i] >> length)) ^ np.uint64(answers[i])
        sums[rows[i] & low] += 1 - 2 * np.int64(flip)


@njit
def walsh_hadamard(values: Indices) -> None:
    """Replace values by their Walsh-Hadamard transform, in place; their number is a power of 2."""
    half = 1
    while half < len(values):
        for begin in range(0, len(values), 2 * half):
            for k in range(begin, begin + half):
                first, second = values[k], values[k + half]
                values[k], values[k + half] = first + second, first - second
        half *= 2
