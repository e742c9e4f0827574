"""Accountants that use the privacy profiles of events: Gaussian prices, loss distributions, games."""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from common.core.errors import BadInput
from common.numerics.bisection import between
from common.privacy.accountants import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Plan, released, total_of
from common.privacy.events import Event, Gaussian, NoEvent, Release, SubsampledRelease, SubsampledSteps
from common.privacy.release_accountants import RenyiAccountant, cost_of
from common.privacy.rounding import MAX_EPSILON, up
from common.privacy.theorems.games import Game, GameValue, Move, cover, knots, move, triple_profiles
from common.privacy.theorems.gaussian_dp import epsilon_of, mu_allowed
from common.privacy.theorems.loss_grids import ComposedLosses, compose_profiles, reach
from common.privacy.theorems.profiles import Profile, gaussian_price, gaussian_profile, release_profile, step_profile


@lru_cache(maxsize=1 << 12)
def profile_of(event: Event) -> Profile:
    """Return the profile of *one* release of an event (one of its ``count``); BadInput for a kind without profile."""
    if isinstance(event, SubsampledSteps):
        return step_profile(event.tv_bound, event.ratio)
    if isinstance(event, Gaussian):
        return gaussian_profile(event.mu)
    if isinstance(event, SubsampledRelease | Release):
        return release_profile(*cost_of(event))
    raise BadInput(f"an event of kind {event.kind} has no privacy profile")


def leading(event: Event) -> float:
    """Return the mu^2 that an event approaches: the chi-squared of one release, times ``count``."""
    if isinstance(event, NoEvent):
        return 0.0
    if isinstance(event, Gaussian):
        return event.count * event.mu * event.mu
    return (event.count if isinstance(event, SubsampledSteps) else 1) * profile_of(event).chi_squared


def limit(plan: Iterable[tuple[Event, int]], delta: float) -> float:
    """Return an estimate of a plan's epsilon, as if its envelopes were Gaussian; 0 if there is no estimate."""
    square = sum(count * _spread(event) for event, count in plan)
    return epsilon_of(math.sqrt(square), delta) if 0.0 < square < 1e12 and delta > 0.0 else 0.0


@lru_cache(maxsize=1 << 12)
def _spread(event: Event) -> float:
    """Return the chi-squared divergence of the envelope of an event, all of its ``count`` added."""
    if not isinstance(event, SubsampledSteps):
        return leading(event)
    profile = profile_of(event)
    losses = np.geomspace(1e-4, 60.0 * event.ratio + 4.0, 400) * event.tv_bound * min(event.ratio, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # with hardly any noise there is no estimate
        values = profile.at(losses) * np.exp(-losses / 2.0) * np.cosh(1.5 * losses)
        return event.count * 4.0 * float(np.trapezoid(values, losses))


@ACCOUNTANTS.register("gdp")
class GaussianAccountant(Accountant):
    """Adds mu^2 of Gaussian releases (Dong, Roth and Su 2022, Corollary 2) and converts the sum once.

    As a filter: adaptively chosen mu_i with sum mu_i^2 <= mu*^2 are mu*-GDP together (Smith and Thakurta 2022, "Fully
    adaptive law for Gaussian differential privacy", Theorem 1).
    """

    kinds = (Gaussian,)

    def epsilon(self, plan: Plan, delta: float) -> float:
        total = sum((count * _amount(event) for event, count in released(plan)), Fraction(0))
        if total == 0 or delta == 0.0:
            return math.inf if total else 0.0
        try:
            return epsilon_of(up(math.sqrt(total)), delta)
        except OverflowError:
            return math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        unit, allowed = "mu^2 of Gaussian differential privacy", 0.0
        if delta > 0.0:
            allowed = mu_allowed(min(epsilon, MAX_EPSILON), delta)
        fits = delta > 0.0 and self.epsilon(plan, delta) <= epsilon
        return self.summed(unit, Fraction(allowed) ** 2, _amount, plan if fits else None)


SLACK = 1e-3
"""Share of delta for what the comparison leaves out, if releases cost what their chi-squared suggests."""
_Terms = tuple[float, float]  # the pad m0, and the delta that an event may take for each unit of its price


@ACCOUNTANTS.register("comparison")
class ComparisonAccountant(Accountant):
    """Adds mu^2 of Gaussian releases of equal cost, beside a pad (:mod:`common.privacy.theorems.profiles`).

    With the pad m0 and the rate r fixed by the plan, an event of price m may use up r m of delta. Events with sum m <=
    M are (epsilon, r M + delta_G(epsilon; sqrt(m0^2 + M)))-DP, however adaptively they are chosen, since both sums of
    the theorem are bounded by M alone. So the filter is sound for any covered events, not only for planned ones.
    """

    kinds = (SubsampledSteps, Gaussian, SubsampledRelease, Release)
    pure = True

    def epsilon(self, plan: Plan, delta: float) -> float:
        return _best_pad(tuple(plan), delta)[1]

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        square = sum(count * leading(event) for event, count in plan)
        return (
            delta > 0.0 and math.isfinite(square) and (square == 0.0 or epsilon_of(math.sqrt(square), delta) <= epsilon)
        )

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        terms = _best_pad(tuple(plan), delta)[0]
        return {} if terms is None else {"pad": terms[0], "rate": terms[1]}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        terms, planned_epsilon = _best_pad(tuple(plan), delta)
        unit = "mu^2 of Gaussian releases as dear"
        if terms is None:
            return self.summed(unit, Fraction(0), lambda event: None)
        pad, rate = terms
        # The part of delta reserved for the rate allows sums up to SLACK/2 delta/rate.
        allowed = mu_allowed(min(epsilon, MAX_EPSILON), delta * (1.0 - SLACK / 2.0)) if delta > 0.0 else 0.0
        cap = min(Fraction(allowed) ** 2 - Fraction(pad) ** 2, Fraction(delta * SLACK / 2.0) / Fraction(rate))
        fits = plan if planned_epsilon <= epsilon else None
        return self.summed(unit, max(Fraction(0), cap), lambda event: _price(event, terms), fits)


@lru_cache(maxsize=1 << 8)  # a budget asks for the cost, then for the numbers, then for the filter of one plan
def _best_pad(plan: tuple[tuple[Event, int], ...], delta: float) -> tuple[_Terms | None, float]:
    """Return the best pad: try increasing powers of sqrt(2) until the cost increases again."""
    square = sum(count * leading(event) for event, count in plan)
    if square == 0.0:
        return None, 0.0
    best: tuple[_Terms | None, float] = (None, math.inf)
    if delta == 0.0 or not math.isfinite(square):
        return best
    first = math.floor(2.0 * math.log2(0.03 * math.sqrt(square)))
    for power in range(first, first + 16):
        pad = 2.0 ** (0.5 * power)
        terms = pad, SLACK / 4.0 * delta / square
        epsilon = _epsilon_beside(plan, terms, delta)
        if epsilon < best[1]:
            best = terms, epsilon
        elif math.isfinite(best[1]):
            break
    return best


def _epsilon_beside(plan: Plan, terms: _Terms, delta: float) -> float:
    total = total_of(plan, lambda event: _price(event, terms))
    if total is None:
        return math.inf
    pad, rate = terms
    remaining = delta - up(rate * float(total), 8.0)
    mu = up(math.sqrt(up(float(total)) + up(pad * pad)))
    return epsilon_of(mu, remaining * (1.0 - 1e-15)) if remaining > 0.0 else math.inf


def _price(event: Event, terms: _Terms) -> Fraction | None:
    """Return the price of an event; None if none is shown."""
    if isinstance(event, Gaussian):
        return _amount(event)
    each = _event_price(_kind(event), *terms)
    return _amount(event) * Fraction(each) if math.isfinite(each) else None


@lru_cache(maxsize=1 << 12)
def _event_price(event: Event, pad: float, rate: float) -> float:
    profile = profile_of(event)
    allowance = rate * profile.chi_squared
    # The price is raised if the allowance exceeds the rate times the price.
    return max(gaussian_price(profile, pad, allowance), up(profile.chi_squared, 4.0)) if allowance > 0.0 else math.inf


MAX_KINDS = 8  # maximum number of kinds that are composed; more are merged into the next costlier one of their type


@ACCOUNTANTS.register("pld")
class LossDistributionAccountant(Accountant):
    """Composes upper envelopes of profiles on a grid: theorems ``profiles``, ``loss_grids`` and ``tilting``.

    Dominating pairs compose: if each event's laws, given all earlier releases, are dominated by a pair, the whole is
    dominated by the product of the pairs (Zhu, Dong and Wang 2022, Theorem 10).

    The filter counts places of kinds that the plan fixes. An event takes one place of the cheapest kind that dominates
    it, and is admitted only while there is one. Proof: given the remaining places, an adversary that stops has the
    profile of no release, which is below that of any pair. One that continues releases something dominated by the pair
    whose place it takes, after which the rest is at most the product of the remaining places, by induction. Products do
    not depend on the order. So all admitted events together are dominated by the product of the plan's pairs, however
    adaptively they were chosen. Gaussian releases are one kind, counted by mu^2, as they compose to one.
    """

    kinds = (SubsampledSteps, Gaussian, SubsampledRelease, Release)
    quick = False

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        kinds = _kinds(plan)
        if len(kinds) == 1 and not isinstance(kinds[0][0], SubsampledSteps):
            return False  # the other accountants are exact
        return limit(plan, delta) < epsilon

    def epsilon(self, plan: Plan, delta: float) -> float:
        kinds = _kinds(plan)
        if not kinds:
            return 0.0
        return _composed_epsilon(tuple(kinds), delta) if delta > 0.0 else math.inf

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        law = _compose(tuple(_kinds(plan)), delta) if plan and delta > 0.0 else None
        if law is None:
            return {}
        width = float(law.losses[1] - law.losses[0])
        return {"width": width, "tilt": law.tilt, "points": float(len(law.losses)), "beyond": law.beyond}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        kinds = _kinds(plan)
        private = self.epsilon(plan, delta) <= epsilon

        def price(event: Event) -> Amount | None:
            place = next((i for i, (kind, _) in enumerate(kinds) if _dominates(kind, event)), None)
            if place is None:
                return None
            return tuple(_amount(event) if i == place else Fraction(0) for i in range(len(kinds)))

        cap = tuple(amount if private else Fraction(0) for _, amount in kinds)
        return BudgetFilter("places of the plan", cap, price)


@lru_cache(maxsize=1 << 10)  # one plan needs about a hundred, and a run with baselines plans repeatedly
def _composed_epsilon(kinds: tuple[tuple[Event, Fraction], ...], delta: float) -> float:
    law = _compose(kinds, delta)
    return law.epsilon(delta) if law is not None else math.inf


@lru_cache(maxsize=2)
def _compose(kinds: tuple[tuple[Event, Fraction], ...], delta: float) -> ComposedLosses | None:
    """Compose kinds, tuned to a delta > 0; None if the grid would be too long."""
    parts = [
        (gaussian_profile(up(math.sqrt(amount))), 1) if isinstance(kind, Gaussian) else (profile_of(kind), int(amount))
        for kind, amount in kinds
    ]
    return compose_profiles(parts, delta)


def _kinds(plan: Plan) -> list[tuple[Event, Fraction]]:
    """Return kinds with amounts, cheaper ones before kinds that dominate them; all Gaussian releases are one kind."""
    amounts: dict[Event, Fraction] = {}
    for event, count in released(plan):
        kind = _kind(event)
        amounts[kind] = amounts.get(kind, Fraction(0)) + count * _amount(event)
    return _merged(sorted(amounts.items(), key=lambda item: _order(item[0])))


def _merged(kinds: list[tuple[Event, Fraction]]) -> list[tuple[Event, Fraction]]:
    """Merge kinds into costlier ones with a similar tv_bound, until few are left or none can be merged."""
    spread = 0.01
    while len(kinds) > MAX_KINDS and spread < 100.0:
        merged: list[tuple[Event, Fraction]] = []
        for kind, amount in reversed(kinds):
            costlier = merged[-1][0] if merged else kind
            near = math.log(getattr(costlier, "tv_bound", 1.0) / getattr(kind, "tv_bound", 1.0)) <= spread
            if merged and near and _dominates(costlier, kind):
                merged[-1] = (costlier, merged[-1][1] + amount)
            else:
                merged.append((kind, amount))
        kinds, spread = merged[::-1], 1.5 * spread
    return kinds


def _kind(event: Event) -> Event:
    if isinstance(event, SubsampledSteps):
        return event.model_copy(update={"count": 1})
    return Gaussian(mu=1.0) if isinstance(event, Gaussian) else event


def _amount(event: Event) -> Fraction:
    if isinstance(event, Gaussian):
        return event.count * Fraction(event.mu) ** 2
    return Fraction(event.count if isinstance(event, SubsampledSteps) else 1)


def _order(kind: Event) -> tuple[str, tuple[float, ...]]:
    if isinstance(kind, SubsampledSteps):
        return kind.kind, (kind.ratio, kind.tv_bound)
    if isinstance(kind, SubsampledRelease):
        return kind.kind, (kind.draws, kind.epsilon, kind.delta, kind.tv_bound)
    return kind.kind, (kind.epsilon, kind.delta) if isinstance(kind, Release) else ()


def _dominates(kind: Event, event: Event) -> bool:
    """Return whether ``kind`` costs at least as much as ``event`` at every level, by declared numbers alone."""
    if isinstance(kind, SubsampledSteps) and isinstance(event, SubsampledSteps):
        return event.tv_bound <= kind.tv_bound and event.ratio <= kind.ratio
    if isinstance(kind, SubsampledRelease) and isinstance(event, SubsampledRelease):
        pairs = ((event.draws, kind.draws), (event.tv_bound, kind.tv_bound))
        return all(a <= b for a, b in (*pairs, (event.epsilon, kind.epsilon), (event.delta, kind.delta)))
    if isinstance(kind, Release) and isinstance(event, Release):
        return event.epsilon <= kind.epsilon and event.delta <= kind.delta
    return isinstance(kind, Gaussian) and isinstance(event, Gaussian)


EXCESS = 0.02  # share by which the chi-squared of a move may exceed the greatest of all triples
WIDTH = 0.2  # width of the grid, in standard deviations of one step's loss
CUT = 1e-3  # share of delta for losses beyond the grid
LEADERS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15)
"""Shares, beside :data:`EXCESS`, by which the squares of leaders' distances exceed the greatest."""
ABOVE = 1.15
"""Factor of the game's aim over what a pad shows, which is nearly right: leaders are found sooner from above."""
MOST_POINTS = 100_000  # longest grid that is worth its time


@ACCOUNTANTS.register("game")
class GameAccountant(Accountant):
    """Plays the game of :mod:`common.privacy.theorems.games` on a cover of all triples of Gaussians in the ball.

    The filter counts steps, each with at most the plan's tv_bound and ratio. A step with smaller ones, (1-s')A + s'B,
    is (1-s)A + s B' with B' a mixture of A and B, so it is a mixture of laws of the game. The adversary chooses the
    steps; taking fewer steps does not help it, since T f >= f for convex f.
    """

    kinds = (SubsampledSteps,)
    quick = False
    patient = True

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        kind = _single_kind(plan)
        if kind is None or delta <= 0.0:
            return False
        square = (1.0 + EXCESS + WIDTH**2 / 6.0) * sum(count * leading(event) for event, count in plan)
        return math.isfinite(square) and 0.0 < square < 100.0 and epsilon_of(math.sqrt(square), delta) < epsilon

    def epsilon(self, plan: Plan, delta: float) -> float:
        if not released(plan):
            return 0.0
        kind = _single_kind(plan)
        if kind is None or delta <= 0.0:
            return math.inf
        return _game_epsilon(kind.tv_bound, kind.ratio, _steps(plan), delta)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        kind = _single_kind(plan)
        return {} if kind is None else {"width": _width(kind.tv_bound, kind.ratio)}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        kind = _single_kind(plan)
        cap = Fraction(_steps(plan) if kind is not None and self.epsilon(plan, delta) <= epsilon else 0)
        return self.summed(
            "steps of the plan",
            cap,
            lambda event: _amount(event) if kind is not None and _dominates(kind, event) else None,
        )


def _single_kind(plan: Plan) -> SubsampledSteps | None:
    events = [event for event, _ in released(plan)]
    steps = [event for event in events if isinstance(event, SubsampledSteps)]
    single = len(steps) == len(events) and len({(event.tv_bound, event.ratio) for event in steps}) == 1
    return steps[0] if single else None


def _steps(plan: Plan) -> int:
    return sum(event.count * count for event, count in plan if isinstance(event, SubsampledSteps))


def _width(tv_bound: float, ratio: float) -> float:
    return WIDTH * tv_bound * math.sqrt(math.expm1(ratio * ratio))


@lru_cache(maxsize=8)
def _game_epsilon(tv_bound: float, ratio: float, steps: int, delta: float) -> float:
    plan = [(SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio), 1)]
    by_order, by_pad = (kind().epsilon(plan, delta) for kind in (RenyiAccountant, ComparisonAccountant))
    bound, aim = min(by_order, by_pad), min(by_order, ABOVE * by_pad)
    value = value_of_game(tv_bound, ratio, steps, delta, aim) if 0.0 < bound < MAX_EPSILON else None
    if value is None or value.delta(bound) > delta:
        return bound
    return 0.0 if value.delta(0.0) <= delta else between(bound, 0.0, lambda e: value.delta(e) <= delta, 1e-7)


def value_of_game(tv_bound: float, ratio: float, steps: int, delta: float, aim: float) -> GameValue | None:
    """Return the value of the game with ``steps`` steps, tight near ``aim``; None if it would take too long."""
    square, width = ratio * ratio, _width(tv_bound, ratio)
    grams = cover(ratio, EXCESS)
    leaders = [(1.0 + EXCESS + share, 1e-9, 0.0) for share in LEADERS]
    longest = max(max(gram[:2]) for gram in (*grams, *leaders))
    extent = math.ceil(reach(step_profile(tv_bound, ratio * math.sqrt(longest)), CUT * delta / steps) / width)
    if 2.2 * aim / width + 4.0 * extent > MOST_POINTS:
        return None
    places = knots(extent)
    pairs = [triple_profiles(tv_bound, (square * x, square * y, square * z)) for x, y, z in (*grams, *leaders)]
    envelope = profile_of(SubsampledSteps(count=1, tv_bound=tv_bound, ratio=ratio))
    attempts = [move(pair, places, width) for pair in (*pairs, (envelope, envelope))]
    moves: list[Move] = [attempt for attempt in attempts if attempt is not None]
    if len(moves) < len(attempts):
        return None
    game = Game(moves[: len(grams)], moves[len(grams) :], width, (-0.6 * aim, 1.6 * aim))
    return game.value(steps, aim, delta)
