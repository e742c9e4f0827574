"""Parity and threshold: the direct sum of a task for the curator and one for the agents."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.core.errors import BadScenario
from common.local.answers import Answers, AskAgents
from common.local.hypotheses.relabelled import Task
from common.local.hypotheses.rules import Parity
from common.local.mechanisms.hadamard import HadamardResponse
from common.local.queries.coordinate import CoordinateQuery
from common.local.queries.item import ItemQuery
from common.operations.learning import Learn
from common.protocols.parity_and_threshold import Both, ParityAndThreshold
from common.protocols.steps import Progress, Together
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.cdf import estimate_cdf, ladder
from common.statistics.frequency import likeliest_parity, reports
from common.statistics.quantiles import find_quantile
from referee.protocols.asking import ask, ask_codes, ask_together, at_once, parity_of
from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script, small_problem


@PROTOCOLS.register("parity-and-threshold")
class ParityAndThresholdProtocol(ProblemProtocol[ParityAndThreshold]):
    """Appendix A of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator learns the parity (KLNRS, pure epsilon); no message to it depends on an agent, nor the other way round.
    The agents learn the threshold in rounds. As a threshold function is 1 from t on, it is 0 for exactly the share
    F(t) of people: a first batch says how many that are, and fresh agents find the quantile of y at that share by noisy
    binary search. (The paper's protocol finds all quantiles and then the first bin of ones, which takes 4/alpha
    searches.)

    *Without interaction* (``problem.interactive=false``): three questions leave at once, for the parity, for the
    distribution function of y at all thresholds, and for that share; the quantile is read off.
    """

    title = "Parity and threshold"
    done = (
        "a parity and a threshold; with probability {sure} at least the parity is right and the threshold is off "
        "by a share of {alpha} at most, at the sizes of the tight plan, for people as the problem describes them "
        "and if those who answer are like all"
    )
    kind = ParityAndThreshold

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (
            small_problem(
                "parity-and-threshold",
                {"name": "parity-and-threshold", "c": 4, "b": 6, "secret": [1, 2], "threshold": 20},
                "problem.c=4",
                "problem.b=6",
                "alpha=0.4",
                "agents.mechanism.epsilon=2",
            ),
        )

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        return frozenset({"coordinate", "threshold"} if self.plan(scenario).problem.interactive else {"item"})

    def both_sides(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        problem = plan.problem
        if not problem.interactive:
            return (yield from _all_at_once(plan, public))
        learned, (survey_answers,) = yield from ask_together(learn(problem), survey(plan))
        parity = parity_of(learned, problem.c)
        threshold, reason = yield from find_threshold(plan, survey_answers)
        return ended(parity, threshold, reason)

    def curator_alone(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        """Have the curator learn the parity, for which it spends its privacy; the threshold is half of the range.

        Pure privacy takes of order b/(alpha epsilon) further people for a threshold of b bits.
        """
        problem = plan.problem
        learned = yield from ask(learn(problem))
        return ended(parity_of(learned, problem.c), 1 << (problem.b - 1), "the threshold is a guess")

    def agents_alone(self, plan: ProblemPlan[ParityAndThreshold], public: int) -> Script:
        problem = plan.problem
        if not problem.interactive:
            raise BadScenario("without interaction: both sides are asked, leave out alone")
        question, width = survey(plan), min(problem.c, 63)
        count = plan.count // 2
        search = yield from ask_codes(count, first=0, bits=width, sign="label", public=public)
        found = likeliest_parity(search)
        parity = Parity(features=tuple(i for i in range(width) if found >> (width - 1 - i) & 1))
        survey_answers: Answers = yield question
        threshold, reason = yield from find_threshold(plan, survey_answers)
        return ended(parity, threshold, reason)


def learn(problem: ParityAndThreshold) -> Learn:
    """Return the request for the parity."""
    return Learn(round=1, task=Task(features=problem.c))


def survey(plan: ProblemPlan[ParityAndThreshold]) -> AskAgents:
    """Return the question to the first batch: whether they are at the threshold or above."""
    count = _surveyed(plan, plan.bits.truth)
    return AskAgents(CoordinateQuery(first=plan.problem.c + plan.problem.b), count)


def find_threshold(
    plan: ProblemPlan[ParityAndThreshold], survey_answers: Answers
) -> Generator[AskAgents | Progress, Any, tuple[int, str]]:
    """Search for the quantile of y at the share that the first batch told; also return how it was found."""
    mechanism, tolerance = plan.bits, _tolerance(plan)
    below = 1.0 - float(mechanism.unbias(survey_answers.values).mean()) if len(survey_answers.values) else 0.5
    edge = 1.01 * tolerance
    share = min(max(below, edge), 1.0 - edge)
    yield Progress(f"{share:.3f} of people are below the threshold", {})
    c, b = plan.problem.c, plan.problem.b
    quantile = yield from find_quantile(mechanism, b, share, tolerance, plan.beta / 4.0, feature=c)
    return (
        quantile.first,
        f"{survey_answers.asked + quantile.asked:,} agents were asked about {quantile.thresholds} thresholds",
    )


def ended(parity: Parity | None, threshold: int, reason: str) -> Outcome:
    """End with both concepts, or without a parity where no block of the curator answered."""
    if parity is None:
        answer, reason = Both(features=None, threshold=threshold), "no block of the curator answered"
        return Outcome("exhausted", 1, answer, None, reason)
    return Outcome("done", 1, Both(features=parity.features, threshold=threshold), None, reason)


def _all_at_once(plan: ProblemPlan[ParityAndThreshold], public: int) -> Generator[Together, Any, Outcome]:
    """Ask for everything in one step."""
    problem = plan.problem
    oracle, count = plan.mechanism, plan.count
    if not isinstance(oracle, HadamardResponse):
        raise BadScenario("without interaction: agents are asked with the mechanism hadamard")
    values = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)
    above = ItemQuery(first=problem.c + problem.b, bits=1, public=public + 1)
    surveyed = _surveyed(plan, oracle.truth)
    learned, (survey_answers, ones) = yield from ask_together(
        learn(problem), AskAgents(values, at_once(count - surveyed)), AskAgents(above, surveyed)
    )
    cuts = problem.cuts(plan.alpha)
    found = estimate_cdf(values, oracle, survey_answers, cuts).cuts
    reports_above = reports(above, ones)
    supports = reports_above.supports(oracle, np.zeros(1, dtype=np.uint64))
    below = float(oracle.shares(supports, len(reports_above), above.domain)[0])
    place = min(max(round(below * (cuts + 1)) - 1, 0), cuts - 1)
    reason = f"{survey_answers.asked + ones.asked:,} agents were asked at once"
    return ended(parity_of(learned, problem.c), int(found[place]), reason)


def _tolerance(plan: ProblemPlan[ParityAndThreshold]) -> float:
    return plan.alpha / 4.0


def _surveyed(plan: ProblemPlan[ParityAndThreshold], truth: float) -> int:
    return plan.problem.surveyed(1.0 / (2.0 * truth - 1.0), _tolerance(plan), plan.beta)
