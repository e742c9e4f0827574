"""Planning a private choice of hyperparameters: the largest mu of a run that the budget admits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.core.errors import BadMessage, BadScenario
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, number
from common.planning.planned_values import PlannedValue, fixed, follow
from common.privacy.accountants.base import Plan as Events
from common.privacy.events import PrivateSelection
from common.privacy.theorems.private_selection import mu_for_selection
from common.scenario.scenario import Scenario

SOURCE = "Papernot & Steinke 2022; docs/hyperparameters.md"


@PLANNINGS.register("chosen")
class ChosenPlanning(LearnerPlanning):
    """``mu`` of a run, so that one choice costs the curator's whole budget."""

    open_settings = frozenset({"mu"})
    reweighs = False

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events:
        """One choice a round, from the sample itself, whatever the weights."""
        return [(_event(learner, number(learner, "mu")), len(schedule))]

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: what is chosen is the answer."""
        return follow(scenario.curator.rounds, lambda: 1, "one choice", SOURCE)

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in ``mu``.

        Raises
        ------
        BadScenario
            If there is no budget with a positive delta, or more than one round to share it.
        """
        learner = dict(task.scenario.curator.settings)
        if learner.get("mu") == "plan":
            learner["mu"] = _most(task)
        return learner

    def people(self, task: Task, learner: dict[str, Any]) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, SOURCE)

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return mu, and how many runs there are: on the average looked at, and carried out."""
        asked, law = task.scenario.curator.settings.get("mu"), _event(learner, number(learner, "mu")).law
        text = "largest mu whose choice is (eps, delta)-DP"
        return {
            "mu": PlannedValue(
                value=learner["mu"], rule=learner["mu"] if asked == "plan" else None, formula=text, source=SOURCE
            ),
            "runs": fixed(law.expected, "E[K]: runs that are chosen from, on the average", SOURCE),
            "most runs": fixed(law.most, "law.most: runs that are carried out", SOURCE),
        }


def _most(task: Task) -> float:
    curator = task.scenario.curator
    if curator.epsilon is None or not curator.delta:
        raise BadScenario("planning mu of the learner chosen needs the curator's epsilon and a positive delta")
    if task.rounds != 1:
        raise BadScenario(f"planning mu of the learner chosen is for one round, found {task.rounds}: give mu")
    return mu_for_selection(curator.epsilon, curator.delta, _event(curator.settings, 1.0).law)


def _event(learner: dict[str, Any], mu: float) -> PrivateSelection:
    try:
        return PrivateSelection.parse({"mu": mu, "law": learner.get("law")})
    except BadMessage as error:
        raise BadScenario(f"curator.learner: {error.detail}") from None
