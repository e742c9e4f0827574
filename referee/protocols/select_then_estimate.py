"""Select then estimate: the curator finds the best of many features, the agents say how good it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.local.queries.coordinate import CoordinateQuery
from common.local.queries.query import Answers, AskAgents
from common.operations.counting import Count, Select
from common.protocols.base import AskCurator, Progress
from common.protocols.select_then_estimate import Selected, SelectThenEstimate
from common.statistics.intervals import Estimate
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean
from referee.protocols.base import AS_PLANNED, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script


@PROTOCOLS.register("select-then-estimate")
class SelectThenEstimateProtocol(ProblemProtocol[SelectThenEstimate]):
    """Appendix B of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator selects by the exponential mechanism: n of order log d/alpha^2 suffices, where the local model needs d
    log d/alpha^2 without interaction. Fresh agents each say the selected feature with randomized response: about
    1/alpha'^2 of them suffice for the finer accuracy alpha', which the curator's few people cannot give.
    """

    title = "Select then estimate"
    done = (
        "a feature and its mean; with probability {sure} at least the mean is within {alpha} of the largest one, and "
        f"estimated within problem.precise, {AS_PLANNED}"
    )
    kind = SelectThenEstimate
    small = (
        {"name": "biased-coins", "d": 10, "biased": [3, 7], "rates": [0.9, 0.5]},
        "problem.d=10",
        "problem.precise=0.15",
        "alpha=0.3",
    )

    def both_sides(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        count = at_once(plan.count, alike=True)  # refused before the curator spends anything
        feature = yield from select(plan)
        answers = EstimatePlan(plan.bits, plan.beta)
        found = yield from estimate_mean(CoordinateQuery(first=feature), answers, count, 1)
        return ended(feature, found.estimate.value, found.estimate, f"{found.asked:,} agents were asked")

    def curator_alone(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        feature = yield from select(plan)
        counted = yield from ask(Count(feature=feature, epsilon=plan.share))
        share = float(np.clip(counted.count / plan.n, 0.0, 1.0))
        return ended(feature, share, None, "the curator counted what it had selected")

    def agents_alone(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        """Ask each agent, in one round, for the feature of its slot.

        The best is selected, and estimated from its own share of them.
        """
        problem = plan.problem
        query = CoordinateQuery(first=0, count=problem.d)
        answers: Answers = yield AskAgents(query, at_once(plan.count))
        asked = answers.slots % problem.d
        unbiased = plan.bits.unbias(answers.values)
        counts = np.bincount(asked, minlength=problem.d)
        sums = np.bincount(asked, weights=unbiased, minlength=problem.d)
        shares = np.divide(sums, counts, out=np.zeros(problem.d), where=counts > 0)
        feature = int(np.argmax(shares))
        share = float(np.clip(shares[feature], 0.0, 1.0))
        return ended(feature, share, None, f"{answers.asked:,} agents were asked a feature each")


def select(plan: ProblemPlan[SelectThenEstimate]) -> Generator[AskCurator | Progress, Any, int]:
    """Have the curator select a feature."""
    selected = yield from ask(Select(count=plan.problem.d, epsilon=plan.share))
    yield Progress(f"the curator selects feature {selected.feature}", {})
    return selected.feature


def ended(feature: int, share: float, estimate: Estimate | None, reason: str) -> Outcome:
    """End with a feature, and its mean in [-1, 1] for the share of people who have it."""
    return Outcome("done", 1, Selected(feature=feature, mean=2.0 * share - 1.0), estimate, reason)
