"""A ball of Gaussian points: Appendix D of Kohen & Sheffet."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices, Labels, Singles
from common.numerics import counter
from common.numerics.kernels import njit
from common.numerics.special import gammaincinv
from common.people.distributions.base import DISTRIBUTIONS, SIDES
from common.people.distributions.gaussians.close_gaussians import CloseGaussians
from common.vocabulary.records import Records


@DISTRIBUTIONS.register("gaussian-ball")
class GaussianBall(CloseGaussians):
    """People x ~ N(0, diag) in d dimensions, labelled -1 inside a ball that T hits more often than S.

    The label is -1 iff x_1^2 + ... + x_k^2 <= sigma_target^2 * q, with q the
    ``inside`` quantile of chi^2_k, so the share ``inside`` of T is labelled -1 and a smaller one of S.

    Records hold the *public* feature map: y_i = x_i^2, then (y_i - center) * scale, then, given ``norm``,
    the vector is shortened to that L2 norm. Without shortening the label is a half-space in the features.

    Attributes
    ----------
    inside
        In (0, 1); Appendix D has .3 (non-private) and .4 (private).
    """

    name: Literal["gaussian-ball"] = "gaussian-ball"
    inside: float = Field(default=0.4, gt=0, lt=1)
    center: float = 0.0
    scale: float = Field(default=1.0, gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both sides, small."""
        return tuple(cls(side=side, d=5, close=2, sigma_source=0.1, sigma_target=0.07, norm=0.05) for side in SIDES)

    @cached_property
    def radius_squared(self) -> float:
        """The squared radius b of the ball."""
        return float(self.sigma_target**2 * (2.0 * gammaincinv(self.close / 2.0, self.inside)))

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), float32, and labels; both see the same, unrounded x."""
        features = np.empty((len(people), self.d), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        norm = np.inf if self.norm is None else self.norm
        ball = (self.close, self.radius_squared)
        _draw(self._key(seed), people, self._spread, ball, (self.center, self.scale, norm), features, labels)
        return Records(features, labels)


@njit
def _draw(
    key: np.uint64,
    people: Indices,
    spread: Floats,
    ball: tuple[int, float],
    chart: tuple[float, float, float],
    features: Singles,
    labels: Labels,
) -> None:
    close, radius_squared = ball
    center, scale, norm = chart
    # Rounding to float32 can lengthen a vector by 2^-24 of its length; shorten by twice that first.
    limit = norm * (1.0 - 2.0**-23)
    rows = max(1, counter.CELLS // len(spread))
    points = np.empty((min(rows, len(people)), len(spread)))
    for first in range(0, len(people), rows):
        some = people[first : first + rows]
        counter.fill_normals(key, some, points[: len(some)])
        some_features, some_labels = features[first : first + rows], labels[first : first + rows]
        for i in range(len(some)):
            point, row = points[i], some_features[i]
            for j in range(len(spread)):
                point[j] = (spread[j] * point[j]) ** 2
            inner = 0.0
            for j in range(close):
                inner += point[j]
            length = 0.0
            for j in range(len(spread)):
                point[j] = (point[j] - center) * scale
                length += point[j] ** 2
            length = np.sqrt(length)
            shrink = limit / length if length > limit else 1.0
            for j in range(len(spread)):
                row[j] = point[j] * shrink
            some_labels[i] = -1 if inner <= radius_squared else 1
