"""Accountant of Gaussian noise on the sample itself: exact, since Gaussian mechanisms compose to one."""

from __future__ import annotations

import math
from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.events import Event, Gaussian, NoEvent
from common.privacy.rounding import MAX_EPSILON, up
from common.privacy.theorems.gaussian_dp import epsilon_of, mu_allowed


@ACCOUNTANTS.register("gdp")
class GaussianAccountant(Accountant):
    """Adds mu^2 of Gaussian releases (Dong, Roth and Su 2022, Corollary 2) and converts the sum once.

    As a filter: adaptively chosen mu_i with sum mu_i^2 <= mu*^2 keep to mu*-GDP (Smith and Thakurta 2022, "Fully
    adaptive composition for Gaussian differential privacy", Theorem 1). Sums are exact rationals, so that neither the
    order nor the grouping of events matters.
    """

    def covers(self, event: Event) -> bool:
        """Tell whether it is Gaussian releases or nothing."""
        return isinstance(event, Gaussian | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the exact epsilon of the sum; infinite for delta = 0."""
        total = sum((count * _square(event) for event, count in plan), Fraction(0))
        if total == 0:
            return 0.0
        mu = _root(total)
        return epsilon_of(mu, delta) if delta > 0.0 and math.isfinite(mu) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Allow mu*^2 in all."""
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
