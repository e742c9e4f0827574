"""Private stochastic gradient descent for half-spaces, as everybody sees it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from common.core.values import FromPlan
from common.learners.base import OPEN, SETTINGS, LearnerSettings, OpenSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.privacy.events import Event, NonPrivate, SubsampledSteps

Steps = Annotated[int, Field(ge=1, le=10**10)]
Noise = Annotated[float, Field(ge=0, le=1 << 17)]


@OPEN.register("sgd")
class OpenSgd(OpenSettings):
    """Settings of gradient descent (:class:`curator.learners.sgd.Sgd`).

    Attributes
    ----------
    loss
        ``logistic`` ln(1 + e^{-lm}); ``hinge`` max(0, 1 - lm); ``perceptron`` max(0, -lm), which is the
        paper's with the sign put right (at lm = 0 it takes the slope -l, so that a start at 0 is not stuck).
    steps
        R.
    clip
        L, public. Neighbouring draws' gradients lie in a ball of this radius around 0.
    noise
        sigma / L, up to 2^17; 0 is not private.
    diameter
        D: of the ball; for the box it only scales the steps (the box itself measures sqrt(dim)).
    domain
        ``ball`` or ``box``. The box with a negative intercept is the paper's class of ellipses (Appendix D):
        <w, x> > b with all of w and b in [0, 1], where the features are squares.
    regularization
        lambda >= 0.
    lasso
        Weight >= 0 of the L1 norm that every proximal step adds to the loss (ISTA's soft threshold); the Lasso
        of Appendix D. ``last`` gives the sparse iterate; an average is sparse only where all its iterates are.
    intercept
        c, the value of the feature appended to every record: m = <w, x> + c h_last; 0 for none. If it is
        negative, h_last = b / abs(c) stands for the threshold itself.
    start
        Every coordinate of the public start.
    output
        ``average`` of all iterates, ``suffix`` (average of the last half) or ``last``.
    warm
        Begin at the previously released hypothesis (public), where there is one, instead of ``start``.
    """

    name: Literal["sgd"] = "sgd"
    loss: Literal["logistic", "hinge", "perceptron"] = "logistic"
    steps: Steps | FromPlan
    clip: float = Field(default=1.0, gt=0)
    noise: Noise | FromPlan
    diameter: float = Field(gt=0)
    domain: Literal["ball", "box"] = "ball"
    regularization: float = Field(default=0.0, ge=0)
    lasso: float = Field(default=0.0, ge=0)
    intercept: float = 1.0
    start: float = 0.0
    output: Literal["average", "suffix", "last"] = "average"
    warm: bool = False


@SETTINGS.register("sgd")
class SgdSettings(OpenSgd, LearnerSettings):
    """Settled settings of gradient descent."""

    steps: Steps
    noise: Noise

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether a hypothesis is a half-space."""
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        """R subsampled Gaussian steps of ratio u = 2 L / sigma = 2 / noise (replace-one neighbours)."""
        if self.noise == 0.0:
            return NonPrivate()
        # Up to the next double: a ratio rounded down would claim more noise than there is.
        return SubsampledSteps(count=self.steps, tv_bound=tv_bound, ratio=math.nextafter(2.0 / self.noise, math.inf))
