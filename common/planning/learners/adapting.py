"""Planning both adaptation learners: the largest mu that the curator's budget admits."""

from __future__ import annotations

from typing import ClassVar

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.adaptation import AdaptationSettings, OpenAdaptation
from common.planning.learners.base import LearnerPlanning, Task
from common.privacy.events import Gaussian
from common.privacy.rounding import MAX_EPSILON, down, up
from common.privacy.sampling_error import delta_left, error_paid, payable
from common.privacy.theorems.domain_adaptation import paper_mu
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from common.scenario.scenario import Scenario
from common.statistics.formulas import PlannedValue, follow

SOURCE = "Bassily, Cortes, Mao & Mohri 2024, "
TIGHT = "docs/adaptation.md"


class AdaptationPlanning(LearnerPlanning[OpenAdaptation, AdaptationSettings]):
    """``mu`` of a call: mu*(eps, delta), or that of the printed noise with the paper's bounds, where it is private."""

    kind: ClassVar[type[AdaptationSettings]]
    """The class of the settled settings."""

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: the learner accounts for the difference of the domains itself."""
        return follow(scenario.curator.rounds, lambda: 1, "one call", SOURCE + "Algorithm 1")

    def complete(self, task: Task, n: int | None) -> AdaptationSettings:
        """Fill in ``mu`` and ``calibration``.

        Raises
        ------
        BadScenario
            If the budget has no positive delta.
        BadInput
            If the paper's noise is not private at this epsilon.
        """
        mu = _most(task, self.asked) if self.asked.mu == PLAN else self.asked.mu
        return self.asked.settled(self.kind, mu=mu, calibration="paper" if task.paper else "tight")

    def people(self, task: Task, learner: AdaptationSettings) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, TIGHT)

    def planned_values(self, task: Task, learner: AdaptationSettings) -> dict[str, PlannedValue]:
        """Return mu."""
        if learner.mu is None:
            return {}
        text, source = "largest mu with delta_G(eps; mu) <= delta, over sqrt(T)", TIGHT
        if task.paper:
            text, source = "eps/2 over sqrt(2 ln(3/delta)), and the discrepancy's share", SOURCE + "Theorem 4.3"
        rule = learner.mu if self.asked.mu == PLAN else None
        return {"mu": PlannedValue(value=learner.mu, rule=rule, formula=text, source=source)}


def _payable(epsilon: float, delta: float, rounds: int) -> tuple[float, float]:
    """Return a budget, or the largest below it whose delta can pay for the distance of the noise from its law."""
    error = error_paid([(Gaussian(mu=1.0), rounds)])
    most = payable(delta, error)
    return (epsilon, delta) if epsilon <= most else (most, delta_left(delta, most, error))


def _most(task: Task, asked: OpenAdaptation) -> float | None:
    curator = task.scenario.curator
    if curator.epsilon is None:
        return None
    if not curator.epsilon <= MAX_EPSILON:
        raise BadScenario(f"curator.epsilon must be positive and at most {MAX_EPSILON:g}, found {curator.epsilon:g}")
    if not curator.delta:
        raise BadScenario("Gaussian noise needs a positive delta: give curator.delta, 1e-6 say")
    if not task.paper:
        whole = mu_allowed(*_payable(curator.epsilon, curator.delta, task.rounds))
        return whole if task.rounds == 1 else down(whole / task.rounds**0.5, 8.0)
    mu = up(paper_mu(curator.epsilon / 2.0, curator.delta) / (1.0 - asked.discrepancy_share) ** 0.5, 16.0)
    found = delta_of(mu * up(task.rounds**0.5), curator.epsilon)
    if found > curator.delta:
        raise BadScenario(
            f"{task.rounds} calls with the printed noise have delta {found:.3g} at epsilon = {curator.epsilon:g}, more "
            f"than {curator.delta:g}: take one round, or bounds: tight"
        )
    return mu
