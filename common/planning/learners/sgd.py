"""Planning gradient descent: steps for its accuracy, and the noise that goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from common.core.errors import BadScenario
from common.planning import formulas
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, number, spent
from common.planning.planned_values import ERRATA, PAPER, PlannedValue, follow
from common.privacy.accountants.base import Plan as Events
from common.privacy.calibration import steps_plan
from common.scenario.scenario import Scenario

MIN_NOISE = 0.1
"""Smallest sigma/L that a plan chooses: below it, noise no longer slows a learner down."""

_MAX_NOISE = 2.0**10


@PLANNINGS.register("sgd")
class SgdPlanning(LearnerPlanning):
    """``noise`` (sigma/L) and ``steps`` R.

    With n open, sigma = sqrt(20) L as in the paper (n then follows); with n given, the least noise that the
    accountant admits, rounded up and at least ``MIN_NOISE``. Steps are as many as reach the learner's
    accuracy; where noise and steps are both open they belong together, and the search prices them together.
    """

    open_settings = frozenset({"steps", "noise"})
    least = ("steps",)

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events | None:
        """R steps a round with u = 2 L/sigma, rounded up; nothing is guaranteed without noise."""
        if not number(learner, "noise") > 0.0:
            return None
        ratio = math.nextafter(2.0 / number(learner, "noise"), math.inf)
        return steps_plan(schedule, int(number(learner, "steps")), ratio)

    def settle(self, task: Task) -> tuple[dict[str, Any], PlannedValue]:
        """Settle n, noise and steps; the paper's sigma depends on n, and n on R, and R on sigma: a fixed point."""
        learner, n = super().settle(task)
        curator = task.scenario.curator
        while task.paper and curator.n == "plan" and curator.settings.get("noise") == "plan":
            again = self.complete(task, int(n.value))
            if again == learner:
                break
            learner, n = again, self.people(task, again)
        return learner, n

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in ``noise`` and ``steps``.

        Raises
        ------
        BadScenario
            If no noise fits the budget.
        """
        learner = dict(task.scenario.curator.settings)

        def at(noise: float) -> dict[str, Any]:
            steps = _enough(task, noise) if learner.get("steps") == "plan" else int(number(learner, "steps"))
            return {**learner, "noise": noise, "steps": steps}

        if learner.get("noise") != "plan":
            return at(number(learner, "noise"))
        if task.budget is None:
            return at(0.0)
        epsilon, delta, kappa = task.budget
        if n is None:
            return at(formulas.PAPER_NOISE)
        if task.paper:
            return at(formulas.paper_noise(epsilon, delta, kappa * n))
        return at(_least_noise(lambda noise: spent(at(noise), delta, n, kappa, task.eta, task.rounds) <= epsilon))

    def paper_people(self, task: Task, learner: dict[str, Any]) -> PlannedValue | None:
        """Return Algorithm 4's n."""
        if task.budget is None:
            return None
        epsilon, _, kappa = task.budget
        steps = int(number(learner, "steps"))
        return follow(
            task.scenario.curator.n,
            lambda: max(task.sample, formulas.paper_n_sgd(steps, task.rounds, kappa, epsilon)),
            "max(n of the statistics, sqrt(Y ln Y)), Y = 52 R T/(8 kappa^2 eps)",
            PAPER + "Algorithm 4",
        )

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return R and sigma/L."""
        asked = task.scenario.curator.settings
        tail = "8 D^2 L^2 ln(2/beta)" if task.paper else "32 D^2 L^2 ln(2T/beta)"
        steps = follow(
            asked["steps"],
            lambda: _enough(task, number(learner, "noise")),
            f"max(9 D^2 (L^2 + sigma^2 d), {tail})/alpha^2",
            PAPER + "Algorithm 3" if task.paper else ERRATA + "item 4",
        )
        noise = PlannedValue(
            value=learner["noise"],
            rule=learner["noise"] if asked["noise"] == "plan" else None,
            formula="sigma/L: sqrt(20), or the least that the accountant admits for a given n",
            source=PAPER + "Algorithm 4" if task.paper else ERRATA + "curator, SGD steps",
        )
        return {"steps": steps, "noise": noise}


def _enough(task: Task, noise: float) -> int:
    """Return R for which every round reaches loss ``accuracy.learner * alpha`` on mu."""
    scenario, learner = task.scenario, task.scenario.curator.settings
    alpha = scenario.accuracy.learner * scenario.alpha
    clip, diameter = number(learner, "clip", 1.0), number(learner, "diameter")
    width = _dimension(scenario) + (number(learner, "intercept", 1.0) != 0.0)
    if task.paper:
        return formulas.paper_steps(alpha, scenario.beta, clip, noise, diameter, width)
    return formulas.steps(alpha, scenario.beta, task.rounds, clip, noise, diameter, width)


def _least_noise(fits: Callable[[float], bool]) -> float:
    private, leaky = MIN_NOISE, 0.0
    while not fits(private):
        private, leaky = 2.0 * private, private
        if private > _MAX_NOISE:
            raise BadScenario(
                f"no noise up to sigma = {_MAX_NOISE:g} L fits the curator's budget: enlarge n, raise "
                "epsilon or delta, or lower rounds or steps"
            )
    while leaky and private > leaky * 1.0001:
        middle = math.sqrt(private * leaky)
        private, leaky = (middle, leaky) if fits(middle) else (private, middle)
    return private


def _dimension(scenario: Scenario) -> int:
    table, distribution = scenario.source.table, scenario.source.distribution
    return table.dimension if table is not None else distribution.dimension if distribution is not None else 0
