"""One of many parities with one side: learn one that nobody asked for, or search for the one that is wanted."""

from __future__ import annotations

from common.scenario.problems.one_of_many_parities import OneOfManyParities, Wanted
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.frequency import likeliest_parity
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask_codes, problem_of
from referee.protocols.base import ABLATIONS, Outcome, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.one_of_many_parities import OneOfManyParitiesProtocol, find_wanted, learn_wanted


@ABLATIONS.register("one-of-many-parities/curator")
class CuratorAlone(Protocol):
    """The curator learns one parity at random.

    It has fewer people than there are shares, so it knows nothing about which parity is wanted, even without privacy,
    and not enough privacy for all.
    """

    title = "One of many parities: the curator alone"
    problem = "one-of-many-parities"
    pattern = pattern_of("one-of-many-parities", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", OneOfManyParitiesProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn the parity with a random number."""
        problem = problem_of(scenario, OneOfManyParities)
        return (yield from learn_wanted(problem, public % (1 << problem.d)))


@ABLATIONS.register("one-of-many-parities/agents")
class AgentsAlone(Protocol):
    """Half of the agents tell which parity is wanted, the others search for it, which takes 2^c times as many."""

    title = "One of many parities: the agents alone"
    problem = "one-of-many-parities"
    pattern = pattern_of("one-of-many-parities", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", OneOfManyParitiesProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Find out which parity is wanted with half of the agents, search for it with the others."""
        problem, count = problem_of(scenario, OneOfManyParities), scenario.agents.count
        which = yield from find_wanted(scenario, problem, count // 2, public)
        width = min(problem.c, 63)
        search = yield from ask_codes(count - count // 2, first=0, bits=width, sign=problem.c + which, public=public)
        found = likeliest_parity(search)
        features = tuple(i for i in range(problem.c) if (found << i) & (1 << (width - 1)))
        return Outcome("done", 1, Wanted(which=which, features=features), None, "searched by the agents")
