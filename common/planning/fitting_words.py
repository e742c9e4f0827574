"""What fits the size, in sentences for people."""

from __future__ import annotations

import math

from common.local.mechanisms.mechanism import Mechanism
from common.statistics.intervals import certainty

_PERCENT, _FINE, _ROUNDING = 100.0, 2.0, 1e-9
NO_CHOICE = "What fits: protocol learn-and-test, the curator's model as it is, one round"


def points(share: float) -> str:
    """Return a difference of 0/1 losses in points, rounded up: to whole ones, to hundredths where it is below two."""
    percent = _PERCENT * share - _ROUNDING
    return f"{math.ceil(percent)} points" if percent > _FINE else f"{math.ceil(_PERCENT * percent) / _PERCENT:g} points"


def of_agents(agents: int, told: float, sure: float, likely: float, beta: float) -> str:
    """Say what agents tell apart: a difference ``told`` in about a share ``likely`` of the runs, by the normal law.

    ``sure`` is the widest gap that the run can state, which holds with probability 1 - ``beta``.
    """
    return (
        f"{agents:,} agents tell {points(told)} of loss apart, not {points(told / 3.0)}: the better of two candidates "
        f"has the smaller estimate in about {_PERCENT * likely:.0f} of 100 runs if they differ by {points(told)}, in "
        f"70 if by a third of that. Whatever the losses are, the stated gap is {points(sure)} at most if all of them "
        f"answer, and holds with {certainty(1.0 - beta)} confidence"
    )


def of_one(agents: int, sure: float, beta: float) -> str:
    """Say how well agents tell the loss of one model."""
    wide, held = f"an interval {points(sure)} wide at most", f"which holds it with {certainty(1.0 - beta)} confidence"
    return f"{agents:,} agents, if all of them answer, tell the loss of one model to within {wide}, {held}"


def of_noise(n: int, epsilon: float | None, noise: float, ignorant: float, quiet: float, *, ball: bool) -> str:
    """Say what the curator's noise may cost, and how much narrower its learner's ``ball`` makes it ``quiet``."""
    if epsilon is None:
        return f"The curator's model of {n:,} people has no noise, and no guarantee"
    said = (
        f"Noise may cost the model of {n:,} people with epsilon = {epsilon:g} about {noise:.2g} of its learner's loss, "
        f"of {ignorant:.2f} that a model has which knows nothing (an order, no bound)"
    )
    if ball and noise > quiet:
        said += f"; with {quiet / noise:.2g} of the learner's diameter it would be {quiet:g}"
    return said


def of_choice(rounds: int, repair: float) -> str:
    """Say which portfolio fits."""
    if rounds > 1:
        return (
            f"What fits: protocol portfolio with curator.rounds={rounds}: models of the sample as it is and as agents "
            "say it should be, their recalibrations and both constants"
        )
    if repair:
        return "What fits: protocol portfolio, one model, its recalibration and both constants, one round"
    return (
        "What fits: protocol portfolio with portfolio.repair=0, one model and both constants, one round: a "
        "recalibration would take two fifths of the agents from those who judge it"
    )


def no_bits(mechanism: Mechanism) -> str:
    """Say that these agents can judge nothing."""
    return (
        f"the agents' mechanism {mechanism.name!r} answers with numbers, and a portfolio is judged by bits: the "
        "curator's model will be the answer, better than a constant or not; take warner"
    )


def no_judges(agents: int, told: float) -> str:
    """Say that agents are too few to judge."""
    return (
        f"{agents:,} agents cannot tell less than {points(told)} of loss apart, so they judge nothing: the curator's "
        "model will be the answer, better than a constant or not; enlarge the number of agents or their epsilon"
    )


def no_model(n: int, epsilon: float | None, noise: float, ignorant: float, *, ball: bool) -> str:
    """Say that the curator's model may be noise; where its learner has a ``ball`` that could be smaller, say so."""
    smaller = "; a learner with a smaller diameter has less" if ball else ""
    return (
        f"the model of {n:,} people with epsilon = {epsilon or math.inf:g} may be noise alone ({noise:.2g} of its "
        f"loss; knowing nothing costs {ignorant:.2f}), so no more than a constant can be expected: enlarge n or "
        f"epsilon, or take fewer features{smaller}"
    )
