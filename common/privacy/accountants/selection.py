"""Accountant of a single private choice, which costs less by itself than as part of a composition."""

from __future__ import annotations

import math
from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.events import Event, NoEvent, PrivateSelection
from common.privacy.theorems.selection.private_selection import epsilon_of_selection, order_of_selection


@ACCOUNTANTS.register("selection")
class SelectionAccountant(Accountant):
    """The direct bound for one choice, :func:`.private_selection.epsilon_of_selection`.

    Several choices, or a choice beside other releases, are for the Renyi accountant: this one says infinity. The
    filter admits one choice, of the law that was planned and at most its mu.
    """

    def covers(self, event: Event) -> bool:
        """Tell whether it is a choice or nothing."""
        return isinstance(event, PrivateSelection | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the epsilon of the one choice; infinite for several, or for delta = 0."""
        choices = _choices(plan)
        if not choices:
            return 0.0
        if len(choices) > 1 or delta == 0.0:
            return math.inf
        return epsilon_of_selection(choices[0].mu, choices[0].law, delta)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        """Return the Renyi order where one shows less than the ranks do."""
        choices = _choices(plan)
        order = order_of_selection(choices[0].mu, choices[0].law, delta) if len(choices) == 1 and delta > 0.0 else None
        return {} if order is None else {"order": float(order)}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Allow the planned choice, once."""
        choices = _choices(plan)
        private = bool(choices) and self.epsilon(plan, delta) <= epsilon

        def amount(event: Event) -> Fraction | None:
            if isinstance(event, PrivateSelection):
                planned = bool(choices) and event.law == choices[0].law and event.mu <= choices[0].mu
                return Fraction(1) if planned else None
            return Fraction(0) if isinstance(event, NoEvent) else None

        return BudgetFilter("choices", Fraction(1 if private else 0), amount)


def _choices(plan: Plan) -> list[PrivateSelection]:
    """Return the plan's choices, at most two: more make no difference."""
    return [event for event, count in plan for _ in range(min(count, 2)) if isinstance(event, PrivateSelection)][:2]
