"""Select then estimate: the curator finds the best of many features, the agents say how good it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

import numpy as np

from common.core.errors import BadScenario
from common.scenario.problems.select_then_estimate import Selected, SelectThenEstimate
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate
from common.vocabulary.operations import Count, Select
from common.vocabulary.queries.coordinate import CoordinateQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress
from referee.protocols.asking import Finding, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, whole
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, sequence


@PROTOCOLS.register("select-then-estimate")
class SelectThenEstimateProtocol(Protocol):
    """Appendix B of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator selects by the exponential mechanism: n of order log d/alpha^2 suffices, where the local model needs d
    log d/alpha^2 without interaction. Fresh agents each say the selected feature with randomized response: about
    1/alpha'^2 of them suffice for the finer accuracy alpha', which the curator's few people cannot give.

    *The curator alone* spends half of its epsilon on the selection, half on a noisy count. *The agents alone* say, in
    one round, the feature of their slot; the best is selected and estimated from its own share of them.
    """

    title = "Select then estimate"
    problem = "select-then-estimate"
    pattern = sequence(curator("select"), agents("coordinate"))
    patterns_alone: ClassVar[dict[str, Pattern]] = {
        "curator": sequence(curator("select"), curator("count")),
        "agents": agents("coordinate"),
    }

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

    def script(self, scenario: Scenario, public: int) -> Script:
        """Select, then estimate the mean of what was selected."""
        problem = scenario.problem
        if not isinstance(problem, SelectThenEstimate):
            raise BadScenario("select-then-estimate needs its problem")
        if scenario.alone == "agents":
            return (yield from _agents_alone(scenario, problem))
        epsilon = scenario.curator.share
        release = yield AskCurator(Select(count=problem.d, epsilon=epsilon))
        feature = whole(release, "feature", 0, problem.d - 1)
        yield Progress(f"the curator selects feature {feature}", {})
        if scenario.alone == "curator":
            counted = yield AskCurator(Count(feature=feature, epsilon=epsilon))
            share = float(np.clip(whole(counted, "count") / int(scenario.curator.n), 0.0, 1.0))
            return _outcome(feature, share, None, "the curator counted what it had selected")
        found: Finding = yield from estimate_mean(
            CoordinateQuery(first=feature), scenario, at_once(int(scenario.agents.count)), 1
        )
        return _outcome(feature, found.estimate.value, found.estimate, f"{found.asked:,} agents were asked")


def _agents_alone(scenario: Scenario, problem: SelectThenEstimate) -> Generator[AskAgents, Answers, Outcome]:
    query = CoordinateQuery(first=0, count=problem.d)
    answers = yield AskAgents(query, at_once(int(scenario.agents.count)))
    asked = answers.slots % problem.d
    told = scenario.agents.value_mechanism.unbias(answers.values)
    counts = np.bincount(asked, minlength=problem.d)
    sums = np.bincount(asked, weights=told, minlength=problem.d)
    shares = np.divide(sums, counts, out=np.zeros(problem.d), where=counts > 0)
    feature = int(np.argmax(shares))
    share = float(np.clip(shares[feature], 0.0, 1.0))
    return _outcome(feature, share, None, f"{answers.asked:,} agents were asked a feature each")


def _outcome(feature: int, share: float, estimate: Estimate | None, reason: str) -> Outcome:
    return Outcome("done", 1, Selected(feature=feature, mean=2.0 * share - 1.0), estimate, reason)
