"""What a guarantee says, and that it never says more than what holds."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from common.core.arrays import AnyArray
from common.core.errors import BadMessage, BadScenario, BudgetExceeded
from common.numerics.randomness import RandomSource
from common.privacy import events as module
from common.privacy.auditing import LOOKS, exceeds
from common.privacy.budget import cost, fits, open_budget
from common.privacy.events import (
    NUMBER,
    Gaussian,
    NoEvent,
    PrivateSelection,
    Release,
    SubsampledSteps,
    check_numbers,
    delta_left,
    error_paid,
    payable,
    sampling_error,
)
from common.privacy.guarantee import (
    NOTHING,
    PrivacyGuarantee,
    best_guess,
    formula,
    in_words,
    of_agent,
    of_curator,
    together,
)
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.selection import NegativeBinomial
from curator.mechanisms.gaussian_noise import EXACT_BITS
from tests.tiers import for_each


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
    assert "more than 7.39 times as likely (e to the epsilon = 2); there is no delta." in in_words(promise)
    assert (nothing.private, in_words(nothing)) == (False, "Nothing is promised.")
    assert len({str(NOTHING), str(of_curator((None, None), "records")), str(nothing)}) == 3
    assert "no guarantee" not in str(NOTHING)
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
    """The worst mechanisms of both sides at once: exactly the sum of the epsilons, at delta 0."""
    curator, agent = of_curator((0.7, 0.0), "records"), of_agent((1.1, 0.0))
    both = together(curator, agent)
    assert both.epsilon is not None
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


STEPS = SubsampledSteps(count=1000, tv_bound=1e-4, ratio=0.5)


def test_only_gaussian_noise_has_an_error_and_it_grows_with_the_numbers():
    assert Fraction(1, 1 << EXACT_BITS) == NUMBER  # of the sampler
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
    assert exact == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-12)
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


@for_each("delta", [1e-4, 1e-9])
@for_each("error", [Fraction(1, 10**20), Fraction(1, 2**116), Fraction(1, 10**300)])
def test_what_is_payable_leaves_half_of_delta_and_little_more_leaves_none(delta, error):
    epsilon = payable(delta, error)
    assert delta / 2.0 <= delta_left(delta, epsilon, error) < delta
    assert delta_left(delta, epsilon + 2.0, error) < 0.0
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
    budget.admit(events[:2], STEPS)
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
