"""A half-space that the source rarely shows from near by: Appendix C of Kohen & Sheffet."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import Indices
from common.numerics import counter
from common.numerics.special import ndtri
from common.people.distributions.base import DISTRIBUTIONS, SIDES
from common.people.distributions.gaussians.close_gaussians import CloseGaussians
from common.vocabulary.records import Records

_CELLS = 1 << 19
"""Normals held at once, in double precision: they stay in the cache."""


@DISTRIBUTIONS.register("gaussian-half-space")
class GaussianHalfSpace(CloseGaussians):
    """People x ~ N(0, diag) in d dimensions, labelled by a half-space on the coordinates where T is narrower than S.

    The label is -1 iff x_1 + ... + x_k <= b, b = sigma_target sqrt(k) q, with q the ``share`` quantile of N(0, 1): the
    share ``share`` of T is labelled -1, and Phi(b / (sigma_source sqrt(k))) of S, nearly a half where T is much
    narrower. What costs nearly nothing on S, a normal vector that is a little off in the other coordinates, is
    expensive on T, whose people all stand near the boundary. The features are x itself, shortened to ``norm``.

    Attributes
    ----------
    share
        In (0, 1); Appendix C has .01, and sigma_target = .02 with k = 10 of d = 500 (docs/corrections.md, K8).
    """

    name: Literal["gaussian-half-space"] = "gaussian-half-space"
    share: float = Field(default=0.01, gt=0, lt=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both sides, small."""
        return tuple(cls(side=side, d=5, close=2, sigma_source=1.0, sigma_target=0.7, share=0.3) for side in SIDES)

    @property
    def threshold(self) -> float:
        """The threshold b of the half-space."""
        return float(self.sigma_target * math.sqrt(self.close) * ndtri(self.share))

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), float32, and labels, which are those of the unrounded x."""
        features = np.empty((len(people), self.d), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        key, spread, threshold = self._key(seed), self._spread, self.threshold
        rows = max(1, _CELLS // self.d)
        for start in range(0, len(people), rows):
            some = slice(start, start + rows)
            x = np.empty((len(people[some]), self.d))
            counter.fill_normals(key, people[some], x)
            x *= spread
            labels[some] = np.where(x[:, : self.close].sum(axis=1) <= threshold, -1, 1)
            if self.norm is not None:
                # Rounding to float32 can lengthen a vector by 2^-24 of its length; shorten by twice that first.
                x *= np.minimum(self.norm * (1.0 - 2.0**-23) / np.linalg.norm(x, axis=1, keepdims=True), 1.0)
            features[some] = x
        return Records(features, labels)
