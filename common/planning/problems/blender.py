"""Planning Blender: people enough to list every heavy item, and agents enough for its share."""

from __future__ import annotations

import math

import numpy as np

from common.core.errors import BadScenario
from common.local.mechanisms.frequency import FrequencyOracle
from common.numerics.special import ndtri
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.scenario.problems.blender import Blender, threshold
from common.scenario.scenario import Scenario


@PROBLEM_PLANNINGS.register("blender")
class BlenderPlanning(ProblemPlanning[Blender]):
    """``n`` for the list, agents for the shares; beta/2 for each."""

    def plan(self, problem: Blender, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side, by the normal law.

        *n.* Of n/2 people n heavy/2 on average hold an item that must be listed; with noise, that is above the
        threshold, with probability 1 - beta/2 for all 1/heavy such items at once. *Agents.* The combined estimates of
        all listed shares are within ``precise`` with probability 1 - beta/2 even without the curator's part.
        """
        epsilon, oracle = scenario.curator.epsilon, scenario.agents.mechanism
        if epsilon is None:
            raise BadScenario("curator.epsilon: the curator lists privately, give one")
        if not isinstance(oracle, FrequencyOracle):
            raise BadScenario(f"agents.mechanism: {oracle.name} is no frequency oracle: take olh, hadamard or krr")
        noise = problem.noise(epsilon)
        least, ratio = threshold(problem.bits, noise), noise.ratio
        quantile = -float(ndtri(scenario.beta / 2.0 * problem.heavy))

        def people() -> int:
            n = 2
            while (
                n * problem.heavy / 2.0
                - quantile * math.sqrt(n * problem.heavy / 2.0 + 2.0 * ratio / (1.0 - ratio) ** 2)
                < least
            ):
                n = max(n + 1, int(1.001 * n))
            return n

        def answers() -> int:
            z = -float(ndtri(scenario.beta / (4.0 * problem.most)))
            worst = float(problem.agents_variance(np.array([0.5]), 1, oracle, problem.most + 1)[0])
            return math.ceil(worst * (z / problem.precise) ** 2 / (1.0 - scenario.agents.dropout))

        text = "n h/2 - z sqrt(n h/2 + Var Z) >= threshold, Phi(-z) = beta h/2"
        return {
            "n": follow(scenario.curator.n, people, text, CORRECTIONS + "synergy"),
            "agents": follow(
                scenario.agents.count, answers, "Var (z/precise)^2, Phi(-z) = beta/(4 most)", CORRECTIONS + "synergy"
            ),
        }
