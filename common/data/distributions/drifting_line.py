"""A linear response whose law differs between two domains: where the inputs are, and what they are worth."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices, Labels, Singles
from common.data.distributions.base import DISTRIBUTIONS, SIDES, Distribution
from common.local.records import Records
from common.numerics import counter
from common.numerics.elementary import cosine
from common.numerics.kernels import njit


@DISTRIBUTIONS.register("drifting-line")
class DriftingLine(Distribution):
    """d inputs in [0, 1] and, as the last feature, a response in [0, 1]; the label is +1 where that is above 1/2.

    ::

        response = clip(1/2 + <w, x - 1/2> + noise z, 0, 1),     z ~ N(0, 1)

    On the target side inputs are uniform and w_j is proportional to cos(j). On the source side the first half of the
    inputs are ``u^skew`` for a uniform u (covariate shift), and w_j is proportional to cos(j + drift) (the labelling
    changes, too: reweighing by the inputs alone cannot repair it). In both, |w| = ``slope``.

    Attributes:
        side: Draw from the source or the target domain.
        d: Number of inputs; records have d + 1 features.
        slope, noise: |w|, and the standard deviation of the noise.
        drift: In radians; 0: w is the same on both sides.
        skew: 1: inputs are the same on both sides.
    """

    name: Literal["drifting-line"] = "drifting-line"
    side: Literal["source", "target"]
    d: int = Field(ge=1, lt=1 << 16)
    slope: float = Field(default=0.8, gt=0, le=10)
    noise: float = Field(default=0.05, ge=0, le=1)
    drift: float = Field(default=0.5, ge=-4, le=4)
    skew: float = Field(default=2.0, gt=0, le=100)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return tuple(cls(side=side, d=5) for side in SIDES)

    @property
    def dimension(self) -> int:
        return self.d + 1

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    @cached_property
    def weights(self) -> Floats:
        """The side's w, shape (d,)."""
        angles = np.arange(self.d) + (self.drift if self.side == "source" else 0.0)
        direction = cosine(angles)
        return np.asarray(self.slope * direction / math.sqrt(np.square(direction).sum()), dtype=np.float64)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d + 1), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        source = self.side == "source"
        key = counter.stream(seed, 0 if source else 1)
        _draw(key, people, self.weights, self.skew if source else 1.0, self.noise, features, labels)
        return Records(features, labels)


@njit
def _draw(
    key: np.uint64, people: Indices, weights: Floats, skew: float, noise: float, features: Singles, labels: Labels
) -> None:
    d = len(weights)
    for i in range(len(people)):
        begin, row = counter.start(key, people[i]), features[i]
        response = 0.5 + noise * counter.quantile(counter.uniform(begin, d))
        for j in range(d):
            x = counter.uniform(begin, j)
            if 2 * j < d:
                x = x**skew
            row[j] = x
            response += weights[j] * (x - 0.5)
        row[d] = min(max(response, 0.0), 1.0)
        labels[i] = 1 if row[d] > 0.5 else -1
