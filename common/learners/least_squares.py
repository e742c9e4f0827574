"""Settings of the learner that solves least squares from one release of moments."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from common.learners.base import SETTINGS
from common.learners.half_spaces import Mu, OpenPreconditioned, PreconditionedSettings
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor


class OpenLeastSquares(OpenPreconditioned):
    """Settings of least squares (:class:`curator.learners.least_squares.LeastSquares`).

    Attributes:
        predicts: ``response``: the last feature, in [0, 1], from those before it. ``label``: the label, as 0 or 1, from
            all features; a half-space says where the prediction is above 1/2.
        ridge: What is added to the covariance's diagonal, in units of the spectral norm of its noise.
    """

    name: Literal["least-squares"] = "least-squares"
    predicts: Literal["response", "label"] = "response"
    ridge: float = Field(default=1.5, gt=0, le=1e6)

    @property
    def surrogate_loss(self) -> str:
        return "squared"


@SETTINGS.register("least-squares")
class LeastSquaresSettings(OpenLeastSquares, PreconditionedSettings):
    """Settled settings of least squares."""

    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Regressor if self.predicts == "response" else Linear)
