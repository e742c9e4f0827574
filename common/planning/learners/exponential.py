"""Planning the exponential mechanism: draws for its accuracy, one pure release a round."""

from __future__ import annotations

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.exponential import ExponentialSettings, OpenExponential
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task
from common.statistics import formulas
from common.statistics.formulas import PAPER, PlannedValue, follow


@PLANNINGS.register("exponential")
class ExponentialPlanning(LearnerPlanning[OpenExponential, ExponentialSettings]):
    """``epsilon`` 1 as in the paper, and ``draws`` m as many as reach the learner's accuracy."""

    least = ("draws",)

    def complete(self, task: Task, n: int | None) -> ExponentialSettings:
        """Fill in ``epsilon``, then the ``draws`` that go with it."""
        epsilon = 1.0 if self.asked.epsilon == PLAN else self.asked.epsilon
        draws = _enough(task, epsilon) if self.asked.draws == PLAN else self.asked.draws
        return self.asked.settled(ExponentialSettings, epsilon=epsilon, draws=draws)

    def paper_people(self, task: Task, learner: ExponentialSettings) -> PlannedValue | None:
        """Return Theorem 4.2's n."""
        if task.budget is None:
            return None
        epsilon, delta, kappa = task.budget
        draws = learner.draws
        return follow(
            task.scenario.curator.n,
            lambda: max(task.sample, formulas.paper_n_release(draws, task.rounds, kappa, epsilon, delta)),
            "max(n of the statistics, m sqrt(288 T ln(2/delta))/(eps kappa))",
            PAPER + "Theorem 4.2",
        )

    def planned_values(self, task: Task, learner: ExponentialSettings) -> dict[str, PlannedValue]:
        """Return m."""
        draws = follow(
            self.asked.draws,
            lambda: _enough(task, learner.epsilon),
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
