"""Basic hypothesis testing: the task for which the hybrid model is no better than either side."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from common.local.answers import Answers, AskAgents
from common.local.queries.coordinate import CoordinateQuery
from common.operations.counting import Count
from common.protocols.steps import AskCurator
from common.scenario.problems.hypothesis_testing import Decision, Evidence, HypothesisTesting
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, at_once, problem_of
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_problem


@PROTOCOLS.register("hypothesis-testing")
class HypothesisTestingProtocol(Protocol):
    """Section 6 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator releases a noisy count, the agents a randomized bit each; the referee adds up both sides' likelihood
    ratios.

    *Theorem 6.2.* If a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is
    right with 1/2 + g/4: :mod:`referee.protocols.ablations.hypothesis_testing` runs its proof.
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
