"""Hypothesis testing with one side: by its own evidence, or by the reduction of Theorem 6.2.

The theorem: if a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is right
with 1/2 + g/4. Its proof is a protocol, which ``problem.reduction`` runs: with probability g/2 say at once 0 (curator
alone) or 1 (agents alone); else draw the other side's people from D_1 (curator alone) or D_0 (agents alone), have them
answer, and decide as the hybrid does. The people are drawn from public randomness.
"""

from __future__ import annotations

from common.local.mechanisms.laplace import Laplace
from common.numerics.randomness import RandomSource
from common.planning.problems.hypothesis_testing import stand_in
from common.scenario.problems.hypothesis_testing import Evidence, HypothesisTesting
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import problem_of
from referee.protocols.base import ABLATIONS, Outcome, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.hypothesis_testing import (
    HypothesisTestingProtocol,
    decided,
    decided_by,
    hear_agents,
    hear_curator,
)


@ABLATIONS.register("hypothesis-testing/curator")
class CuratorAlone(Protocol):
    """The curator's noisy count decides, with simulated agents if the reduction is asked for."""

    title = "Hypothesis testing: the curator alone"
    problem = "hypothesis-testing"
    pattern = pattern_of("hypothesis-testing", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", HypothesisTestingProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Hear the curator, and decide."""
        problem = problem_of(scenario, HypothesisTesting)
        counted = yield from hear_curator(scenario, problem)
        if not problem.reduction:
            return decided_by(counted)
        coins = RandomSource.seeded(public, "reduction")
        if _at_once(scenario, coins):
            return _said(0)
        return decided_by(counted, _simulated_agents(scenario, problem, coins))


@ABLATIONS.register("hypothesis-testing/agents")
class AgentsAlone(Protocol):
    """The agents' randomized bits decide, with a simulated curator if the reduction is asked for."""

    title = "Hypothesis testing: the agents alone"
    problem = "hypothesis-testing"
    pattern = pattern_of("hypothesis-testing", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", HypothesisTestingProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Hear the agents, and decide."""
        problem = problem_of(scenario, HypothesisTesting)
        told = yield from hear_agents(scenario, problem)
        if not problem.reduction:
            return decided_by(told)
        coins = RandomSource.seeded(public, "reduction")
        if _at_once(scenario, coins):
            return _said(1)
        return decided_by(told, _simulated_curator(scenario, problem, coins))


def _at_once(scenario: ResolvedScenario, coins: RandomSource) -> bool:
    """Toss the reduction's first coin: heads with probability g/2, g = 1/2 - beta."""
    return bool(coins.derive("at once").uniforms(1)[0] < (0.5 - scenario.beta) / 2.0)


def _said(world: int) -> Outcome:
    return decided(world, "said at once, as the reduction does")


def _simulated_agents(scenario: ResolvedScenario, problem: HypothesisTesting, coins: RandomSource) -> Evidence:
    """Return what as many agents say as the hybrid asks if they are drawn from D_1."""
    mechanism, count = scenario.agents.bit_mechanism, stand_in(problem, scenario)
    bits = coins.derive("people").bernoullis(0.5 + 0.5 * problem.bias, count)
    told = mechanism.randomize(bits, coins.derive("noise"))
    return problem.evidence_of_answers(int(told.sum(dtype="int64")), count, mechanism.truth)


def _simulated_curator(scenario: ResolvedScenario, problem: HypothesisTesting, coins: RandomSource) -> Evidence:
    """Return what the curator's noisy count says if its people are drawn from D_0."""
    n, share = scenario.curator.n, scenario.curator.share
    ones = int(coins.derive("people").bernoullis(0.5 - 0.5 * problem.bias, n).sum(dtype="int64"))
    noise = int(Laplace(epsilon=share).noise(1, coins.derive("noise"))[0])
    return problem.counted(ones + noise, n, share)
