"""Statistical queries: Hoeffding's theorem against exact binomial tails, sizes, and what cannot be asked."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from common.core.errors import BadInput, BadScenario
from common.local.mechanisms.mechanism import Warner
from common.protocols.base import PlanInputs
from common.protocols.statistical import StatisticalQuery
from tests.support import small
from tests.tiers import for_each


def problem(queries: int) -> StatisticalQuery:
    return StatisticalQuery.parse(
        {"name": "statistical-query", "d": 1, "queries": queries * [{"terms": [{"label": True}]}]}
    )


def planned(queries: int, epsilon: float, alpha: float, beta: float) -> tuple[int, float]:
    mechanism = Warner(epsilon=epsilon)
    inputs = PlanInputs(alpha, beta, "plan", "plan", None, None, mechanism, 0.0)
    return int(problem(queries).plan(inputs, False)["agents"].value), mechanism.truth


def missed(truth: float, answers: int, mean: float, width: float) -> float:
    """Return how likely the unbiased mean of so many randomized bits is off by more than a width, exactly."""
    ones, chance = np.arange(answers + 1), 1.0 - truth + (2.0 * truth - 1.0) * mean
    off = np.abs((ones / answers - (1.0 - truth)) / (2.0 * truth - 1.0) - mean)
    return float(binom.pmf(ones, answers, chance)[off > width].sum())


def test_every_estimate_is_within_the_tolerance_with_the_stated_probability_and_not_with_half_of_it() -> None:
    tightest = 0.0
    for queries, epsilon, alpha, beta in ((1, 1.0, 0.1, 0.05), (7, 0.3, 0.2, 0.01), (100, 4.0, 0.05, 0.2)):
        agents, truth = planned(queries, epsilon, alpha, beta)
        answers = agents // queries
        assert answers * queries == agents
        width = problem(queries).width(truth, answers, beta)
        assert width <= alpha < problem(queries).width(truth, answers - 1, beta)
        for mean in (0.0, 0.2, 0.5, 1.0):
            assert missed(truth, answers, mean, width) <= beta / queries
            tightest = max(tightest, missed(truth, answers, mean, 0.5 * width) / (beta / queries))
    assert tightest > 5.0, "an interval of half the width, which is a claim too much, would be found out"


def test_the_size_is_the_theorems() -> None:
    for queries, epsilon, alpha, beta in ((4, 1.0, 0.03, 0.05), (1, 0.5, 0.01, 0.001)):
        c = (math.exp(epsilon) + 1.0) / (math.exp(epsilon) - 1.0)
        exact = c**2 * math.log(2.0 * queries / beta) / (2.0 * alpha**2)
        agents, _ = planned(queries, epsilon, alpha, beta)
        assert exact < agents / queries <= exact + 1.0 + 1e-6
    assert problem(1).width(0.7, 0, 0.05) == 1.0


@for_each("dropout", [0.0, 0.1, 0.7])
def test_with_dropout_every_query_has_its_answers_but_once_in_a_million(dropout: float) -> None:
    """Exactly: each query goes to its part of the agents, of whom this share does not answer."""
    queries, (whole, truth) = 12, planned(12, 1.0, 0.1, 0.05)
    inputs = PlanInputs(0.1, 0.05, "plan", "plan", None, None, Warner(epsilon=1.0), dropout)
    agents = int(problem(queries).plan(inputs, False)["agents"].value)
    assert agents % queries == 0
    assert problem(queries).width(truth, whole // queries, 0.05) <= 0.1
    assert binom.cdf(whole // queries - 1, agents // queries, 1.0 - dropout) <= 1e-6
    assert agents == whole or dropout > 0.0


@for_each(
    ("override", "why"),
    {
        "problem.queries=[{terms: [{features: [4]}]}]": "a query reads feature 4, and records have 4, from 0 to 3",
        "problem.queries=[{terms: [{weight: 1}]}]": "a constant is the offset",
        "problem.queries=[{terms: [{features: [0], code: x}]}]": "code",
        "agents.mechanism={name: laplace, epsilon: 1}": "agents answer with a bit, found laplace",
        "alone=curator": "nothing remains of protocol 'statistical-query' for curator alone",
    }.items(),
)
def test_what_cannot_be_asked_is_refused_with_its_reason(override: str, why: str) -> None:
    with pytest.raises((BadScenario, BadInput), match=why):
        small("statistical-query", override)
