"""As many agents judge in a run as its plan counts with; what no number of judges below a bound can guarantee."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from common.protocols.portfolio import SURVEYED, Portfolio, Roles, enrolled
from common.scenario.plan import plan, resolve
from common.statistics import finalists
from referee.protocols import portfolio_classes, portfolio_regression
from referee.protocols.teaching import PortfolioPlan
from tests.support import small

PLANS = {
    "portfolio": PortfolioPlan.of,
    "portfolio-classes": portfolio_classes._plan,
    "portfolio-regression": portfolio_regression._plan,
}


@pytest.mark.parametrize("protocol", PLANS)
def test_a_plan_counts_with_the_judges_that_a_run_has(protocol):
    for agents in (6_000, 30_000):
        scenario = small(protocol, f"agents.count={agents}")
        run = PLANS[protocol](resolve(scenario))
        judging = finalists.sure(run.mechanism, run.roles.judges, run.beta)
        assert plan(scenario).settings["gap"].value == judging


@pytest.mark.parametrize("protocol", PLANS)
def test_as_many_agents_are_planned_as_it_takes_for_so_many_judges(protocol):
    surveys = protocol == "portfolio"

    def judges(agents):
        roles = Roles.of(agents, Portfolio())
        return (roles if surveys else roles.unsurveyed).judges

    for needed in (500, 4_999, 5_000, 5_001, 6_999, 7_000, 7_001, 20_000):
        agents = enrolled(needed, Portfolio(), surveys=surveys)
        assert judges(agents) >= needed > judges(agents - 10)
    assert (enrolled(7_280, Portfolio(), surveys=surveys) > 25_000) == surveys
    assert enrolled(5_000, Portfolio(), surveys=surveys) == SURVEYED


def test_few_agents_cannot_guarantee_half_a_point_against_the_better_constant():
    """The theorem of docs/portfolio.md: exactly, and by the majority of Warner bits, which attains it."""

    def contradicted(agents, gap):
        right = 0.5 + gap * math.tanh(0.5)  # of a Warner bit with epsilon = 1: true with probability e/(1 + e)
        assert right == pytest.approx((0.5 + gap) * math.e / (1 + math.e) + (0.5 - gap) / (1 + math.e))
        half = agents // 2
        return binom.cdf(half - 1, agents, right) + 0.5 * binom.pmf(half, agents, right)  # a tie decides by a coin

    def least(agents):
        return max(100 * 2 * gap * contradicted(agents, gap) for gap in np.linspace(0.002, 0.1, 197))

    assert least(2_000) == pytest.approx(0.82, abs=0.005)
    assert least(5_400) == pytest.approx(0.5, abs=0.001)
    generator, gap = np.random.default_rng(0), 0.018
    labels = generator.random((4_000, 2_000)) < 0.5 + gap
    reports = labels == (generator.random(labels.shape) < math.e / (1 + math.e))
    excess = 100 * 2 * gap * (1 - np.mean(reports.mean(axis=1) > 0.5) - 0.5 * np.mean(reports.mean(axis=1) == 0.5))
    assert excess == pytest.approx(least(2_000), abs=0.1)
