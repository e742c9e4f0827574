"""Accountants that add up squared mu: Gaussian noise, exactly; and many small releases, each at a Gaussian price."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan, total_of
from common.privacy.events import Event, Gaussian, NoEvent, Release, SubsampledRelease, SubsampledSteps
from common.privacy.profiles import leading, profile_of
from common.privacy.rounding import MAX_EPSILON, up
from common.privacy.theorems.comparison import gaussian_price
from common.privacy.theorems.gaussian_dp import epsilon_of, mu_allowed


@ACCOUNTANTS.register("gdp")
class GaussianAccountant(Accountant):
    """Adds mu^2 of Gaussian releases (Dong, Roth and Su 2022, Corollary 2) and converts the sum once.

    As a filter: adaptively chosen mu_i with sum mu_i^2 <= mu*^2 keep to mu*-GDP (Smith and Thakurta 2022, "Fully
    adaptive composition for Gaussian differential privacy", Theorem 1). Sums are exact rationals, so that neither the
    order nor the grouping of events matters.
    """

    def covers(self, event: Event) -> bool:
        return isinstance(event, Gaussian | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        total = sum((count * _square(event) for event, count in plan), Fraction(0))
        if total == 0:
            return 0.0
        mu = _root(total)
        return epsilon_of(mu, delta) if delta > 0.0 and math.isfinite(mu) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        cap = Fraction(0)
        if delta > 0.0:
            cap = Fraction(mu_allowed(min(epsilon, MAX_EPSILON), delta)) ** 2
            if self.epsilon(plan, delta) <= epsilon:
                # Rounding to and fro must not refuse the plan's last event: its sum converts to at most epsilon.
                cap = max(cap, sum((count * _square(event) for event, count in plan), Fraction(0)))

        def amount(event: Event) -> Fraction | None:
            return _square(event) if self.covers(event) else None

        return BudgetFilter("mu^2 of Gaussian differential privacy", cap, amount)


def _square(event: Event) -> Fraction:
    return event.count * Fraction(event.mu) ** 2 if isinstance(event, Gaussian) else Fraction(0)


def _root(square: Fraction) -> float:
    try:
        return up(math.sqrt(square))
    except OverflowError:
        return math.inf


SLACK = 1e-3
"""Share of delta that pays for what the comparison leaves out, where releases cost what their chi-squared says."""

_Terms = tuple[float, float]
"""The pad m0, and the delta that an event may take for each unit of its price."""


@ACCOUNTANTS.register("comparison")
class ComparisonAccountant(Accountant):
    """Adds up squares of Gaussian releases that are as dear, beside a pad: :mod:`common.privacy.theorems.comparison`.

    With the pad m0 and the rate r fixed by the plan, an event of price m may use up r m of delta. Events with sum m
    <= M are (epsilon, r M + delta_G(epsilon; sqrt(m0^2 + M)))-DP, however adaptively they are chosen: the theorem is
    about adaptive choices, and both sums are bounded by M alone. So the filter is sound for any covered events, not
    only for planned ones. Sums are exact rationals.
    """

    def covers(self, event: Event) -> bool:
        pure = isinstance(event, SubsampledRelease | Release) and event.delta == 0.0
        return pure or isinstance(event, SubsampledSteps | Gaussian | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        return self._best(plan, delta)[1]

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        square = sum(count * leading(event) for event, count in plan)
        return (
            delta > 0.0 and math.isfinite(square) and (square == 0.0 or epsilon_of(math.sqrt(square), delta) <= epsilon)
        )

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        terms = self._best(plan, delta)[0]
        return {} if terms is None else {"pad": terms[0], "rate": terms[1]}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        terms, planned = self._best(plan, delta)
        cap = Fraction(0)
        if terms is not None:
            pad, rate = terms
            # What is kept for the rate's part allows sums up to SLACK/2 delta/rate.
            allowed = mu_allowed(min(epsilon, MAX_EPSILON), delta * (1.0 - SLACK / 2.0)) if delta > 0.0 else 0.0
            cap = max(
                cap, min(Fraction(allowed) ** 2 - Fraction(pad) ** 2, Fraction(delta * SLACK / 2.0) / Fraction(rate))
            )
            total = _total(plan, terms)
            if total is not None and planned <= epsilon:
                cap = max(cap, total)

        def amount(event: Event) -> Fraction | None:
            if isinstance(event, NoEvent):
                return Fraction(0)
            return _price(event, terms) if terms is not None and self.covers(event) else None

        return BudgetFilter("mu^2 of Gaussian releases as dear", cap, amount)

    def _best(self, plan: Plan, delta: float) -> tuple[_Terms | None, float]:
        return _searched(tuple(plan), delta)


@lru_cache(maxsize=1 << 8)  # a budget asks for the cost, then for the numbers, then for the filter of one plan
def _searched(plan: tuple[tuple[Event, int], ...], delta: float) -> tuple[_Terms | None, float]:
    """Try pads, powers of sqrt(2), upwards, until they cost more again."""
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
        found = _epsilon(plan, terms, delta)
        if found < best[1]:
            best = terms, found
        elif math.isfinite(best[1]):
            break
    return best


def _epsilon(plan: Plan, terms: _Terms, delta: float) -> float:
    total = _total(plan, terms)
    if total is None:
        return math.inf
    pad, rate = terms
    left = delta - up(rate * float(total), 8.0)
    mu = up(math.sqrt(up(float(total)) + up(pad * pad)))
    return epsilon_of(mu, left * (1.0 - 1e-15)) if left > 0.0 else math.inf


def _total(plan: Plan, terms: _Terms) -> Fraction | None:
    return total_of(plan, lambda event: _price(event, terms))


def _price(event: Event, terms: _Terms) -> Fraction | None:
    """Return the price of an event; None if none is shown."""
    if isinstance(event, NoEvent):
        return Fraction(0)
    if isinstance(event, Gaussian):
        return event.count * Fraction(event.mu) ** 2
    count = event.count if isinstance(event, SubsampledSteps) else 1
    each = _one(event.model_copy(update={"count": 1}) if count > 1 else event, *terms)
    return count * Fraction(each) if math.isfinite(each) else None


@lru_cache(maxsize=1 << 12)
def _one(event: Event, pad: float, rate: float) -> float:
    profile = profile_of(event)
    allowance = rate * profile.chi_squared
    # The price is raised where the allowance is more than the rate times it.
    return max(gaussian_price(profile, pad, allowance), up(profile.chi_squared, 4.0)) if allowance > 0.0 else math.inf
