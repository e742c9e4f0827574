"""Items of a large domain, with Zipf's frequencies."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices, Words
from common.core.values import Word
from common.data.distributions.base import DISTRIBUTIONS, Distribution
from common.local.records import Records
from common.numerics import counter
from common.numerics.loops import bits_of

_UNIT = 2.0**-53


@DISTRIBUTIONS.register("zipf-items")
class ZipfItems(Distribution):
    """People who each hold one of ``items`` strings of b bits, the r-th with probability proportional to r^-power.

    Which strings these are is a hash of the seed. Features are the bits, most significant first; all labels are +1.

    Attributes:
        b: Length of the strings, 8 to 64.
        items: How many there are.
        power: Of Zipf's law.
        seed: Of the strings.
    """

    name: Literal["zipf-items"] = "zipf-items"
    b: int = Field(ge=8, le=64)
    items: int = Field(ge=1, le=1 << 20)
    power: float = Field(default=1.0, gt=0, le=8)
    seed: Word = Field(default=0, ge=0, lt=1 << 62)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(b=64, items=50),)

    @property
    def dimension(self) -> int:
        return self.b

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    @cached_property
    def shares(self) -> Floats:
        """The r-th string's probability, shape (items,)."""
        weights = np.arange(1, self.items + 1) ** -self.power
        return np.asarray(weights / weights.sum())

    @cached_property
    def strings(self) -> Words:
        """The strings as integers, the most frequent first, shape (items,). By chance some may be the same."""
        words = np.empty((self.items, 1), dtype=np.uint64)
        counter.fill_words(counter.stream(self.seed, 1), np.arange(self.items), words)
        return words[:, 0] >> np.uint64(64 - self.b)

    @cached_property
    def _stairs(self) -> Floats:
        return np.asarray(np.cumsum(self.shares))

    def draw(self, seed: int, people: Indices) -> Records:
        words = np.empty((len(people), 1), dtype=np.uint64)
        counter.fill_words(counter.stream(seed, 0), people, words)
        u = (words[:, 0] >> np.uint64(11)).astype(np.float64) * _UNIT
        ranks = np.minimum(np.searchsorted(self._stairs, u, side="right"), self.items - 1)
        features = bits_of(self.strings[ranks] << np.uint64(64 - self.b), self.b)
        return Records(features, np.ones(len(people), dtype=np.int8))
