"""Fisher's linear discriminant from noisy moments of both classes, as everybody sees it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from common.core.values import FromPlan
from common.learners.base import OPEN, SETTINGS, LearnerSettings, OpenSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.privacy.events import Event, Gaussian

Mu = Annotated[float, Field(gt=0, le=100)]


@OPEN.register("discriminant")
class OpenDiscriminant(OpenSettings):
    """Settings of the discriminant (:class:`curator.learners.discriminant.Discriminant`).

    Attributes
    ----------
    mu
        The one release is mu-GDP.
    norm
        r, public. Features are clipped to this Euclidean norm.
    second
        Share of a record's squared length in the release that its products of features have; the features themselves
        have the rest. More of it means less noise in the covariance and more in the means.
    ridge
        What is added to the covariance's diagonal, in units of the spectral norm of its noise.
    """

    reweighs: ClassVar[bool] = False

    name: Literal["discriminant"] = "discriminant"
    mu: Mu | FromPlan
    norm: float = Field(gt=0, le=1e6)
    second: float = Field(default=0.3, gt=0, lt=1)
    ridge: float = Field(default=1.5, gt=0, le=1e6)


@SETTINGS.register("discriminant")
class DiscriminantSettings(OpenDiscriminant, LearnerSettings):
    """Settled settings of the discriminant."""

    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether a hypothesis is a half-space."""
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        """One mu-GDP release from the sample itself."""
        return Gaussian(mu=self.mu)
