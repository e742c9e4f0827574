"""Planning the exponential mechanism: draws for its accuracy, one pure release a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.core.errors import BadScenario
from common.planning import formulas
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, number
from common.planning.planned_values import PAPER, PlannedValue, follow
from common.privacy.accountants.base import Plan as Events
from common.privacy.calibration import release_plan


@PLANNINGS.register("exponential")
class ExponentialPlanning(LearnerPlanning):
    """``epsilon`` 1 as in the paper, and ``draws`` m as many as reach the learner's accuracy."""

    open_settings = frozenset({"draws", "epsilon"})
    least = ("draws",)

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events:
        """One pure release of m draws a round."""
        return release_plan(schedule, int(number(learner, "draws")), number(learner, "epsilon"), 0.0)

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in ``epsilon``, then the ``draws`` that go with it."""
        learner = dict(task.scenario.curator.settings)
        if learner.get("epsilon") == "plan":
            learner["epsilon"] = 1.0
        if learner.get("draws") == "plan":
            learner["draws"] = _enough(task, number(learner, "epsilon"))
        return learner

    def paper_people(self, task: Task, learner: dict[str, Any]) -> PlannedValue | None:
        """Return Theorem 4.2's n."""
        if task.budget is None:
            return None
        epsilon, delta, kappa = task.budget
        draws = int(number(learner, "draws"))
        return follow(
            task.scenario.curator.n,
            lambda: max(task.sample, formulas.paper_n_release(draws, task.rounds, kappa, epsilon, delta)),
            "max(n of the statistics, m sqrt(288 T ln(2/delta))/(eps kappa))",
            PAPER + "Theorem 4.2",
        )

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return m."""
        draws = follow(
            task.scenario.curator.settings.get("draws"),
            lambda: _enough(task, number(learner, "epsilon")),
            "max(4/eps, 8) ln(2T|H|/beta)/(learner alpha)",
            "McSherry and Talwar 2007; Chernoff",
        )
        return {"draws": draws}


def _enough(task: Task, epsilon: float) -> int:
    """Return m for which every round reaches loss ``accuracy.learner * alpha`` on mu."""
    scenario = task.scenario
    if scenario.hypotheses is None:
        raise BadScenario("planning the exponential mechanism's draws needs hypotheses, the size of the class")
    alpha = scenario.accuracy.learner * scenario.alpha
    return formulas.draws(alpha, scenario.beta, task.rounds, epsilon, scenario.hypotheses)
