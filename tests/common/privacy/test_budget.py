"""The budget filter: sound whatever is asked, exact for what was planned; and what a guarantee says of it."""

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from common.core.arrays import AnyArray
from common.core.errors import BadMessage, BadScenario, BudgetExceeded
from common.net.messages import Spent
from common.numerics.randomness import RandomSource
from common.privacy import events, guarantee
from common.privacy.accountants import ACCOUNTANTS, Plan, grouped
from common.privacy.auditing import LOOKS, exceeds
from common.privacy.budget import Budget, certify, cost, fits, open_budget, sampling_schedule, smallest_n
from common.privacy.events import Event, Gaussian, Release, SubsampledRelease, SubsampledSteps
from common.privacy.guarantee import PrivacyGuarantee, best_guess, formula, in_words, of_agent, of_curator, together
from common.privacy.profile_accountants import GameAccountant
from common.privacy.theorems.gaussian_dp import epsilon_of, mu_allowed
from common.privacy.theorems.renyi import ORDERS, rho_allowed, step_rdp
from common.privacy.theorems.selection import NegativeBinomial
from curator.mechanisms.gaussian_noise import EXACT_BITS
from tests.tiers import for_each

STEPS = SubsampledSteps(count=1000, tv_bound=1e-4, ratio=0.447)
RELEASE = SubsampledRelease(draws=200, tv_bound=1e-5, epsilon=1.0, delta=1e-9)
CHEAP = SubsampledRelease(draws=1, tv_bound=1e-9, epsilon=1.0)
DELTA = 1e-5


def refused(budget: Budget, charged: Sequence[Event], event: Event) -> dict[str, Any]:
    with pytest.raises(BudgetExceeded) as refusal:
        budget.admit(charged, event)
    json.dumps(refusal.value.document(), allow_nan=False)
    return refusal.value.members


@for_each(("event", "times"), [(STEPS, 30), (RELEASE, 30), (Gaussian(count=10, mu=0.05), 1), (Release(epsilon=0.3), 2)])
@for_each("delta", [DELTA, 1e-6])
def test_the_whole_plan_is_admitted_in_any_order_and_then_no_more(event: Event, times: int, delta: float) -> None:
    planned = [event, events.NoEvent()] * times
    price = cost([(event, times)], delta)
    budget, shares = open_budget(price, delta, planned), [0.0]
    charged: list[Event] = []
    for following in planned[::-1]:
        budget.admit(charged, following)
        charged.append(following)
        shares.append(budget.share(charged))
    budget.admit(charged, events.NoEvent())
    assert budget.guarantee == (price, delta)  # the cap, never what was spent
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] <= 1.0
    assert {"spent", "requested", "budget", "unit"} <= refused(budget, charged, event).keys()


def test_the_filter_counts_at_the_planned_order_even_where_another_order_has_room() -> None:
    """The unsound filter ("some order still has budget") admits this; the sound one must not."""
    epsilon = 4.0
    budget_filter = ACCOUNTANTS["rdp"]().budget_filter([(STEPS, 50)], epsilon, DELTA)
    budget = Budget((epsilon, DELTA), "rdp", budget_filter, events.error_paid([(STEPS, 50)]))
    order = int(budget._filter.unit.rsplit(" ", 1)[1])
    loud = SubsampledSteps(count=1, tv_bound=0.01, ratio=1.0)

    def room(at: int) -> int:
        return math.floor(rho_allowed(at, epsilon, DELTA) / step_rdp(at, loud.tv_bound, loud.ratio))

    elsewhere = max(ORDERS, key=room)
    assert elsewhere != order
    assert room(elsewhere) > room(order)
    refused(budget, [loud] * room(order), loud)


def test_a_record_is_counted_as_it_is_and_a_refusal_changes_nothing() -> None:
    budget = open_budget(1.0, DELTA, [RELEASE] * 3)
    budget.admit([RELEASE, RELEASE], RELEASE)
    budget.admit([], RELEASE)
    budget.admit([events.NoEvent(), RELEASE], RELEASE)
    budget.admit([CHEAP] * 2, CHEAP)
    refused(budget, [CHEAP] * 3, CHEAP)  # many cheap ones do not pass for few dear ones
    refused(budget, [], RELEASE.model_copy(update={"draws": 201}))
    refused(budget, [events.NonPrivate()], events.NoEvent())  # what was never admissible stops everything
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
    assert cost([(Release(epsilon=1000.0), 1), (Release(epsilon=2000.0), 1)], 1e-6) == pytest.approx(3000.0)
    few: Plan = [(Release(epsilon=1.0, delta=1e-9), 1), (Release(epsilon=0.01, delta=1e-9), 3)]
    assert cost(few, 1e-8) <= 1.03 * (1.0 + 1e-12)
    assert math.isinf(ACCOUNTANTS["basic"]().epsilon(few, 3.9e-9))
    with pytest.raises(BudgetExceeded) as refusal:
        open_budget(2.0 - 1e-12, 0.0, [event for event, count in one_and_ten for _ in range(count)])
    assert refusal.value.members["requested"] == cost(one_and_ten, 0.0)


@settings(max_examples=60)
@given(
    asked=st.lists(st.tuples(st.sampled_from([0.01, 0.1, 0.25, 0.5]), st.sampled_from([0.0, 1e-7, 4e-6])), max_size=40),
    delta=st.sampled_from([0.0, 1e-5]),
)
def test_a_sum_admits_any_releases_up_to_the_caps_of_both_and_nothing_beyond(asked, delta):
    """However they are chosen. A twin that adds up epsilons alone would admit deltas without end."""
    budget = open_budget(1.0, delta, [Release(epsilon=0.5), Release(epsilon=0.05)])
    if budget.accountant != "basic":
        planned: Plan = [(Release(epsilon=0.5), 1)]
        budget = Budget(
            (1.0, delta), "basic", ACCOUNTANTS["basic"]().budget_filter(planned, 1.0, delta), events.error_paid([])
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
    for other in (STEPS, Gaussian(mu=1e-9), events.NonPrivate()):
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
def test_sample_sizes_are_near_their_gaussian_limit_which_they_cannot_pass(kappa, rounds, steps, renyi):
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
def test_neighbouring_samples_never_differ_by_more_than_the_schedule(seed, kappa, eta, after):
    random, n = np.random.default_rng(seed), 40
    losses = random.integers(0, 2, size=(after, n)).astype(float)
    other = losses.copy()
    other[:, 0] = 1.0 - losses[:, 0] if seed % 2 else random.random(after)
    first, second = (project(np.exp(-eta * (1.0 - table).sum(axis=0)), kappa * n) for table in (losses, other))
    over_records = max(first[0], second[0])
    rest = np.abs(first[1:] - second[1:]).sum()
    assert 0.5 * (rest + first[0] + second[0]) <= over_records + 1e-9
    assert over_records <= sampling_schedule(n, kappa, eta, after + 1)[after] + 1e-9


def test_the_search_says_when_nothing_fits_and_knows_what_the_projection_needs() -> None:
    assert smallest_n(50.0, 1e-2, 0.05, lambda n: []) == 201
    for kappa in (0.9090909090909092, 0.18867924528301888):  # times the next whole number above 10/kappa it is just 10
        assert smallest_n(50.0, 1e-2, kappa, flat(kappa, 2, 1)) == math.floor(10.0 / kappa) + 2
    with pytest.raises(BudgetExceeded):
        smallest_n(0.5, 1e-5, 0.1, lambda n: [(Release(epsilon=5.0), 1)])


def test_a_guarantee_names_what_is_protected_in_what_neighbours_differ_and_what_is_covered():
    told = str(of_curator((1.0, 1e-6), "records"))
    assert told.startswith(
        "epsilon = 1, delta = 1e-06 for the whole record: one record of the curator's file is replaced"
    )
    assert told.endswith("all that the curator releases in this run together, not for other runs")
    labels = str(of_curator((1.0, 1e-6), "labels"))
    assert "the LABEL ONLY, features are not protected and may be released as they are" in labels
    assert "whole record" not in labels
    promise, nothing = of_agent((2.0, 0.0)), of_agent((math.inf, 1.0))
    assert str(promise).endswith("the one answer that the agent gives in this run, not for other runs")
    assert formula(promise) == "(2, 0)-differential privacy"
    for epsilon, text in ((math.log(2.0), "0.693148"), (math.log(3.0), "1.09862"), (0.1 + 0.2, "0.3"), (2e-7, "2e-07")):
        rounded, spent = (
            of_curator((epsilon, 1.0000004e-6), "records"),
            Spent(runs=1, epsilon=epsilon, delta=1.0000004e-6),
        )
        stated = (formula(rounded), in_words(rounded), str(rounded), str(spent))
        assert all(text in one and "1.00001e-06" in one for one in stated)
    assert "more than 7.39 times as likely (e to the epsilon = 2); there is no delta." in in_words(promise)
    for epsilon in (13.0, 14.0, 20.0, 700.0):  # e^14 = 1,202,604: "1.2e+06 times" would be too few
        said = float(in_words(of_agent((epsilon, 0.0))).split(" times as likely")[0].split()[-1].replace(",", ""))
        assert math.exp(epsilon) <= said <= 1.1 * math.exp(epsilon)
    assert (nothing.private, in_words(nothing)) == (False, "Nothing is promised.")
    assert len({str(guarantee.NOTHING), str(of_curator((None, None), "records")), str(nothing)}) == 3
    assert "no guarantee" not in str(guarantee.NOTHING)
    assert of_curator((math.inf, 1.0), "records").pair == (math.inf, 1.0)


@for_each(
    "wrong",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 0.0, "protects": "labels"},
        {"epsilon": 1.0, "delta": 0.0, "neighbours": "one label"},
        {"epsilon": -1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 2.0},
    ],
)
def test_half_a_guarantee_is_refused(wrong):
    with pytest.raises(BadMessage):
        PrivacyGuarantee.parse(wrong)


def test_a_row_that_changes_sides_costs_both_and_no_less():
    curator, agent = of_curator((0.7, 0.0), "records"), of_agent((1.1, 0.0))
    both = together(curator, agent)
    rates = [math.exp(e) / (1 + math.exp(e)) for e in (0.7, 1.1)]
    here = np.array([a * b for a, b in product(*((p, 1 - p) for p in rates))])
    there = np.array([a * b for a, b in product(*((1 - p, p) for p in rates))])
    assert both.epsilon >= np.log(here / there).max() > both.epsilon - 1e-9
    assert "all that the curator releases and all agents answer" in str(both)
    added = together(of_curator((1.0, 1e-6), "records"), of_agent((1.0, 1e-7))).delta
    assert 1.1e-6 <= added == pytest.approx(1.1e-6)
    for pair, protects, other in (
        ((1.0, 0.1), "labels", 1.0),
        ((None, None), "records", 1.0),
        ((1, 0), "records", math.inf),
    ):
        assert str(together(of_curator(pair, protects), of_agent((other, 0.0)))).startswith("no guarantee")


EPSILON, RUNS = 1.0, 320


def tells(value: int, runs: int, source: RandomSource, epsilon: float = EPSILON) -> AnyArray:
    """Randomized response: exactly epsilon-DP, so that nothing is given away to the auditor."""
    truthful = source.uniforms(runs) < math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return np.where(truthful, value, 1 - value)


def test_a_function_that_is_as_private_as_claimed_is_accused_as_rarely_as_said() -> None:
    failure, tries = 0.3, 100  # so large that accusations happen; each look has its share of it
    accused = sum(
        exceeds(tells, (0, 1), RandomSource.seeded(seed), epsilon=EPSILON, runs=RUNS, failure=failure)
        for seed in range(tries)
    )
    assert accused > 0
    assert binom.sf(accused - 1, tries, failure) > 1e-6


def test_runs_are_looked_at_again_and_none_is_made_after_a_function_is_caught() -> None:
    # On two inputs, to search and to test; with fresh runs at each look it were more.
    for epsilon, caught, most in ((EPSILON, False, RUNS), (40.0, True, round(LOOKS[0][0] * RUNS))):
        made: list[int] = []

        def counting(value: int, runs: int, source: RandomSource) -> AnyArray:
            made.append(runs)  # noqa: B023
            return tells(value, runs, source, epsilon)  # noqa: B023

        found = exceeds(counting, (0, 1), RandomSource.seeded(1), epsilon=EPSILON, runs=RUNS, failure=0.5)
        assert (found, sum(made)) == (caught, 4 * most)


@for_each("epsilon", [0.0, 1e-6, 0.3, 1.0, 2.0, 5.0, 20.0, 800.0])
@for_each("delta", [0.0, 1e-9, 1e-3, 0.5, 1.0])
def test_a_guess_is_never_said_to_be_worse_than_the_best_test_of_the_worst_mechanism(epsilon, delta):
    """The worst (epsilon, delta) mechanism: with delta it tells the record, else it is randomized response."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    right = delta + (1.0 - delta) * truth
    assert right - 1e-12 <= best_guess(epsilon, delta) <= min(1.0, right + 1.01e-4)


def test_only_gaussian_noise_has_an_error_and_it_grows_with_the_numbers():
    assert Fraction(1, 1 << EXACT_BITS) == events.NUMBER  # of the sampler
    assert events.sampling_error(events.NoEvent()) == events.sampling_error(Release(epsilon=1.0)) == 0
    assert events.sampling_error(STEPS) == 1000 * events.COORDINATES * events.NUMBER
    assert events.sampling_error(Gaussian(count=3, mu=0.1)) == 3 * events.sampling_error(Gaussian(mu=0.1)) > 0
    law = NegativeBinomial(eta=1.0, gamma=0.1, most=50)
    choice, run = events.PrivateSelection(mu=0.1, law=law), Gaussian(mu=0.1)
    assert events.sampling_error(choice) == law.most * events.sampling_error(run)
    assert events.error_paid([(STEPS, 2), (events.NoEvent(), 5)]) == events.ALLOWANCE * 2 * events.sampling_error(STEPS)


@for_each("epsilon", [0.1, 1.0, 5.0])
def test_what_is_left_pays_for_the_error_at_that_epsilon(epsilon):
    error = Fraction(1, 10**9)
    left = events.delta_left(1e-6, epsilon, error)
    assert Fraction(left) + (1 + Fraction(math.exp(epsilon))) * error <= Fraction(1e-6)
    assert left >= 1e-6 - 4.0 * (1.0 + math.exp(epsilon)) * 1e-9
    assert events.delta_left(1e-6, epsilon, Fraction(0)) == 1e-6
    assert events.delta_left(1e-6, 1e4, error) < 0.0


def test_a_sampler_that_is_further_from_its_law_costs_more(monkeypatch):
    """With T the distance, delta'(epsilon) = delta(epsilon) + (1 + e^epsilon) T."""
    plan = [(Gaussian(mu=0.5), 1)]
    exact = cost(plan, 1e-6)
    assert exact == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-12)
    monkeypatch.setattr(events, "NUMBER", Fraction(1, 10**8 * events.NUMBERS * events.ALLOWANCE))
    dearer = cost(plan, 1e-6)
    assert exact < dearer < 1.1 * exact
    assert dearer >= epsilon_of(0.5, 1e-6 - (1.0 + math.exp(dearer)) * 1e-8)
    open_budget(dearer, 1e-6, [Gaussian(mu=0.5)])
    with pytest.raises(BudgetExceeded, match="the plan costs"):
        open_budget(exact, 1e-6, [Gaussian(mu=0.5)])
    monkeypatch.setattr(events, "NUMBER", Fraction(1, 10**3 * events.NUMBERS * events.ALLOWANCE))
    assert cost(plan, 1e-6) == math.inf
    with pytest.raises(BudgetExceeded, match="inf"):
        open_budget(exact, 1e-6, [Gaussian(mu=0.5)])


def test_many_small_releases_cannot_have_more_error_than_was_paid_for():
    budget = open_budget(1.0, 1e-6, [Gaussian(mu=0.1)])
    small = Gaussian(count=512, mu=1e-6)
    budget.admit([small], small)
    with pytest.raises(BudgetExceeded, match="exact law"):
        budget.admit([small, small], small)


@for_each("delta", [1e-4, 1e-9])
@for_each("error", [Fraction(1, 10**20), Fraction(1, 2**116), Fraction(1, 10**300)])
def test_what_is_payable_leaves_half_of_delta_and_little_more_leaves_none(delta, error):
    epsilon = events.payable(delta, error)
    assert delta / 2.0 <= events.delta_left(delta, epsilon, error) < delta
    assert events.delta_left(delta, epsilon + 2.0, error) < 0.0
    assert events.payable(1e-9, Fraction(1, 10**9)) == events.payable(0.0, Fraction(1, 10**99)) == 0.0
    assert events.payable(5e-324, Fraction(1, 2**116)) == 0.0  # half of it is 0 in doubles


@for_each("epsilon", [80.0, 300.0, 700.0, 1e5])
def test_a_budget_that_is_larger_than_another_holds_what_that_one_holds(epsilon):
    """Of its e^epsilon the error of the noise would take more than delta: it is opened at less."""
    planned = [STEPS, STEPS, STEPS]
    assert events.delta_left(1e-6, epsilon, events.error_paid([(STEPS, 3)])) < 0.0
    budget = open_budget(epsilon, 1e-6, planned)
    assert fits([(STEPS, 3)], epsilon, 1e-6)
    assert budget.guarantee == (epsilon, 1e-6)
    assert budget.certificate.epsilon < 80.0
    assert budget.certificate.delta >= 1e-6 / 2.0
    budget.admit(planned[:2], STEPS)
    with pytest.raises(BudgetExceeded):
        budget.admit(planned, Gaussian(mu=100.0))


def test_a_plan_that_only_more_epsilon_than_is_payable_would_hold_is_refused():
    plan = [(Gaussian(mu=20.0), 1)]
    assert not fits(plan, 600.0, 1e-6)
    with pytest.raises(
        BudgetExceeded, match=r"the budget is 600, of which delta = 1e-06 pays for \d\d\.\d+ with noise"
    ) as refused:
        open_budget(600.0, 1e-6, [Gaussian(mu=20.0)])
    assert refused.value.members["requested"] == "infinite"


def test_more_numbers_than_are_paid_for_are_refused():
    events.check_numbers(STEPS, events.COORDINATES)
    events.check_numbers(Gaussian(mu=0.1), events.NUMBERS)
    for event, most in ((STEPS, events.COORDINATES), (Gaussian(count=9, mu=0.1), events.NUMBERS)):
        with pytest.raises(BadScenario, match=f"{most + 1:,} numbers of noise.*Nothing was charged"):
            events.check_numbers(event, most + 1)
    events.check_numbers(Release(epsilon=1.0), 1 << 60)
