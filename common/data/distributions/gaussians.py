"""Simulated people with Gaussian features: a half-space and balls (Appendices C and D of Kohen & Sheffet)."""

import math
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import gammaincinv, ndtri

from common.core.arrays import Floats, Indices, Labels, Singles
from common.data.distributions.base import DISTRIBUTIONS, PairedDistribution, of_both_sides
from common.local.records import Records
from common.numerics import counter
from common.numerics.kernels import njit


class CloseGaussians(PairedDistribution):
    """People x ~ N(0, diag) in d dimensions; subclasses define the labels.

    Under S every coordinate has standard deviation ``sigma_source``; under T the first k = ``close`` ones have
    ``sigma_target`` instead. Longer feature vectors are scaled down to the L2 norm ``norm``, if there is one.
    """

    feature_type: ClassVar = np.float32
    d: int = Field(ge=1, le=1 << 16)
    close: int = Field(ge=1)
    sigma_source: float = Field(gt=0)
    sigma_target: float = Field(gt=0)
    norm: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.close > self.d:
            raise ValueError(f"close = {self.close} must be at most d = {self.d}")
        if self.sigma_target >= math.sqrt(2.0) * self.sigma_source:
            raise ValueError("sigma_target must be below sqrt(2) * sigma_source, else chi^2(T||S) is infinite")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    @property
    def norm_bound(self) -> float:
        return math.inf if self.norm is None else self.norm

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (sigma_S^4 / (sigma_T^2 (2 sigma_S^2 - sigma_T^2)))^(k/2)."""
        source, target = self.sigma_source**2, self.sigma_target**2
        return float((source**2 / (target * (2.0 * source - target))) ** (self.close / 2.0))

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (sigma_S/sigma_T)^k, infinite if sigma_T > sigma_S."""
        ratio = self.sigma_source / self.sigma_target
        return float(ratio**self.close) if ratio >= 1.0 else float("inf")

    @property
    def _close_sigma(self) -> float:
        return self.sigma_source if self.side == "source" else self.sigma_target

    def _sample(
        self, seed: int, people: Indices, most: float, chart: tuple[bool, float, float] = (False, 0.0, 1.0)
    ) -> Records:
        """Return people, labelled -1 if the first k coordinates, or their squares, have a sum of at most ``most``."""
        features = np.empty((len(people), self.d), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        norm = np.inf if self.norm is None else self.norm
        spread = np.where(np.arange(self.d) < self.close, self._close_sigma, self.sigma_source)
        _draw(self.key(seed), people, spread, (self.close, most), (*chart, norm), features, labels)
        return Records(features, labels)


@DISTRIBUTIONS.register("gaussian-half-space")
class GaussianHalfSpace(CloseGaussians):
    """People x ~ N(0, diag) in d dimensions, labelled by a half-space on the coordinates where T is narrower than S.

    The label is -1 iff x_1 + ... + x_k <= b, b = sigma_target sqrt(k) q, with q the ``share`` quantile of N(0, 1): the
    share ``share`` of T is labelled -1, and Phi(b / (sigma_source sqrt(k))) of S. A small error of the normal vector in
    the other coordinates costs almost nothing on S, but much on T, whose people are all near the boundary.

    Attributes:
        share: In (0, 1); Appendix C has .01, and sigma_target = .02 with k = 10 of d = 500 (docs/corrections.md, K8).
    """

    name: Literal["gaussian-half-space"] = "gaussian-half-space"
    share: float = Field(default=0.01, gt=0, lt=1)

    examples: ClassVar = of_both_sides(d=5, close=2, sigma_source=1.0, sigma_target=0.7, share=0.3)

    @property
    def threshold(self) -> float:
        return float(self.sigma_target * math.sqrt(self.close) * ndtri(self.share))

    def draw(self, seed: int, people: Indices) -> Records:
        return self._sample(seed, people, self.threshold)


_Border = tuple[int, float]  # the number of coordinates or squares that are summed, and the greatest sum for -1
_Chart = tuple[bool, float, float, float]  # whether coordinates are squared, center, scale, norm


@njit
def _draw(
    key: np.uint64, people: Indices, spread: Floats, border: _Border, chart: _Chart, features: Singles, labels: Labels
) -> None:
    close, bound = border
    squared, center, scale, norm = chart
    rows = max(1, counter.CELLS // len(spread))
    buffer = np.empty((min(rows, len(people)), len(spread)))
    for first in range(0, len(people), rows):
        batch = people[first : first + rows]
        points = buffer[: len(batch)]
        counter.fill_normals(key, batch, points)
        for i in range(len(batch)):
            for j in range(len(spread)):
                points[i, j] *= spread[j]
                if squared:
                    points[i, j] *= points[i, j]
            inner = 0.0
            for j in range(close):
                inner += points[i, j]
            labels[first + i] = -1 if inner <= bound else 1
            if squared:
                for j in range(len(spread)):
                    points[i, j] = (points[i, j] - center) * scale
        _shorten(points, norm, features[first : first + rows])


@njit
def _shorten(points: Floats, norm: float, features: Singles) -> None:
    # Rounding to float32 can lengthen a vector by 2^-24 of its length; shorten by twice that first.
    limit = norm * (1.0 - 2.0**-23)
    for i in range(len(points)):
        length = 0.0
        for j in range(points.shape[1]):
            length += points[i, j] ** 2
        length = np.sqrt(length)
        shrink = limit / length if length > limit else 1.0
        for j in range(points.shape[1]):
            features[i, j] = points[i, j] * shrink


@DISTRIBUTIONS.register("gaussian-ball")
class GaussianBall(CloseGaussians):
    """People x ~ N(0, diag) in d dimensions, labelled -1 inside a ball that T hits more often than S.

    The label is -1 iff x_1^2 + ... + x_k^2 <= sigma_target^2 * q, with q the ``inside`` quantile of chi^2_k, so the
    share ``inside`` of T is labelled -1 and a smaller one of S. Records contain the *public* feature map: y_i = x_i^2,
    then (y_i - center) * scale, scaled down to the L2 norm ``norm``, if there is one.

    Attributes:
        inside: In (0, 1); Appendix D has .3 (non-private) and .4 (private).
    """

    name: Literal["gaussian-ball"] = "gaussian-ball"
    inside: float = Field(default=0.4, gt=0, lt=1)
    center: float = 0.0
    scale: float = Field(default=1.0, gt=0)

    examples: ClassVar = of_both_sides(d=5, close=2, sigma_source=0.1, sigma_target=0.07, norm=0.05)

    @cached_property
    def radius_squared(self) -> float:
        return float(self.sigma_target**2 * (2.0 * gammaincinv(self.close / 2.0, self.inside)))

    def draw(self, seed: int, people: Indices) -> Records:
        return self._sample(seed, people, self.radius_squared, (True, self.center, self.scale))


@DISTRIBUTIONS.register("gaussian-balls")
class GaussianBalls(GaussianBall):
    """Two labels for each person: the ball of :class:`GaussianBall`, and another radius.

    The second label, which is the last feature, is 0 inside the ball that contains the share ``second`` of T, else 1.
    """

    name: Literal["gaussian-balls"] = "gaussian-balls"  # type: ignore[assignment]  # a Literal names one kind, and this is another
    second: float = Field(gt=0, lt=1)

    examples: ClassVar = of_both_sides(d=5, close=2, sigma_source=0.1, sigma_target=0.07, norm=0.05, second=0.7)

    @property
    def dimension(self) -> int:
        return self.d + 1

    @property
    def norm_bound(self) -> float:
        return math.inf if self.norm is None else math.sqrt(self.norm**2 + 1.0)

    def draw(self, seed: int, people: Indices) -> Records:
        records, normals = super().draw(seed, people), np.empty((len(people), self.close))
        counter.fill_normals(self.key(seed), people, normals)
        squares = self._close_sigma**2 * np.square(normals).sum(axis=1)
        outside = squares > self.sigma_target**2 * (2.0 * gammaincinv(self.close / 2.0, self.second))
        return Records(np.column_stack([records.features, outside.astype(np.float32)]), records.labels)
