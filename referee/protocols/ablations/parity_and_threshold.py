"""Parity and threshold with one side: each can learn its own concept, and not the other's."""

from __future__ import annotations

from common.core.errors import BadScenario
from common.local.answers import Answers
from common.local.hypotheses.rules import Parity
from common.scenario.problems.parity_and_threshold import ParityAndThreshold
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.frequency import likeliest_parity
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, ask_codes, parity_of, problem_of
from referee.protocols.base import ABLATIONS, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.parity_and_threshold import (
    ParityAndThresholdProtocol,
    ended,
    find_threshold,
    learn,
    survey,
)


@ABLATIONS.register("parity-and-threshold/curator")
class CuratorAlone(Protocol):
    """The curator learns the parity, for which it spends its privacy, and says half of the range.

    Pure privacy takes of order b/(alpha epsilon) further people for a threshold of b bits.
    """

    title = "Parity and threshold: the curator alone"
    problem = "parity-and-threshold"
    pattern = pattern_of("parity-and-threshold", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", ParityAndThresholdProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn the parity, guess the threshold."""
        problem = problem_of(scenario, ParityAndThreshold)
        learned = yield from ask(learn(problem))
        return ended(parity_of(learned, problem.c), 1 << (problem.b - 1), "the threshold is a guess")


@ABLATIONS.register("parity-and-threshold/agents")
class AgentsAlone(Protocol):
    """Half of the agents search for the parity, which takes 2^c times as many; the others find the threshold."""

    title = "Parity and threshold: the agents alone"
    problem = "parity-and-threshold"
    pattern = pattern_of("parity-and-threshold", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", ParityAndThresholdProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Search for the parity with half of the agents, then for the threshold with others."""
        problem = problem_of(scenario, ParityAndThreshold)
        if not problem.interactive:
            raise BadScenario("without interaction: both sides are asked, leave out alone")
        question, width = survey(scenario, problem), min(problem.c, 63)
        count = scenario.agents.count // 2
        search = yield from ask_codes(count, first=0, bits=width, sign="label", public=public)
        found = likeliest_parity(search)
        parity = Parity(features=tuple(i for i in range(width) if found >> (width - 1 - i) & 1))
        told: Answers = yield question
        threshold, reason = yield from find_threshold(scenario, problem, told)
        return ended(parity, threshold, reason)
