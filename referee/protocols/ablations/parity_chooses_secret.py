"""Parity chooses secret with one side: no shares to tell, or no parity to ask by."""

from __future__ import annotations

from common.local.hypotheses.relabelled import Task
from common.protocols.steps import Progress
from common.scenario.problems.parity_chooses_secret import ParityChoosesSecret, Secret, number_of
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.frequency import likeliest_parity
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask_codes, learn_parity, problem_of
from referee.protocols.base import ABLATIONS, Outcome, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.parity_chooses_secret import ParityChoosesSecretProtocol, nobody_answered, release_secret


@ABLATIONS.register("parity-chooses-secret/curator")
class CuratorAlone(Protocol):
    """The curator learns r, and the answer is a guess.

    It has fewer people than there are shares: it knows nothing about the secret, even without privacy.
    """

    title = "Parity chooses secret: the curator alone"
    problem = "parity-chooses-secret"
    pattern = pattern_of("parity-chooses-secret", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", ParityChoosesSecretProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Learn which secret is wanted, and guess it."""
        problem = problem_of(scenario, ParityChoosesSecret)
        parity = yield from learn_parity(Task(features=problem.c))
        if parity is None:
            return nobody_answered(public)
        which = number_of(parity.features, problem.c)
        yield Progress(f"secret {which} is wanted", {})
        return Outcome("done", 1, Secret(which=which, bit=public & 1), None, "guessed: a share is missing")


@ABLATIONS.register("parity-chooses-secret/agents")
class AgentsAlone(Protocol):
    """Half of the agents search for r, which takes 2^c times as many (Lemma 5.2's lower bound).

    The others tell the shares of what was found.
    """

    title = "Parity chooses secret: the agents alone"
    problem = "parity-chooses-secret"
    pattern = pattern_of("parity-chooses-secret", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", ParityChoosesSecretProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Search for the parity with half of the agents, ask the others for the shares."""
        problem, mechanism = problem_of(scenario, ParityChoosesSecret), scenario.agents.bit_mechanism
        count = scenario.agents.count
        search = yield from ask_codes(count // 2, first=0, bits=problem.c, sign="label", public=public)
        which = likeliest_parity(search)
        yield Progress(f"secret {which} is wanted", {})
        return (yield from release_secret(problem, mechanism, which, count - count // 2, public))
