"""Contract of every registered accountant, and what each claims against exact privacy loss distributions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, Plan
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    SubsampledRelease,
    SubsampledSteps,
)
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.stopping import geometric

STEPS = SubsampledSteps(count=100, tv_bound=1e-4, ratio=0.5)
SMALLER = SubsampledSteps(count=50, tv_bound=1e-4, ratio=0.4)
RELEASE = SubsampledRelease(draws=100, tv_bound=1e-5, epsilon=1.0, delta=1e-9)
PURE = SubsampledRelease(draws=100, tv_bound=1e-5, epsilon=1.0)
NOISE = Gaussian(count=10, mu=0.1)
CHOICE = PrivateSelection(mu=0.1, law=geometric(10.0))
EVERYTHING: list[Event] = [NoEvent(), NonPrivate(), STEPS, SMALLER, RELEASE, PURE, NOISE, CHOICE]
DELTA = 1e-6


EACH = [
    pytest.param(name, marks=pytest.mark.slow if kind.patient else ()) for name, kind in ACCOUNTANTS.items()
]  # those that take seconds are patient


@pytest.fixture(params=EACH)
def accountant(request: pytest.FixtureRequest) -> Accountant:
    return ACCOUNTANTS[request.param]()


def covered(accountant: Accountant) -> list[Event]:
    return [event for event in EVERYTHING if accountant.covers(event) and not isinstance(event, NoEvent)]


def test_it_knows_what_something_costs(accountant: Accountant) -> None:
    assert covered(accountant)


def test_nothing_costs_nothing(accountant: Accountant) -> None:
    assert accountant.covers(NoEvent())
    assert accountant.epsilon([], DELTA) == 0.0
    assert accountant.epsilon([(NoEvent(), 1000)], DELTA) == 0.0
    assert accountant.budget_filter([(NoEvent(), 1)], 1.0, DELTA).amount(NoEvent()) == 0


def test_more_events_cost_no_less_and_a_larger_delta_costs_no_more(accountant: Accountant) -> None:
    for event in covered(accountant):
        one = accountant.epsilon([(event, 1)], DELTA)
        assert 0.0 <= one <= accountant.epsilon([(event, 100)], DELTA)
        assert accountant.epsilon([(event, 100)], 1e-3) <= accountant.epsilon([(event, 100)], DELTA)
        assert accountant.epsilon([(event, 1), (NoEvent(), 5)], DELTA) == one


def test_grouping_and_order_do_not_matter(accountant: Accountant) -> None:
    for event in covered(accountant):
        together: Plan = [(event, 7), (NoEvent(), 1)]
        apart: Plan = [(event, 3), (NoEvent(), 1), (event, 4)]
        assert accountant.epsilon(together, DELTA) == accountant.epsilon(apart, DELTA)


def test_a_plan_passes_its_own_meter_exactly_and_nothing_more_does(accountant: Accountant) -> None:
    for event in covered(accountant):
        plan: Plan = [(event, 40)]
        epsilon = accountant.epsilon(plan, DELTA)
        if math.isinf(epsilon):
            continue
        budget_filter = accountant.budget_filter(plan, epsilon, DELTA)
        amount = budget_filter.amount(event)
        assert amount is not None
        assert 40 * amount <= budget_filter.cap
        assert 41 * amount > budget_filter.cap


def test_a_meter_for_less_than_the_plan_costs_refuses_the_plan(accountant: Accountant) -> None:
    for event in covered(accountant):
        plan: Plan = [(event, 400)]
        epsilon = accountant.epsilon(plan, DELTA)
        budget_filter = accountant.budget_filter(plan, 0.9 * min(epsilon, 1e6), DELTA)
        amount = budget_filter.amount(event)
        assert amount is None or 400 * amount > budget_filter.cap


def test_no_accountant_with_a_finite_budget_admits_what_it_does_not_cover(accountant: Accountant) -> None:
    budget_filter = accountant.budget_filter([(NoEvent(), 1)], 1.0, DELTA)
    for event in EVERYTHING:
        amount = budget_filter.amount(event)
        assert isinstance(event, NoEvent) or amount is None or amount > budget_filter.cap


@pytest.mark.parametrize(("tv_bound", "ratio", "steps"), [(0.01, 1.0, 1000), (0.05, 0.25, 2000)])
def test_steps_cost_at_least_the_truth_of_the_worst_pair_and_not_much_more(
    tv_bound: float, ratio: float, steps: int
) -> None:
    worst = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / ratio,
        sampling_prob=tv_bound,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=5e-5,
    )
    truth = worst.self_compose(steps).get_epsilon_for_delta(1e-5)
    event = SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio)
    claimed = ACCOUNTANTS["rdp"]().epsilon([(event, 1)], 1e-5)
    assert truth <= claimed <= 1.35 * truth + 0.05


def test_pure_releases_may_stand_beside_steps() -> None:
    rdp, kov = ACCOUNTANTS["rdp"](), ACCOUNTANTS["kov"]()
    both = rdp.epsilon([(STEPS, 10), (PURE, 10)], DELTA)
    assert both >= max(rdp.epsilon([(STEPS, 10)], DELTA), rdp.epsilon([(PURE, 10)], DELTA))
    assert kov.epsilon([(PURE, 1000)], DELTA) <= rdp.epsilon([(PURE, 1000)], DELTA)
    assert not rdp.covers(RELEASE)
    assert rdp.epsilon([(SubsampledRelease(draws=2, tv_bound=1.0, epsilon=1e4), 1)], DELTA) == math.inf
    assert rdp.epsilon([(STEPS, 1)], 0.0) == math.inf


def test_the_count_is_multiplied_in_once() -> None:
    rdp = ACCOUNTANTS["rdp"]()
    many = SubsampledSteps(count=1000, tv_bound=1e-3, ratio=0.5)
    one = many.model_copy(update={"count": 1})
    assert rdp.epsilon([(many, 3)], DELTA) == rdp.epsilon([(one, 3000)], DELTA)
    budget_filter = rdp.budget_filter([(many, 3)], 5.0, DELTA)
    single = budget_filter.amount(one)
    assert isinstance(single, Fraction)
    assert budget_filter.amount(many) == 1000 * single


def test_gaussian_releases_cost_exactly_what_one_of_the_root_of_their_squares_does() -> None:
    gdp = ACCOUNTANTS["gdp"]()
    many = gdp.epsilon([(Gaussian(count=9, mu=0.1), 4), (Gaussian(mu=0.8), 1)], DELTA)
    assert many == pytest.approx(gdp.epsilon([(Gaussian(mu=1.0), 1)], DELTA), rel=1e-12)
    truth = privacy_loss_distribution.from_gaussian_mechanism(1.0).get_epsilon_for_delta(DELTA)
    assert truth == pytest.approx(many, rel=1e-3)
    assert math.isinf(gdp.epsilon([(Gaussian(mu=1.0), 1)], 0.0))


def test_the_envelopes_cost_less_than_renyi_where_steps_are_few_and_more_steps_are_compared() -> None:
    """The three regimes of docs/accounting.md: heavy tails, in between, and many small steps."""
    few = SubsampledSteps(count=1000, tv_bound=0.001, ratio=2.0)
    many = SubsampledSteps(count=10**9, tv_bound=1e-6, ratio=0.45)
    claims = {name: ACCOUNTANTS[name]().epsilon([(few, 1)], 1e-5) for name in ("rdp", "pld")}
    assert 3.2 < claims["pld"] < 3.35 < 4.9 < claims["rdp"]
    limit = epsilon_of(1e-6 * math.sqrt(1e9 * math.expm1(0.45**2)), 1e-5)
    compared = ACCOUNTANTS["comparison"]().epsilon([(many, 1)], 1e-5)
    assert limit <= compared <= 1.01 * limit < 1.05 * limit < ACCOUNTANTS["rdp"]().epsilon([(many, 1)], 1e-5)


def test_a_plan_of_places_is_not_spent_twice_however_events_are_chosen() -> None:
    """The filter of loss distributions: each admitted event takes a planned place that dominates it."""
    dear, cheap = (
        SubsampledSteps(count=10, tv_bound=0.01, ratio=1.0),
        SubsampledSteps(count=10, tv_bound=0.001, ratio=1.0),
    )
    plan: Plan = [(dear, 2), (cheap, 3)]
    pld = ACCOUNTANTS["pld"]()
    budget_filter = pld.budget_filter(plan, pld.epsilon(plan, DELTA), DELTA)
    cost_of = {event: budget_filter.amount(event) for event in (dear, cheap)}
    assert cost_of[dear] is not None
    assert cost_of[cheap] is not None
    assert 2 * cost_of[dear] + 3 * cost_of[cheap] <= budget_filter.cap
    assert 3 * cost_of[dear] + 0 * cost_of[cheap] > budget_filter.cap
    assert 1 * cost_of[dear] + 4 * cost_of[cheap] > budget_filter.cap
    between_them = budget_filter.amount(dear.model_copy(update={"tv_bound": 0.005}))
    assert between_them == cost_of[dear]
    assert budget_filter.amount(dear.model_copy(update={"tv_bound": 0.02})) is None
    assert budget_filter.amount(dear.model_copy(update={"ratio": 1.01})) is None


def test_a_schedule_of_many_bounds_is_merged_upwards() -> None:
    plan: Plan = [(SubsampledSteps(count=100, tv_bound=0.001 * 1.003**k, ratio=1.0), 1) for k in range(200)]
    pld = ACCOUNTANTS["pld"]()
    merged = pld.epsilon(plan, DELTA)
    dearest = pld.epsilon([(plan[-1][0], 200)], DELTA)
    mean = pld.epsilon([(plan[100][0], 200)], DELTA)
    assert mean < merged < dearest
    budget_filter = pld.budget_filter(plan, merged, DELTA)
    amounts = [budget_filter.amount(event) for event, _ in plan]
    spent = amounts[0]
    for amount in amounts[1:]:
        spent = spent + amount
    assert spent is not None
    assert spent <= budget_filter.cap
