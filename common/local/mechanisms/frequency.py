"""Frequency oracles: randomize one item of a public domain, estimate how many hold any item."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.errors import PolicyRefused
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import AnswerKind
from common.numerics.counter import fill_words, stream
from common.numerics.randomness import RandomSource

MAX_LISTED = 1 << 24
"""Largest domain of which all items are estimated at once."""


class FrequencyOracle(LocalRandomizer):
    """A local randomizer for an item v in {0, ..., k-1}: a "pure" protocol of Wang, Blocki, Li and Jha (2017).

    An answer y *supports* some items. It supports the agent's own item with probability p and any other with
    probability q < p, the same for all. If C(v) of n answers support v, then

        f(v) = (C(v)/n - q) / (p - q)

    is an unbiased estimate of the share of agents that hold v. Given their items, C(v) is a sum of independent coins,
    n_v of them with bias p and n - n_v with bias q, so that (Theorem 2 there)

        Var f(v) = (n_v p (1-p) + (n - n_v) q (1-q)) / (n (p-q))^2,   exactly.

    Some oracles need *public* randomness, a word for each agent that everybody knows. p and q are over that as well:
    estimates rest on it. Privacy does not: :attr:`guarantee` holds for every value of the word.
    """

    max_domain: ClassVar[int] = 1 << 64
    """Number of items of the largest domain that it takes."""

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
            items: Shape (n,), uint64; those beyond the domain are taken for its last.
            domain: k, from 2 to 2^64.
            publics: Shape (n,): each agent's public word; any values.

        Returns:
            Shape (n,), of :func:`common.local.packing.answer_type`.
        """

    @abstractmethod
    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        """Return C(v) of each candidate v, int64: time is proportional to answers times candidates at most."""

    def all_supports(self, answers: AnyArray, domain: int, publics: Words) -> Indices:
        """Return C(v) of every item, int64.

        Raises:
            PolicyRefused: If the domain has more than :data:`MAX_LISTED` items.
        """
        return self.supports(answers, domain, publics, np.arange(listed(domain), dtype=np.uint64))

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
        """Return the unbiased estimates f(v) from C(v) of so many answers."""
        p, q = self.rates(domain)
        return np.asarray((supports / max(answers, 1) - q) / (p - q), dtype=np.float64)

    def variance(self, share: float, domain: int) -> float:
        """Return n Var f(v) where the given share of n agents hold v (exact; items are fixed)."""
        p, q = self.rates(domain)
        return (share * p * (1.0 - p) + (1.0 - share) * q * (1.0 - q)) / (p - q) ** 2

    def answer_kind(self, domain: int | None) -> AnswerKind:
        if domain is None:
            raise PolicyRefused(f"mechanism {self.name!r} randomizes an item, the query says a value in [0, 1]")
        symbols = self.symbols(domain)
        return "bit" if symbols == 2 else symbols


def public_words(public: int, slots: Indices) -> Words:
    """Return the public random word of each slot, shape (n,), from a question's public randomness."""
    words = np.empty((len(slots), 1), dtype=np.uint64)
    fill_words(stream(public, 0), slots, words)
    return words[:, 0]


def listed(domain: int) -> int:
    """Return the number of items of a domain of which all are estimated at once; a larger one is refused."""
    if domain > MAX_LISTED:
        raise PolicyRefused(f"at most {MAX_LISTED} items are estimated at once, found {domain}: name candidates")
    return domain


def within(items: Words, domain: int) -> Words:
    """Return the items, those beyond the domain as its last."""
    return np.asarray(np.minimum(items, np.uint64(domain - 1)), dtype=np.uint64)
