"""Two centred Gaussians that differ in the spread of a few coordinates: S and T of Appendices C and D."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices
from common.numerics import counter
from common.numerics.elementary import exp
from common.people.distributions.base import Distribution


class CloseGaussians(Distribution):
    """People x ~ N(0, diag) in d dimensions; what they are labelled is up to the distribution that extends this one.

    Under S every coordinate has standard deviation ``sigma_source``; under T the first ``close`` ones have
    ``sigma_target`` instead.

    Attributes
    ----------
    side
        Draw from S (``source``) or T (``target``).
    d
        Number of coordinates, d >= 1.
    close
        k, 1 <= k <= d.
    norm
        Positive: longer feature vectors are shortened to this L2 norm. None: none is.
    """

    side: Literal["source", "target"]
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
        """Number of features, d."""
        return self.d

    @property
    def norm_bound(self) -> float:
        """The norm to which longer vectors are shortened; infinite without one."""
        return math.inf if self.norm is None else self.norm

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (sigma_S^4 / (sigma_T^2 (2 sigma_S^2 - sigma_T^2)))^(k/2)."""
        source, target = self.sigma_source**2, self.sigma_target**2
        return float((source**2 / (target * (2.0 * source - target))) ** (self.close / 2.0))

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (sigma_S/sigma_T)^k, infinite where T is the wider one."""
        ratio = self.sigma_source / self.sigma_target
        return float(ratio**self.close) if ratio >= 1.0 else float("inf")

    def density_ratios(self, seed: int, people: Indices) -> Floats:
        """Return the importance weights dT/dS of the people that :meth:`draw` returns, shape (n,).

        ``(sigma_S/sigma_T)^k * exp(-r (1/sigma_T^2 - 1/sigma_S^2) / 2)`` with r = x_1^2 + ... + x_k^2.
        Under S their mean is 1 and their second moment X; under T their mean is X.
        """
        normals = np.empty((len(people), self.close))
        counter.fill_normals(self._key(seed), people, normals)
        squared = self._close_sigma**2 * np.square(normals).sum(axis=1)
        exponent = -0.5 * squared * (self.sigma_target**-2 - self.sigma_source**-2)
        return np.asarray((self.sigma_source / self.sigma_target) ** self.close * exp(exponent), dtype=np.float64)

    @property
    def _close_sigma(self) -> float:
        return self.sigma_source if self.side == "source" else self.sigma_target

    @property
    def _spread(self) -> Floats:
        """The standard deviation of every coordinate, shape (d,)."""
        spread = np.full(self.d, self.sigma_source)
        spread[: self.close] = self._close_sigma
        return spread

    def _key(self, seed: int) -> np.uint64:
        return counter.stream(seed, 0 if self.side == "source" else 1)
