"""What the public side alone says before an iteration: where to begin, how wide residuals are, how far to go.

Everything here is a function of public records and public settings. It is the same for neighbouring samples, so the
noise may be calibrated to it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats
from curator.learners.adaptation.domains import Side
from curator.learners.adaptation.public.discrepancy import Loss
from curator.learners.adaptation.public.weighted_fits import least_squares, logistic_in_ball

CLIP_QUANTILE = 0.82
"""Of the public residuals' sizes. For normal residuals it is 1.345 standard deviations, Huber's constant (1964)."""
LEAST_CLIP = 2.0**-8
"""Share of the greatest residual, radius norm + 1, below which a public clip never is: a clip bounds how far w moves in
a step, so a source that is fitted exactly must not stop it.
"""
WANDER = 0.25
"""By what share of itself noise alone may raise the public loss."""
RIDGE = 1e-5
"""Penalty of the logistic fit, times the square of the rows' norm: without one, separable classes have no fit."""


class PublicFit(NamedTuple):
    """The fit of the public side alone.

    Attributes
    ----------
    weights
        w_0, shape (d,), in the ball: the least mean loss of the public side.
    residual_clip
        The :data:`CLIP_QUANTILE` of |w_0.x - y|, at least :data:`LEAST_CLIP` of the greatest residual.
    reach
        How far from w_0 noise may take w; see :func:`reach`.
    """

    weights: Floats
    residual_clip: float
    reach: float


def fit_public(side: Side, loss: Loss, radius: float, norm: float) -> PublicFit:
    """Fit the public side over ||w|| <= ``radius``.

    Parameters
    ----------
    side
        Its rows, within public bounds: ||x|| <= ``norm``, |y| <= 1.
    loss
        ``squared`` or ``logistic``.
    """
    shares = np.full(len(side), 1.0 / len(side))
    if loss == "squared":
        weights = least_squares(side, shares, radius)
    else:
        weights = logistic_in_ball(side, shares, RIDGE * norm * norm, radius)
    weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), radius))
    residuals = np.abs(side.features @ weights - side.responses)
    clip = max(float(np.quantile(residuals, CLIP_QUANTILE)), LEAST_CLIP * (radius * norm + 1.0))
    return PublicFit(weights, clip, reach(side, loss, weights, radius))


def reach(side: Side, loss: Loss, weights: Floats, radius: float) -> float:
    """Return rho: isotropic noise of root mean square length rho raises the public mean loss by a quarter at most.

    With M the mean of x x', such noise raises the squared loss by rho^2 tr(M)/d in expectation, exactly, and the
    logistic one by an eighth of that at most (its second derivative is 1/4 at most), beside what the slope adds, which
    is 0 in expectation. T noisy steps of size step are a martingale of root mean square length step sigma sqrt(d T) if
    nothing pulls back, and the gradient of a convex loss only pulls back.
    """
    scores = side.features @ weights
    losses = (scores - side.responses) ** 2 if loss == "squared" else np.logaddexp(0.0, -side.responses * scores)
    spread = float(np.square(side.features).sum(axis=1).mean()) * (1.0 if loss == "squared" else 0.125)
    allowed = WANDER * float(losses.mean()) * side.dimension
    return min(radius, math.sqrt(allowed / spread)) if spread > 0.0 else radius
