"""Planning parity chooses secret: records that span, and agents who hold every share."""

from __future__ import annotations

import math

from common.numerics.special import ndtri
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.planning.problems.parities import parity_figures
from common.scenario.problems.parity_chooses_secret import ParityChoosesSecret
from common.scenario.scenario import Scenario


@PROBLEM_PLANNINGS.register("parity-chooses-secret")
class ParityChoosesSecretPlanning(ProblemPlanning[ParityChoosesSecret]):
    """``n`` and the learner's settings for the parity, agents for the shares."""

    def plan(self, problem: ParityChoosesSecret, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Of n answers n/(m+1) on average are about share t; the estimate of its signed share has mean
        +-1/(m+1) and is, given which answers are about it, a mean of n independent terms of variance at most
        1/(2p-1)^2. For a sum of so many terms we take the normal tail: the sign is wrong with probability
        Phi(-sqrt(n) (2p-1)/(m+1)), and all m+1 are right with 1 - beta/2 by a union bound.
        """
        width = 1.0 / (2.0 * scenario.agents.bit_mechanism.truth - 1.0)
        beta = scenario.beta / 2.0

        def answers() -> int:
            quantile = -float(ndtri(beta / problem.shares))
            return math.ceil((quantile * problem.shares * width) ** 2 / (1.0 - scenario.agents.dropout))

        return {
            **parity_figures(scenario, problem.c, beta),
            "agents": follow(
                scenario.agents.count, answers, "(z (m+1)/(2p-1))^2, Phi(-z) = beta/(2(m+1))", CORRECTIONS + "synergy"
            ),
        }
