"""Planning a private choice of hyperparameters: the largest mu of a run that the budget admits."""

from __future__ import annotations

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.chosen import ChosenSettings, OpenChosen
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task
from common.privacy.theorems.selection import mu_for_selection
from common.scenario.scenario import Scenario
from common.statistics.formulas import PlannedValue, fixed, follow

SOURCE = "Papernot & Steinke 2022; docs/hyperparameters.md"


@PLANNINGS.register("chosen")
class ChosenPlanning(LearnerPlanning[OpenChosen, ChosenSettings]):
    """``mu`` of a run, so that one choice costs the curator's whole budget."""

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: what is chosen is the answer."""
        return follow(scenario.curator.rounds, lambda: 1, "one choice", SOURCE)

    def complete(self, task: Task, n: int | None) -> ChosenSettings:
        """Fill in ``mu``.

        Raises
        ------
        BadScenario
            If there is no budget with a positive delta, or more than one round to share it.
        """
        return self.asked.settled(ChosenSettings, mu=self._most(task) if self.asked.mu == PLAN else self.asked.mu)

    def people(self, task: Task, learner: ChosenSettings) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, SOURCE)

    def planned_values(self, task: Task, learner: ChosenSettings) -> dict[str, PlannedValue]:
        """Return mu, and how many runs there are: on the average looked at, and carried out."""
        rule = learner.mu if self.asked.mu == PLAN else None
        text = "largest mu whose choice is (eps, delta)-DP"
        return {
            "mu": PlannedValue(value=learner.mu, rule=rule, formula=text, source=SOURCE),
            "runs": fixed(learner.law.expected, "E[K]: runs that are chosen from, on the average", SOURCE),
            "most runs": fixed(learner.law.most, "law.most: runs that are carried out", SOURCE),
        }

    def _most(self, task: Task) -> float:
        curator = task.scenario.curator
        if curator.epsilon is None or not curator.delta:
            raise BadScenario("planning mu of the learner chosen needs the curator's epsilon and a positive delta")
        if task.rounds != 1:
            raise BadScenario(f"planning mu of the learner chosen is for one round, found {task.rounds}: give mu")
        return mu_for_selection(curator.epsilon, curator.delta, self.asked.law)
