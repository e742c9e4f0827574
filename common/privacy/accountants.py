"""What every accountant can do; those of this package are loaded when the first is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from common.core.registry import Registry
from common.privacy.events import Event, NoEvent, Release, SubsampledRelease

Plan = Sequence[tuple[Event, int]]  # events with how often each happens


def grouped(events: Iterable[Event]) -> Plan:
    """Count equal events."""
    return list(Counter(events).items())


@dataclass(frozen=True)
class Counts:
    """Amounts of several kinds: a sum fits its cap only if each kind does."""

    values: tuple[Fraction, ...]

    def __add__(self, other: Counts | Fraction) -> Counts:
        if isinstance(other, Fraction):  # a sum begins at zero
            return self if other == 0 else NotImplemented
        return Counts(tuple(a + b for a, b in zip(self.values, other.values, strict=True)))

    __radd__ = __add__

    def __mul__(self, times: int) -> Counts:
        return Counts(tuple(times * value for value in self.values))

    __rmul__ = __mul__

    def __le__(self, other: Counts) -> bool:
        return all(a <= b for a, b in zip(self.values, other.values, strict=True))

    def __gt__(self, other: Counts) -> bool:
        return not self <= other

    def __float__(self) -> float:
        return float(sum(self.values))


Amount = Fraction | Counts


def within(amount: Amount, cap: Amount) -> bool:
    """Tell whether a sum fits its cap; nothing at all fits every cap."""
    if isinstance(amount, Counts) and isinstance(cap, Counts):
        return amount <= cap
    return amount == 0 if isinstance(amount, Counts) or isinstance(cap, Counts) else amount <= cap


def share_of(amount: Amount, cap: Amount) -> float:
    """Return which share of its cap a sum is; of several kinds, that of the fullest one."""
    parts = amount.values if isinstance(amount, Counts) else (amount,)
    caps = cap.values if isinstance(cap, Counts) else (cap,)
    if isinstance(amount, Fraction) and amount == 0:
        return 0.0
    return max(1.0 if most == 0 else float(part / most) for part, most in zip(parts, caps, strict=True))


def total_of(plan: Plan, price: Callable[[Event], Fraction | None]) -> Fraction | None:
    """Add up the prices of a plan's events, exactly; None if one of them has none."""
    total = Fraction(0)
    for event, count in plan:
        each = price(event)
        if each is None:
            return None
        total += count * each
    return total


@dataclass(frozen=True)
class BudgetFilter:
    """A budget filter fixed before the first event: amounts of a ``unit`` that add up, and a cap for their sum.

    ``amount`` is None for an event that this filter must refuse at any remaining budget.
    """

    unit: str
    cap: Amount
    amount: Callable[[Event], Amount | None]


class Accountant(ABC):
    """Bounds the cost of events under adaptive composition (replace-one neighbours, n public).

    Sums are exact rationals, so that neither the order nor the grouping of events matters.

    Attributes:
        kinds: Events that it knows the cost of, beside :class:`NoEvent`.
        pure: Whether it knows that of releases only at delta = 0.
        quick: Whether it costs little to ask. The others are asked last, and only where it is worth it.
        patient: Whether it takes so long that no search asks it: only a plan that all others refuse is worth its time.
    """

    kinds: ClassVar[tuple[type[Event], ...]] = ()
    pure: ClassVar[bool] = False
    quick: ClassVar[bool] = True
    patient: ClassVar[bool] = False

    def covers(self, event: Event) -> bool:
        """Tell whether this accountant knows what such an event costs."""
        known = isinstance(event, (NoEvent, *self.kinds))
        return known and not (self.pure and isinstance(event, SubsampledRelease | Release) and event.delta > 0.0)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        """Return the numbers at which :meth:`epsilon` found its bound; none where there was no choice."""
        return {}

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        """Tell whether it may show less than ``epsilon``, which costs less than to ask."""
        return True

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


ACCOUNTANTS: Registry[type[Accountant]] = Registry("accountant", __name__, group="accountants")
