"""Planning parity XOR threshold: parts whose blocks span, and agents for the quantiles where blocks end."""

from __future__ import annotations

import math

from common.core.errors import BadScenario
from common.local.mechanisms.hadamard import HadamardResponse
from common.local.queries.item import ItemQuery
from common.planning.planned_values import CORRECTIONS, PlannedValue, follow
from common.planning.problems.base import PROBLEM_PLANNINGS, ProblemPlanning
from common.planning.spanning import blocks, escapes
from common.privacy.rounding import down
from common.privacy.theorems.klnrs import rates
from common.scenario.problems.parity_xor_threshold import ParityXorThreshold
from common.scenario.scenario import Scenario
from common.statistics.cdf import agents_needed, ladder


@PROBLEM_PLANNINGS.register("parity-xor-threshold")
class ParityXorThresholdPlanning(ProblemPlanning[ParityXorThreshold]):
    """``n`` for the parities of all blocks, agents for the blocks' ends."""

    def plan(self, problem: ParityXorThreshold, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n, with beta/2 for the curator, and agents, with beta/4 for them and for the sample's ranks each.

        The block with the threshold may be wrong as a whole, 1/K of all people. The two blocks beside it end where the
        agents say, up to t, and where the people of a part do, up to d (Dvoretzky, Kiefer and Wolfowitz; Massart 1990,
        for all parts at once): whoever lies between may be predicted wrongly. So alpha = 1/K + 2 (t + d).

        Raises
        ------
        BadScenario
            If there is no epsilon, or 1/K + 2 d is above alpha.
        """
        epsilon, oracle = scenario.curator.epsilon, scenario.agents.mechanism
        if epsilon is None:
            raise BadScenario("curator.epsilon: parities are learned privately, give one")
        if not isinstance(oracle, HadamardResponse):
            raise BadScenario(f"agents.mechanism: the distribution function takes hadamard, found {oracle.name}")
        parts, rows = shape(problem, epsilon, scenario.beta / 2.0)
        ranks = math.sqrt(math.log(8.0 * parts / scenario.beta) / (2.0 * rows * problem.blocks))
        left = (scenario.alpha - 1.0 / problem.blocks) / 2.0 - ranks
        if left <= 0.0:
            raise BadScenario(
                f"alpha = {scenario.alpha:g} must be above 1/blocks + 2 d = {1.0 / problem.blocks + 2.0 * ranks:.3g}: "
                "more blocks, or a larger alpha"
            )

        def answers() -> int:
            query = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b))
            tau = left + 0.5 / problem.blocks  # of which half a step is not an error of a quantile
            needed, _ = agents_needed(query, oracle, tau, scenario.beta / 4.0, problem.blocks - 1)
            return math.ceil(needed / (1.0 - scenario.agents.dropout))

        text = "R K m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta' - b^R)/R at epsilon/K"
        return {
            "n": follow(scenario.curator.n, lambda: parts * rows * problem.blocks, text, CORRECTIONS + "synergy"),
            "agents": follow(
                scenario.agents.count, answers, "t = (alpha - 1/K)/2 - d at all quantiles", CORRECTIONS + "synergy"
            ),
        }


def shape(problem: ParityXorThreshold, epsilon: float, beta: float) -> tuple[int, int]:
    """Return the number of parts, and the people of each in every block.

    A block of ranks costs epsilon/blocks, as replacing one record may change all blocks of its part. In each but
    the block with the threshold all parts have full rank and one of them answers, with probability 1 - beta.
    """
    kept, answers = rates(problem.rule, down(epsilon / problem.blocks))
    return blocks(kept * escapes(problem.c + 1, 1.0, None), 1.0 - answers, beta / problem.blocks)
