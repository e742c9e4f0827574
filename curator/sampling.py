"""Exact independent draws from the reweighed sample mu, by rejection against its present maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.arrays import AnyArray, Floats, Indices, Labels, Words
from common.errors import BadData
from common.kernels import njit
from common.randomness import RandomSource
from common.records import Records

MOST_RECORDS = (1 << 32) - 1
LEAST_ACCEPTANCE = 1 / 256
"""Below this share of accepted proposals, an inverse table (8 bytes a record) costs less than rejection."""
_WORDS = 1 << 16
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@dataclass(frozen=True, repr=False, eq=False)
class Density:
    """A law on n records: mu_i proportional to ``p_i = exp(eta * min(scores_i - cut, 0))``, in (0, 1].

    That is every law that the curator's weights can have: the multiplicative weights ``exp(eta *
    scores_i)``, flat from ``cut`` upwards. A cut at (or above) the highest score leaves them as they are.

    Attributes
    ----------
    scores
        Shape (n,): unsigned counts, or float64. Not copied.
    eta
        Positive.
    cut
        Score from which on the law is flat.
    people
        For counts: shape (levels,), how many records have each count. None for real scores.
    """

    scores: AnyArray
    eta: float
    cut: float
    people: Indices | None

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def top(self) -> float:
        """Score from which p = 1: the cut, or the highest score if that is less."""
        highest = float(self.scores.max()) if self.people is None else float(np.flatnonzero(self.people)[-1])
        return min(self.cut, highest)

    @cached_property
    def thresholds(self) -> Words:
        """For counts: the 64-bit word up to which a proposal with that count is accepted, rounded up.

        Rounding up can only lower the probability of the flat part, where mu is largest: the private side.
        """
        levels = np.arange(0 if self.people is None else len(self.people), dtype=np.float64)
        chances = np.exp(self.eta * np.minimum(levels - self.top, 0.0))
        return np.array([min(max(math.ceil(p * 2.0**64), 1), 1 << 64) - 1 for p in chances], dtype=np.uint64)

    def relative(self, rows: Indices) -> Floats:
        """Return p of the given rows, float64."""
        return np.exp(self.eta * np.minimum(self.scores[rows] - self.top, 0.0))

    @cached_property
    def acceptance(self) -> float:
        """Mean of p: the share of uniform proposals that are accepted."""
        if self.people is None:
            return _mean_chance(self.scores, self.eta, self.top)
        return float(self.people @ (self.thresholds * 2.0**-64)) / len(self)


class Sampler:
    """Draws of whole records from mu. What a learner gets to see of the private sample.

    Every draw is independent and exact up to the 64-bit rounding of :attr:`Density.thresholds`; the
    randomness is the keystream of the source alone: the same source gives the same draws.

    Parameters
    ----------
    records
        The private sample, n records.
    density
        mu, over the same n records.

    Raises
    ------
    BadData
        If there are no records, 2^32 or more, or not as many as the density has.
    """

    def __init__(self, records: Records, density: Density) -> None:
        if not 1 <= len(records) <= MOST_RECORDS:
            raise BadData(f"a sample must hold between 1 and {MOST_RECORDS} records, found {len(records)}")
        if len(density) != len(records):
            raise BadData(f"{len(density)} weights do not belong to {len(records)} records")
        self._records = records
        self._density = density

    def __repr__(self) -> str:
        return f"Sampler({self._records!r})"

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self._records.dimension

    def indices(self, count: int, source: RandomSource) -> Indices:
        """Draw ``count`` row numbers independently from mu, int64."""
        chosen = np.empty(count, dtype=np.int64)
        if self._density.acceptance < LEAST_ACCEPTANCE:
            return self._inverted(count, source)
        filled = 0
        while filled < count:
            need = int((count - filled) / self._density.acceptance * 1.02) + 32
            filled = self._propose(source.words(min(need, _WORDS)), chosen, filled)
        return chosen

    def draws(self, count: int, source: RandomSource) -> Records:
        """Draw ``count`` records independently from mu."""
        return self._gather(self.indices(count, source))

    def blocks(self, count: int, size: int, source: RandomSource) -> Iterator[Records]:
        """Yield ``count`` independent draws in blocks of ``size`` (the last may be shorter)."""
        for start in range(0, count, size):
            yield self.draws(min(size, count - start), source)

    def _propose(self, words: Words, chosen: Indices, filled: int) -> int:
        density = self._density
        if density.people is None:
            return _accept_real(words, density.scores, density.eta, density.top, chosen, filled)
        return _accept_counted(words, density.scores, density.thresholds, chosen, filled)

    def _gather(self, rows: Indices) -> Records:
        features = np.empty((len(rows), self.dimension), dtype=self._records.features.dtype)
        labels = np.empty(len(rows), dtype=np.int8)
        _gather(self._records.features, self._records.labels, rows, features, labels)
        return Records(features, labels)

    @cached_property
    def _stairs(self) -> Indices:
        """Cumulated integer weights, below 2^63: the inverse table of a law too uneven for rejection."""
        height = float(1 << (62 - len(self._density).bit_length()))
        stairs = np.empty(len(self._density), dtype=np.int64)
        _stack(self._density.scores, self._density.eta, self._density.top, height, stairs)
        return stairs

    def _inverted(self, count: int, source: RandomSource) -> Indices:
        drawn = source.integers(int(self._stairs[-1]), count)
        return np.searchsorted(self._stairs, drawn, side="right").astype(np.int64)


@njit
def _accept_counted(words: Words, scores: AnyArray, thresholds: Words, chosen: Indices, filled: int) -> int:
    """Fill ``chosen`` from ``filled`` on with accepted proposals; return how far it is filled.

    One word a proposal: the low half picks the row (Lemire's exact multiply-and-shift), the high half is
    compared with the high half of the threshold; the next word decides the 2^-32 of cases where these are
    equal.
    """
    n = np.uint64(len(scores))
    biased = (np.uint64(1) << _32) % n
    wanted = len(chosen)
    k = 0
    while k < len(words) - 1 and filled < wanted:
        word = words[k]
        k += 1
        product = (word & _LOW) * n
        row = product >> _32
        threshold = thresholds[scores[row]]
        high = word >> _32
        accepted = bool(high < (threshold >> _32))
        if high == (threshold >> _32):
            accepted = bool((words[k] >> _32) <= (threshold & _LOW))
            k += 1
        # Written whether accepted or not: a branch here would be mispredicted, and would wait for memory.
        chosen[filled] = np.int64(row)
        filled += int(accepted and (product & _LOW) >= biased)
    return filled


@njit
def _accept_real(words: Words, scores: Floats, eta: float, top: float, chosen: Indices, filled: int) -> int:
    """Do the same for real scores, two words a proposal."""
    n = np.uint64(len(scores))
    biased = (np.uint64(1) << _32) % n
    wanted = len(chosen)
    k = 0
    while k < len(words) - 1 and filled < wanted:
        product = (words[k] & _LOW) * n
        row = product >> _32
        chance = np.exp(eta * min(scores[row] - top, 0.0))
        uniform = np.float64(words[k + 1] >> np.uint64(11)) * 2.0**-53
        k += 2
        chosen[filled] = np.int64(row)
        filled += int(uniform < chance and (product & _LOW) >= biased)
    return filled


@njit
def _mean_chance(scores: Floats, eta: float, top: float) -> float:
    total = 0.0
    for score in scores:
        total += np.exp(eta * min(score - top, 0.0))
    return total / len(scores)


@njit
def _stack(scores: AnyArray, eta: float, top: float, height: float, stairs: Indices) -> None:
    total = np.int64(0)
    for i in range(len(scores)):
        total += np.int64(np.ceil(height * np.exp(eta * min(scores[i] - top, 0.0))))
        stairs[i] = total


@njit
def _gather(features: AnyArray, labels: Labels, rows: Indices, some_features: AnyArray, some_labels: Labels) -> None:
    width = features.shape[1]
    for k in range(len(rows)):
        row = rows[k]
        some_labels[k] = labels[row]
        for j in range(width):
            some_features[k, j] = features[row, j]
