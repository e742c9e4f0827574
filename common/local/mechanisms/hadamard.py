"""Hadamard response: one bit, the sign of a random row of the Hadamard matrix in the item's column."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices, Words
from common.local.mechanisms.frequency import FrequencyOracle, listed, within
from common.local.mechanisms.mechanism import MECHANISMS, PureMechanism
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.privacy.theorems.randomized_response import randomized_response_probability

_ONE = np.uint64(1)


@MECHANISMS.register("hadamard")
class HadamardResponse(FrequencyOracle, PureMechanism):
    """Answer with one bit of the item's Hadamard code, by randomized response; which bit is public.

    The Hadamard matrix of order 2^b has the entry (-1)^<r, v> in row r and column v, <,> the inner product of the bits.
    The agent's row is its public word, of which the low b bits count; the answer is <r, v>, truthful with probability
    e^eps/(1 + e^eps): for any row it is Warner's response about a bit. An answer supports the items whose entry in that
    row it names: half of them. For a uniform row two items agree with probability 1/2 exactly (rows of the matrix are
    orthogonal), so p = e^eps/(1 + e^eps) and q = 1/2.

    The variance of an item that few hold is (e^eps + 1)^2/(e^eps - 1)^2 per answer: a quarter more than local hashing
    at epsilon = 1, the same as epsilon goes to 0; but an answer is one bit, and a transform of 2^b steps each b long
    estimates all items (Acharya, Sun and Zhang 2019; Bassily, Nissim, Stemmer and Thakurta 2017).
    """

    name: Literal["hadamard"] = "hadamard"

    @cached_property
    def truth(self) -> float:
        """Probability of telling the bit truly, a whole multiple of 1/2^53."""
        return randomized_response_probability(self.epsilon)

    def symbols(self, domain: int) -> int:
        return 2

    def rates(self, domain: int) -> tuple[float, float]:
        return self.truth, 0.5

    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> Bits:
        bits = np.empty(len(items), dtype=np.uint8)
        _entries(within(items, domain), publics, bits)
        return np.asarray(bits ^ source.bernoullis(self.truth, len(items)) ^ 1, dtype=np.uint8)

    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        counts = np.zeros(len(candidates), dtype=np.int64)
        _count(answers, publics, candidates, counts)
        return counts

    def all_supports(self, answers: AnyArray, domain: int, publics: Words) -> Indices:
        length, nothing = (listed(domain) - 1).bit_length(), np.zeros(1, dtype=np.uint64)
        return self.extended_supports(answers, domain, publics, nothing, length)[0, :domain]

    def extended_supports(
        self, answers: AnyArray, domain: int, publics: Words, prefixes: Words, length: int
    ) -> Indices:
        """As by definition, by a transform of 2^length steps for each prefix.

        <r, v> is <r_high, prefix> + <r_low, e> (mod 2): given the prefix, every answer is one about e. Time is
        proportional to prefixes times (answers + length 2^length).
        """
        sums = np.zeros((len(prefixes), 1 << length), dtype=np.int64)
        for one, prefix in zip(sums, prefixes, strict=True):
            _fold(answers, publics, prefix, np.uint64(length), one)
            walsh_hadamard(one)
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


@njit
def _entries(items: Words, rows: Words, out: Bits) -> None:
    for i in range(len(items)):
        out[i] = parity(items[i] & rows[i])


@njit
def _count(answers: AnyArray, rows: Words, candidates: Words, counts: Indices) -> None:
    for i in range(len(answers)):
        row, answer = rows[i], np.uint64(answers[i])
        for j in range(len(candidates)):
            counts[j] += np.int64(parity(candidates[j] & row) == answer)


@njit
def _fold(answers: AnyArray, rows: Words, prefix: np.uint64, length: np.uint64, sums: Indices) -> None:
    low = (_ONE << length) - _ONE
    for i in range(len(answers)):
        wrong = parity(prefix & (rows[i] >> length)) ^ np.uint64(answers[i])
        sums[rows[i] & low] += 1 - 2 * np.int64(wrong)


@njit
def walsh_hadamard(values: Indices) -> None:
    """Replace values by their Walsh-Hadamard transform, in place; their number is a power of 2."""
    half = 1
    while half < len(values):
        for begin in range(0, len(values), 2 * half):
            for k in range(begin, begin + half):
                one, other = values[k], values[k + half]
                values[k], values[k + half] = one + other, one - other
        half *= 2
