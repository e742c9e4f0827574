"""Select then estimate: which of many features is 1 most often, and how often exactly."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.boolean_features import BiasedCoins
from common.scenario.problems.base import PROBLEMS, Problem


class Selected(Value):
    """The answer: a feature, and its mean on the scale from -1 to 1."""

    kind: Literal["selected"] = "selected"
    feature: int = Field(ge=0)
    mean: float


@PROBLEMS.register("select-then-estimate")
class SelectThenEstimate(Problem):
    """Definition B.1: x in {-1, 1}^d (here 0 and 1), mu = E x. Find i with mu_i >= max mu - alpha, and mu_i to alpha'.

    The scenario's ``alpha`` is that of the selection.

    Attributes
    ----------
    d
        Number of features.
    precise
        alpha', below alpha: accuracy of the estimate.
    """

    name: Literal["select-then-estimate"] = "select-then-estimate"
    d: int = Field(ge=2, le=1 << 16)
    precise: float = Field(gt=0, lt=1)

    @property
    def dimension(self) -> int:
        """Number of features, d."""
        return self.d

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return the true means of the selected and of the best feature."""
        selected = Selected.parse(answer)
        if not isinstance(people, BiasedCoins):
            raise BadScenario(f"the truth of this problem is known of biased-coins, found {people.name}")
        means = [2.0 * people.rate(feature) - 1.0 for feature in range(people.d)]
        mean, best = means[selected.feature], max(means)
        right = mean >= best - alpha and abs(selected.mean - mean) <= self.precise
        return {"correct": right, "mean": mean, "best": best}
