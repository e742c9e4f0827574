"""As many agents judge in a run as its plan counts with, also where nobody is surveyed."""

import pytest

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
