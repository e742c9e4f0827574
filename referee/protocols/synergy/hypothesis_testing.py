"""Basic hypothesis testing: the task for which the hybrid model is no better than either side."""

from __future__ import annotations

from typing import ClassVar

from common.core.errors import BadScenario
from common.numerics.randomness import RandomSource
from common.planning.problems.hypothesis_testing import stand_in
from common.scenario.problems.hypothesis_testing import Decision, Evidence, HypothesisTesting
from common.scenario.scenario import Scenario
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.operations import Count
from common.vocabulary.queries.coordinate import CoordinateQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, whole
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, sequence


@PROTOCOLS.register("hypothesis-testing")
class HypothesisTestingProtocol(Protocol):
    """Section 6 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator releases a noisy count, the agents a randomized bit each; the referee adds up both sides' likelihood
    ratios. Either side alone decides by its own.

    *Theorem 6.2.* If a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is
    right with 1/2 + g/4. Its proof is a protocol, which ``problem.reduction`` runs: with probability g/2 say 1 (agents
    alone) or 0 (curator alone) at once; else draw the other side's people from D_0 (agents alone) or D_1 (curator
    alone), have them answer, and decide as the hybrid does. The people are drawn from public randomness.
    """

    title = "Hypothesis testing"
    problem = "hypothesis-testing"
    pattern = sequence(curator("count"), agents("coordinate"))
    patterns_alone: ClassVar[dict[str, Pattern]] = {"curator": curator("count"), "agents": agents("coordinate")}

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

    def script(self, scenario: Scenario, public: int) -> Script:
        """Hear both sides, or one, and decide."""
        problem = scenario.problem
        if not isinstance(problem, HypothesisTesting):
            raise BadScenario("hypothesis-testing needs its problem")
        coins = RandomSource.seeded(public, "reduction")
        gain = 0.5 - scenario.beta
        heard: list[Evidence] = []
        if scenario.alone != "agents":
            release = yield AskCurator(Count(feature=0, epsilon=scenario.curator.share))
            heard.append(problem.counted(whole(release, "count"), int(scenario.curator.n), scenario.curator.share))
        if scenario.alone != "curator":
            answers: Answers = yield AskAgents(CoordinateQuery(first=0), int(scenario.agents.count))
            truth = scenario.agents.bit_mechanism.truth
            heard.append(problem.told(int(answers.values.sum(dtype="int64")), len(answers.values), truth))
        if scenario.alone is not None and problem.reduction:
            world = int(scenario.alone == "agents")
            if coins.derive("at once").uniforms(1)[0] < gain / 2.0:
                return _decided(world, "said at once, as the reduction does")
            heard.append(_simulated(problem, scenario, 1 - world, coins))
        return _decided(int(sum(side.score for side in heard) > 0.0), "by the likelihood ratio")


def _simulated(problem: HypothesisTesting, scenario: Scenario, world: int, coins: RandomSource) -> Evidence:
    """Return what the side that is missing says if its people are drawn from D_0 or D_1."""
    rate = 0.5 + (world - 0.5) * problem.bias
    n, share = int(scenario.curator.n), scenario.curator.share
    if scenario.alone == "agents":
        ones = int(coins.derive("people").bernoullis(rate, n).sum(dtype="int64"))
        return problem.counted(ones + int(Laplace(epsilon=share).noise(1, coins.derive("noise"))[0]), n, share)
    mechanism, count = scenario.agents.bit_mechanism, stand_in(problem, scenario)
    bits = coins.derive("people").bernoullis(rate, count)
    return problem.told(
        int(mechanism.randomize(bits, coins.derive("noise")).sum(dtype="int64")), count, mechanism.truth
    )


def _decided(world: int, reason: str) -> Outcome:
    return Outcome("done", 1, Decision(world=world), None, reason)
