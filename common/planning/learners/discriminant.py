"""Planning the discriminant: all of the budget goes into its release."""

from __future__ import annotations

import math

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.discriminant import DiscriminantSettings, OpenDiscriminant
from common.numerics.bisection import largest
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, affordable
from common.scenario.scenario import Scenario
from common.statistics.formulas import PlannedValue, fixed, follow

SOURCE = "docs/learners.md"
_MOST = 100.0


@PLANNINGS.register("discriminant")
class DiscriminantPlanning(LearnerPlanning[OpenDiscriminant, DiscriminantSettings]):
    """``mu``: the greatest of which one release a round fits the budget."""

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """Any: nothing is claimed of its accuracy."""
        return fixed(1, "any: the agents tell what the answer is worth", SOURCE)

    def complete(self, task: Task, n: int | None) -> DiscriminantSettings:
        """Fill in ``mu``.

        Raises
        ------
        BadScenario
            If none fits, or there is no budget.
        """
        asked = self.asked
        if asked.mu != PLAN:
            return asked.settled(DiscriminantSettings)
        curator = task.scenario.curator
        if curator.epsilon is None or not curator.delta:
            raise BadScenario("planning the discriminant needs the curator's epsilon and a positive delta")
        whole, delta = curator.epsilon, curator.delta

        def fits(mu: float) -> bool:
            learner = asked.settled(DiscriminantSettings, mu=mu)
            return affordable(learner, whole, delta, n or 1, None, 1.0, task.rounds, beside=task.beside)

        found = largest(fits, whole, 1e-5, _MOST)
        if found == 0.0 or not math.isfinite(found):
            raise BadScenario("no release fits the curator's budget: raise epsilon or delta, or lower rounds")
        return asked.settled(DiscriminantSettings, mu=found)

    def people(self, task: Task, learner: DiscriminantSettings) -> PlannedValue:
        """Return n: what the statistics ask for; any is as private."""
        return follow(task.scenario.curator.n, lambda: task.sample, "n of the statistics; any n is as private", SOURCE)

    def planned_values(self, task: Task, learner: DiscriminantSettings) -> dict[str, PlannedValue]:
        """Return mu."""
        value = PlannedValue(
            value=learner.mu,
            rule=learner.mu if self.asked.mu == PLAN else None,
            formula="mu of its release: the greatest that fits the budget",
            source=SOURCE,
        )
        return {"mu": value}
