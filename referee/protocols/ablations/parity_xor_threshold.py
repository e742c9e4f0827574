"""Parity XOR threshold with one side: parities of unknown blocks, or blocks of unknown parities."""

from __future__ import annotations

from common.local.answers import Answers, AskAgents
from common.scenario.problems.parity_xor_threshold import Piecewise
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, at_once
from referee.protocols.base import ABLATIONS, Outcome, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.parity_xor_threshold import (
    ParityXorThresholdProtocol,
    given,
    learn_blocks,
    pieced_together,
    prefixes,
    voted,
)


@ABLATIONS.register("parity-xor-threshold/curator")
class CuratorAlone(Protocol):
    """The curator has its parities, and takes the blocks to be equally long."""

    title = "Parity XOR threshold: the curator alone"
    problem = "parity-xor-threshold"
    pattern = pattern_of("parity-xor-threshold", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", ParityXorThresholdProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn a parity in each block, divide the range evenly."""
        problem, _ = given(scenario)
        pieces = voted((yield from ask(learn_blocks(scenario, problem))))
        cuts = tuple((number << problem.b) // problem.blocks for number in range(1, problem.blocks))
        return Outcome("done", 1, Piecewise(cuts=cuts, pieces=pieces), None, "the agents are left out")


@ABLATIONS.register("parity-xor-threshold/agents")
class AgentsAlone(Protocol):
    """The agents have the quantiles, and no parity: they answer with the constant 1."""

    title = "Parity XOR threshold: the agents alone"
    problem = "parity-xor-threshold"
    pattern = pattern_of("parity-xor-threshold", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", ParityXorThresholdProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Find where the blocks end."""
        problem, oracle = given(scenario)
        query = prefixes(problem, public)
        answers: Answers = yield AskAgents(query, at_once(scenario.agents.count))
        return pieced_together(problem, ((problem.c,),) * problem.blocks, query, oracle, answers)
