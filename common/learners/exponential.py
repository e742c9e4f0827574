"""The exponential mechanism over a finite class, as everybody sees it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.values import FromPlan
from common.learners.base import OPEN, SETTINGS, LearnerSettings, OpenSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import GREATEST
from common.local.hypotheses.rules import Conjunction, Stump
from common.privacy.events import Event, SubsampledRelease

Draws = Annotated[int, Field(ge=1, le=10**7)]
Epsilon = Annotated[float, Field(gt=0)]


@OPEN.register("exponential")
class OpenExponential(OpenSettings):
    """Settings of the exponential mechanism (:class:`curator.learners.exponential.Exponential`).

    Attributes
    ----------
    hypotheses
        ``conjunctions`` of ``literals`` features (0/1 features only), or ``stumps``.
    draws
        m.
    epsilon
        Of one call, for the m draws.
    literals
        s, 1 to 8. |H| = C(d, s), at most 2^31 (a second or so for every 2^27 of them).
    low, high, cells
        Stumps: thresholds are the ``cells`` numbers low, ..., high, equally spaced and public. |H| = 2 d
        cells.
    """

    name: Literal["exponential"] = "exponential"
    hypotheses: Literal["conjunctions", "stumps"]
    draws: Draws | FromPlan
    epsilon: Epsilon | FromPlan
    literals: int = Field(default=2, ge=1, le=8)
    low: float = Field(default=-1.0, ge=-GREATEST)
    high: float = Field(default=1.0, le=GREATEST)
    cells: int = Field(default=64, ge=2, le=1 << 16)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self


@SETTINGS.register("exponential")
class ExponentialSettings(OpenExponential, LearnerSettings):
    """Settled settings of the exponential mechanism."""

    draws: Draws
    epsilon: Epsilon

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether a hypothesis is one of the finite class: a stump on the grid, or a conjunction of so many."""
        if self.hypotheses == "stumps":
            grid = np.linspace(self.low, self.high, self.cells)
            return isinstance(hypothesis, Stump) and bool(np.any(grid == hypothesis.threshold))
        return isinstance(hypothesis, Conjunction) and len(hypothesis.features) == self.literals

    def event(self, tv_bound: float) -> Event:
        """One epsilon-DP release from m independent draws."""
        return SubsampledRelease(draws=self.draws, tv_bound=tv_bound, epsilon=self.epsilon, delta=0.0)
