"""Select then estimate with one side: a coarse estimate of a good feature, or an estimate of each."""

from __future__ import annotations

import numpy as np

from common.local.answers import Answers, AskAgents
from common.local.queries.coordinate import CoordinateQuery
from common.operations.counting import Count
from common.scenario.problems.select_then_estimate import SelectThenEstimate
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.demands.base import pattern_of
from referee.protocols.asking import ask, at_once, problem_of
from referee.protocols.base import ABLATIONS, Protocol, Script
from referee.protocols.examples import left_alone
from referee.protocols.synergy.select_then_estimate import SelectThenEstimateProtocol, ended, select


@ABLATIONS.register("select-then-estimate/curator")
class CuratorAlone(Protocol):
    """The curator spends half of its epsilon on the selection, half on a noisy count."""

    title = "Select then estimate: the curator alone"
    problem = "select-then-estimate"
    pattern = pattern_of("select-then-estimate", "curator")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("curator", SelectThenEstimateProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Select, then count."""
        feature = yield from select(scenario, problem_of(scenario, SelectThenEstimate))
        counted = yield from ask(Count(feature=feature, epsilon=scenario.curator.share))
        share = float(np.clip(counted.count / scenario.curator.n, 0.0, 1.0))
        return ended(feature, share, None, "the curator counted what it had selected")


@ABLATIONS.register("select-then-estimate/agents")
class AgentsAlone(Protocol):
    """The agents say, in one round, the feature of their slot.

    The best is selected, and estimated from its own share of them.
    """

    title = "Select then estimate: the agents alone"
    problem = "select-then-estimate"
    pattern = pattern_of("select-then-estimate", "agents")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return the protocol's own, with this side alone."""
        return left_alone("agents", SelectThenEstimateProtocol.example())

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Ask about every feature at once, answer with the best."""
        problem = problem_of(scenario, SelectThenEstimate)
        query = CoordinateQuery(first=0, count=problem.d)
        answers: Answers = yield AskAgents(query, at_once(scenario.agents.count))
        asked = answers.slots % problem.d
        told = scenario.agents.value_mechanism.unbias(answers.values)
        counts = np.bincount(asked, minlength=problem.d)
        sums = np.bincount(asked, weights=told, minlength=problem.d)
        shares = np.divide(sums, counts, out=np.zeros(problem.d), where=counts > 0)
        feature = int(np.argmax(shares))
        share = float(np.clip(shares[feature], 0.0, 1.0))
        return ended(feature, share, None, f"{answers.asked:,} agents were asked a feature each")
