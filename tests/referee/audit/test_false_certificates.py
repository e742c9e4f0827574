"""No certificate that is accepted claims less than the truth, whatever its numbers are. The truth is computed apart.

Lower bounds on the truth: exact compositions of Gaussians and of randomized responses, the exact loss of one explicit
pair of neighbours (dp-accounting, rounded down), and the best of K runs that are ranked by what they put out.
"""

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from common.core.errors import AuditFailed
from common.net.messages import Terms
from common.privacy.accountants import ACCOUNTANTS, Plan
from common.privacy.budget import certificate_of, cost
from common.privacy.events import Composed, Gaussian, PrivateSelection, Release, SubsampledSteps, error_paid
from common.privacy.guarantee import of_curator
from common.privacy.theorems.renyi import closed_form, profile
from common.privacy.theorems.selection import Poisson, geometric
from referee.audit import games, recomputing
from referee.audit.audit import check_cost
from referee.audit.certificates import TOLERANCE, recheck
from referee.audit.recomputing import METHODS, _integral, _series, gaussian
from tests.tiers import for_each

DELTA = 1e-5
Truth = Callable[[float], float]
Tree = dict[str, Any]

STEPS = SubsampledSteps(count=2, tv_bound=0.1, ratio=1.0)
SMALL = SubsampledSteps(count=1000, tv_bound=1e-3, ratio=0.25)
PLANS: dict[str, Plan] = {
    "basic": [(Release(epsilon=1.0, delta=1e-7), 1), (Release(epsilon=0.1), 5)],
    "kov": [(Release(epsilon=0.2, delta=1e-8), 9)],
    "gdp": [(Gaussian(count=3, mu=0.2), 2)],
    "rdp": [(STEPS, 5), (Gaussian(mu=0.1), 1), (Release(epsilon=0.05), 1)],
    "comparison": [(SMALL, 30), (Gaussian(mu=0.1), 1)],
    "pld": [(STEPS, 5), (Gaussian(mu=0.1), 1)],
    "selection": [(PrivateSelection(mu=0.25, law=geometric(10.0)), 1)],
}


def claim(name: str, plan: Plan, delta: float = DELTA) -> Tree:
    accountant = ACCOUNTANTS[name]()
    epsilon = accountant.epsilon(plan, delta)
    return certificate_of(name, accountant, plan, epsilon, delta, error_paid(plan)).wire()


def recorded(certificate: Tree) -> list[Tree]:
    """Return the events that a certificate names: what a curator that lies about everything has on record, too."""
    return [entry["event"] for entry in certificate["events"] for _ in range(min(entry["count"], 10_000))]


def accepted(certificate: Tree, events: list[Tree] | None = None) -> bool:
    """Tell whether it passes; anything but acceptance and a refusal is an error of the test."""
    try:
        found = recheck(certificate, recorded(certificate) if events is None else events, 1e9, 0.999)
    except AuditFailed:
        return False
    assert found >= 0.0
    return True


# The truth ----------------------------------------------------------------------------------------------------------


def truth_of(entries: list[Tree]) -> Truth:
    """Return epsilon -> a lower bound on the delta of these events."""
    rows = [(entry["event"], entry["count"]) for entry in entries]
    squares = sum(count * event["count"] * event["mu"] ** 2 for event, count in rows if event["kind"] == "gaussian")
    bounds: list[Truth] = []
    if squares:
        bounds.append(lambda epsilon: _gaussian(squares, epsilon))
    if any(event["kind"] == "release" for event, _ in rows):
        released = tuple((e["epsilon"], e["delta"], count) for e, count in rows if e["kind"] == "release")
        bounds.append(lambda epsilon: _responses(released, epsilon))
    for event, count in rows:
        if event["kind"] == "subsampled-steps":
            pair = _pair(event["tv_bound"], event["ratio"], count * event["count"])
            bounds.append(pair.get_delta_for_epsilon)
        if event["kind"] == "selected":
            bounds.append(partial(_best_of, event["mu"], event["law"]))
    return lambda epsilon: max((bound(epsilon) for bound in bounds), default=0.0)


def _gaussian(square: float, epsilon: float) -> float:
    with mpmath.workdps(60):
        mu, e = mpmath.sqrt(mpmath.mpf(square)), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu))


def _responses(released: tuple[tuple[float, float, int], ...], epsilon: float) -> float:
    losses, chances, kept = np.zeros(1), np.ones(1), 1.0
    for each, failure, count in released:
        for _ in range(count):
            high = 1.0 / (1.0 + math.exp(-each))
            losses = np.concatenate([losses + each, losses - each])
            chances = np.concatenate([chances * high, chances * (1.0 - high)])
            kept *= 1.0 - failure
    pure = float(chances @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
    return 1.0 - kept + kept * pure


@lru_cache(maxsize=64)
def _pair(s: float, u: float, steps: int) -> Any:
    one = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / u,
        sampling_prob=s,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=max(1e-4, 3e-3 * s),
    )
    return one.self_compose(steps)


def _best_of(mu: float, law: Tree, epsilon: float) -> float:
    if epsilon > 600.0:
        return 0.0
    k = np.arange(1, law["most"] + 1, dtype=np.float64)
    if law["name"] == "poisson":
        logs = k * math.log(law["rate"]) - np.array([math.lgamma(x + 1) for x in k])
    else:
        logs = k * math.log1p(-min(law["gamma"], 1.0 - 1e-15)) + np.array(
            [math.lgamma(x + law["eta"]) - math.lgamma(x + 1.0) for x in k]
        )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    x = np.linspace(-12.0, 12.0 + mu, 6001)
    normal = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2.0)))
    density = lambda z: np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)  # noqa: E731
    p = np.polynomial.polynomial.polyval(normal(x - mu), k * weights) * density(x - mu)
    q = np.polynomial.polynomial.polyval(normal(x), k * weights) * density(x)
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (x[1] - x[0]))


# Reproductions ------------------------------------------------------------------------------------------------------


def test_the_three_false_certificates_are_refused() -> None:
    for count in (30, 5000):  # a negative rate took more off delta than the releases add
        assert not accepted(
            {**claim("comparison", [(SMALL, count)]), "epsilon": 0.0, "numbers": {"pad": 1e-6, "rate": -1.0}}
        )
    true = claim("pld", [(SubsampledSteps(count=100, tv_bound=0.01, ratio=1.0), 5)])
    for share in (0.5, 0.9):
        for tilt, above in ((1e-3, 1.0005), (1e-3, 1.1), (0.5, 1.01), (true["numbers"]["tilt"], 1.0005)):
            epsilon = share * true["epsilon"]  # a window whose top lies just above it held next to nothing of the sum
            points = float(2 * round(epsilon * above / true["numbers"]["width"]))
            numbers = {**true["numbers"], "points": points, "tilt": tilt}
            assert not accepted({**true, "epsilon": epsilon, "numbers": numbers})
    true = claim("rdp", PLANS["rdp"])
    for order in (1e9, 65_537.0, 2.5, 1.0, 0.0, -3.0):
        with pytest.raises(AuditFailed, match="order must be a whole number from 2 to 65536"):
            recheck({**true, "numbers": {"order": order}}, recorded(true), 9, 0.1)


def test_an_event_of_another_kind_is_not_read_as_one_that_the_method_knows() -> None:
    """A choice has a mu, too; it is no Gaussian release."""
    choice, cheap = claim("selection", PLANS["selection"]), claim("gdp", [(Gaussian(mu=0.25), 1)])
    assert not accepted({**choice, "accountant": "gdp", "numbers": {}, "epsilon": cheap["epsilon"]})
    for name, method in METHODS.items():
        for other, plan in PLANS.items():
            if {event.kind for event, _ in plan} <= method.kinds or name == "game":
                continue
            forged = claim(other, plan) | {"accountant": name, "numbers": claim(name, PLANS[name])["numbers"]}
            with pytest.raises(AuditFailed, match="not about an event of kind"):
                recheck(forged, recorded(forged), 1e9, 0.999)


# Every number -------------------------------------------------------------------------------------------------------

NOT_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, True, "1", None, 10**400, -(10**400), [], {}, b"1"]


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, (*path, key))
    elif isinstance(tree, int | float):
        yield path, tree


def changed(tree: Tree, path: tuple[Any, ...], value: Any) -> Tree:
    found = copy.deepcopy(tree)
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


@for_each("name", PLANS)
def test_no_value_that_is_no_number_of_its_range_passes(name: str) -> None:
    true = claim(name, PLANS[name])
    assert accepted(true)
    for path, _ in leaves(true):
        for value in NOT_NUMBERS:
            forged = changed(true, path, value)
            with pytest.raises(AuditFailed):
                recheck(forged, [entry["event"] for entry in forged["events"]], 1e9, 0.999)
    inner = {path[:n] for path, _ in leaves(true) for n in range(1, len(path))}
    wrong: list[Any] = [changed(true, path, v) for path in inner for v in ([], {}, None, "x", 3, [None], {"a": 1})]
    wrong += [{part: value for part, value in true.items() if part != key} for key in true]
    wrong += [None, [], "x", 3, {**true, "more": 1}, {**true, "accountant": []}, {**true, "kind": "x"}]
    for forged in wrong:
        with pytest.raises(AuditFailed):
            recheck(forged, recorded(true), 1e9, 0.999)


def around(value: float) -> list[float]:
    far = [0.0, -1.0, -1e-6, 1e-300, 1e-12, 1e-6, 1e-3, 0.5, 1.0, 3.0, 1e3, 1e6, 1e12, 1e300]
    near = [share * value for share in (-1.0, 0.3, 0.7, 0.9, 0.97, 0.999, 1.001, 1.03, 1.1, 1.5, 4.0)]
    return [*far, *near]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name == "selection" else ()) for name in PLANS]
)
def test_whichever_number_is_changed_what_passes_is_true(name: str) -> None:
    true, chance = claim(name, PLANS[name]), random.Random(7)
    truth, passed = truth_of(true["events"]), 0
    for path, value in leaves({key: part for key, part in true.items() if key != "events"}):
        for other in chance.sample(around(value), 9) if name == "pld" else around(value):  # which takes half a second
            forged = changed(true, path, other)
            if accepted(forged):
                passed += 1
                assert truth(forged["epsilon"]) <= (1.0 + TOLERANCE) * forged["delta"] + 1e-13, (path, other)
    assert passed > 0
    for one, other in itertools.permutations(true["numbers"], 2):  # exchanged with another one
        swapped = {**true["numbers"], one: true["numbers"][other], other: true["numbers"][one]}
        assert not accepted({**true, "numbers": swapped, "epsilon": 0.9 * true["epsilon"]})
    if name in ("rdp", "comparison", "pld"):
        return  # the truth about other steps takes seconds
    for path, value in leaves({"events": true["events"]}):
        for other in [1, 2, 7] if path[-1] in ("count", "most") else around(value):
            forged = changed(true, path, other)
            if accepted(forged):  # what happened is changed with it, so the truth is another one
                found = truth_of(forged["events"])(forged["epsilon"])
                assert found <= (1.0 + TOLERANCE) * forged["delta"] + 1e-12, (path, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["comparison", pytest.param("pld", marks=pytest.mark.thorough), "rdp", "selection"])
def test_no_numbers_make_a_claim_below_the_truth_pass(name: str) -> None:
    """A random search among all numbers that are read, for epsilons whose true delta is more than what is claimed."""
    chance, true = random.Random(3), claim(name, PLANS[name])
    truth = truth_of(true["events"])
    share = next(each for each in (0.97, 0.9, 0.8, 0.7, 0.5) if truth(each * true["epsilon"]) > 1.1 * DELTA)
    ranges = METHODS[name].numbers
    for _ in range(60 if name == "pld" else 300):
        numbers = {}
        for part, allowed in ranges.items():
            if part in METHODS[name].optional and chance.random() < 0.3:
                continue
            low, high = allowed.low or 1e-12, min(allowed.high, 1 << 17 if part == "points" else 1e12)
            value = math.exp(chance.uniform(math.log(low), math.log(high)))
            if chance.random() < 0.7 and part in true["numbers"]:
                value = true["numbers"][part] * math.exp(chance.gauss(0.0, 1.0))
            value = min(max(value, allowed.low), allowed.high)
            numbers[part] = float(round(value)) if allowed.integer else value
        epsilon = chance.choice([0.0, 0.5, 1.0]) * share * true["epsilon"]
        assert not accepted({**true, "epsilon": epsilon, "numbers": numbers}), numbers


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(30, marks=pytest.mark.thorough)])
def test_random_plans_are_accepted_as_they_are_claimed_and_never_for_less_than_the_truth(count: int) -> None:
    chance = random.Random(11)
    for _ in range(count):
        name = chance.choice(["basic", "kov", "gdp", "rdp", "comparison", "pld", "selection"])
        delta = chance.choice([1e-3, 1e-5, 1e-8, 1e-12])
        steps = SubsampledSteps(
            count=chance.randint(1, 6), tv_bound=10 ** chance.uniform(-2, -0.5), ratio=10 ** chance.uniform(-1, 0.3)
        )
        releases: Plan = [
            (Release(epsilon=10 ** chance.uniform(-3, 0.3), delta=chance.choice([0.0, 1e-13])), chance.randint(1, 4))
            for _ in range(1 if name == "kov" else 3)
        ]
        laws = [geometric(chance.uniform(1.5, 40.0)), Poisson(rate=chance.uniform(0.1, 30.0), most=90)]
        plans: dict[str, Plan] = {
            "basic": releases,
            "kov": releases,
            "gdp": [(Gaussian(count=chance.randint(1, 9), mu=10 ** chance.uniform(-6, 0.3)), 3)],
            "selection": [(PrivateSelection(mu=10 ** chance.uniform(-2, 0.0), law=chance.choice(laws)), 1)],
        }
        plan = plans.get(name, [(steps, chance.randint(1, 5))])
        if not 0.0 < ACCOUNTANTS[name]().epsilon(plan, delta) < 700.0:
            continue
        certificate = claim(name, plan, delta)
        assert accepted(certificate), certificate
        truth = truth_of(certificate["events"])
        for share in (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0):
            lower = {**certificate, "epsilon": share * certificate["epsilon"]}
            if accepted(lower):
                assert truth(lower["epsilon"]) <= (1.0 + TOLERANCE) * delta + 1e-14, lower


# Parts --------------------------------------------------------------------------------------------------------------


def test_the_divergence_of_a_step_lies_between_quadrature_from_below_and_the_accountants_bound() -> None:
    for s, u, k in (
        *((0.01, 1.0, 2), (1e-3, 2.0, 5), (0.3, 0.5, 30), (1e-13, 8.0, 2), (1e-18, 6.0, 3), (1.0, 1.0, 4)),
        (1e-4, 0.2, 100),
    ):
        z = np.linspace(u / 2.0, u / 2.0 + k * u + 14.0, 400_001)
        x = u * z - u * u / 2.0
        log_r = np.logaddexp(math.log1p(-s) if s < 1.0 else -math.inf, x + math.log(s))
        log_r = np.where(x < 1.0, np.log1p(s * np.expm1(np.minimum(x, 1.0))), log_r)
        grown = np.expm1(-k * log_r) * np.expm1(-(k - 1) * log_r) * np.exp(k * log_r - z * z / 2.0)
        plain = math.log1p(float(grown.sum() * (z[1] - z[0])) / math.sqrt(2.0 * math.pi)) / (k - 1)
        assert _integral(s, u, k) == pytest.approx(plain, rel=2e-3)
        assert _integral(s, u, k) <= profile(k, s, u) * (1.0 + 1e-9)
        assert _series(s, u, k) <= closed_form(k, s, u) * (1.0 + 1e-9)


def test_a_gaussian_profile_is_never_below_the_exact_one() -> None:
    for mu in (1e-9, 1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0):
        for epsilon in (0.0, 1e-3 * mu, mu, 5.0 * mu, 20.0 * mu, 30.0):
            exact, found = _gaussian(mu * mu, epsilon), float(gaussian(np.array([epsilon]), mu)[0])
            assert exact <= found <= exact * 1.01 + 1e-300


@for_each("u", [0.05, 0.25, 1.0, 2.0])
def test_each_triple_lies_below_a_move_and_not_below_fewer_of_them(u: float) -> None:
    found, chance = games.moves(u, 0.02), random.Random(5)

    def below(moves: list[games.Gram], triples: int) -> bool:
        for _ in range(triples):
            psi = math.pi * chance.random() ** chance.choice([1, 3])
            f = chance.choice([1.0, 0.99, chance.random()]) * (math.pi - psi) / 2 * chance.choice([-1, 1])
            gram = games.gram_of(psi, f)
            if not any(games._least(move - gram) >= 0.0 for move in moves):
                return False
        return True

    assert below(found, 3000)
    assert not below(found[::5], 3000)  # a twin that leaves most of them out
    square = u * u
    assert max(games._chi_squared(move, square) for move in found) <= 1.02 * math.expm1(square)


STEP = {"kind": "subsampled-steps", "count": 1, "tv_bound": 1e-3, "ratio": 0.25}


def release(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    return {"kind": "release", "epsilon": epsilon, "delta": delta}


def test_releases_are_composed_as_randomized_responses_are() -> None:
    for each, delta, count in ((0.3, 1e-3, 5), (1.0, 0.0, 4), (0.01, 1e-6, 9)):
        rows = [(release(each, delta), count)]
        for share in (0.0, 0.2, 0.5, 0.9, 1.01):
            epsilon = share * count * each
            exact = _responses(((each, delta, count),), epsilon)
            assert METHODS["kov"].delta(rows, epsilon, 1e-5, {}) == pytest.approx(exact, rel=1e-9)
            assert METHODS["basic"].delta(rows, epsilon, 1e-5, {}) >= exact - 1e-12
            for order in (2.0, 5.0, 30.0):
                rho = METHODS["rdp"].delta([(release(each), count)], epsilon, 1e-5, {"order": order})
                assert rho >= _responses(((each, 0.0, count),), epsilon) - 1e-12
    for epsilon in (0.01, 0.3, 1.0, 5.0):
        for k in (2, 3, 10, 100):
            p, q = 1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(epsilon))
            exact = math.log(p**k * q ** (1 - k) + q**k * p ** (1 - k)) / (k - 1)
            assert recomputing._divergence(release(epsilon), k) == pytest.approx(exact, rel=1e-9)
    assert recomputing._divergence(release(0.1, 1e-9), 2) == math.inf


def test_a_price_is_positive_and_infinite_where_its_quadrature_says_nothing() -> None:
    """A price below 0 would pay for other events. The finite ones hardly depend on the pad or the allowance."""
    height, chi_squared = recomputing.profile(STEP)
    infinite = 0
    for pad in np.geomspace(1e-3, 100.0, 16):
        for allowance in (1e-6 * chi_squared, 1e-60, 1e-150, 1e-250):
            price = recomputing._price(height, chi_squared, float(pad), allowance)
            assert chi_squared < price < 5.0 * chi_squared or price == math.inf
            infinite += price == math.inf
    assert 10 < infinite < 54


def test_the_chords_of_a_profile_are_a_pair_with_that_profile() -> None:
    width = 0.02
    values = recomputing.profile(STEP)[0](width * np.arange(60.0))
    up, down, infinite, short = recomputing._pair(values, width)
    n = width * np.arange(1, 60)
    assert (up >= 0.0).all()
    assert (down >= 0.0).all()
    assert 0.0 <= short < 1e-12
    assert up @ np.exp(-n) == pytest.approx(down.sum(), rel=1e-9)  # alike from both sides
    for place, height in enumerate(values):
        assert up @ np.maximum(-np.expm1(width * place - n), 0.0) + infinite == pytest.approx(height, rel=1e-8)


def test_losses_are_composed_as_gaussians_are_and_never_below() -> None:
    """Of Gaussian releases the answer is known; a coarser grid, another tilt or a short window only adds to it."""
    rows = [({"kind": "gaussian", "mu": 0.2, "count": 1}, 4), ({"kind": "gaussian", "mu": 0.3, "count": 1}, 2)]
    for epsilon in (0.5, 1.5):
        exact = _gaussian(4 * 0.2**2 + 2 * 0.3**2, epsilon)
        assert METHODS["gdp"].delta(rows, epsilon, exact, {}) == pytest.approx(exact, rel=1e-6)
        for order in (2.0, 5.0, 9.0):
            assert METHODS["rdp"].delta(rows, epsilon, exact, {"order": order}) >= exact
        for width, tilt, points in ((2e-3, 5.0, 4096), (2e-3, 1.0, 8192), (2e-2, 5.0, 512)):
            numbers = {"width": width, "tilt": tilt, "points": float(points), "beyond": 0.0}
            found = METHODS["pld"].delta(rows, epsilon, exact, numbers)
            assert exact <= found <= (1.001 if width == 2e-3 else 1.1) * exact
        short = {"width": 2e-3, "tilt": 5.0, "points": 512.0, "beyond": 0.0}
        assert METHODS["pld"].delta(rows, epsilon, exact, short) >= exact


def test_parts_of_composed_events_are_priced_and_worked_out_again() -> None:
    """A call that looks at the sample and then takes steps on draws: its certificate is about both."""
    event = Composed(parts=(Gaussian(mu=0.1), STEPS))

    def promised(epsilon: float) -> Terms:
        given: dict[str, Any] = {"guarantee": of_curator((epsilon, DELTA), "records")}
        return Terms.model_construct(**given)

    epsilon = 1.001 * cost([(part, 2) for part in event.parts], DELTA)
    found = check_cost([event, event], promised(epsilon))
    assert found is not None
    assert [(entry.event["kind"], entry.count) for entry in found.events] == [("gaussian", 2), ("subsampled-steps", 2)]
    least = 0.99 * cost([(STEPS, 2)], DELTA)
    with pytest.raises(AuditFailed, match="the declared events cost"):
        check_cost([event, event], promised(least))
