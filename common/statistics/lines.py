"""Calibration of a regression's predictions: a line, fitted to the sample's and to residuals from agents.

All sums and products are of single numbers, the same on every machine: the results are in later questions, which an
audit asks again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SHIFTED = 0.5
"""Prior standard deviation of the population's mean prediction from the sample's, in the sample's deviations."""
INSIDE = 0.6826894921370859
"""E[z clip(z, -1, 1)] = P(|z| < 1) of a standard normal z (Stein's lemma): the slope's effect on its own residual."""
FAR, STEEP = 0.1, 0.5
"""Prior standard deviations of the line's height, and of its slope as a share of that slope."""
_FLATTEST, _STEEPEST = 0.05, 4.0  # of the sample's slope


@dataclass(frozen=True)
class Line:
    """A posterior of E[r | v] = height + slope z, z = (v - center)/spread: height and slope are Gaussian.

    v are the model's predictions; z has about mean 0 and variance 1.

    Attributes:
        height, slope: Means.
        flat, both, steep: The precision matrix: the entry of the height, the joint entry, and that of the slope.
    """

    center: float
    spread: float
    height: float
    slope: float
    flat: float
    both: float
    steep: float

    @classmethod
    def of_sample(cls, center: float, spread: float) -> Line:
        """Return the prior for other people, from the center and spread of a model's predictions."""
        return cls(center, spread, center, spread, 1.0 / FAR**2, 0.0, 1.0 / (STEEP * spread) ** 2)

    def posterior(self, mean: float, variance: float, weighed: bool) -> Line:
        """Return the posterior after agents reported the mean of their residuals around this very line.

        The residuals are ``weighed`` by clip(z, -1, 1), or not. Their mean is off by the slope's error times the mean
        of z, which need not be 0 on T: :data:`SHIFTED`.
        """
        rest = self.flat * self.steep - self.both * self.both
        direction = (0.0, INSIDE) if weighed else (1.0, 0.0)
        if not weighed:
            variance += SHIFTED**2 * self.flat / rest
        flat = self.flat + direction[0] * direction[0] / variance
        both = self.both + direction[0] * direction[1] / variance
        steep = self.steep + direction[1] * direction[1] / variance
        shift = (direction[0] * mean / variance, direction[1] * mean / variance)
        rest = flat * steep - both * both
        height = self.height + (steep * shift[0] - both * shift[1]) / rest
        slope = self.slope + (flat * shift[1] - both * shift[0]) / rest
        return Line(self.center, self.spread, height, slope, flat, both, steep)

    @property
    def recalibration(self) -> tuple[float, float]:
        """Slope and intercept that map predictions to the line; the slope is positive, within public limits."""
        slope = min(_STEEPEST, max(_FLATTEST, self.slope / self.spread))
        return slope, self.height - slope * self.center

    def excess(self, height: float, slope: float) -> float:
        """Return by how much the mean squared error of another line is expected to exceed that of this one."""
        return (self.height - height) ** 2 + (self.slope - slope) ** 2


def plain(mean: float, variance: float, reach: float) -> tuple[float, float]:
    """Return mean and variance of residuals from those of the answers (1 + residual/reach)/2, which are in [0, 1]."""
    return reach * (2.0 * mean - 1.0), 4.0 * reach * reach * variance if math.isfinite(variance) else math.inf
