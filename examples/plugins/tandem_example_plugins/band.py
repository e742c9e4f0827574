"""A distribution: uniform features, and a band of the first in which people are labelled +1."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field

from tandem.extend import DISTRIBUTIONS, SIDES, Distribution, Indices, Records, fill_words, stream


@DISTRIBUTIONS.register("example-band")
class Band(Distribution):
    """People with d features in (0, 1), labelled +1 iff low < x_0 <= high. Under T, x_0 is the square of a uniform.

    Attributes:
        side: Draw from S (``source``) or T (``target``).
        d: Number of features, 1 to 64.
        low, high: The band.
    """

    name: Literal["example-band"] = "example-band"
    side: Literal["source", "target"]
    d: int = Field(ge=1, le=64)
    low: float = Field(default=0.3, ge=0, le=1)
    high: float = Field(default=0.6, ge=0, le=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both sides, S before T."""
        return tuple(cls(side=side, d=3) for side in SIDES)

    @property
    def dimension(self) -> int:
        """Number of features, d."""
        return self.d

    @property
    def coordinate_bound(self) -> float:
        """All lie in [0, 1]."""
        return 1.0

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), float32, and labels: person i is a function of (seed, i) alone."""
        words = np.empty((len(people), self.d), dtype=np.uint64)
        fill_words(stream(seed, SIDES.index(self.side)), people, words)
        features = ((words >> np.uint64(40)) + 0.5) * 2.0**-24
        if self.side == "target":
            features[:, 0] **= 2
        inside = (features[:, 0] > self.low) & (features[:, 0] <= self.high)
        return Records(features.astype(np.float32), np.where(inside, 1, -1).astype(np.int8))
