"""A forecast of what the verdict on a run can state, from public sizes alone, before any budget is spent."""

import math
from functools import lru_cache

from common.core.errors import BadInput
from common.core.values import PLAN
from common.local.losses import Costs
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.numerics.bisection import least
from common.protocols.base import demands_of
from common.protocols.portfolio import Portfolio, Roles
from common.scenario.scenario import Scenario
from common.statistics import finalists
from common.statistics.intervals import certainty, estimate

OFTEN = 0.8
"""A verdict is forecast if at least this share of runs give it."""
_QUANTILE = 0.8416212335729143  # a standard normal variable is below it with probability ``OFTEN``
_BEGINS = "Forecast of the verdict"
_PERCENT, _FINE, _ROUNDING = 100.0, 2.0, 1e-9


def points(share: float, costs: Costs | None = None) -> str:
    """Return a difference of losses as text: in points or, where mistakes have costs, in the cost of a hundred people.

    It is rounded up: to a whole number, to hundredths below two.
    """
    percent = _PERCENT * share * (1.0 if costs is None else costs.heaviest) - _ROUNDING
    text = f"{math.ceil(percent)}" if percent > _FINE else f"{math.ceil(_PERCENT * percent) / _PERCENT:g}"
    if costs is not None:
        return f"{text} a hundred people"
    return f"{text} point{'' if text == '1' else 's'}"


@lru_cache(maxsize=1 << 10)
def half_width(mechanism: Mechanism, answers: int, miss: float) -> float:
    """Return half the width of the interval of one look at so many answers, at a loss of 1/2, where it is widest."""
    interval = estimate(mechanism, 0.5 * answers, answers, 1.0 - miss, once=True)
    return 0.5 * (interval.high - interval.low)


@lru_cache(maxsize=1 << 10)
def answers_within(mechanism: Mechanism, error: float, miss: float) -> int:
    """Return for how many answers half the interval of one look is at most ``error``; BadInput beyond 2^40."""
    try:
        return least(lambda answers: half_width(mechanism, answers, miss) <= error, 1, 1 << 40)
    except LookupError:
        raise BadInput(f"an error of {error:g} takes more than 2^40 answers: allow a larger alpha") from None


def detectable(mechanism: BitMechanism, judges: int, miss: float) -> float:
    """Return by how much a model must be better for a bound with this ``miss`` to show it in :data:`OFTEN` of all runs.

    The bound is about :func:`common.statistics.finalists.width` above the estimate. The estimate of a difference has a
    standard deviation of at most 1/((2p - 1) sqrt(judges)); that times its normal quantile is added.
    """
    spread = 1.0 / ((2.0 * mechanism.truth - 1.0) * math.sqrt(max(judges, 1)))
    return min(1.0, finalists.width(mechanism, judges, miss) + _QUANTILE * spread)


def detectable_beside_a_constant(mechanism: BitMechanism, roles: Roles, beta: float, classes: int) -> float:
    """Return the same where all that is known of constants is from agents who reported labels: Roles.of_constants.

    It also holds where the rival is a constant that was chosen by these reports, which halves the miss
    (:class:`common.statistics.finalists.ToBestConstant`).
    """
    judges, reporters = counts = roles.of_constants(classes)
    spread = 0.5 * math.sqrt(1.0 / max(judges, 1) + 1.0 / max(reporters, 1)) / (2.0 * mechanism.truth - 1.0)
    width = finalists.constant_width(mechanism, counts, 0.5 * finalists.OF_CONSTANTS["constant"] * beta)
    return min(1.0, width + _QUANTILE * spread)


def gap_text(mechanism: BitMechanism, roles: Roles, beta: float, classes: int = 0, costs: Costs | None = None) -> str:
    """Return the forecast of a verdict that compares a model with what one side has alone."""
    judges = roles.judges
    yes = detectable(mechanism, judges, finalists.SHARES["gap"] * beta)
    probably = detectable(mechanism, judges, 1.0 - finalists.PROBABLE)
    better = detectable_beside_a_constant(mechanism, roles, beta, classes)
    limit = worst_constant(classes, costs)
    verdict = f"is shown from {points(better, costs)} on, too" if better < limit else "can hardly be shown by so few"
    often = f"in {_PERCENT * OFTEN:.0f} of 100 runs"
    least = points(finalists.sure_width(mechanism, judges, beta), costs)
    verb, unit = ("errs on", "") if costs is None else ("costs", f" ({costs.text})")
    sure, likely, most = (points(size, costs) for size in (yes, probably, limit))
    less = f"less{unit} than the best of what either side has alone"
    bound = f"and saying the better constant to everybody {verb} {most} at most"
    rest = (
        f"; of less than {least} mostly that it cannot be told. Where that best is the curator's model, or another "
        f"constant is nearly as good as the best one, 'better than saying the same to everybody' {verdict}"
    )
    if yes < limit:
        text = f"'yes' where the model {verb} {sure} {less}, 'probably' from {likely} on (each {often}){rest}"
    elif probably < limit:
        text = (
            f"at best 'probably', where the model {verb} {likely} {less} ({often}): 'yes' takes {sure}, {bound}{rest}"
        )
    else:
        text = "perhaps that it cannot be told, even of a model without mistakes: "
        text += f"'probably' takes {likely} {less} ({often}), {bound}"
    return f"{_BEGINS}, if all agents answer: {text}"


def forecast_of(subject: str, sentence: str) -> str:
    """Return a forecast that names its subject, where two are shown side by side; other sentences unchanged."""
    return sentence.replace(_BEGINS, f"{_BEGINS} of {subject}", 1)


def worst_constant(classes: int, costs: Costs | None) -> float:
    """Return the largest loss that the better constant can have: at the least favourable shares of the labels.

    A model cannot be better than the constant by more, and a constant is among what either side has alone.
    """
    if classes:
        return 1.0 - 1.0 / classes
    if costs is None:
        return 0.5
    return costs.miss * costs.false_alarm / ((costs.miss + costs.false_alarm) * costs.heaviest)


def loss_text(mechanism: Mechanism, answers: int, beta: float, rounds: int = 1, costs: Costs | None = None) -> str:
    """Return the forecast for one model, or the best of some rounds, each tested by so many agents at once."""
    half, text, rest = half_width(mechanism, answers, beta / rounds), "on how many of the population the model errs", ""
    if costs is None:
        rest = ", unless it errs on more than half"
    else:
        text = f"what the model costs ({costs.text})"
    return (
        f"{_BEGINS}, if all agents answer: {text}, to within {points(half, costs)}, with {certainty(1.0 - beta)} "
        "confidence; nothing is asked about saying the same to everybody, so whether the model is better cannot be "
        f"told{rest}"
    )


def forecast(scenario: Scenario, agents: int) -> str | None:
    """Return the forecast of the verdict if so many agents are enrolled; None where it is not known.

    It is about the protocol that the scenario names (:mod:`common.scenario.fitting` says which one fits), and about
    mistakes, or their costs.
    """
    mechanism, demands, beta = scenario.agents.mechanism, demands_of(scenario.protocol), scenario.beta
    costs = scenario.agents.costs
    known = demands.transfers or scenario.protocol == "model-agnostic"
    about_mistakes = scenario.problem is None and not scenario.tasks and scenario.agents.loss == "zero-one"
    if not (known and about_mistakes and isinstance(mechanism, Mechanism)):
        return None
    answering = math.floor(agents * (1.0 - scenario.agents.dropout))
    if demands.portfolio:
        if not isinstance(mechanism, BitMechanism):
            return None
        roles, learner = Roles.of(answering, scenario.portfolio or Portfolio()), scenario.curator.learner
        classes = 0 if learner is None else learner.class_columns[1]
        return gap_text(mechanism, roles.of_classes if classes else roles, beta, classes, costs)
    if not demands.reweighs:
        return loss_text(mechanism, answering, beta, costs=costs)
    rounds = scenario.curator.rounds
    if scenario.halts:
        level = _PERCENT * scenario.levels[1]
        return (
            f"{_BEGINS}: that the model errs on less than {level:g}% of the population, if the agents' tests show that "
            f"within all rounds, with {certainty(1.0 - beta)} confidence; else on how many the best model errs"
        )
    if rounds == PLAN:
        return None
    return loss_text(mechanism, answering // int(rounds), beta, int(rounds), costs)
