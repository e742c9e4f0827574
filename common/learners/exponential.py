"""The exponential mechanism over a finite class: its settings, the event of a call, and its plan."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, PlanTask
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import GREATEST
from common.local.hypotheses.rules import Conjunction, Stump
from common.privacy.events import Event, SubsampledRelease
from common.statistics import formulas
from common.statistics.formulas import PAPER, PlannedValue, follow

Draws = Annotated[int, Field(ge=1, le=10**7)]
Epsilon = Annotated[float, Field(gt=0)]


class OpenExponential(OpenSettings):
    """Settings of the exponential mechanism (:class:`curator.learners.exponential.Exponential`).

    Attributes:
        hypotheses: ``conjunctions`` of ``literals`` features (0/1 features only), or ``stumps``.
        draws: m.
        epsilon: Of one call, for the m draws.
        literals: s, 1 to 8. |H| = C(d, s), at most 2^31 (a second or so for every 2^27 of them).
        low, high, cells: Stumps: thresholds are the ``cells`` numbers low, ..., high, equally spaced and public. |H| =
            2 d cells.
    """

    least: ClassVar[tuple[str, ...]] = ("draws",)

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

    def complete(self, task: PlanTask, n: int | None) -> ExponentialSettings:
        epsilon = 1.0 if self.epsilon == PLAN else self.epsilon
        draws = _enough(task, epsilon) if self.draws == PLAN else self.draws
        return self.settled(ExponentialSettings, epsilon=epsilon, draws=draws)


@SETTINGS.register("exponential")
class ExponentialSettings(OpenExponential, LearnerSettings):
    """Settled settings of the exponential mechanism."""

    draws: Draws
    epsilon: Epsilon

    def can_give(self, hypothesis: Hypothesis) -> bool:
        if self.hypotheses == "stumps":
            grid = np.linspace(self.low, self.high, self.cells)
            return isinstance(hypothesis, Stump) and bool(np.any(grid == hypothesis.threshold))
        return isinstance(hypothesis, Conjunction) and len(hypothesis.features) == self.literals

    def event(self, tv_bound: float) -> Event:
        return SubsampledRelease(draws=self.draws, tv_bound=tv_bound, epsilon=self.epsilon, delta=0.0)

    def paper_people(self, task: PlanTask, epsilon: float, delta: float, kappa: float) -> PlannedValue | None:
        least = partial(formulas.paper_n_release, self.draws, task.rounds, kappa, epsilon, delta)
        text = "max(n of the statistics, m sqrt(288 T ln(2/delta))/(eps kappa))"
        return follow(task.given_n, lambda: max(task.sample, least()), text, PAPER + "Theorem 4.2")

    def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
        text, source = "max(4/eps, 8) ln(2T|H|/beta)/(learner alpha)", "McSherry and Talwar 2007; Chernoff"
        return {"draws": follow(asked.given("draws"), lambda: _enough(task, self.epsilon), text, source)}


def _enough(task: PlanTask, epsilon: float) -> int:
    if task.hypotheses is None:
        raise BadScenario("planning the exponential mechanism's draws needs hypotheses, the size of the class")
    return formulas.draws(task.accuracy, task.beta, task.rounds, epsilon, task.hypotheses)
