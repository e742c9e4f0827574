"""The values that many people hold, and noisy counts of their holders among other people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Indices, Words
from common.local.mechanisms.laplace import Laplace
from common.numerics.randomness import RandomSource
from common.privacy.events import Release
from common.privacy.rounding import down
from curator.mechanisms.base import Mechanism, central
from curator.mechanisms.counting.geometric import noisy_counts
from curator.mechanisms.counting.histogram import listed


@central
@dataclass(frozen=True)
class NoisyHead(Mechanism[Words, tuple[Words, Indices, int]]):
    """Two noisy histograms, of the people at even places (which values?) and at odd ones (how many hold them?).

    Values are one item a person, shape (k,), uint64. *The list* is a function of the histogram of the whole domain with
    two-sided geometric noise in every cell, epsilon/2 each: replacing a record changes two cells by 1, so that is pure
    epsilon-DP. Items with a noisy count of at least a public threshold are listed, the largest first
    (:func:`curator.mechanisms.counting.histogram.listed`, which is within a factor e^{2^-90} of that law; the noise is
    for the double below epsilon/2, and pays for it). *The counts* of the listed items have the same noise. A record is
    in one of the two parts, by its place: both together cost epsilon (parallel composition), and the counts are
    unbiased, since other people chose the list.

    Attributes
    ----------
    bits
        Items are below 2^bits; further bits are cut off.
    most
        How many are listed at most.
    epsilon
        In [0.002, 30].
    """

    bits: int
    most: int
    epsilon: float

    @property
    def price(self) -> Release:
        """Pure epsilon-DP."""
        return Release(epsilon=self.epsilon)

    def apply(self, values: Iterator[Words], source: RandomSource) -> tuple[Words, Indices, int]:
        """Return items, their noisy counts, and among how many people they were counted."""
        held = np.concatenate(list(values)).astype(np.uint64) & np.uint64((1 << self.bits) - 1)
        noise = Laplace(epsilon=down(self.epsilon / 2.0))
        items = listed(held[::2], self.bits, self.most, noise, source.derive("list"))
        others = np.sort(held[1::2])
        counts = np.searchsorted(others, items, side="right") - np.searchsorted(others, items, side="left")
        noisy = noisy_counts(counts, noise.epsilon, source.derive("counts"))
        return items, noisy, len(others)
