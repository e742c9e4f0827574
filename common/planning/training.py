"""A learner's public settings, as far as a plan needs them: what is open, what it costs, how much is enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from common.errors import BadScenario
from common.planning import formulas
from common.privacy.accountants.base import Plan as Events
from common.privacy.budget import cost
from common.privacy.calibration import release_plan, sampling_schedule, steps_plan
from common.scenario import Scenario

LEAST_NOISE = 0.1
"""Smallest sigma/L that a plan chooses: below it, noise no longer slows a learner down."""

_MOST_NOISE = 2.0**10


def price(learner: dict[str, Any], schedule: Sequence[float]) -> Events | None:
    """Return the events of all rounds for settings without a ``plan``; None if the learner guarantees nothing."""
    if learner["name"] == "sgd" and _number(learner, "noise") > 0.0:
        ratio = math.nextafter(2.0 / _number(learner, "noise"), math.inf)
        return steps_plan(schedule, int(_number(learner, "steps")), ratio)
    if learner["name"] == "exponential":
        return release_plan(schedule, int(_number(learner, "draws")), _number(learner, "epsilon"), 0.0)
    return None


def spent(learner: dict[str, Any], delta: float, n: int, kappa: float, eta: float, rounds: int) -> float:
    """Return the epsilon that all rounds cost at ``delta``, infinite if the learner guarantees nothing."""
    events = price(learner, sampling_schedule(n, kappa, eta, rounds))
    return math.inf if events is None else cost(events, delta)


def enough_steps(scenario: Scenario, rounds: int, noise: float, paper: bool) -> int:
    """Return R for which gradient descent reaches loss ``accuracy.learner * alpha`` on mu in every round."""
    learner, alpha = scenario.curator.learner, scenario.accuracy.learner * scenario.alpha
    clip, diameter = _number(learner, "clip", 1.0), _number(learner, "diameter")
    width = _dimension(scenario) + (_number(learner, "intercept", 1.0) != 0.0)
    if paper:
        return formulas.paper_steps(alpha, scenario.beta, clip, noise, diameter, width)
    return formulas.steps(alpha, scenario.beta, rounds, clip, noise, diameter, width)


def enough_draws(scenario: Scenario, rounds: int, epsilon: float) -> int:
    """Return m for which the exponential mechanism reaches loss ``accuracy.learner * alpha`` on mu in every round.

    Raises
    ------
    BadScenario
        If the scenario does not say how many hypotheses there are.
    """
    if scenario.hypotheses is None:
        raise BadScenario("planning the exponential mechanism's draws needs hypotheses, the size of the class")
    alpha = scenario.accuracy.learner * scenario.alpha
    return formulas.draws(alpha, scenario.beta, rounds, epsilon, scenario.hypotheses)


def complete(
    scenario: Scenario, rounds: int, kappa: float | None, eta: float, n: int | None, paper: bool
) -> dict[str, Any]:
    """Fill in what the learner's settings leave at ``plan``.

    ``noise`` (sigma/L) and, for the exponential mechanism, ``epsilon``: with n open, sqrt(20) and 1 as in
    the paper (n then follows); with n given, the least noise that the accountant admits, rounded up and at
    least ``LEAST_NOISE``, and epsilon 1. ``steps`` and ``draws``: as many as reach the learner's accuracy;
    where noise and steps are both open they belong together, and the search prices them together.

    Raises
    ------
    BadScenario
        If no noise fits the budget.
    """
    learner = dict(scenario.curator.learner)
    if learner["name"] == "exponential":
        if learner.get("epsilon") == "plan":
            learner["epsilon"] = 1.0
        if learner.get("draws") == "plan":
            learner["draws"] = enough_draws(scenario, rounds, _number(learner, "epsilon"))
    if learner["name"] != "sgd":
        return learner

    def at(noise: float) -> dict[str, Any]:
        steps = learner["steps"]
        if steps == "plan":
            steps = enough_steps(scenario, rounds, noise, paper)
        return {**learner, "noise": noise, "steps": steps}

    if learner.get("noise") != "plan":
        return at(_number(learner, "noise"))
    epsilon, delta = scenario.curator.epsilon, scenario.curator.delta
    if epsilon is None or delta is None or kappa is None:
        return at(0.0)
    if paper:
        return at(formulas.paper_noise(epsilon, delta, kappa * n) if n else formulas.PAPER_NOISE)
    if n is None:
        return at(formulas.PAPER_NOISE)
    return at(_least_noise(lambda noise: spent(at(noise), delta, n, kappa, eta, rounds) <= epsilon))


def _least_noise(fits: Callable[[float], bool]) -> float:
    private, leaky = LEAST_NOISE, 0.0
    while not fits(private):
        private, leaky = 2.0 * private, private
        if private > _MOST_NOISE:
            raise BadScenario(
                f"no noise up to sigma = {_MOST_NOISE:g} L fits the curator's budget: enlarge n, raise "
                "epsilon or delta, or lower rounds or steps"
            )
    while leaky and private > leaky * 1.0001:
        middle = math.sqrt(private * leaky)
        private, leaky = (middle, leaky) if fits(middle) else (private, middle)
    return private


def _dimension(scenario: Scenario) -> int:
    table, distribution = scenario.source.table, scenario.source.distribution
    return table.dimension if table is not None else distribution.dimension if distribution is not None else 0


def _number(learner: dict[str, Any], key: str, default: float | None = None) -> float:
    value = learner.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadScenario(f"curator.learner.{key} must be a number to plan with, found {value!r}")
    return float(value)
