"""Basic hypothesis testing: the task for which the hybrid model is no better than either side."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from common.local.answers import Answers, AskAgents
from common.local.mechanisms.laplace import Laplace
from common.local.queries.coordinate import CoordinateQuery
from common.numerics.randomness import RandomSource
from common.operations.counting import Count
from common.protocols.base import pattern_of
from common.protocols.hypothesis_testing import Decision, Evidence, HypothesisTesting
from common.protocols.steps import AskCurator
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from referee.protocols.asking import ask, at_once, problem_of
from referee.protocols.base import ABLATIONS, PROTOCOLS, Outcome, Protocol, Script, left_alone, small_problem


@PROTOCOLS.register("hypothesis-testing")
class HypothesisTestingProtocol(Protocol):
    """Section 6 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator releases a noisy count, the agents a randomized bit each; the referee adds up both sides' likelihood
    ratios.

    *Theorem 6.2.* If a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is
    right with 1/2 + g/4: :mod:`referee.protocols.hypothesis_testing` runs its proof.
    """

    title = "Hypothesis testing"
    done = (
        "a decision; by the normal law, which is no bound, it is wrong with a probability of about {beta} at the "
        "sizes of the tight plan, for people as the problem describes them and if those who answer are like all"
    )
    problem = "hypothesis-testing"
    pattern = pattern_of("hypothesis-testing")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "hypothesis-testing",
                {"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.7]},
                "problem.bias=0.4",
                "beta=0.001",
            ),
        )

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Hear both sides, and decide."""
        problem = problem_of(scenario, HypothesisTesting)
        at_once(scenario.agents.count, alike=True)  # refused before the curator spends anything
        counted = yield from hear_curator(scenario, problem)
        told = yield from hear_agents(scenario, problem)
        return decided_by(counted, told)


def hear_curator(scenario: ResolvedScenario, problem: HypothesisTesting) -> Generator[AskCurator, Any, Evidence]:
    """Return what the curator's noisy count says."""
    share = scenario.curator.share
    counted = yield from ask(Count(feature=0, epsilon=share))
    return problem.counted(counted.count, scenario.curator.n, share)


def hear_agents(scenario: ResolvedScenario, problem: HypothesisTesting) -> Generator[AskAgents, Answers, Evidence]:
    """Return what the agents' randomized bits say."""
    answers = yield AskAgents(CoordinateQuery(first=0), scenario.agents.count)
    truth = scenario.agents.bit_mechanism.truth
    return problem.evidence_of_answers(int(answers.values.sum(dtype="int64")), len(answers.values), truth)


def decided_by(*heard: Evidence) -> Outcome:
    """End with the likelier law."""
    return decided(int(sum(side.score for side in heard) > 0.0), "by the likelihood ratio")


def decided(world: int, reason: str) -> Outcome:
    """End with D_0 or D_1."""
    return Outcome("done", 1, Decision(world=world), None, reason)


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
    mechanism = scenario.agents.bit_mechanism
    count = int(problem.plan(scenario.plan_inputs, False)["agents"].rule or 0)
    bits = coins.derive("people").bernoullis(0.5 + 0.5 * problem.bias, count)
    told = mechanism.randomize(bits, coins.derive("noise"))
    return problem.evidence_of_answers(int(told.sum(dtype="int64")), count, mechanism.truth)


def _simulated_curator(scenario: ResolvedScenario, problem: HypothesisTesting, coins: RandomSource) -> Evidence:
    """Return what the curator's noisy count says if its people are drawn from D_0."""
    n, share = scenario.curator.n, scenario.curator.share
    ones = int(coins.derive("people").bernoullis(0.5 - 0.5 * problem.bias, n).sum(dtype="int64"))
    noise = int(Laplace(epsilon=share).noise(1, coins.derive("noise"))[0])
    return problem.counted(ones + noise, n, share)
