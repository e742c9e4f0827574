"""Planning parity and threshold: records that span, and agents for a survey and a noisy binary search."""

from __future__ import annotations

import math

from common.core.errors import BadScenario
from common.local.mechanisms.hadamard import HadamardResponse
from common.local.queries.item import ItemQuery
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.planning.problems.parities import parity_figures
from common.scenario.problems.parity_and_threshold import ParityAndThreshold
from common.scenario.scenario import Scenario
from common.statistics import evidence
from common.statistics.cdf import agents_needed, ladder


@PROBLEM_PLANNINGS.register("parity-and-threshold")
class ParityAndThresholdPlanning(ProblemPlanning[ParityAndThreshold]):
    """``n`` and the learner's settings for the parity, agents for the threshold."""

    def plan(self, problem: ParityAndThreshold, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Thr_t is 0 for the share F(t) = P(y < t) of people: one survey estimates it to alpha/4 (Hoeffding,
        with probability 1 - beta/4), then a noisy binary search finds w with F(w) within alpha/4 of the estimate (with
        probability 1 - beta/4): b verdicts and four more, each at its worst.
        """
        parity = parity_figures(scenario, problem.c, scenario.beta / 2.0)
        if not problem.interactive:
            return {**parity, "agents": _at_once(problem, scenario)}
        mechanism = scenario.agents.bit_mechanism
        width, beta, tolerance = 1.0 / (2.0 * mechanism.truth - 1.0), scenario.beta, scenario.alpha / 4.0

        def answers() -> int:
            verdict = evidence.worst_case(mechanism, 0.5 - tolerance, 0.5 + tolerance, beta / (4.0 * problem.b))
            wanted = problem.surveyed(width, tolerance, beta) + (problem.b + 4) * verdict
            return math.ceil(wanted / (1.0 - scenario.agents.dropout))

        text = "ln(8/beta) (1/((2p-1) alpha/4))^2/2 + (b + 4) verdicts"
        return {
            **parity,
            "agents": follow(scenario.agents.count, answers, text, CORRECTIONS + "synergy"),
        }


def _at_once(problem: ParityAndThreshold, scenario: Scenario) -> PlannedValue:
    """Return the agents of the form without interaction: alpha/4 for the survey, the rest for the quantile."""
    oracle = scenario.agents.mechanism
    if not isinstance(oracle, HadamardResponse):
        raise BadScenario(f"agents.mechanism: without interaction take hadamard, found {oracle.name}")

    def answers() -> int:
        query = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b))
        needed, _ = agents_needed(
            query, oracle, 0.75 * scenario.alpha, scenario.beta / 4.0, problem.cuts(scenario.alpha)
        )
        width = 1.0 / (2.0 * oracle.truth - 1.0)
        wanted = needed + problem.surveyed(width, scenario.alpha / 4.0, scenario.beta)
        return math.ceil(wanted / (1.0 - scenario.agents.dropout))

    text = "an error of 3/4 alpha at all thresholds, and of alpha/4 for the share below t"
    return follow(scenario.agents.count, answers, text, CORRECTIONS + "synergy")
