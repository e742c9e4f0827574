"""Protocols of the agents alone: learn from averages at once, or by gradient descent, or answer statistical queries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.features import GradientQuery, MomentQuery
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.numerics.elementary import log, ordered_sum
from common.privacy.rounding import down
from common.protocols.base import Progress, pattern_of
from common.protocols.statistical import QueryAnswer, QueryAnswers, StatisticalQuery
from common.scenario.scenario import ResolvedScenario
from referee.protocols.asking import EstimatePlan, at_once, estimate_mean, means_by_slot
from referee.protocols.base import AS_PLANNED, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Protocol, Script

TESTED = 0.1  # share of the agents kept for estimating the loss of the result
MIN_VARIANCE = 1e-9
"""Least value of an estimated variance, so that the more frequent label wins where nothing else is known."""


@dataclass(frozen=True)
class LocalPlan:
    """The numbers of a resolved scenario with which agents learn alone.

    Records have ``dimension`` features and norm at most ``norm``; each feature is at most ``coordinate`` in size. The
    answers of ``learning`` agents are for learning; ``testing`` others estimate the loss of the result.
    """

    dimension: int
    norm: float
    coordinate: float
    learning: int
    testing: int
    answering: EstimatePlan

    @classmethod
    def of(cls, scenario: ResolvedScenario, who_needs: str) -> LocalPlan:
        """Return the scenario's plan; BadScenario if records have no bounded norm, or there are under two agents."""
        target, count = scenario.target, scenario.agents.count
        if not math.isfinite(target.norm):
            raise BadScenario(f"{who_needs} records of bounded norm: give the target a public norm")
        if count < 2:
            raise BadScenario(f"{who_needs} an agent to learn from and one to test with, found {count} agents")
        learning = int(count * (1.0 - TESTED))
        testing = at_once(count - learning, alike=True)
        return cls(target.dimension, target.norm, target.coordinate, learning, testing, EstimatePlan.of(scenario))

    def tested(self, hypothesis: Linear, iterations: int, reason: str) -> Script:
        finding = yield from estimate_mean(LossQuery(hypothesis=hypothesis), self.answering, self.testing, 1)
        return Outcome("exhausted", iterations, hypothesis, finding.estimate, reason, summary=finding.summary)


@PROTOCOLS.register("local-averages")
class LocalAverages(Protocol):
    """A linear discriminant from averages that agents report once: the non-interactive baseline.

    Each agent answers one randomized bit about one moment of its record, chosen by its slot: a coordinate x_j, its
    label times that, its label, or |x|^2 (Duchi, Jordan and Wainwright 2013: one coordinate an agent is the optimal way
    to estimate a mean). From the 2 d + 2 averages follows Fisher's discriminant for two Gaussian classes with one
    variance in every coordinate. The difference of the means is shrunk, as by James and Stein, by the randomizers'
    known variance: with too few agents the answer becomes the more frequent label, not noise.

    Learning takes one message, the first, so no question of it can depend on an answer. The question that follows only
    estimates the loss of the result.
    """

    done = "nothing: it has no level and no gap to stop at, and ends exhausted"
    pattern = pattern_of("local-averages")
    supports_byzantine_agents = True
    small = ("protocol=local-averages",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = LocalPlan.of(scenario, "local averages need")
        query = MomentQuery(dimension=plan.dimension, bound=plan.coordinate, norm=plan.norm)
        answers = yield AskAgents(query, at_once(plan.learning))
        yield Progress("averages are in", {"round": 1, "rounds": 1, "asked": answers.asked})
        hypothesis = discriminant(*averages(query, answers, plan.answering.mechanism))
        return (yield from plan.tested(hypothesis, 1, "every question was asked once"))


def averages(query: MomentQuery, answers: Answers, mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Estimate each moment's mean, with the variance of that estimate, each of shape (2 d + 2,).

    If answers are bits, the variances include that of sampling the agents; for other mechanisms they are the
    randomizer's alone. A moment without answers has mean 0 and the variance of one answer.
    """
    means, counts = means_by_slot(answers, mechanism, query.moments, 0.5)
    spread = np.array([mechanism.variance(mean) for mean in np.clip(means, 0.0, 1.0).tolist()])
    unit = np.full(query.moments, query.bound)
    unit[-2] = 1.0
    estimates = (2.0 * means - 1.0) * unit
    variances = spread / np.maximum(counts, 1) * (2.0 * unit) ** 2
    estimates[-1] = means[-1] * query.norm**2 if counts[-1] else 0.0
    variances[-1] = spread[-1] / max(int(counts[-1]), 1) * query.norm**4
    return estimates, variances


def discriminant(means: Floats, variances: Floats) -> Linear:
    """Return the half-space <D, x> > <D, E x> - (e/2) |D|^2 - v ln((1 + e)/(1 - e)).

    Here e = E l, D = 2 (E[l x] - e E x)/(1 - e^2) is the difference of the classes' means, times
    max(0, 1 - (variance of D)/|D|^2), and v = (E|x|^2 - |E x|^2)/d - (1 - e^2) |D|^2/(4 d) the variance of a coordinate
    within a class. Means and variances have shape (2 d + 2,), as :func:`averages` returns them.
    """
    d = (len(means) - 2) // 2
    # A share of a class below one in a million cannot be estimated.
    mean, label = means[:d], float(np.clip(means[2 * d], -1.0 + 1e-6, 1.0 - 1e-6))
    both = 1.0 - label * label
    difference = 2.0 * (means[d : 2 * d] - label * mean) / both
    noise = 4.0 * float(variances[d : 2 * d].sum() + label**2 * variances[:d].sum()) / both**2
    length = float(ordered_sum(difference * difference))
    difference = difference * (max(0.0, 1.0 - noise / length) if length > 0.0 else 0.0)
    length = float(ordered_sum(difference * difference))
    within = (means[-1] - float(ordered_sum(mean * mean)) + float(variances[:d].sum())) / d - both * length / (4.0 * d)
    negative, positive = log(np.array([1.0 - label, 1.0 + label])).tolist()
    prior = max(within, MIN_VARIANCE) * (positive - negative)
    threshold = float(ordered_sum(difference * mean)) - 0.5 * label * length - prior
    return Linear(weights=tuple(difference.tolist()), threshold=threshold)


MIN_PER_COORDINATE = 400  # least number of agents per coordinate and step: with fewer a step is mostly noise
MAX_STEPS = 30


@PROTOCOLS.register("local-gradient-descent")
class LocalGradientDescent(Protocol):
    """Logistic regression without a curator: the baseline that the hybrid model must beat.

    Interactive local-model gradient descent (Smith, Thakurta and Upadhyay 2017; Duchi, Jordan and Wainwright 2013): in
    each step agents answer one randomized bit about one coordinate of the gradient at their record. Every agent answers
    ``agents.answers`` times at most, so its epsilon is at most so many times the mechanism's, whatever d is; but d + 1
    coordinates share the agents, and the error of a step grows as sqrt((d + 1) / agents) / epsilon. With one answer
    each, fresh agents are asked in every step; with several, groups of agents take turns. Returns the average of the
    second half of the iterates.
    """

    done = LocalAverages.done
    pattern = pattern_of("local-gradient-descent")
    supports_byzantine_agents = True
    small = ("protocol=local-gradient-descent",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = LocalPlan.of(scenario, "local gradient descent needs")
        width = plan.dimension + 1
        # |slope| <= 1: no coordinate of a gradient is greater than the record's, or than the intercept's.
        bound = max(1.0, plan.coordinate)
        limit = scenario.agents.answers
        steps = max(1, min(MAX_STEPS, limit * plan.learning // (MIN_PER_COORDINATE * width)))
        groups = -(-steps // limit)
        iterate, total = np.zeros(width), np.zeros(width)
        # The logistic loss is (norm^2 + 1)/4-smooth in (w, b) on records of that norm.
        stride = 4.0 / (plan.norm**2 + 1.0)
        for step in range(1, steps + 1):
            query = GradientQuery(hypothesis=_linear(iterate), bound=bound)
            answers = yield AskAgents(query, at_once(plan.learning // groups), group=step % groups)
            # Without answers a coordinate does not move: its slope is taken as 0.
            means, _ = means_by_slot(answers, plan.answering.mechanism, width, 0.5)
            iterate = iterate - stride * ((2.0 * means - 1.0) * bound)
            if 2 * step > steps:
                total += iterate
            yield Progress(f"step {step}", {"round": step, "rounds": steps})
        return (yield from plan.tested(_linear(total), steps, f"all {steps} steps were used"))


def _linear(parameters: Floats) -> Linear:
    return Linear(weights=tuple(float(w) for w in parameters[:-1]), threshold=float(parameters[-1]))


@PROTOCOLS.register("statistical-query")
class StatisticalQueryProtocol(ProblemProtocol[StatisticalQuery]):
    """Statistical queries in the local model (Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011).

    Each query goes to agents of its own, who answer a randomized bit about its value at their record: the value is
    rounded to a bit at random, so the bit is unbiased. No answer costs an agent more than its epsilon, whatever the
    query is, and no agent is asked twice. The curator is never asked.
    """

    done = (
        "an estimate for each query; with probability {sure} at least every interval holds its query's mean, and none "
        f"is wider than {{alpha}} to either side, {AS_PLANNED}"
    )
    kind = StatisticalQuery
    small = (
        {"name": "sparse-conjunction", "side": "target", "d": 4, "truth": [0, 2], "rates": []},
        "problem.d=4",
        "problem.queries=[{terms: [{features: [0, 1]}]}, {offset: 0.5, terms: [{weight: 0.5, label: true}]}]",
        "alpha=0.15",
    )

    def both_sides(self, plan: ProblemPlan[StatisticalQuery], public: int) -> Script:
        queries, mechanism = plan.problem.queries, plan.bits
        sizes = [plan.count // len(queries) + (number < plan.count % len(queries)) for number in range(len(queries))]
        for size in sizes:
            at_once(size, alike=True)
        estimates: list[QueryAnswer] = []
        asked, widest = 0, 0.0
        for number, (query, size) in enumerate(zip(queries, sizes, strict=True), start=1):
            answers: Answers = yield AskAgents(query, size)
            asked += answers.asked
            width = plan.problem.width(mechanism.truth, len(answers.values), plan.beta)
            mean = float(mechanism.unbias(answers.values).mean()) if len(answers.values) else 0.5
            low, value, high = (min(max(end, 0.0), 1.0) for end in (mean - width, mean, mean + width))
            estimates.append(QueryAnswer(value=value, low=low, high=high))
            widest = max(widest, width)
            yield Progress(f"query {number} is answered", {"round": number, "rounds": len(queries)})
        answer = QueryAnswers(answers=tuple(estimates), confidence=down(1.0 - plan.beta))
        reason = f"{asked:,} agents were asked {len(queries)} queries"
        if widest <= plan.alpha:
            return Outcome("done", 1, answer, None, reason)
        few = f"; so few answered one of them that its interval is wider than {plan.alpha:g} to either side"
        return Outcome("exhausted", 1, answer, None, reason + few)
