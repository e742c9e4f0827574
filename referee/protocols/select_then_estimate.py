"""Select then estimate: the curator finds the best of many features, the agents say how good it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.local.answers import Answers, AskAgents
from common.local.queries.coordinate import CoordinateQuery
from common.operations.counting import Count, Select
from common.protocols.base import pattern_of
from common.protocols.select_then_estimate import Selected, SelectThenEstimate
from common.protocols.steps import AskCurator, Progress
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate
from referee.protocols.asking import ask, at_once, estimate_mean, problem_of
from referee.protocols.base import ABLATIONS, PROTOCOLS, Outcome, Protocol, Script, left_alone, small_problem


@PROTOCOLS.register("select-then-estimate")
class SelectThenEstimateProtocol(Protocol):
    """Appendix B of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator selects by the exponential mechanism: n of order log d/alpha^2 suffices, where the local model needs d
    log d/alpha^2 without interaction. Fresh agents each say the selected feature with randomized response: about
    1/alpha'^2 of them suffice for the finer accuracy alpha', which the curator's few people cannot give.
    """

    title = "Select then estimate"
    done = (
        "a feature and its mean; with probability {sure} at least the mean is within {alpha} of the largest one, "
        "and estimated within problem.precise, at the sizes of the tight plan, for people as the problem "
        "describes them and if those who answer are like all"
    )
    problem = "select-then-estimate"
    pattern = pattern_of("select-then-estimate")

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "select-then-estimate",
                {"name": "biased-coins", "d": 10, "biased": [3, 7], "rates": [0.9, 0.5]},
                "problem.d=10",
                "problem.precise=0.15",
                "alpha=0.3",
            ),
        )

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Select, then estimate the mean of what was selected."""
        problem = problem_of(scenario, SelectThenEstimate)
        count = at_once(scenario.agents.count, alike=True)  # refused before the curator spends anything
        feature = yield from select(scenario, problem)
        found = yield from estimate_mean(CoordinateQuery(first=feature), scenario, count, 1)
        return ended(feature, found.estimate.value, found.estimate, f"{found.asked:,} agents were asked")


def select(scenario: ResolvedScenario, problem: SelectThenEstimate) -> Generator[AskCurator | Progress, Any, int]:
    """Have the curator select a feature."""
    selected = yield from ask(Select(count=problem.d, epsilon=scenario.curator.share))
    yield Progress(f"the curator selects feature {selected.feature}", {})
    return selected.feature


def ended(feature: int, share: float, estimate: Estimate | None, reason: str) -> Outcome:
    """End with a feature, and its mean in [-1, 1] for the share of people who have it."""
    return Outcome("done", 1, Selected(feature=feature, mean=2.0 * share - 1.0), estimate, reason)


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
