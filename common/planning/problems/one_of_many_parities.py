"""Planning one of many parities: records that span, and agents whose shares tell the parity that is wanted."""

from __future__ import annotations

import math

from common.numerics.special import ndtri
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.planning.problems.parities import parity_figures
from common.scenario.problems.one_of_many_parities import HOLD, OneOfManyParities
from common.scenario.scenario import Scenario


@PROBLEM_PLANNINGS.register("one-of-many-parities")
class OneOfManyParitiesPlanning(ProblemPlanning[OneOfManyParities]):
    """``n`` and the learner's settings for the parities, agents for the shares."""

    def plan(self, problem: OneOfManyParities, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* The estimated share of (t, s_t) has mean 1/(2(m+1)), that of (t, s) for another s mean 0; each is a
        mean of n terms of variance at most 1/(2p-1)^2, and two of them are uncorrelated. We take the normal tail: s
        beats s_t with probability Phi(-sqrt(n) (2p-1)/(2 sqrt(2) (m+1))), and no s beats any s_t with 1 - beta/2, by a
        union bound over (m+1) (2^d - 1) pairs.
        """
        width = 1.0 / (2.0 * scenario.agents.bit_mechanism.truth - 1.0)
        beta = scenario.beta / 2.0

        def answers() -> int:
            quantile = -float(ndtri(beta / (problem.shares * ((1 << problem.d) - 1))))
            wanted = 2.0 * (quantile * problem.shares * width / HOLD) ** 2
            return math.ceil(wanted / (1.0 - scenario.agents.dropout))

        text = "2 (2 z (m+1)/(2p-1))^2, Phi(-z) = beta/(2 (m+1) (2^d - 1))"
        return {
            **parity_figures(scenario, problem.c, beta, useful=1.0 - HOLD),
            "agents": follow(scenario.agents.count, answers, text, CORRECTIONS + "synergy"),
        }
