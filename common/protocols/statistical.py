"""Statistical queries: the means of some expressions over people, each to a tolerance."""

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.local.queries.features import ExpressionQuery
from common.numerics.randomness import subseed
from common.privacy.rounding import up
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.patterns import agents, some
from common.statistics.formulas import PlannedValue

JUDGED = 1 << 17  # fresh people over whom a true mean is computed
SOURCE = "Hoeffding's inequality and a union bound; docs/synergy.md"

Share = Annotated[float, Field(ge=0, le=1)]


class QueryAnswer(Value):
    """The estimated mean of a query, and an interval for it."""

    value: Share
    low: Share
    high: Share


class QueryAnswers(Value):
    """The answer: one for each query, in order. All intervals hold together with this confidence."""

    kind: Literal["query-answers"] = "query-answers"
    answers: tuple[QueryAnswer, ...]
    confidence: float = Field(gt=0, lt=1)


@PROBLEMS.register("statistical-query")
class StatisticalQuery(Problem):
    """The statistical-query model (Kearns 1998): the mean over T of each query, to the tolerance ``alpha``.

    Records have d features. A query is an expression with values in [0, 1]; each agent answers one of them.
    """

    name: Literal["statistical-query"] = "statistical-query"
    d: int = Field(ge=1, le=1 << 16)
    queries: tuple[ExpressionQuery, ...] = Field(min_length=1, max_length=1 << 10)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        most = max(query.min_features for query in self.queries)
        if most > self.d:
            raise ValueError(f"a query reads feature {most - 1}, and records have {self.d}, from 0 to {self.d - 1}")
        return self

    @property
    def dimension(self) -> int:
        return self.d

    def width(self, truth: float, answers: int, beta: float) -> float:
        """Return a bound on the error of the mean of so many unbiased answers, for all queries with chance 1 - beta.

        An answer of randomized response that is true with chance p, unbiased, is one of two numbers at a distance of
        c = 1/(2p-1) = (e^epsilon + 1)/(e^epsilon - 1) from each other, with the query's mean over T. By Hoeffding's
        inequality the mean of n of them is off by t with probability 2 exp(-2 n t^2/c^2) at most, which is beta/k.
        """
        if answers == 0:
            return 1.0
        return up(math.sqrt(math.log(2.0 * len(self.queries) / beta) / (2.0 * answers)) / (2.0 * truth - 1.0))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        claim = QueryAnswers.parse(answer)
        if people.dimension != self.d or len(claim.answers) != len(self.queries):
            raise BadScenario(
                f"the truth of this problem is known of people with {self.d} features and {len(self.queries)} answers, "
                f"found {people.dimension} and {len(claim.answers)}"
            )
        indices, slots = np.arange(JUDGED), np.zeros(JUDGED, dtype=np.int64)
        truth = [
            float(query.evaluate(people.draw_columns(subseed(0, "judge"), indices, query.columns), slots).mean())
            for query in self.queries
        ]
        worst = max(abs(item.value - mean) for item, mean in zip(claim.answers, truth, strict=True))
        return {"correct": worst <= alpha, "worst_error": worst, "means": truth}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return agents: k times the N at which :meth:`width` is ``alpha``. The curator is never asked."""
        truth, k = inputs.truth, len(self.queries)

        def answers() -> int:
            exact = math.log(2.0 * k / inputs.beta) / (2.0 * ((2.0 * truth - 1.0) * inputs.alpha) ** 2)
            return math.floor(up(exact)) + 1

        text = "k N, N = c^2 ln(2k/beta)/(2 alpha^2), c = 1/(2p-1) = (e^epsilon + 1)/(e^epsilon - 1)"
        return {
            "n": inputs.people(lambda: 1, "any: the curator is never asked", SOURCE),
            "agents": inputs.agents(answers, text, SOURCE, k),
        }


DEMANDS.register("statistical-query")(Demands(some(agents("expression"))))
