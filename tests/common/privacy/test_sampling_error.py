"""What the noise may be from its exact law is paid for out of delta, and nobody gets more of it than was planned."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from common.core.errors import BadScenario, BudgetExceeded
from common.privacy import sampling_error as module
from common.privacy.budget import cost, fits, open_budget
from common.privacy.events import Gaussian, NoEvent, PrivateSelection, Release, SubsampledSteps
from common.privacy.sampling_error import NUMBER, check_numbers, delta_left, error_paid, payable, sampling_error
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.stopping import NegativeBinomial
from curator.numerics.gaussian_noise import EXACT_BITS
from tests.tiers import for_each

STEPS = SubsampledSteps(count=1000, tv_bound=1e-4, ratio=0.5)


def test_the_bound_is_that_of_the_sampler():
    assert Fraction(1, 1 << EXACT_BITS) == NUMBER


def test_only_gaussian_noise_has_an_error_and_it_grows_with_the_numbers():
    assert sampling_error(NoEvent()) == sampling_error(Release(epsilon=1.0)) == 0
    assert sampling_error(STEPS) == 1000 * module.COORDINATES * NUMBER
    assert sampling_error(Gaussian(count=3, mu=0.1)) == 3 * sampling_error(Gaussian(mu=0.1)) > 0
    law = NegativeBinomial(eta=1.0, gamma=0.1, most=50)
    assert sampling_error(PrivateSelection(mu=0.1, law=law)) == law.most * sampling_error(Gaussian(mu=0.1))
    assert error_paid([(STEPS, 2), (NoEvent(), 5)]) == module.ALLOWANCE * 2 * sampling_error(STEPS)


@for_each("epsilon", [0.1, 1.0, 5.0])
def test_what_is_left_pays_for_the_error_at_that_epsilon(epsilon):
    error = Fraction(1, 10**9)
    left = delta_left(1e-6, epsilon, error)
    assert Fraction(left) + (1 + Fraction(math.exp(epsilon))) * error <= Fraction(1e-6)
    assert left >= 1e-6 - 4.0 * (1.0 + math.exp(epsilon)) * 1e-9
    assert delta_left(1e-6, epsilon, Fraction(0)) == 1e-6
    assert delta_left(1e-6, 1e4, error) < 0.0


def test_a_sampler_that_is_further_from_its_law_costs_more(monkeypatch):
    """With T the distance, delta'(epsilon) = delta(epsilon) + (1 + e^epsilon) T."""
    plan = [(Gaussian(mu=0.5), 1)]
    exact = cost(plan, 1e-6)
    monkeypatch.setattr(module, "NUMBER", Fraction(1, 10**8 * module.NUMBERS * module.ALLOWANCE))
    dearer = cost(plan, 1e-6)
    assert exact < dearer < 1.1 * exact
    assert dearer >= epsilon_of(0.5, 1e-6 - (1.0 + math.exp(dearer)) * 1e-8)
    open_budget(dearer, 1e-6, [Gaussian(mu=0.5)])
    with pytest.raises(BudgetExceeded, match="the plan costs"):
        open_budget(exact, 1e-6, [Gaussian(mu=0.5)])
    monkeypatch.setattr(module, "NUMBER", Fraction(1, 10**3 * module.NUMBERS * module.ALLOWANCE))
    assert cost(plan, 1e-6) == math.inf
    with pytest.raises(BudgetExceeded, match="inf"):
        open_budget(exact, 1e-6, [Gaussian(mu=0.5)])


def test_many_small_releases_cannot_have_more_error_than_was_paid_for():
    budget = open_budget(1.0, 1e-6, [Gaussian(mu=0.1)])
    small = Gaussian(count=512, mu=1e-6)
    budget.admit([small], small)
    with pytest.raises(BudgetExceeded, match="exact law"):
        budget.admit([small, small], small)


@for_each("plan", [[(STEPS, 3)], [(Gaussian(count=10, mu=0.05), 1)], [(Release(epsilon=0.3), 2)]])
@for_each("delta", [1e-5, 1e-9])
def test_a_budget_of_what_a_plan_costs_admits_it(plan, delta):
    price = cost(plan, delta)
    events = [event for event, times in plan for _ in range(times)]
    budget = open_budget(price, delta, events)
    for done in range(len(events)):
        budget.admit(events[:done], events[done])


def test_the_exact_sampler_costs_next_to_nothing():
    assert cost([(Gaussian(mu=0.5), 1)], 1e-6) == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-12)


@for_each("delta", [1e-4, 1e-9])
@for_each("error", [Fraction(1, 10**20), Fraction(1, 2**116), Fraction(1, 10**300)])
def test_what_is_payable_leaves_half_of_delta_and_little_more_leaves_none(delta, error):
    epsilon = payable(delta, error)
    assert delta / 2.0 <= delta_left(delta, epsilon, error) < delta
    assert delta_left(delta, epsilon + 2.0, error) < 0.0


def test_where_the_error_is_too_large_nothing_is_payable():
    assert payable(1e-9, Fraction(1, 10**9)) == payable(0.0, Fraction(1, 10**99)) == 0.0


@for_each("epsilon", [80.0, 300.0, 700.0, 1e5])
def test_a_budget_that_is_larger_than_another_holds_what_that_one_holds(epsilon):
    """Of its e^epsilon the error of the noise would take more than delta: it is opened at less."""
    events = [STEPS, STEPS, STEPS]
    assert delta_left(1e-6, epsilon, error_paid([(STEPS, 3)])) < 0.0
    budget = open_budget(epsilon, 1e-6, events)
    assert fits([(STEPS, 3)], epsilon, 1e-6)
    assert budget.guarantee == (epsilon, 1e-6)
    assert budget.certificate.epsilon < 80.0
    assert budget.certificate.delta >= 1e-6 / 2.0
    for done in range(3):
        budget.admit(events[:done], events[done])
    with pytest.raises(BudgetExceeded):
        budget.admit(events, Gaussian(mu=100.0))


def test_a_plan_that_only_more_epsilon_than_is_payable_would_hold_is_refused():
    plan = [(Gaussian(mu=20.0), 1)]
    assert not fits(plan, 600.0, 1e-6)
    with pytest.raises(
        BudgetExceeded, match=r"the budget is 600, of which delta = 1e-06 pays for \d\d\.\d+ with noise"
    ) as refused:
        open_budget(600.0, 1e-6, [Gaussian(mu=20.0)])
    assert refused.value.members["requested"] == "infinite"


def test_more_numbers_than_are_paid_for_are_refused():
    check_numbers(STEPS, module.COORDINATES)
    check_numbers(Gaussian(mu=0.1), module.NUMBERS)
    for event, most in ((STEPS, module.COORDINATES), (Gaussian(count=9, mu=0.1), module.NUMBERS)):
        with pytest.raises(BadScenario, match=f"{most + 1:,} numbers of noise.*Nothing was charged"):
            check_numbers(event, most + 1)
    check_numbers(Release(epsilon=1.0), 1 << 60)
