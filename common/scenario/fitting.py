"""Settings that fit the size: what a number of people on both sides can achieve, from public numbers alone.

docs/portfolio.md ("Settings that fit the size") has the rules and their justification.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from common.core.values import PLAN, Value
from common.data.tables import Category, Feature, Label, Layout, Number
from common.local.losses import Costs
from common.local.mechanisms.mechanism import BitMechanism, Mechanism, Warner
from common.numerics.elementary import log
from common.protocols.base import demands_of
from common.protocols.portfolio import MANY, TEACHINGS, Portfolio, Roles
from common.scenario import forecasting
from common.scenario.forecasting import points
from common.scenario.scenario import Scenario
from common.statistics import finalists
from common.statistics.curves import auc_width
from common.statistics.intervals import VAGUE

QUIET = 0.05
"""The largest loss that noise may cost a model: the diameter of the ball of models is chosen for it."""
NARROW, WIDE = 2.0, 60.0  # diameters between which a learner's ball is chosen
STEPS_A_PERSON = 1_000
FEWEST, MOST = 10_000, 2_000_000  # gradient steps in all
JUDGES = 0.25
"""If judges cannot even likely show a difference of losses this large, a warning says that they show little."""
IGNORANT = math.log(2.0)  # the logistic loss of a model without information


@dataclass(frozen=True)
class Sizes:
    """The public numbers that decide which settings fit: n people of the curator, the agents who answer, and the rest.

    ``epsilon`` and ``delta`` are the curator's budget (None: nothing is private), ``beta`` is the failure probability
    of the stated gap. ``reach`` is L D/2 of the learner: the Lipschitz constant of its loss times the radius of the
    ball of its models, 1 where it is not known. ``classes`` is the number of classes of the learner, 0 for two labels.
    ``costs``: of mistakes; None where each counts as one. ``response``: whether a number is predicted.
    """

    n: int
    agents: int
    dimension: int
    epsilon: float | None
    delta: float | None
    mechanism: Mechanism
    beta: float
    reach: float = 1.0
    classes: int = 0
    costs: Costs | None = None
    response: bool = False


class Advice(Value):
    """The settings that fit a number of people.

    Attributes:
        protocol: ``portfolio``: agents teach the curator's model and judge it. ``learn-and-test``: they are too few,
            and the curator's model is the answer as it is.
        taught: The standard deviation of the model's mean error as the agents who teach report it; None: none teach.
        sure, likely: The difference of two finalists' losses that the judges show with probability 1 - beta, together
            with all other statements of a run, and with probability :data:`common.statistics.finalists.LIKELY`; without
            judges, half the width of the interval of one loss.
        noise: What the curator's noise may cost its model, in its learner's own loss: :func:`private_excess`.
        sentences, warnings: The same as text; where the agents, or the curator, cannot contribute anything.
        probabilities: Why these may show no more than the share of the label; None: they may, or there are none.
    """

    protocol: Literal["portfolio", "learn-and-test"]
    taught: float | None
    sure: float
    likely: float
    noise: float
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    probabilities: str | None = Field(default=None, exclude_if=lambda words: words is None)


def private_excess(n: int, epsilon: float | None, delta: float | None, dimension: int, reach: float = 1.0) -> float:
    """Return the order of the excess risk of a private model: L D/2 min(d', sqrt(d' ln(1/delta)))/(n epsilon).

    Here d' = d + 1 counts the intercept, and ``reach`` is L D/2. It is reached for convex Lipschitz losses up to
    logarithms of n, and no private learner does better by more than the logarithm of 1/delta (Bassily, Smith and
    Thakurta 2014, Theorems 2.4, 3.2 and 5.3); constants are left out. 0 where nothing is private.
    """
    if epsilon is None:
        return 0.0
    width = dimension + 1.0
    if delta:
        # The same on every machine: this value affects what a portfolio asks.
        width = min(width, math.sqrt(width * float(log(np.asarray(1.0 / delta)))))
    return reach * width / (n * epsilon)


USUAL = 1.6
"""The usual distance of people's ln(odds) from their median."""
_BENT = 1.0 / 6.0  # the mean of p (1 - p), which converts a difference of ln(odds) into one of probabilities


def informative(n: int, epsilon: float | None, delta: float | None, dimension: int) -> float:
    """Return by how much probabilities by a private model's score may differ between people, as a standard deviation.

    A score is modelled as the ln(odds), :data:`USUAL` around their median, plus noise. With e that of
    :func:`private_excess`, the mean gradient has noise of length sqrt(2) e. The inverse of the Hessian maps it to the
    weights: its eigenvalues are (d + 1)/(p (1 - p)) where features vary alike, so that scores are off by
    sqrt(2 (d + 1)) e/(p (1 - p)), and by sqrt(2) times that where half of all steps are averaged. An order, no bound.
    """
    noise = 2.0 * math.sqrt(dimension + 1.0) * private_excess(n, epsilon, delta, dimension) / _BENT
    return _BENT * USUAL * USUAL / math.hypot(USUAL, noise)


def taught_within(mechanism: BitMechanism, roles: Roles) -> float:
    """Return the standard deviation of the mean residual that all teaching agents report."""
    return 2.0 * math.sqrt(mechanism.variance(0.5) / (TEACHINGS * roles.teachers))


def vague_probabilities(
    people: tuple[int, int], budget: tuple[float | None, float | None], dimension: int, taught: float
) -> str | None:
    """Return a warning that probabilities may show no more than the share of the label; None if they likely show more.

    They show no more if they differ by less than ``taught``, the standard deviation of their mean after teaching.
    ``people`` are n and the agents, and ``budget`` is the curator's.
    """
    spread = informative(people[0], *budget, dimension)
    if spread >= taught:
        return None
    return (
        f"The model's probabilities may tell no more than the share of the label: by a score of {people[0]:,} people "
        f"with so much noise they may differ by {points(spread)}, and {people[1]:,} agents tell their mean to within "
        f"{points(taught)} (standard deviations); enlarge n, the number of agents or the budgets, or take fewer "
        "features"
    )


def diameter(n: int, epsilon: float, delta: float, dimension: int) -> float:
    """Return the diameter of a ball of models at which noise may cost ``QUIET`` at most, for a loss of slope 1.

    In a wider ball a model fits better and has more noise: :func:`private_excess` is linear in the radius. The diameter
    is between ``NARROW`` and ``WIDE``.
    """
    if not (n > 0 and 0.0 < epsilon < math.inf and 0.0 <= delta < 1.0):
        return NARROW  # such numbers are refused where the scenario is read
    excess = private_excess(n, epsilon, delta, dimension, 0.5)  # 0 in doubles if n epsilon is beyond them
    return min(WIDE, max(NARROW, QUIET / excess)) if excess > 0.0 else WIDE


def usual_learner(agents: int) -> dict[str, Any]:
    """Return the curator's default learner: full-batch gradients, for any n and d.

    If there are enough agents to teach the curator's directions, it is the discriminant, whose release has directions.
    """
    return {"name": "discriminant" if agents >= MANY else "full-batch", "mu": "plan"}


REGRESSION = "portfolio-regression"
FARTHEST = 0.25
"""Errors from this share of a response's bounds on count alike for agents, so that their answers have less noise."""


def usual_regression(features: int) -> dict[str, Any]:
    """Return the default learner of a response, for so many columns: each is a number, or one 0/1 feature at most."""
    return {"name": "least-squares", "norm": math.sqrt(features + 1.0), "mu": "plan"}


def learner_of_classes(first: int, count: int) -> dict[str, Any]:
    """Return the default learner of so many classes, whose columns begin at ``first``."""
    return {"name": "discriminant", "mu": PLAN, "classes": {"first": first, "count": count}}


def of_classes(protocol: str) -> str:
    """Return the protocol for several classes that corresponds to one for two labels."""
    return "portfolio-classes" if protocol == "portfolio" else protocol


def steps(people: int) -> int:
    """Return how many gradient steps a learner takes: ``STEPS_A_PERSON`` a person, within ``FEWEST`` and ``MOST``."""
    return min(MOST, max(FEWEST, STEPS_A_PERSON * people))


def advise(sizes: Sizes) -> Advice:
    """Return what fits: a portfolio, if agents answer by bits and each of its roles has some.

    Agents who are too few to judge still teach: finding on which side of 1/2 the label's share is takes fewer of them
    than a difference of two losses. Whether that helps with several classes, or numbers, was not measured: there so few
    agents judge nothing.
    """
    mechanism, roles = sizes.mechanism, Roles.of(sizes.agents, Portfolio())
    of_labels = not (sizes.classes or sizes.response)
    taught_by_few = of_labels and min(roles.labels, roles.teachers, roles.judges // 2) >= 1
    noise = private_excess(sizes.n, sizes.epsilon, sizes.delta, sizes.dimension, sizes.reach)
    warnings: tuple[str, ...] = (_no_model(sizes, noise),) if noise >= IGNORANT else ()
    if not isinstance(mechanism, BitMechanism):
        warnings = (_no_bits(mechanism), *warnings)
    elif (likely := finalists.likely_width(mechanism, roles.judges)) > JUDGES and not taught_by_few:
        warnings = (_no_judges(sizes.agents, likely, sizes.costs), *warnings)
    else:
        if likely > JUDGES:
            warnings = (_few_judges(sizes.agents, likely, sizes.costs), *warnings)
        taught = taught_within(mechanism, roles)
        roles = roles.of_classes if sizes.classes else roles
        likely = finalists.likely_width(mechanism, roles.judges)
        sure = finalists.sure_width(mechanism, roles.judges, sizes.beta)
        protocol = of_classes("portfolio") if sizes.classes else "portfolio"
        choice = f"protocol {protocol}: the model as agents teach it, beside the best that either side has alone"
        judges_text = forecasting.gap_text(mechanism, roles, sizes.beta, sizes.classes, sizes.costs)
        agents_text, survey_texts = _agents_text(sizes, roles, taught), _survey_texts(roles, mechanism)
        vague = None
        if of_labels and noise < IGNORANT:
            people, budget = (sizes.n, sizes.agents), (sizes.epsilon, sizes.delta)
            vague = vague_probabilities(people, budget, sizes.dimension, taught)
        people_texts = (agents_text, _noise_text(sizes, noise), *survey_texts, *([vague] if vague else []))
        sentences: tuple[str, ...] = (judges_text, *people_texts, f"What fits: {choice}")
        fields: dict[str, Any] = {"taught": taught, "sure": sure, "likely": likely, "sentences": sentences}
        fields["probabilities"] = vague
        return Advice(protocol="portfolio", noise=noise, warnings=warnings, **fields)
    half = forecasting.half_width(mechanism, sizes.agents, sizes.beta)
    text = forecasting.loss_text(mechanism, sizes.agents, sizes.beta, costs=sizes.costs)
    sentences = (text, _noise_text(sizes, noise), "What fits: protocol learn-and-test, the curator's model as it is")
    fields = {"taught": None, "sure": half, "likely": half, "sentences": sentences}
    return Advice(protocol="learn-and-test", noise=noise, warnings=warnings, **fields)


def _sizes_of(scenario: Scenario, n: int, agents: int) -> Sizes | None:
    about_mistakes = scenario.problem is None and not scenario.tasks and scenario.agents.loss == "zero-one"
    mechanism, curator, dimension = scenario.agents.mechanism, scenario.curator, scenario.source.dimension
    if not (demands_of(scenario.protocol).transfers and about_mistakes and isinstance(mechanism, Mechanism)):
        return None
    reach = 1.0 if curator.learner is None else curator.learner.reach
    answering = math.floor(agents * (1.0 - scenario.agents.dropout))
    classes = 0 if curator.learner is None else curator.learner.class_columns[1]
    budget, costs = (curator.epsilon, curator.delta), scenario.agents.costs
    return Sizes(n, answering, dimension, *budget, mechanism, scenario.beta, reach, classes, costs)


def advice(scenario: Scenario, n: int, agents: int, *, response: bool = False) -> Advice | None:
    """Return what fits the people of a scenario; None if its answer is no model that agents could judge.

    ``n`` and ``agents`` are its numbers, or its plan's where it leaves them open: at most all are enrolled.
    ``response``: whether a number is to be predicted.
    """
    sizes = _sizes_of(scenario, n, agents)
    if sizes is None:
        return None
    sizes = replace(sizes, response=response)
    result, effective_n, dimension = advise(sizes), n / scenario.divergence.chi_squared, sizes.dimension
    simulated = scenario.people == "simulated"  # an experiment, which shows it
    if simulated or not demands_of(scenario.protocol).reweighs or effective_n >= dimension + 1:
        return result
    warnings = (*result.warnings, _too_different(scenario, n, effective_n, dimension + 1))
    return result.model_copy(update={"warnings": warnings})


def advice_of(scenario: Scenario) -> Advice | None:
    """Return what fits a scenario that leaves neither number of people open; None for all others."""
    n, agents = scenario.curator.n, scenario.agents.count
    return None if n == PLAN or agents == PLAN else advice(scenario, int(n), int(agents))


def noise_alone(scenario: Scenario, n: int, agents: int) -> str | None:
    """Return why noise alone would decide what a run shows; None where it would not, or nothing is known.

    Either the curator's model may be noise (:func:`private_excess`), or the agents are too few: an interval of one loss
    is vague (:data:`VAGUE`), or those who judge are not likely to show a difference of :data:`JUDGES`.
    """
    sizes = _sizes_of(scenario, n, agents)
    if sizes is None:
        return None
    advice = advise(sizes)
    if advice.noise >= IGNORANT:
        return _no_model(sizes, advice.noise)
    if demands_of(scenario.protocol).portfolio and advice.protocol != "portfolio":
        return _no_judges(sizes.agents, advice.likely, sizes.costs)
    half = forecasting.half_width(sizes.mechanism, sizes.agents, sizes.beta)
    if 2.0 * half > VAGUE:
        quantity = "what a model costs" if sizes.costs else "on how many a model errs"
        width = points(half, sizes.costs)
        return f"{sizes.agents:,} agents tell {quantity} to within {width} only: enlarge their number"
    return None


def _agents_text(sizes: Sizes, roles: Roles, taught: float) -> str:
    teaching = sizes.agents - roles.judges - roles.surveyed
    text = f"the mean error of the model's probabilities to within {points(taught)} (one standard deviation)"
    if sizes.classes:
        text = f"which of {sizes.classes} classes is theirs, whether the model errs and how far it is from their class"
    return (
        f"{teaching:,} of {sizes.agents:,} agents teach: they tell {text}. {roles.judges:,} judge the answer and the "
        "best that either side has alone"
    )


def _survey_texts(roles: Roles, mechanism: BitMechanism) -> Iterator[str]:
    if roles.surveyed:
        width = auc_width(roles.surveyed, 1.0 / (2.0 * mechanism.truth - 1.0))
        yield (
            f"{roles.surveyed:,} tell in which bin the taught score has them, and their label: its calibration curve "
            f"and rates, and its AUC to within {points(width)} where labels are balanced, by the normal law"
        )


def _noise_text(sizes: Sizes, noise: float) -> str:
    if sizes.epsilon is None:
        return f"The curator's model of {sizes.n:,} people has no noise, and no guarantee"
    text = (
        f"Noise may cost the model of {sizes.n:,} people with epsilon = {sizes.epsilon:g} about {noise:.2g} of its "
        f"learner's loss, of {IGNORANT:.2f} that a model has which knows nothing (an order, no bound)"
    )
    if sizes.reach > 1.0 and noise > QUIET:
        text += f"; with {QUIET / noise:.2g} of the learner's diameter it would be {QUIET:g}"
    return text


def _no_bits(mechanism: Mechanism) -> str:
    return (
        f"the agents' mechanism {mechanism.name!r} answers with numbers, and a portfolio is judged by bits: the "
        "curator's model will be the answer, better than a constant or not; take warner"
    )


def _few_judges(agents: int, gap: float, costs: Costs | None) -> str:
    return (
        f"{agents:,} agents cannot tell less than {_gap_text(gap, costs)} apart: they teach the model, and hardly show "
        "whether it is better than what either side has alone; enlarge the number of agents or their epsilon"
    )


def _gap_text(gap: float, costs: Costs | None) -> str:
    return f"{points(gap)} of loss" if costs is None else f"a cost of {points(gap, costs)}"


def _no_judges(agents: int, gap: float, costs: Costs | None) -> str:
    return (
        f"{agents:,} agent{'' if agents == 1 else 's'} cannot tell less than {_gap_text(gap, costs)} apart, so "
        f"{'it judges' if agents == 1 else 'they judge'} nothing: the curator's "
        "model will be the answer, better than a constant or not; enlarge the number of agents or their epsilon"
    )


def _no_model(sizes: Sizes, noise: float) -> str:
    smaller = "; a learner with a smaller diameter has less" if sizes.reach > 1.0 else ""
    return (
        f"the model of {sizes.n:,} people with epsilon = {sizes.epsilon or math.inf:g} may be noise alone "
        f"({noise:.2g} of its loss; knowing nothing costs {IGNORANT:.2f}), so no more than a constant can be expected: "
        f"enlarge n or epsilon, or take fewer features{smaller}"
    )


def _too_different(scenario: Scenario, n: int, size: float, weights: int) -> str:
    """Return a warning that S may be too different from T to help.

    The mean of w f over n people of S, with w = dT/dS and abs(f) <= 1, has variance E_S[w^2]/n at most, and E_S[w^2] is
    at most ``chi_squared``: so n reweighed people count as n/E_S[w^2] people of T (Kong 1992).
    """
    return (
        f"the curator's people may be too different from the population: with divergence.chi_squared = "
        f"{scenario.divergence.chi_squared:g}, {n:,} of them count, reweighed, for about {math.floor(size):,} of the "
        f"population's, fewer than the {weights:,} weights of a model: enlarge n, or ask people who are more like it"
    )


ESTIMATED = 0.1  # where agents tell the loss of one model, to within so much
BETA = 0.05


def accuracy(advice: Advice) -> float:
    """Return alpha for a run of what fits: a gap that five of six runs can state if the answer is no worse.

    It is the sure difference plus one standard deviation, by which the rival's estimate may be better. If no agents
    judge, it is half the width of the interval of one loss.
    """
    more = advice.likely / _QUARTILE if advice.protocol == "portfolio" else 0.0
    return min(MOST_ALPHA, math.ceil((advice.sure + more) * 1e3) / 1e3)


_QUARTILE = 0.6744897501960817
"""A normal variable exceeds this many standard deviations with probability 1 - ``LIKELY``."""


MOST_ALPHA = 0.49
"""The largest gap that is chosen: a scenario's must be below 1/2."""


@dataclass(frozen=True)
class Start:
    """The public description of two tables, from which a scenario is made.

    ``classes`` are the texts of the label's column where there are more than two of them.

    ``source`` and ``target`` are the files of the curator's people, n of them, and of the agents', in the directory
    ``data``; ``agent_epsilon`` is the budget of an agent's one answer. ``response``: public bounds of the label's
    column, where the number itself is predicted. ``left_out``: columns that the scenario does not use. ``lifetime``:
    epsilon and delta of all runs together, of each person on either side.
    """

    name: str
    data: str
    source: str
    target: str
    n: int
    agents: int
    label: Label
    features: tuple[Feature, ...]
    epsilon: float
    delta: float
    agent_epsilon: float
    layout: Layout = field(default_factory=Layout)
    costs: Costs | None = None
    id_column: str | None = None
    response: tuple[float, float] | None = None
    left_out: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    lifetime: tuple[float, float] | None = None

    @property
    def dimension(self) -> int:
        return sum(feature.width for feature in self.features)


def usual_delta(n: int) -> float:
    """Return a power of ten that is at most 1/(10 n): 1/n would allow that one person be published."""
    return float(f"1e{-math.ceil(math.log10(10.0 * max(n, 1)))}")


def advised(start: Start) -> Advice:
    """Return what :func:`advise` says for the tables of a start."""
    mechanism, predicts_number = Warner(epsilon=start.agent_epsilon), start.response is not None
    sizes = Sizes(start.n, start.agents, start.dimension, start.epsilon, start.delta, mechanism, BETA)
    advice = advise(replace(sizes, classes=len(start.classes), costs=start.costs, response=predicts_number))
    if start.response is None:
        return advice
    return advice.model_copy(update={"sentences": (_response_text(advice),), "probabilities": None})


def _response_text(advice: Advice) -> str:
    protocol = advice.protocol
    if protocol != "portfolio":
        return f"What fits: protocol {protocol}, the curator's regression as it is; agents tell its squared error"
    return (
        f"What fits: protocol {REGRESSION}, judged by squared errors, which count alike from {FARTHEST:g} of the "
        f"bounds on. Of that greatest one, less than {points(advice.sure)} beside the best that either side has alone "
        "mostly stays open"
    )


def scenario_tree(start: Start) -> Mapping[str, Any]:
    """Return the scenario's tree, without keys that have their default values."""
    advice = advised(start)
    usual, features = Layout().wire(), list(start.features)
    layout = {key: value for key, value in start.layout.wire().items() if usual.get(key) != value}
    protocol: str = advice.protocol
    learner, loss = usual_learner(start.agents), dict[str, Any]()
    if start.response is not None:
        protocol = REGRESSION if advice.protocol == "portfolio" else advice.protocol
        learner, loss = usual_regression(len(features)), {"loss": "squared", "bound": FARTHEST**2}
        low, high = start.response
        features.append(Number(column=start.label.column, low=low, high=high))
    if start.classes:
        protocol, learner = of_classes(advice.protocol), learner_of_classes(start.dimension, len(start.classes))
        features.append(Category(column=start.label.column, values=start.classes))
    table: dict[str, Any] = {
        "label": {key: value for key, value in start.label.wire().items() if value not in (None, [], ())},
        **({} if start.id_column is None else {"id": start.id_column}),
        "features": [{key: value for key, value in item.wire().items() if value is not None} for item in features],
        **({"layout": layout} if layout else {}),
    }
    lifetime = start.lifetime
    return {
        "name": start.name,
        "title": f"{start.label.column}, learned from {start.source}, tested on {start.target}",
        "data": start.data,
        "protocol": protocol,
        "alpha": accuracy(advice),
        "people": "real",
        "source": {"table": {"files": [start.source], **table}},
        "target": {"table": {"files": [start.target], **table}},
        "curator": {
            "n": start.n,
            "epsilon": start.epsilon,
            "delta": start.delta,
            **({} if lifetime is None else {"lifetime": {"epsilon": lifetime[0], "delta": lifetime[1]}}),
            "rounds": 1,
            "learner": learner,
        },
        "agents": {
            "count": start.agents,
            **loss,
            "mechanism": {"name": "warner", "epsilon": start.agent_epsilon},
            **({} if start.costs is None else {"costs": start.costs.wire()}),
        },
    }
