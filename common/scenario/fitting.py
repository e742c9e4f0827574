"""Settings that fit the size: what so many people on both sides can give, by public numbers alone.

The rules, and what they rest on, are those of docs/portfolio.md ("Settings that fit the size").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from common.core.values import PLAN, Value
from common.data.tables import Feature, Label
from common.local.mechanisms.mechanism import BitMechanism, Mechanism, Warner
from common.protocols import portfolio
from common.protocols.base import demands_of
from common.protocols.portfolio import Portfolio
from common.scenario.scenario import Scenario
from common.statistics import race
from common.statistics.intervals import certainty

LIKELY = 0.95
_QUANTILE = 1.6448536269514722  # the standard normal is below it with probability ``LIKELY``
REPAIRS = 0.1
"""A model is recalibrated where those who then still judge are likely to tell so fine a difference of losses."""
SECOND = 0.015  # A second model competes where those who judge six candidates are likely to tell so fine a difference..
QUIET = 0.05  # ... and where noise, at half the budget for each, may cost a model so much at most.
NARROW, WIDE = 2.0, 60.0  # diameters between which a learner's ball is chosen
STEPS_A_PERSON = 100
FEWEST, MOST = 10_000, 2_000_000  # gradient steps in all
JUDGES = 0.25  # agents who are not even likely to tell so coarse a difference choose by chance: they judge nothing
IGNORANT = math.log(2.0)  # the logistic loss of a model that knows nothing


@dataclass(frozen=True)
class Sizes:
    """What decides which settings fit, all of it public: n people of the curator, and the agents who answer.

    ``epsilon`` and ``delta`` are the curator's budget (None: nothing is private), ``beta`` is the failure probability
    of the gap that is stated. ``reach`` is L D/2 of the learner: the Lipschitz constant of its loss times the radius of
    the ball of its models, 1 where it is not known.
    """

    n: int
    agents: int
    dimension: int
    epsilon: float | None
    delta: float | None
    mechanism: Mechanism
    beta: float
    reach: float = 1.0


class Advice(Value):
    """What fits so many people.

    Attributes:
        protocol: ``portfolio``: agents judge the curator's model and what competes with it. ``learn-and-test``: they
            are too few to judge, and the curator's model is the answer as it is.
        repair: Share of the agents who recalibrate (``portfolio.repair``); 0: all of them judge.
        sure: The widest gap that a run whose agents all answer can state, whatever the losses are; what is stated holds
            with probability 1 - beta (:func:`common.statistics.race.detectable_gap`).
        likely: The difference at which the better of two candidates has the smaller estimate with probability
            ``LIKELY``, by the normal approximation, where losses are near 1/2 and every candidate is asked about
            equally often.
        noise: What the curator's noise may cost its model, of the learner's own loss: :func:`private_excess`.
        sentences, warnings: The same for people; where the agents, or the curator, cannot add anything.
    """

    protocol: Literal["portfolio", "learn-and-test"]
    rounds: int
    repair: float
    candidates: tuple[str, ...]
    sure: float
    likely: float
    noise: float
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def private_excess(sizes: Sizes) -> float:
    """Return the order of the excess risk of a private model: L D/2 min(d', sqrt(d' ln(1/delta)))/(n epsilon).

    Here d' = d + 1 counts the intercept. It is reached for convex Lipschitz losses up to logarithms of n, and no
    private learner does better by more than the logarithm of 1/delta (Bassily, Smith and Thakurta 2014, Theorems 2.4,
    3.2 and 5.3); constants are left out. 0 where nothing is private.
    """
    if sizes.epsilon is None:
        return 0.0
    return _excess(sizes.n, sizes.epsilon, sizes.delta, sizes.dimension, sizes.reach)


def _excess(n: int, epsilon: float, delta: float | None, dimension: int, reach: float) -> float:
    width = dimension + 1.0
    if delta:
        width = min(width, math.sqrt(width * math.log(1.0 / delta)))
    return reach * width / (n * epsilon)


def diameter(n: int, epsilon: float, delta: float, dimension: int) -> float:
    """Return the diameter of a ball of models, of a loss of slope 1, whose noise may cost ``QUIET`` at most.

    In a wider ball a model fits better and its noise is more: :func:`private_excess` is linear in the radius. From
    ``NARROW`` to ``WIDE``.
    """
    if not (n > 0 and 0.0 < epsilon < math.inf and 0.0 <= delta < 1.0):
        return NARROW  # refused where the scenario is read
    return min(WIDE, max(NARROW, QUIET / _excess(n, epsilon, delta, dimension, 0.5)))


def steps(people: int) -> int:
    """Return how many gradient steps a learner takes: ``STEPS_A_PERSON`` a person, within ``FEWEST`` and ``MOST``."""
    return min(MOST, max(FEWEST, STEPS_A_PERSON * people))


def likely(mechanism: Mechanism, agents: int, candidates: int) -> float:
    """Return the difference of losses that so many judges are likely to tell among so many candidates.

    The two constants share one question. So each of ``candidates - 1`` questions has agents/(candidates - 1) answers,
    and the difference of two means of them has variance 2 v/each at most, v that of one unbiased answer at loss 1/2.
    """
    each = agents // (candidates - 1)
    return 1.0 if each == 0 else min(1.0, _QUANTILE * math.sqrt(2.0 * mechanism.variance(0.5) / each))


def advise(sizes: Sizes) -> Advice:
    """Return what fits.

    A repair takes two fifths of the agents from the judges, and is one rival more: it is left out where those who would
    still judge are unlikely to tell ``REPAIRS``. Where all of them are unlikely to tell ``JUDGES`` they judge nothing.
    A second model, of the sample raked by what agents say of the first one, halves the budget of each and adds two
    rivals: it competes where agents are likely to tell ``SECOND``, and noise at half the budget may cost ``QUIET`` at
    most.
    """
    bits, noise = isinstance(sizes.mechanism, BitMechanism), private_excess(sizes)
    two, one, plain = (_try(sizes, rounds, settings) for rounds, settings in ((2, _REPAIR), (1, _REPAIR), (1, _PLAIN)))
    fits = (
        (2.0 * noise <= QUIET and two.likely <= SECOND, two),
        (one.likely <= REPAIRS, one),
        (plain.likely <= JUDGES, plain),
    )
    judged = next((tried for fitting, tried in fits if bits and fitting), None)
    tried = judged or _Attempt(1, 0.0, ("model",), sizes.agents, plain.likely)
    labels = portfolio.labels_for_each_judge(Portfolio(repair=tried.repair))
    gap = race.detectable_gap(sizes.mechanism, tried.judging, len(tried.candidates), sizes.beta, labels)
    sure = race.stated_gap(gap, 0.0, recalibrates=tried.repair > 0.0)
    warnings = []
    if judged is None:
        warnings.append(_no_judges(sizes.agents, tried.likely) if bits else _no_bits(sizes.mechanism))
    if noise >= IGNORANT:
        warnings.append(_no_model(sizes, noise))
    of_agents = _of_one(sizes, sure) if judged is None else _of_agents(sizes, tried.likely, sure)
    return Advice(
        protocol="learn-and-test" if judged is None else "portfolio",
        rounds=tried.rounds,
        repair=tried.repair,
        candidates=tried.candidates,
        sure=sure,
        likely=tried.likely,
        noise=noise,
        sentences=(of_agents, _of_noise(sizes, noise), "What fits: protocol " + _choice(judged)),
        warnings=tuple(warnings),
    )


def advice(scenario: Scenario, n: int, agents: int) -> Advice | None:
    """Return what fits the people of a scenario; None where its answer is no model that agents could judge.

    ``n`` and ``agents`` are its numbers, or its plan's where it leaves them open: at most all are enrolled.
    """
    about_mistakes = scenario.problem is None and not scenario.tasks and scenario.agents.loss == "zero-one"
    mechanism, curator, dimension = scenario.agents.mechanism, scenario.curator, scenario.source.dimension
    if not (demands_of(scenario.protocol).transfers and about_mistakes and isinstance(mechanism, Mechanism)):
        return None
    reach = 1.0 if curator.learner is None else curator.learner.reach
    answering = math.floor(agents * (1.0 - scenario.agents.dropout))
    return advise(Sizes(n, answering, dimension, curator.epsilon, curator.delta, mechanism, scenario.beta, reach))


def advice_of(scenario: Scenario) -> Advice | None:
    """Return what fits a scenario that leaves neither number of people open; None for all others."""
    n, agents = scenario.curator.n, scenario.agents.count
    return None if n == PLAN or agents == PLAN else advice(scenario, int(n), int(agents))


class _Attempt(NamedTuple):
    """A portfolio that may fit: its rounds, its share of repairs, its candidates and judges, and what they tell."""

    rounds: int
    repair: float
    candidates: tuple[str, ...]
    judging: int
    likely: float


_REPAIR, _PLAIN = Portfolio(), Portfolio(repair=0.0)


def _try(sizes: Sizes, rounds: int, settings: Portfolio) -> _Attempt:
    models = ("model", *(f"model {number}, raked by scores" for number in range(2, rounds + 1)))
    each = [(name, f"{name}, recalibrated") if settings.recalibrates else (name,) for name in models]
    candidates = ("constant -1", "constant +1", *(name for names in each for name in names))
    judging = portfolio.judges(sizes.agents, settings)
    counted = judging if settings.recalibrates else sizes.agents  # who tells a label judges the constants
    gap = likely(sizes.mechanism, counted, len(candidates))
    return _Attempt(rounds, settings.repair, candidates, judging, gap)


_PERCENT, _FINE, _ROUNDING = 100.0, 2.0, 1e-9


def points(share: float) -> str:
    """Return a difference of 0/1 losses in points, rounded up: to whole ones, to hundredths below two."""
    percent = _PERCENT * share - _ROUNDING
    return f"{math.ceil(percent)} points" if percent > _FINE else f"{math.ceil(_PERCENT * percent) / _PERCENT:g} points"


def _of_agents(sizes: Sizes, gap: float, sure: float) -> str:
    return (
        f"{sizes.agents:,} agents tell {points(gap)} of loss apart, not {points(gap / 3.0)}: the better of two "
        f"candidates has the smaller estimate in about {_PERCENT * LIKELY:.0f} of 100 runs if they differ by "
        f"{points(gap)}, in 70 if by a third of that. Whatever the losses are, the stated gap is {points(sure)} at "
        f"most if all of them answer, and holds with {certainty(1.0 - sizes.beta)} confidence"
    )


def _of_one(sizes: Sizes, sure: float) -> str:
    return (
        f"{sizes.agents:,} agents, if all of them answer, tell the loss of one model to within an interval "
        f"{points(sure)} wide at most, which holds it with {certainty(1.0 - sizes.beta)} confidence"
    )


def _of_noise(sizes: Sizes, noise: float) -> str:
    if sizes.epsilon is None:
        return f"The curator's model of {sizes.n:,} people has no noise, and no guarantee"
    text = (
        f"Noise may cost the model of {sizes.n:,} people with epsilon = {sizes.epsilon:g} about {noise:.2g} of its "
        f"learner's loss, of {IGNORANT:.2f} that a model has which knows nothing (an order, no bound)"
    )
    if sizes.reach > 1.0 and noise > QUIET:
        text += f"; with {QUIET / noise:.2g} of the learner's diameter it would be {QUIET:g}"
    return text


def _choice(judged: _Attempt | None) -> str:
    if judged is None:
        return "learn-and-test, the curator's model as it is, one round"
    if judged.rounds > 1:
        return (
            f"portfolio with curator.rounds={judged.rounds}: models of the sample as it is and as agents say it should "
            "be, their recalibrations and both constants"
        )
    if judged.repair:
        return "portfolio, one model, its recalibration and both constants, one round"
    return (
        "portfolio with portfolio.repair=0, one model and both constants, one round: a recalibration would take two "
        "fifths of the agents from those who judge it"
    )


def _no_bits(mechanism: Mechanism) -> str:
    return (
        f"the agents' mechanism {mechanism.name!r} answers with numbers, and a portfolio is judged by bits: the "
        "curator's model will be the answer, better than a constant or not; take warner"
    )


def _no_judges(agents: int, gap: float) -> str:
    return (
        f"{agents:,} agents cannot tell less than {points(gap)} of loss apart, so they judge nothing: the curator's "
        "model will be the answer, better than a constant or not; enlarge the number of agents or their epsilon"
    )


def _no_model(sizes: Sizes, noise: float) -> str:
    smaller = "; a learner with a smaller diameter has less" if sizes.reach > 1.0 else ""
    return (
        f"the model of {sizes.n:,} people with epsilon = {sizes.epsilon or math.inf:g} may be noise alone "
        f"({noise:.2g} of its loss; knowing nothing costs {IGNORANT:.2f}), so no more than a constant can be expected: "
        f"enlarge n or epsilon, or take fewer features{smaller}"
    )


CLIP = 1.0  # longest gradient of one record
ACCURACY = {"portfolio": 0.01, "learn-and-test": 0.1}
"""Judges go on until the answer is shown to be within .01 of the best candidate; one model is estimated to .1."""
BETA = 0.05


@dataclass(frozen=True)
class Start:
    """What somebody says of two tables, all of it public.

    ``source`` and ``target`` are the files of the curator's people, n of them, and of the agents', in the directory
    ``data``; ``agent_epsilon`` is the budget of an agent's one answer.
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
    separator: str = ","
    id_column: str | None = None

    @property
    def dimension(self) -> int:
        return sum(feature.width for feature in self.features)


def usual_delta(n: int) -> float:
    """Return a power of ten that is at most 1/(10 n): 1/n would allow that one person be published."""
    return float(f"1e{-math.ceil(math.log10(10.0 * max(n, 1)))}")


def advised(start: Start) -> Advice:
    """Return what fits so many people: :func:`advise`."""
    n, epsilon, delta, dimension = start.n, start.epsilon, start.delta, start.dimension
    reach = CLIP * diameter(n, epsilon, delta, dimension) / 2.0
    return advise(Sizes(n, start.agents, dimension, epsilon, delta, Warner(epsilon=start.agent_epsilon), BETA, reach))


def scenario_tree(start: Start) -> Mapping[str, Any]:
    """Return the scenario's tree, without the keys whose defaults hold."""
    found, ball = advised(start), diameter(start.n, start.epsilon, start.delta, start.dimension)
    learner = {
        "name": "sgd",
        "loss": "logistic",
        "steps": steps(start.n),
        "clip": CLIP,
        "noise": "plan",
        "diameter": float(f"{ball:.3g}"),
    }
    table: dict[str, Any] = {
        "label": {key: value for key, value in start.label.wire().items() if value not in (None, [], ())},
        **({} if start.id_column is None else {"id": start.id_column}),
        "features": [{key: value for key, value in one.wire().items() if value is not None} for one in start.features],
        **({} if start.separator == "," else {"layout": {"separator": start.separator}}),
    }
    curator = {"n": start.n, "epsilon": start.epsilon, "delta": start.delta, "rounds": found.rounds, "learner": learner}
    tree: dict[str, Any] = {
        "name": start.name,
        "title": f"{start.label.column}, learned from {start.source}, tested on {start.target}",
        "data": start.data,
        "protocol": found.protocol,
        "alpha": ACCURACY[found.protocol],
        "people": "real",
        "source": {"table": {"files": [start.source], **table}},
        "target": {"table": {"files": [start.target], **table}},
        "curator": curator,
        "agents": {"count": start.agents, "mechanism": {"name": "warner", "epsilon": start.agent_epsilon}},
    }
    if found.protocol == "portfolio" and found.repair == 0.0:
        tree["portfolio"] = {"repair": 0.0}
    return tree
