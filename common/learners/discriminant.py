"""Fisher's linear discriminant from noisy moments of both classes: settings, event, plan."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, Calls, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.numerics.bisection import largest
from common.privacy.events import Event, Gaussian
from common.statistics.formulas import PlannedValue, fixed

SOURCE = "docs/learners.md"
_MOST = 100.0

Mu = Annotated[float, Field(gt=0, le=_MOST)]


class OpenDiscriminant(OpenSettings):
    """Settings of the discriminant (:class:`curator.learners.discriminant.Discriminant`).

    Attributes:
        mu: The one release is mu-GDP.
        norm: r, public. Features are clipped to this Euclidean norm.
        second: Share of a record's squared length in the release that its products of features have; the features
            themselves have the rest. More of it means less noise in the covariance and more in the means.
        ridge: What is added to the covariance's diagonal, in units of the spectral norm of its noise.
    """

    reweighs: ClassVar[bool] = False

    name: Literal["discriminant"] = "discriminant"
    mu: Mu | FromPlan
    norm: float = Field(gt=0, le=1e6)
    second: float = Field(default=0.3, gt=0, lt=1)
    ridge: float = Field(default=1.5, gt=0, le=1e6)

    def planned_sample(self, request: PlanRequest) -> PlannedValue | None:
        return fixed(1, "any: the agents tell what the answer is worth", SOURCE)

    def complete(self, task: PlanTask, n: int | None) -> DiscriminantSettings:
        """Fill in ``mu``: the greatest of which one release a round fits the budget."""
        if self.mu != PLAN:
            return self.settled(DiscriminantSettings)
        epsilon, delta = task.delta_budget("the discriminant")
        calls = Calls(n or 1, None, 1.0, task.rounds)

        def fits(mu: float) -> bool:
            return calls.affordable(self.settled(DiscriminantSettings, mu=mu), epsilon, delta, beside=task.beside)

        found = largest(fits, epsilon, 1e-5, _MOST)
        if found == 0.0 or not math.isfinite(found):
            raise BadScenario("no release fits the curator's budget: raise epsilon or delta, or lower rounds")
        return self.settled(DiscriminantSettings, mu=found)


@SETTINGS.register("discriminant")
class DiscriminantSettings(OpenDiscriminant, LearnerSettings):
    """Settled settings of the discriminant."""

    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        return Gaussian(mu=self.mu)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(SOURCE)

    def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
        return {"mu": self.chosen_value(asked, "mu", "mu of its release: the greatest that fits the budget", SOURCE)}
