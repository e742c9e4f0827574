"""Contract of every registered accountant, and what each claims against exact privacy loss distributions."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution

from common.core.errors import BadMessage
from common.privacy import events
from common.privacy.accountants import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.budget import cost, sampling_schedule
from common.privacy.events import Event, Gaussian, NoEvent, NonPrivate, Release, SubsampledRelease, SubsampledSteps
from common.privacy.rounding import UNIT, above, down, up
from common.privacy.theorems import composition, randomized_response, selection, votes
from common.privacy.theorems import gaussian_dp as gdp
from common.privacy.theorems import renyi as rdp
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.selection import NegativeBinomial, Poisson, geometric
from tests.tiers import for_each

STEPS = SubsampledSteps(count=100, tv_bound=1e-4, ratio=0.5)
GAUSS = {"kind": "gaussian", "mu": 1.0}
SMALLER = SubsampledSteps(count=50, tv_bound=1e-4, ratio=0.4)
RELEASE = SubsampledRelease(draws=100, tv_bound=1e-5, epsilon=1.0, delta=1e-9)
PURE = SubsampledRelease(draws=100, tv_bound=1e-5, epsilon=1.0)
NOISE = Gaussian(count=10, mu=0.1)
CHOICE = events.PrivateSelection(mu=0.1, law=geometric(10.0))
EVERYTHING: list[Event] = [NoEvent(), NonPrivate(), STEPS, SMALLER, RELEASE, PURE, Release(epsilon=0.1), NOISE, CHOICE]
DELTA = 1e-6
EACH = [
    pytest.param(name, marks=pytest.mark.slow if kind.patient else ()) for name, kind in ACCOUNTANTS.items()
]  # those that take seconds are patient
LONG = [pytest.param(name, marks=pytest.mark.thorough if kind.patient else ()) for name, kind in ACCOUNTANTS.items()]


@pytest.fixture(params=EACH)
def accountant(request: pytest.FixtureRequest) -> Accountant:
    return ACCOUNTANTS[request.param]()


def covered(accountant: Accountant) -> list[Event]:
    return [event for event in EVERYTHING if accountant.covers(event) and not isinstance(event, NoEvent)]


def admits(budget_filter: BudgetFilter, plan: Plan) -> bool:
    spent = [Fraction(0)] * len(budget_filter.cap)
    for event, count in plan:
        amount = budget_filter.amount(event)
        if amount is None:
            return False
        spent = [before + count * each for before, each in zip(spent, amount, strict=True)]
    return all(total <= most for total, most in zip(spent, budget_filter.cap, strict=True))


def test_nothing_costs_nothing(accountant: Accountant) -> None:
    assert accountant.covers(NoEvent())
    assert accountant.epsilon([], DELTA) == accountant.epsilon([(NoEvent(), 1000)], DELTA) == 0.0
    nothing = accountant.budget_filter([(NoEvent(), 1)], 1.0, DELTA)
    assert [event for event in EVERYTHING if admits(nothing, [(event, 1)])] == [NoEvent()]


@pytest.mark.parametrize("accountant", LONG, indirect=True)
def test_more_events_cost_no_less_and_a_larger_delta_costs_no_more(accountant: Accountant) -> None:
    assert covered(accountant)
    for event in covered(accountant):
        one = accountant.epsilon([(event, 1)], DELTA)
        assert 0.0 <= one <= accountant.epsilon([(event, 100)], DELTA)
        assert accountant.epsilon([(event, 100)], 1e-3) <= accountant.epsilon([(event, 100)], DELTA)
        assert accountant.epsilon([(event, 1), (NoEvent(), 5)], DELTA) == one
        apart: Plan = [(event, 3), (NoEvent(), 1), (event, 4)]
        assert accountant.epsilon([(event, 7), (NoEvent(), 1)], DELTA) == accountant.epsilon(apart, DELTA)


@pytest.mark.parametrize("accountant", LONG, indirect=True)
def test_a_plan_passes_its_own_filter_exactly_and_one_for_less_refuses_it(accountant: Accountant) -> None:
    for event in covered(accountant):
        epsilon = accountant.epsilon([(event, 40)], DELTA)
        if math.isfinite(epsilon):
            budget_filter = accountant.budget_filter([(event, 40)], epsilon, DELTA)
            assert admits(budget_filter, [(event, 40)])
            assert not admits(budget_filter, [(event, 41)])
        less = accountant.budget_filter(
            [(event, 400)], 0.9 * min(accountant.epsilon([(event, 400)], DELTA), 1e6), DELTA
        )
        assert not admits(less, [(event, 400)])


@pytest.mark.parametrize(("tv_bound", "ratio", "steps"), [(0.01, 1.0, 1000), (0.05, 0.25, 2000)])
def test_steps_cost_at_least_the_truth_of_the_worst_pair_and_not_much_more(tv_bound, ratio, steps):
    worst = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / ratio,
        sampling_prob=tv_bound,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=5e-5,
    )
    truth = worst.self_compose(steps).get_epsilon_for_delta(1e-5)
    event = SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio)
    for name, most in (("rdp", 1.35 * truth + 0.05), ("pld", 1.25 * truth)):
        assert truth <= ACCOUNTANTS[name]().epsilon([(event, 1)], 1e-5) <= most


def test_pure_releases_may_stand_beside_steps() -> None:
    rdp, kov = ACCOUNTANTS["rdp"](), ACCOUNTANTS["kov"]()
    both = rdp.epsilon([(STEPS, 10), (PURE, 10)], DELTA)
    assert both >= max(rdp.epsilon([(STEPS, 10)], DELTA), rdp.epsilon([(PURE, 10)], DELTA))
    assert kov.epsilon([(PURE, 1000)], DELTA) <= rdp.epsilon([(PURE, 1000)], DELTA)
    assert not rdp.covers(RELEASE)
    assert rdp.epsilon([(SubsampledRelease(draws=2, tv_bound=1.0, epsilon=1e4), 1)], DELTA) == math.inf
    assert rdp.epsilon([(STEPS, 1)], 0.0) == math.inf
    assert cost([(SubsampledSteps(count=1, tv_bound=1e-4, ratio=2e9), 1)], DELTA) == math.inf  # hardly any noise


def test_the_count_is_multiplied_in_once() -> None:
    rdp = ACCOUNTANTS["rdp"]()
    many = SubsampledSteps(count=1000, tv_bound=1e-3, ratio=0.5)
    one = many.model_copy(update={"count": 1})
    assert rdp.epsilon([(many, 3)], DELTA) == rdp.epsilon([(one, 3000)], DELTA)
    budget_filter = rdp.budget_filter([(many, 3)], 5.0, DELTA)
    assert budget_filter.amount(many) == (1000 * budget_filter.amount(one)[0],)


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
    dear, cheap = (SubsampledSteps(count=10, tv_bound=s, ratio=1.0) for s in (0.01, 0.001))
    plan: Plan = [(dear, 2), (cheap, 3)]
    pld = ACCOUNTANTS["pld"]()
    budget_filter = pld.budget_filter(plan, pld.epsilon(plan, DELTA), DELTA)
    between_them = dear.model_copy(update={"tv_bound": 0.005})
    for taken in (dear, between_them):
        assert admits(budget_filter, [(dear, 1), (taken, 1), (cheap, 3)])
        assert not admits(budget_filter, [(dear, 2), (taken, 1)])
    assert not admits(budget_filter, [(dear, 1), (cheap, 4)])
    for dearer in ({"tv_bound": 0.02}, {"ratio": 1.01}):
        assert budget_filter.amount(dear.model_copy(update=dearer)) is None


def test_a_schedule_of_many_bounds_is_merged_upwards() -> None:
    plan: Plan = [(SubsampledSteps(count=100, tv_bound=0.001 * 1.003**k, ratio=1.0), 1) for k in range(200)]
    pld = ACCOUNTANTS["pld"]()
    merged = pld.epsilon(plan, DELTA)
    assert pld.epsilon([(plan[100][0], 200)], DELTA) < merged < pld.epsilon([(plan[-1][0], 200)], DELTA)
    assert admits(pld.budget_filter(plan, merged, DELTA), plan)


@for_each("event", [*EVERYTHING, events.PrivateSelection(mu=0.5, law=Poisson(rate=4.0, most=20))])
def test_a_stored_event_reads_back_equal_and_hashes_equal(event: Event) -> None:
    assert {events.parse_event(event.wire())} == {event}


@for_each(
    "wire",
    [
        None,
        [],
        {},
        {"kind": ["none"]},
        {"kind": "laplace"},
        {"kind": "laplace" * 10**4},
        {"kind": "none", "extra": 1},
        *({"kind": "gaussian", **wrong} for wrong in ({}, {"mu": 0.0}, {"mu": 1.0, "count": 0})),
        *(
            {"kind": "selected", "mu": 0.1, "law": {"name": "negative-binomial", "gamma": 0.1, "most": 3} | wrong}
            for wrong in ({"name": "always"}, {"eta": -1.0}, {"gamma": 0.0}, {"most": 0}, {"most": 10_000}, {"mean": 3})
        ),
        *(
            {"kind": "subsampled-steps", "count": 1, "tv_bound": 0.1, "ratio": 1.0, **wrong}
            for wrong in ({"count": 0}, {"tv_bound": 0.0}, {"tv_bound": 1.1}, {"ratio": math.nan}, {"ratio": math.inf})
        ),
        *(
            {"kind": "subsampled-release", "draws": 1, "tv_bound": 0.1, "epsilon": 1.0, **wrong}
            for wrong in ({"epsilon": -1.0}, {"delta": 1.0})
        ),
        *({"kind": "composed", "parts": parts} for parts in ([], [GAUSS], 9 * [GAUSS], [GAUSS, {"kind": "none"}])),
        {"kind": "composed", "parts": [GAUSS, {"kind": "composed", "parts": [GAUSS, GAUSS]}]},
    ],
)
def test_what_is_not_an_event_is_refused(wire: object) -> None:
    with pytest.raises(BadMessage) as refused:
        events.parse_event(wire)
    assert len(refused.value.detail) < 300


GEOMETRIC = geometric(10.0)
OTHER = NegativeBinomial(eta=-0.5, gamma=0.01, most=60)
POISSON = Poisson(rate=4.0, most=14)
CALIBRATED = votes.calibrated(5, 200, 2.0, 1e-4)
PRINTED = votes.printed(5, 200, 2.0, 1e-4, 0.05)
PLACES = 5.0 * UNIT
"""What libraries of other machines may differ by; the least slack that is given on top of the default is 16 units."""
COMPUTED: list[tuple[Callable[[], float], float]] = [
    (lambda: composition.subsampled(10, 1e-3, 1.0, 1e-6)[1], 1.0077678048948706e-08),
    (lambda: composition.subsampled(200, 0.9, 0.5, 0.0)[0], 91.97161024991969),
    (lambda: rdp.profile(9, 0.01, 0.5), 0.00017612264856749611),
    (lambda: rdp.epsilon_at(8, 0.25, 1e-6), 1.7930498954161174),
    (lambda: rdp.rho_allowed(8, 3.0, 1e-6), 1.4569501045838797),
    (lambda: selection.selection_rdp(4, 0.5, GEOMETRIC), 3.168458126848331),
    (lambda: selection.selection_rdp(4, 0.5, OTHER), 1.76910941353776),
    (lambda: selection.selection_rdp(4, 0.5, POISSON), 1.3669713222992945),
    (lambda: CALIBRATED.level, 95),
    (lambda: PRINTED[0].of_threshold, 0.05024304178222795),
    (lambda: PRINTED[1], 16752),
    (lambda: votes.stability_level(0.3, 1e-5), 36),
    (lambda: randomized_response.rates("tight", 1.0).kept, 0.46211715726000924),
    (lambda: randomized_response.rates("tight", 1.0).answers, 0.7880584423829136),
    (lambda: gdp.joint_step(1.0, 1.0), 1.2861516952966463),
    (lambda: gdp.step_noise(0.7, 500, 0.6, joint=True).gradient, 42.532480071324215),
    (lambda: gdp.step_noise(0.7, 500, 0.6, joint=True).scales, 34.727624556613),
    (lambda: gdp.step_noise(0.7, 500, 0.2, joint=True).scales, 38.3725220964473),
    (lambda: gdp.step_noise(0.7, 500, 0.6, joint=False).gradient, 50.50762722761098),
    (lambda: gdp.scales_share(2.0, 5.0), 0.64813706601056),
    (lambda: votes.answer_mu(30.0, 2), 0.09428090415820645),
    (lambda: votes.flips(0.6, 100, 20.0, 5), 0.2905923413805107),
    (lambda: sampling_schedule(1000, 0.1, 0.5, 8)[3], 0.004466139361735957),
]
FOUND: list[tuple[Callable[[], float], float]] = [
    (lambda: composition.composed_epsilon(20, 0.2, 1e-8, 1e-6), 3.8659582763066327),
    (lambda: selection.epsilon_of_selection(0.3, GEOMETRIC, 1e-6), 1.888255381779445),
    (lambda: selection.epsilon_of_selection(0.3, OTHER, 1e-6), 1.5956685311136183),
    (lambda: selection.epsilon_of_selection(0.3, POISSON, 1e-6), 1.7644167165835871),
    (lambda: selection.mu_for_selection(1.0, 1e-6, GEOMETRIC), 0.16429059033901572),
    (lambda: CALIBRATED.of_threshold, 0.14819630542424894),
    (lambda: CALIBRATED.of_query, 0.12596685961061135),
    (lambda: CALIBRATED.failure(2.0), 9.892440538035091e-05),
    (lambda: votes.stability_share(50, 3.0, 1e-4)[0], 0.1138728040095868),
    (lambda: votes.answers_sigma(1000, 1.0, 1e-6), 188.93338359305943),
]


@for_each(("number", "known"), COMPUTED)
def test_what_is_computed_is_rounded_so_far_and_no_farther(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=PLACES, abs=0.0)


@for_each(("number", "known"), FOUND)
def test_what_is_searched_for_is_found_where_it_was(number: Callable[[], float], known: float) -> None:
    assert number() == pytest.approx(known, rel=4e-13, abs=0.0)


@for_each("value", [1.0, -1.5, 3e-300, -1e300])
def test_rounding_moves_a_number_by_as_many_units_as_it_is_told_and_one_place(value: float) -> None:
    assert up(value) == math.nextafter(value + abs(value) * 4.0 * UNIT, math.inf)
    assert down(value) == math.nextafter(value - abs(value) * 4.0 * UNIT, -math.inf)
    assert up(value, 100.0) == -down(-value, 100.0) >= value + 100.0 * UNIT * abs(value)
    assert up(0.0) == 5e-324
    assert above(Fraction(10**400)) == math.inf
    assert UNIT == 2.0**-52
