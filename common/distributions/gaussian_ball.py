"""A ball of Gaussian points: Appendix D of Kohen & Sheffet."""

from __future__ import annotations

import math
from math import sqrt
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.stats import chi2

from common.arrays import Floats, Indices, Labels, Singles
from common.distributions import counter
from common.distributions.base import DISTRIBUTIONS, Distribution
from common.kernels import njit
from common.records import Records


@DISTRIBUTIONS.register("gaussian-ball")
class GaussianBall(Distribution):
    """People x ~ N(0, diag) in d dimensions, labelled -1 inside a ball that T hits more often than S.

    Under S every coordinate has standard deviation ``sigma_source``; under T the first ``close`` ones have
    ``sigma_target`` instead. The label is -1 iff x_1^2 + ... + x_k^2 <= sigma_target^2 * q, with q the
    ``inside`` quantile of chi^2_k, so the share ``inside`` of T is labelled -1 and a smaller one of S.

    Records hold the *public* feature map: y_i = x_i^2, then (y_i - center) * scale, then, given ``norm``,
    the vector is shortened to that L2 norm. Without shortening the label is a half-space in the features.

    Attributes
    ----------
    d
        Number of coordinates, d >= 1.
    close
        k, 1 <= k <= d.
    side
        Draw from S (``source``) or T (``target``).
    inside
        In (0, 1); Appendix D has .3 (non-private) and .4 (private).
    """

    name: Literal["gaussian-ball"] = "gaussian-ball"
    side: Literal["source", "target"]
    d: int = Field(ge=1, le=1 << 16)
    close: int = Field(ge=1)
    sigma_source: float = Field(gt=0)
    sigma_target: float = Field(gt=0)
    inside: float = Field(default=0.4, gt=0, lt=1)
    center: float = 0.0
    scale: float = Field(default=1.0, gt=0)
    norm: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.close > self.d:
            raise ValueError(f"close = {self.close} must be at most d = {self.d}")
        if self.sigma_target >= sqrt(2.0) * self.sigma_source:
            raise ValueError("sigma_target must be below sqrt(2) * sigma_source, else chi^2(T||S) is infinite")
        return self

    @property
    def norm_bound(self) -> float:
        """The norm to which longer vectors are shortened; infinite without one."""
        return math.inf if self.norm is None else self.norm

    @property
    def dimension(self) -> int:
        """Number of features, d."""
        return self.d

    @property
    def radius_squared(self) -> float:
        """The squared radius b of the ball."""
        return float(self.sigma_target**2 * chi2.ppf(self.inside, self.close))

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (sigma_S^4 / (sigma_T^2 (2 sigma_S^2 - sigma_T^2)))^(k/2)."""
        source, target = self.sigma_source**2, self.sigma_target**2
        return float((source**2 / (target * (2.0 * source - target))) ** (self.close / 2.0))

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (sigma_S/sigma_T)^k, infinite where T is the wider one."""
        ratio = self.sigma_source / self.sigma_target
        return float(ratio**self.close) if ratio >= 1.0 else float("inf")

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), float32, and labels; both see the same, unrounded x."""
        features = np.empty((len(people), self.d), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        spread = np.full(self.d, self.sigma_source)
        spread[: self.close] = self._close_sigma
        norm = np.inf if self.norm is None else self.norm
        ball = (self.close, self.radius_squared)
        _draw(self._key(seed), people, spread, ball, (self.center, self.scale, norm), features, labels)
        return Records(features, labels)

    def density_ratios(self, seed: int, people: Indices) -> Floats:
        """Return the importance weights dT/dS of the people that :meth:`draw` returns, shape (n,).

        ``(sigma_S/sigma_T)^k * exp(-r (1/sigma_T^2 - 1/sigma_S^2) / 2)`` with r = x_1^2 + ... + x_k^2.
        Under S their mean is 1 and their second moment X; under T their mean is X.
        """
        normals = np.empty((len(people), self.close))
        counter.fill_normals(self._key(seed), people, normals)
        squared = self._close_sigma**2 * np.square(normals).sum(axis=1)
        exponent = -0.5 * squared * (self.sigma_target**-2 - self.sigma_source**-2)
        return np.asarray((self.sigma_source / self.sigma_target) ** self.close * np.exp(exponent), dtype=np.float64)

    @property
    def _close_sigma(self) -> float:
        return self.sigma_source if self.side == "source" else self.sigma_target

    def _key(self, seed: int) -> np.uint64:
        return counter.stream(seed, 0 if self.side == "source" else 1)


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
    point = np.empty(len(spread))
    for i in range(len(people)):
        begin = counter.start(key, people[i])
        inner = 0.0
        length = 0.0
        for j in range(len(spread)):
            y = (spread[j] * counter.normal(begin, j)) ** 2
            if j < close:
                inner += y
            point[j] = (y - center) * scale
            length += point[j] ** 2
        length = np.sqrt(length)
        # Rounding to float32 can lengthen a vector by 2^-24 of its length; shorten by twice that first.
        shrink = norm * (1.0 - 2.0**-23) / length if length > norm * (1.0 - 2.0**-23) else 1.0
        for j in range(len(spread)):
            features[i, j] = point[j] * shrink
        labels[i] = -1 if inner <= radius_squared else 1
