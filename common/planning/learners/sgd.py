"""Planning gradient descent: steps for its accuracy, and the noise that goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.sgd import OpenSgd, SgdSettings
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, affordable
from common.privacy.calibration import PRECISION
from common.statistics import formulas
from common.statistics.formulas import CORRECTIONS, PAPER, PlannedValue, follow

MIN_NOISE = 0.1
"""Smallest sigma/L that a plan chooses: below it, noise no longer slows a learner down."""

_MAX_NOISE = 2.0**10


@PLANNINGS.register("sgd")
class SgdPlanning(LearnerPlanning[OpenSgd, SgdSettings]):
    """``noise`` (sigma/L) and ``steps`` R.

    With n open, sigma = sqrt(20) L as in the paper (n then follows); with n given, the least noise that the
    accountant admits, rounded up and at least ``MIN_NOISE``. Steps are as many as reach the learner's
    accuracy; where noise and steps are both open they belong together, and the search prices them together.
    """

    least = ("steps",)

    def settle(self, task: Task) -> tuple[SgdSettings, PlannedValue]:
        """Settle n, noise and steps; the paper's sigma depends on n, and n on R, and R on sigma: a fixed point."""
        learner, n = super().settle(task)
        while task.paper and task.scenario.curator.n == PLAN and self.asked.noise == PLAN:
            again = self.complete(task, int(n.value))
            if again == learner:
                break
            learner, n = again, self.people(task, again)
        return learner, n

    def complete(self, task: Task, n: int | None) -> SgdSettings:
        """Fill in ``noise`` and ``steps``.

        Raises
        ------
        BadScenario
            If no noise fits the budget.
        """
        asked = self.asked

        def at(noise: float) -> SgdSettings:
            steps = self._enough(task, noise) if asked.steps == PLAN else asked.steps
            return asked.settled(SgdSettings, noise=noise, steps=steps)

        if asked.noise != PLAN:
            return at(asked.noise)
        if task.budget is None:
            return at(0.0)
        epsilon, delta, kappa = task.budget
        beside = task.beside
        if n is None:
            return at(formulas.PAPER_NOISE)
        if task.paper:
            return at(formulas.paper_noise(epsilon, delta, kappa * n))

        def fits(noise: float, quick: bool) -> bool:
            calls = (n, kappa, task.eta, task.rounds, task.before)
            if not affordable(at(noise), epsilon, delta, *calls, quick=quick):
                return False
            # Accountants that price the calls well alone may not price them beside the counts: both must fit as well.
            whole = task.scenario.curator.epsilon or epsilon
            return not beside or affordable(at(noise), whole, delta, *calls, beside=beside, quick=quick)

        return at(_least_noise(fits))

    def paper_people(self, task: Task, learner: SgdSettings) -> PlannedValue | None:
        """Return Algorithm 4's n."""
        if task.budget is None:
            return None
        epsilon, _, kappa = task.budget
        steps = learner.steps
        return follow(
            task.scenario.curator.n,
            lambda: max(task.sample, formulas.paper_n_sgd(steps, task.rounds, kappa, epsilon)),
            "max(n of the statistics, sqrt(Y ln Y)), Y = 52 R T/(8 kappa^2 eps)",
            PAPER + "Algorithm 4",
        )

    def planned_values(self, task: Task, learner: SgdSettings) -> dict[str, PlannedValue]:
        """Return R and sigma/L."""
        tail = "8 D^2 L^2 ln(2/beta)" if task.paper else "32 D^2 L^2 ln(2T/beta)"
        steps = follow(
            self.asked.steps,
            lambda: self._enough(task, learner.noise),
            f"max(9 D^2 (L^2 + sigma^2 d), {tail})/alpha^2",
            PAPER + "Algorithm 3" if task.paper else CORRECTIONS + "K4",
        )
        noise = PlannedValue(
            value=learner.noise,
            rule=learner.noise if self.asked.noise == PLAN else None,
            formula="sigma/L: sqrt(20), or the least that the accountant admits for a given n",
            source=PAPER + "Algorithm 4" if task.paper else CORRECTIONS + "curator, SGD steps",
        )
        return {"steps": steps, "noise": noise}

    def _enough(self, task: Task, noise: float) -> int:
        """Return R for which every round reaches loss ``accuracy.learner * alpha`` on mu."""
        scenario, asked = task.scenario, self.asked
        alpha = scenario.accuracy.learner * scenario.alpha
        width = scenario.source.dimension + (asked.intercept != 0.0)
        if task.paper:
            return formulas.paper_steps(alpha, scenario.beta, asked.clip, noise, asked.diameter, width)
        return formulas.steps(alpha, scenario.beta, task.rounds, asked.clip, noise, asked.diameter, width)


def _least_noise(fits: Callable[[float, bool], bool]) -> float:
    """Return the least noise for the quick accountants, or less of it, to within PRECISION, for the others.

    The others may show nothing for some noise and something for a little less, where their grids are at an end: so
    three steps down are tried before the search ends, the longest one first, which is the way on where it fits.
    """
    try:
        private = _least(lambda noise: fits(noise, True))
    except BadScenario:
        return _least(lambda noise: fits(noise, False), 1.0 + PRECISION)
    while private > MIN_NOISE:
        near, further, far, farthest = (
            max(private * (1.0 - step * PRECISION), MIN_NOISE) for step in (1.0, 4.0, 16.0, 64.0)
        )
        if fits(far, False):
            private = farthest if fits(farthest, False) else far
            continue
        less = next((noise for noise in (further, near) if fits(noise, False)), None)
        if less is None:
            return private
        private = less
    return private


def _least(fits: Callable[[float], bool], ratio: float = 1.0001) -> float:
    private, leaky = MIN_NOISE, 0.0
    while not fits(private):
        private, leaky = 2.0 * private, private
        if private > _MAX_NOISE:
            raise BadScenario(
                f"no noise up to sigma = {_MAX_NOISE:g} L fits the curator's budget: enlarge n, raise "
                "epsilon or delta, or lower rounds or steps"
            )
    return _narrowed(fits, private, leaky, ratio)


def _narrowed(fits: Callable[[float], bool], private: float, leaky: float, ratio: float) -> float:
    while leaky and private > leaky * ratio:
        middle = math.sqrt(private * leaky)
        private, leaky = (middle, leaky) if fits(middle) else (private, middle)
    return private
