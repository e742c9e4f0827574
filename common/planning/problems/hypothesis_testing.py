"""Planning basic hypothesis testing: each side gives half of the evidence."""

from __future__ import annotations

import math

from common.core.errors import BadScenario
from common.numerics.special import ndtri
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.scenario.problems.hypothesis_testing import HypothesisTesting
from common.scenario.scenario import Scenario


@PROBLEM_PLANNINGS.register("hypothesis-testing")
class HypothesisTestingPlanning(ProblemPlanning[HypothesisTesting]):
    """``n`` and agents, half of the evidence each."""

    def plan(self, problem: HypothesisTesting, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents that decide rightly together with probability 1 - beta, each one half of the evidence.

        By the normal law: each side's shift^2/variance is z^2/2, Phi(-z) = beta. Alone either is wrong with probability
        Phi(-z/sqrt(2)): the hybrid helps no more than a second helping of the same side would (Theorem 6.2).
        """
        epsilon = scenario.curator.epsilon
        if epsilon is None:
            raise BadScenario("curator.epsilon: the curator counts privately, give one")
        wanted = float(ndtri(scenario.beta)) ** 2 / 2.0
        truth = scenario.agents.bit_mechanism.truth

        def people() -> int:
            # shift^2/variance grows with n.
            n = 1
            while (found := problem.counted(0, n, epsilon)).shift ** 2 < wanted * found.variance:
                n = max(n + 1, int(1.001 * n))
            return n

        def answers() -> int:
            one = problem.evidence_of_answers(0, 1, truth)
            return math.ceil(wanted * one.variance / one.shift**2 / (1.0 - scenario.agents.dropout))

        return {
            "n": follow(
                scenario.curator.n, people, "shift^2/variance = z^2/2, Phi(-z) = beta", CORRECTIONS + "synergy"
            ),
            "agents": follow(
                scenario.agents.count, answers, "shift^2/variance = z^2/2, Phi(-z) = beta", CORRECTIONS + "synergy"
            ),
        }


def stand_in(problem: HypothesisTesting, scenario: Scenario) -> int:
    """Return how many agents the reduction of a curator alone simulates: those that the hybrid would ask."""
    rule = HypothesisTestingPlanning().plan(problem, scenario, False)["agents"].rule
    return int(rule or 0)
