"""Two balls of Gaussian points around the same centre: the same people with two labels."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Indices
from common.numerics import counter
from common.numerics.special import gammaincinv
from common.people.distributions.base import DISTRIBUTIONS, SIDES
from common.people.distributions.gaussians.gaussian_ball import GaussianBall
from common.vocabulary.records import Records


@DISTRIBUTIONS.register("gaussian-balls")
class GaussianBalls(GaussianBall):
    """Two labels for each person: the ball of :class:`.gaussian_ball.GaussianBall`, and another radius.

    The second label is 0 inside the ball that holds the share ``second`` of T, else 1. It is the last feature, behind
    the d others, which are as they were: what S misses of T is the same for both labels.

    Attributes
    ----------
    second
        In (0, 1).
    """

    name: Literal["gaussian-balls"] = "gaussian-balls"  # type: ignore[assignment]  # a Literal names one kind, and this is another
    second: float = Field(gt=0, lt=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both sides, small."""
        return tuple(
            cls(side=side, d=5, close=2, sigma_source=0.1, sigma_target=0.07, norm=0.05, second=0.7) for side in SIDES
        )

    @property
    def dimension(self) -> int:
        """Number of features: d, and the second label."""
        return self.d + 1

    @property
    def norm_bound(self) -> float:
        """That of the d features, with the second label beside them."""
        return math.inf if self.norm is None else math.sqrt(self.norm**2 + 1.0)

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d + 1), float32, and the first labels."""
        drawn = super().draw(seed, people)
        normals = np.empty((len(people), self.close))
        counter.fill_normals(self._key(seed), people, normals)
        squared = self._close_sigma**2 * np.square(normals).sum(axis=1)
        outside = squared > self.sigma_target**2 * (2.0 * gammaincinv(self.close / 2.0, self.second))
        return Records(np.column_stack([drawn.features, outside.astype(np.float32)]), drawn.labels)
