"""What every accountant can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from common.core.registry import Registry
from common.privacy.events import Event

Plan = Sequence[tuple[Event, int]]
"""Events with how often each happens."""


def grouped(events: Iterable[Event]) -> Plan:
    """Count equal events."""
    return list(Counter(events).items())


@dataclass(frozen=True)
class BudgetFilter:
    """A budget filter fixed before the first event: amounts that add up, and a cap for their sum.

    Attributes
    ----------
    unit
        What amounts are, for messages.
    cap
        Largest sum allowed.
    amount
        What one event takes; None for an event that this filter must refuse at any remaining budget.
    """

    unit: str
    cap: Fraction
    amount: Callable[[Event], Fraction | None]


class Accountant(ABC):
    """Bounds the cost of events under adaptive composition (replace-one neighbours, n public)."""

    @abstractmethod
    def covers(self, event: Event) -> bool:
        """Tell whether this accountant knows what such an event costs."""

    @abstractmethod
    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the smallest epsilon we can show for the plan at ``delta`` (0 <= delta < 1), rounded up.

        Every event must be covered. Infinite where no guarantee can be shown, 0 where nothing is released.
        """

    @abstractmethod
    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Return a filter, fixed by the plan, that keeps *any* adaptively chosen events (epsilon, delta)-DP.

        The plan passes its own filter if ``self.epsilon(plan, delta) <= epsilon``.
        """


ACCOUNTANTS: Registry[type[Accountant]] = Registry("accountant", __name__)
