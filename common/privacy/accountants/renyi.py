"""Renyi accountant of noisy steps beside releases and choices; and the accountant of a single private choice."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan, total_of
from common.privacy.events import (
    Event,
    Gaussian,
    NoEvent,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)
from common.privacy.rounding import up
from common.privacy.theorems.composition import subsampled
from common.privacy.theorems.renyi import ORDERS, epsilon_at, pure_rdp, rho_allowed, step_rdp
from common.privacy.theorems.selection import epsilon_of_selection, order_of_selection, selection_rdp

_STRIDE = 8


@ACCOUNTANTS.register("rdp")
class RenyiAccountant(Accountant):
    """Adds Renyi divergences (Mironov 2017) and converts the sum once.

    Conversion: Canonne, Kamath and Steinke (2020), Proposition 12.

    The filter counts at *one* order, chosen from the plan before the first event: sound for adaptively
    chosen events (Feldman and Zrnic 2021; Lecuyer 2021). A filter that lets an event pass while *some* order
    has budget left is not. Sums are exact rationals, so that neither the order nor the grouping of events
    matters.
    """

    def covers(self, event: Event) -> bool:
        pure = isinstance(event, SubsampledRelease | Release) and event.delta == 0.0
        return pure or isinstance(event, SubsampledSteps | Gaussian | PrivateSelection | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        return self._best(plan, delta)[1]

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        return {"order": float(self._best(plan, delta)[0])}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        order, planned = self._best(plan, delta)
        allowed = rho_allowed(order, epsilon, delta)
        cap = Fraction(allowed) if math.isfinite(allowed) and allowed > 0.0 else Fraction(0)
        total = _total(plan, order)
        if total is not None and planned <= epsilon:
            # Rounding to and fro must not refuse the plan's last event: its sum converts to at most epsilon.
            cap = max(cap, total)

        def amount(event: Event) -> Fraction | None:
            return _divergence(event, order) if self.covers(event) else None

        return BudgetFilter(f"Renyi divergence of order {order}", cap, amount)

    def _best(self, plan: Plan, delta: float) -> tuple[int, float]:
        return _searched(tuple(plan), delta)


@lru_cache(maxsize=1 << 8)  # a budget asks for the cost, then for the order, then for the filter of one plan
def _searched(plan: tuple[tuple[Event, int], ...], delta: float) -> tuple[int, float]:
    """Search the orders: a coarse scan, then a fine one. Every order is valid."""
    found: dict[int, float] = {}

    def at(place: int) -> float:
        if place not in found:
            found[place] = _epsilon(plan, ORDERS[place], delta)
        return found[place]

    best, stride = 0, _STRIDE
    for place in range(0, len(ORDERS), stride):
        if at(place) < at(best):
            best = place
        elif place > best + 2 * stride and math.isfinite(at(best)):
            break
    while stride > 1:
        stride //= 2
        near = [place for place in (best - stride, best, best + stride) if 0 <= place < len(ORDERS)]
        best = min(near, key=at)
    return ORDERS[best], at(best)


def _epsilon(plan: Plan, order: int, delta: float) -> float:
    total = _total(plan, order)
    if total is None:
        return math.inf
    return 0.0 if total == 0 else epsilon_at(order, up(float(total)), delta)


def _total(plan: Plan, order: int) -> Fraction | None:
    return total_of(plan, lambda event: _divergence(event, order))


def _divergence(event: Event, order: int) -> Fraction | None:
    """Return an upper bound on the event's divergence; None if it is infinite."""
    rho, count = 0.0, 1
    if isinstance(event, SubsampledSteps):
        rho, count = step_rdp(order, event.tv_bound, event.ratio), event.count
    elif isinstance(event, SubsampledRelease):
        star, _ = subsampled(event.draws, event.tv_bound, event.epsilon, event.delta)
        rho = pure_rdp(order, star) if math.isfinite(star) else math.inf
    elif isinstance(event, Release):
        rho = pure_rdp(order, event.epsilon)
    elif isinstance(event, Gaussian):
        rho, count = up(0.5 * order * event.mu * event.mu), event.count
    elif isinstance(event, PrivateSelection):
        rho = selection_rdp(order, event.mu, event.law)
    return count * Fraction(rho) if math.isfinite(rho) else None


@ACCOUNTANTS.register("selection")
class SelectionAccountant(Accountant):
    """The direct bound for one choice, :func:`.private_selection.epsilon_of_selection`.

    Several choices, or a choice beside other releases, are for the Renyi accountant: this one says infinity. The
    filter admits one choice, of the law that was planned and at most its mu.
    """

    def covers(self, event: Event) -> bool:
        return isinstance(event, PrivateSelection | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        choices = _choices(plan)
        if not choices:
            return 0.0
        if len(choices) > 1 or delta == 0.0:
            return math.inf
        return epsilon_of_selection(choices[0].mu, choices[0].law, delta)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        choices = _choices(plan)
        order = order_of_selection(choices[0].mu, choices[0].law, delta) if len(choices) == 1 and delta > 0.0 else None
        return {} if order is None else {"order": float(order)}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        choices = _choices(plan)
        private = bool(choices) and self.epsilon(plan, delta) <= epsilon

        def amount(event: Event) -> Fraction | None:
            if isinstance(event, PrivateSelection):
                planned = bool(choices) and event.law == choices[0].law and event.mu <= choices[0].mu
                return Fraction(1) if planned else None
            return Fraction(0) if isinstance(event, NoEvent) else None

        return BudgetFilter("choices", Fraction(1 if private else 0), amount)


def _choices(plan: Plan) -> list[PrivateSelection]:
    return [event for event, count in plan for _ in range(min(count, 2)) if isinstance(event, PrivateSelection)][:2]
