"""The budget filter: sound whatever is asked, exact for what was planned, publishing the cap."""

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BudgetExceeded
from common.privacy.accountants import ACCOUNTANTS, Plan, grouped
from common.privacy.budget import Budget, certify, cost, fits, open_budget, sampling_schedule, smallest_n
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    Release,
    SubsampledRelease,
    SubsampledSteps,
    error_paid,
)
from common.privacy.profile_accountants import GameAccountant
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.renyi import ORDERS, rho_allowed, step_rdp
from tests.tiers import for_each

STEPS = SubsampledSteps(count=1000, tv_bound=1e-4, ratio=0.447)
RELEASE = SubsampledRelease(draws=200, tv_bound=1e-5, epsilon=1.0, delta=1e-9)
CHEAP = SubsampledRelease(draws=1, tv_bound=1e-9, epsilon=1.0)
DELTA = 1e-5


def refused(budget: Budget, charged: Sequence[Event], event: Event) -> dict[str, Any]:
    """Return what a refusal says."""
    with pytest.raises(BudgetExceeded) as refusal:
        budget.admit(charged, event)
    json.dumps(refusal.value.document(), allow_nan=False)
    return refusal.value.members


@for_each(("event", "times"), [(STEPS, 30), (RELEASE, 30), (Gaussian(count=10, mu=0.05), 1), (Release(epsilon=0.3), 2)])
@for_each("delta", [DELTA, 1e-6])
def test_the_whole_plan_is_admitted_in_any_order_and_then_no_more(event: Event, times: int, delta: float) -> None:
    planned = [event, NoEvent()] * times
    price = cost([(event, times)], delta)
    budget, shares = open_budget(price, delta, planned), [0.0]
    charged: list[Event] = []
    for following in planned[::-1]:
        budget.admit(charged, following)
        charged.append(following)
        shares.append(budget.share(charged))
    budget.admit(charged, NoEvent())
    assert budget.guarantee == (price, delta)  # the cap, never what was spent
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] <= 1.0
    assert {"spent", "requested", "budget", "unit"} <= refused(budget, charged, event).keys()


def test_a_plan_that_does_not_fit_is_refused_at_the_start() -> None:
    needed = cost([(STEPS, 50)], DELTA)
    with pytest.raises(BudgetExceeded) as refusal:
        open_budget(0.9 * needed, DELTA, [STEPS] * 50)
    assert refusal.value.members["requested"] == needed
    with pytest.raises(BudgetExceeded) as refusal:
        open_budget(10.0, DELTA, [STEPS, NonPrivate()])
    json.dumps(refusal.value.document(), allow_nan=False)
    assert cost([(STEPS, 1)], DELTA) <= cost([(STEPS, 1), (RELEASE, 1)], DELTA) < math.inf


def test_the_filter_counts_at_the_planned_order_even_where_another_order_has_room() -> None:
    """The unsound filter ("some order still has budget") admits this; the sound one must not."""
    epsilon = 4.0
    budget_filter = ACCOUNTANTS["rdp"]().budget_filter([(STEPS, 50)], epsilon, DELTA)
    budget = Budget((epsilon, DELTA), "rdp", budget_filter, error_paid([(STEPS, 50)]))
    order = int(budget._filter.unit.rsplit(" ", 1)[1])
    loud = SubsampledSteps(count=1, tv_bound=0.01, ratio=1.0)

    def room(at: int) -> int:
        """How many loud events an order has budget for."""
        return math.floor(rho_allowed(at, epsilon, DELTA) / step_rdp(at, loud.tv_bound, loud.ratio))

    elsewhere = max(ORDERS, key=room)
    assert elsewhere != order
    assert room(elsewhere) > room(order)
    refused(budget, [loud] * room(order), loud)


def test_a_record_is_counted_as_it_is_and_a_refusal_changes_nothing() -> None:
    budget = open_budget(1.0, DELTA, [RELEASE] * 3)
    budget.admit([RELEASE, RELEASE], RELEASE)
    budget.admit([], RELEASE)
    budget.admit([NoEvent(), RELEASE], RELEASE)
    budget.admit([CHEAP] * 2, CHEAP)
    refused(budget, [CHEAP] * 3, CHEAP)  # many cheap ones do not pass for few dear ones
    refused(budget, [], RELEASE.model_copy(update={"draws": 201}))
    refused(budget, [NonPrivate()], NoEvent())  # what was never admissible stops everything
    for _ in range(2):
        found = refused(budget, [RELEASE] * 3, RELEASE)
        assert (found["spent"], found["requested"], found["budget"]) == (3.0, 1.0, 3.0)
    budget.admit([RELEASE, RELEASE], RELEASE)


@settings(max_examples=30)
@given(counts=st.lists(st.integers(1, 400), min_size=1, max_size=30), ratio=st.sampled_from([0.2, 0.447, 1.0]))
def test_whatever_is_admitted_costs_no_more_than_the_cap(counts: list[int], ratio: float) -> None:
    epsilon = 0.5
    budget = open_budget(epsilon, DELTA, [STEPS])
    charged: list[Event] = []
    for count in counts:
        event = SubsampledSteps(count=100 * count, tv_bound=3e-4, ratio=ratio)
        try:
            budget.admit(charged, event)
        except BudgetExceeded:
            continue
        charged.append(event)
    assert cost([(event, 1) for event in charged], DELTA) <= epsilon


def test_a_run_without_privacy_admits_everything_and_promises_nothing() -> None:
    budget = open_budget(None, None, [NonPrivate()] * 3)
    assert budget.guarantee == (math.inf, 1.0)
    budget.admit([NonPrivate()] * 100, STEPS)


def test_a_private_run_of_nothing_admits_nothing() -> None:
    budget = open_budget(1.0, DELTA, [NoEvent()])
    budget.admit([NoEvent()] * 5, NoEvent())
    for event in (STEPS, RELEASE, NonPrivate()):
        refused(budget, [], event)


def test_a_patient_accountant_is_asked_only_about_plans_that_all_others_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Plan = [(STEPS, 50)]
    needed, asked = cost(plan, DELTA), []

    def shown(accountant: GameAccountant, plan: Plan, delta: float) -> float:
        asked.append(plan)
        return 0.96 * needed

    monkeypatch.setattr(GameAccountant, "epsilon", shown)
    assert cost(plan, DELTA) == needed
    assert not fits(plan, 0.97 * needed, DELTA)
    open_budget(needed, DELTA, [STEPS] * 50)
    for part in (0.5, 0.9):  # far away, and below the limit
        with pytest.raises(BudgetExceeded):
            open_budget(part * needed, DELTA, [STEPS] * 50)
    assert certify(plan, DELTA, needed) is not None
    assert not asked
    budget = open_budget(0.97 * needed, DELTA, [STEPS] * 50)
    found = certify(plan, DELTA, 0.97 * needed)
    assert asked
    assert budget.accountant == budget.certificate.accountant == found.accountant == "game"
    for dearer in ({"tv_bound": 1.01e-4}, {"ratio": 0.45}, {"count": 1001}):
        refused(budget, [STEPS] * 49, STEPS.model_copy(update=dearer))
    budget.admit([STEPS] * 49, STEPS.model_copy(update={"tv_bound": 0.9e-4, "ratio": 0.4}))
    refused(budget, [STEPS] * 50, STEPS.model_copy(update={"count": 1}))
    assert cost(plan, DELTA, 0.97 * needed) == cost(plan, DELTA, 0.0) == pytest.approx(0.96 * needed)


def test_releases_of_different_prices_cost_their_sum_and_a_budget_of_it_holds_them() -> None:
    one_and_ten: Plan = [(Release(epsilon=1.0), 1), (Release(epsilon=0.1), 10)]
    assert cost(one_and_ten, 0.0) == pytest.approx(2.0, rel=1e-15)  # not 11 times the dearest
    budget = open_budget(0.6, 0.0, [Release(epsilon=0.5), Release(epsilon=0.05)])
    assert (budget.accountant, budget.guarantee) == ("basic", (0.6, 0.0))
    few: Plan = [(Release(epsilon=1.0, delta=1e-9), 1), (Release(epsilon=0.01, delta=1e-9), 3)]
    assert cost(few, 1e-8) <= 1.03 * (1.0 + 1e-12)
    assert math.isinf(ACCOUNTANTS["basic"]().epsilon(few, 3.9e-9))
    with pytest.raises(BudgetExceeded):
        open_budget(2.0 - 1e-12, 0.0, [event for event, count in one_and_ten for _ in range(count)])


@settings(max_examples=60)
@given(
    asked=st.lists(st.tuples(st.sampled_from([0.01, 0.1, 0.25, 0.5]), st.sampled_from([0.0, 1e-7, 4e-6])), max_size=40),
    delta=st.sampled_from([0.0, 1e-5]),
)
def test_a_sum_admits_any_releases_up_to_the_caps_of_both_and_nothing_beyond(
    asked: list[tuple[float, float]], delta: float
) -> None:
    """However they are chosen. A twin that adds up epsilons alone would admit deltas without end."""
    budget = open_budget(1.0, delta, [Release(epsilon=0.5), Release(epsilon=0.05)])
    if budget.accountant != "basic":
        planned: Plan = [(Release(epsilon=0.5), 1)]
        budget = Budget(
            (1.0, delta), "basic", ACCOUNTANTS["basic"]().budget_filter(planned, 1.0, delta), error_paid([])
        )
    admitted: list[Event] = []
    left, failing = Fraction(1), Fraction(delta)
    for epsilon, failure in asked:
        event = Release(epsilon=epsilon, delta=failure)
        if Fraction(epsilon) > left or Fraction(failure) > failing:
            refused(budget, admitted, event)
            continue
        budget.admit(admitted, event)
        admitted.append(event)
        left, failing = left - Fraction(epsilon), failing - Fraction(failure)
    assert budget.share(admitted) == float(max(1 - left, 1 - failing / Fraction(delta) if delta else 0))
    for other in (STEPS, Gaussian(mu=1e-9), NonPrivate()):
        refused(budget, admitted, other)


RATIO = 2.0 / math.sqrt(20.0)


def flat(kappa: float, rounds: int, steps: int) -> Callable[[int], Plan]:
    def plan(n: int) -> Plan:
        bounds = sampling_schedule(n, kappa, 60.0, rounds)[1:]
        return grouped(SubsampledSteps(count=steps, tv_bound=bound, ratio=RATIO) for bound in bounds)

    return plan


@for_each(
    ("kappa", "rounds", "steps", "renyi"),
    [(0.08 / (4 * 1.35), 1001, 50_000_000, 4.65e7), (0.0574, 501, 1_000_000, 1.2e6), (0.0574, 501, 100_000, 3.8e5)],
)
def test_sample_sizes_are_near_their_gaussian_limit_which_they_cannot_pass(
    kappa: float, rounds: int, steps: int, renyi: float
) -> None:
    """By Renyi divergences it was 9% more."""
    plan = flat(kappa, rounds, steps)
    n = smallest_n(0.5, 1e-4, kappa, plan)
    limit = math.sqrt((rounds - 1) * steps * math.expm1(RATIO**2)) / (kappa * mu_allowed(0.5, 1e-4))
    assert limit < n < 1.01 * limit < 0.92 * renyi
    assert cost(plan(n), 1e-4) <= 0.5 < cost(plan(n - 1), 1e-4)


def project(weights: np.ndarray, support: float) -> np.ndarray:
    """mu = min(c w, 1) / (kappa n), by bisection on c."""
    low, high = 0.0, 1.0 / weights.min()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.minimum(middle * weights, 1.0).sum() < support else (low, middle)
    return np.minimum(high * weights, 1.0) / support


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    kappa=st.sampled_from([0.3, 0.6, 0.9]),
    eta=st.floats(0.0, 2.0),
    after=st.integers(0, 6),
)
def test_neighbouring_samples_never_differ_by_more_than_the_schedule(
    seed: int, kappa: float, eta: float, after: int
) -> None:
    random, n = np.random.default_rng(seed), 40
    losses = random.integers(0, 2, size=(after, n)).astype(float)
    other = losses.copy()
    other[:, 0] = 1.0 - losses[:, 0] if seed % 2 else random.random(after)
    first, second = (project(np.exp(-eta * (1.0 - table).sum(axis=0)), kappa * n) for table in (losses, other))
    over_records = max(first[0], second[0])
    rest = np.abs(first[1:] - second[1:]).sum()
    assert 0.5 * (rest + first[0] + second[0]) <= over_records + 1e-9
    assert over_records <= sampling_schedule(n, kappa, eta, after + 1)[after] + 1e-9


def test_the_schedule_starts_uniform_and_ends_at_the_cap_from_above() -> None:
    schedule = sampling_schedule(1000, 0.1, 0.5, 20)
    assert 1e-3 <= schedule[0] <= 1e-3 * (1 + 1e-12)
    assert 1e-2 <= schedule[-1] <= 1e-2 * (1 + 1e-12)
    assert list(schedule) == sorted(schedule)
    assert schedule[3] >= math.exp(1.5) / (999 + math.exp(1.5))
    assert sampling_schedule(1000, 0.1, 0.0, 3) == (schedule[0],) * 3


def test_the_search_says_when_nothing_fits_and_knows_what_the_projection_needs() -> None:
    assert smallest_n(50.0, 1e-2, 0.05, lambda n: []) == 201
    with pytest.raises(BudgetExceeded):
        smallest_n(0.5, 1e-5, 0.1, lambda n: [(Release(epsilon=5.0), 1)])
