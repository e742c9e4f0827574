"""The accountant of runs without privacy."""

from __future__ import annotations

import math
from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.events import Event, NoEvent


@ACCOUNTANTS.register("none")
class NoAccountant(Accountant):
    """Claims nothing: every release costs infinity, only no event is free."""

    def covers(self, event: Event) -> bool:
        """Tell that every event is covered."""
        return True

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return infinity, or 0 if nothing is released."""
        return 0.0 if all(isinstance(event, NoEvent) for event, _ in plan) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Let everything pass if the budget is infinite, else nothing but :class:`NoEvent`."""

        def amount(event: Event) -> Fraction | None:
            return Fraction(0) if isinstance(event, NoEvent) or math.isinf(epsilon) else None

        return BudgetFilter("releases without a guarantee", Fraction(0), amount)
