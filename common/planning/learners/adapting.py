"""Planning both adaptation learners: the largest mu that the curator's budget admits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.core.errors import BadScenario
from common.planning.learners.base import LearnerPlanning, Task, number
from common.planning.planned_values import PlannedValue, follow
from common.privacy.accountants.base import Plan as Events
from common.privacy.events import Gaussian
from common.privacy.rounding import down, up
from common.privacy.theorems.domain_adaptation import printed_mu
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from common.scenario.scenario import Scenario

SOURCE = "Bassily, Cortes, Mao & Mohri 2024, "
TIGHT = "docs/adaptation.md"
PRINTED_SHARE = 0.05
"""Share of mu^2 for the discrepancy where the settings do not say: that of the learners."""


class AdaptationPlanning(LearnerPlanning):
    """``mu`` of a call: mu*(eps, delta), or that of the printed noise with the paper's bounds, where it is private."""

    open_settings = frozenset({"mu", "calibration"})
    reweighs = False

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events | None:
        """One Gaussian release from the sample itself a round, whatever the weights."""
        if learner.get("mu") is None:
            return None
        return [(Gaussian(count=1, mu=number(learner, "mu")), len(schedule))]

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: the learner accounts for the difference of the domains itself."""
        return follow(scenario.curator.rounds, lambda: 1, "one call", SOURCE + "Algorithm 1")

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in ``mu`` and ``calibration``.

        Raises
        ------
        BadScenario
            If the budget has no positive delta.
        BadInput
            If the paper's noise is not private at this epsilon.
        """
        learner = dict(task.scenario.curator.settings)
        if learner.get("calibration") == "plan":
            learner["calibration"] = "paper" if task.paper else "tight"
        if learner.get("mu") == "plan":
            learner["mu"] = _most(task, learner)
        return learner

    def people(self, task: Task, learner: dict[str, Any]) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, TIGHT)

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return mu."""
        if learner.get("mu") is None:
            return {}
        text, source = "largest mu with delta_G(eps; mu) <= delta, over sqrt(T)", TIGHT
        if task.paper:
            text, source = "eps/2 over sqrt(2 ln(3/delta)), and the discrepancy's share", SOURCE + "Theorem 4.3"
        asked = task.scenario.curator.settings.get("mu")
        rule = learner["mu"] if asked == "plan" else None
        return {"mu": PlannedValue(value=learner["mu"], rule=rule, formula=text, source=source)}


def _most(task: Task, learner: dict[str, Any]) -> float | None:
    curator = task.scenario.curator
    if curator.epsilon is None:
        return None
    if not curator.delta:
        raise BadScenario("Gaussian noise needs a positive delta: give curator.delta, 1e-6 say")
    if not task.paper:
        whole = mu_allowed(curator.epsilon, curator.delta)
        return whole if task.rounds == 1 else down(whole / task.rounds**0.5, 8.0)
    share = number(learner, "discrepancy_share", PRINTED_SHARE)
    mu = up(printed_mu(curator.epsilon / 2.0, curator.delta) / (1.0 - share) ** 0.5, 16.0)
    found = delta_of(mu * up(task.rounds**0.5), curator.epsilon)
    if found > curator.delta:
        raise BadScenario(
            f"{task.rounds} calls with the printed noise have delta {found:.3g} at epsilon = {curator.epsilon:g}, more "
            f"than {curator.delta:g}: take one round, or bounds: tight"
        )
    return mu
