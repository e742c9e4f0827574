"""Planning a portfolio: how often the curator learns, how dense its weights stay, what so many agents tell apart."""

from __future__ import annotations

import math
from collections.abc import Callable

from common.core.errors import BadInput, BadScenario
from common.planning import formulas
from common.planning.planned_values import PlannedValue, fixed, follow
from common.scenario.portfolio import Portfolio
from common.scenario.scenario import Scenario
from common.statistics.intervals import estimate
from common.statistics.race import WIDER
from common.vocabulary.mechanisms.base import Mechanism
from common.vocabulary.open_values import PLAN
from common.vocabulary.operations.margins import LEAST_EPSILON

SOURCE = "docs/portfolio.md"
LEARNT = 1
"""Models: a second one, of the sample raked by what agents say of the first one's scores, halves each one's budget."""
DENSITY = 0.5
"""No record weighs more than twice the average, so a model of raked people needs twice the noise at most."""
STEP = math.log(64.0)
"""Raking can make a record weigh 64 times another."""
_MOST = 1 << 40


def candidates(rounds: int, portfolio: Portfolio) -> int:
    """Return how many candidates there are: constants, the agents' own, each model and, if so, its repair."""
    return 2 + int(portfolio.alone > 0.0) + rounds * (1 + int(portfolio.recalibrates))


def judges(agents: int, portfolio: Portfolio) -> int:
    """Return how many of the agents judge; the others repair."""
    return agents - math.floor(portfolio.repair * agents)


def told_apart(mechanism: Mechanism, agents: int, rivals: int, beta: float) -> float:
    """Return the gap that so many agents are sure to tell, if all of ``rivals`` candidates stay to the end.

    Each is asked about to agents/rivals agents. The least high is at most any candidate's high, so the gap is at
    most the width of one interval (:class:`common.statistics.race.Race`), which is widest where half the answers are 1.
    """
    each = agents // rivals
    if each == 0:
        return 1.0
    total = each // 2 if mechanism.answers == "bit" else 0.5 * each
    found = estimate(mechanism, total, each, 1.0 - beta, among=rivals)
    return min(1.0, found.high - found.low)


def stated(told: float, aim: float, *, recalibrates: bool) -> float:
    """Return the gap that a run is sure to state: what is told, and a quarter more where beliefs may choose beyond it.

    Parameters
    ----------
    told
        As :func:`told_apart` returns it.
    aim
        alpha: a gap within it stays there.
    recalibrates
        Whether there are beliefs, which repairs come with (:class:`common.statistics.race.Race`).
    """
    return min(1.0, WIDER * told) if recalibrates and told > aim else told


def judges_needed(mechanism: Mechanism, gap: float, rivals: int, beta: float) -> int:
    """Return how many agents are sure to tell a gap.

    Raises
    ------
    BadInput
        If more than 2^40 are needed.
    """

    def enough(agents: int) -> bool:
        return told_apart(mechanism, agents, rivals, beta) <= gap

    return _least(enough)


def _least(enough: Callable[[int], bool]) -> int:
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise BadInput("such a gap takes more than 2^40 agents: allow a larger alpha, or a larger epsilon")
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def check(scenario: Scenario, calls: int) -> None:
    """Refuse counts that would be noise alone, and further models that nothing tells what to be like.

    Raises
    ------
    BadScenario
        Naming what to raise.
    """
    settings = scenario.portfolio or Portfolio()
    if calls > 1 and not settings.recalibrates:
        raise BadScenario(
            f"portfolio.repair: at 0 nobody tells how the sample is to be raked for {calls} models: set "
            "curator.rounds=1, or a share of the agents who repair"
        )
    counts = settings.counts(calls)
    if scenario.margins_epsilon < counts * LEAST_EPSILON:
        raise BadScenario(
            f"portfolio.margins: {counts} counts of the curator's people share epsilon = {scenario.margins_epsilon:g}, "
            f"and none can have less than {LEAST_EPSILON:g}: raise margins or curator.epsilon"
        )


def check_learner(scenario: Scenario, calls: int) -> None:
    """Refuse raking for a learner that sees the sample as it is.

    Raises
    ------
    BadScenario
        Naming what to change.
    """
    learner = scenario.curator.settings
    if (calls > 1 or scenario.reweighs_before) and not learner.reweighs:
        raise BadScenario(
            f"curator.learner: {learner.name!r} learns from the sample as it is, so raking changes nothing of its "
            "models: take a learner of draws, such as sgd, or one round without portfolio.raking"
        )


def rounds(scenario: Scenario) -> PlannedValue:
    """Plan how often the curator learns."""
    return follow(scenario.curator.rounds, lambda: LEARNT, "one model, with the whole budget", SOURCE)


def kappa(scenario: Scenario) -> PlannedValue:
    """Plan the density of raked weights."""
    return follow(scenario.curator.kappa, lambda: DENSITY, "1/2: no record weighs more than twice the average", SOURCE)


def eta(scenario: Scenario) -> PlannedValue:
    """Plan the step of raking."""
    return follow(scenario.curator.eta, lambda: STEP, "ln 64: one record weighs 64 times another at most", SOURCE)


def answers(scenario: Scenario, calls: int) -> PlannedValue:
    """Plan how many agents judge, in all."""
    rivals = candidates(calls, scenario.portfolio or Portfolio())
    text = f"width of an interval <= alpha, {rivals} candidates"
    return fixed(judges_needed(scenario.agents.value_mechanism, scenario.alpha, rivals, scenario.beta), text, SOURCE)


def agents(scenario: Scenario, judging: int) -> PlannedValue:
    """Plan how many agents are enrolled."""
    share = (scenario.portfolio or Portfolio()).repair
    return follow(
        scenario.agents.count,
        lambda: formulas.enrolled(math.ceil(judging / (1.0 - share)), scenario.agents.dropout),
        "those who judge and those who repair, and more for dropout",
        SOURCE,
    )


def gap(scenario: Scenario, calls: int, enrolled: int) -> PlannedValue:
    """Plan the gap that the enrolled agents are sure to tell."""
    count = enrolled if scenario.agents.count == PLAN else int(scenario.agents.count)
    settings = scenario.portfolio or Portfolio()
    heard = math.floor(judges(count, settings) * (1.0 - scenario.agents.dropout))
    told = told_apart(scenario.agents.value_mechanism, heard, candidates(calls, settings), scenario.beta)
    told = stated(told, scenario.alpha, recalibrates=settings.recalibrates)
    return fixed(told, "what these agents are sure to tell apart, in loss", SOURCE)
