"""Blender with one side: the curator's own counts, or items that the agents find among all by themselves."""

from __future__ import annotations

from common.local.answers import Answers, AskAgents
from common.local.queries.item import ItemQuery
from common.protocols.steps import Progress
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.heavy_hitters import find, ladder
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, at_once
from referee.protocols.base import ABLATIONS, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.blender import (
    BlenderProtocol,
    combined,
    given,
    head_list,
    shares_by_agents,
    shares_by_curator,
)


@ABLATIONS.register("blender/curator")
class CuratorAlone(Protocol):
    """The curator lists the items and counts them; nobody else is asked about the list."""

    title = "Blender: the curator alone"
    problem = "blender"
    pattern = pattern_of("blender", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", BlenderProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Have the curator list the items and count them."""
        problem, _ = given(scenario)
        head = yield from ask(head_list(scenario, problem))
        yield Progress(f"{len(head.items)} items are listed", {})
        return combined(head.items, [shares_by_curator(head, scenario, problem)])


@ABLATIONS.register("blender/agents")
class AgentsAlone(Protocol):
    """Half of the agents find the items among all 2^bits, the others estimate their shares.

    The search is one question without interaction (:mod:`common.statistics.heavy_hitters`).
    """

    title = "Blender: the agents alone"
    problem = "blender"
    pattern = pattern_of("blender", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", BlenderProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Find the items with half of the agents, ask the others about them."""
        problem, oracle = given(scenario)
        count = scenario.agents.count
        query = ItemQuery(bits=problem.bits, prefixes=ladder(problem.bits, oracle), public=public)
        answers: Answers = yield AskAgents(query, at_once(count // 2))
        items: list[int] = find(query, oracle, answers, scenario.beta).items[: problem.most].tolist()
        yield Progress(f"{len(items)} items are listed", {})
        if not items:
            return combined([], [])
        return combined(items, [(yield from shares_by_agents(items, problem, oracle, count - count // 2, public))])
