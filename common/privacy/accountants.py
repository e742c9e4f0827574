"""The base class of accountants; those of this package are loaded when the first one is requested."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from common.core.registry import Registry
from common.privacy.events import Event, NoEvent, Release, SubsampledRelease, parts_of

Plan = Sequence[tuple[Event, int]]  # events, each with its number of occurrences
Amount = tuple[Fraction, ...]  # amounts of one kind or of several: a sum fits its cap if each kind does


def grouped(events: Iterable[Event]) -> Plan:
    """Count equal events, and the parts of composed ones."""
    return list(Counter(part for event in events for part in parts_of(event)).items())


def released(plan: Plan) -> Plan:
    """Return a plan without the events that release nothing."""
    return [(event, count) for event, count in plan if not isinstance(event, NoEvent)]


def total_of(plan: Plan, price: Callable[[Event], Fraction | None]) -> Fraction | None:
    """Return the exact sum of the prices of a plan's events; None if one of them has no price."""
    total = Fraction(0)
    for event, count in released(plan):
        cost = price(event)
        if cost is None:
            return None
        total += count * cost
    return total


@dataclass(frozen=True)
class BudgetFilter:
    """A budget filter fixed before the first event: amounts of a ``unit`` that add up, and a cap for their sum.

    ``price`` is None for an event that this filter must refuse at any remaining budget. :class:`NoEvent` is free.
    """

    unit: str
    cap: Amount
    price: Callable[[Event], Amount | None]

    def amount(self, event: Event) -> Amount | None:
        """Return the amount of an event with all its parts; None for an event that is never admitted."""
        parts = [self.price(part) for part in parts_of(event) if not isinstance(part, NoEvent)]
        priced = [part for part in parts if part is not None]
        if len(priced) < len(parts):
            return None
        return tuple(sum(amounts, Fraction(0)) for amounts in zip(*priced, strict=True)) if priced else self.nothing

    @property
    def nothing(self) -> Amount:
        return tuple(Fraction(0) for _ in self.cap)


class Accountant(ABC):
    """Bounds the cost of events under adaptive composition (replace-one neighbours, n public).

    Sums are exact rationals, so that neither the order nor the grouping of events matters.

    Attributes:
        kinds: Events whose cost it knows, beside :class:`NoEvent`.
        pure: Whether it covers releases only at delta = 0.
        quick: Whether it answers fast. The others are asked last, and only if that may help.
        patient: Whether it is so slow that no search uses it; it is used only for a plan that all others refuse.
    """

    kinds: ClassVar[tuple[type[Event], ...]] = ()
    pure: ClassVar[bool] = False
    quick: ClassVar[bool] = True
    patient: ClassVar[bool] = False

    def covers(self, event: Event) -> bool:
        known = isinstance(event, (NoEvent, *self.kinds))
        return known and not (self.pure and isinstance(event, SubsampledRelease | Release) and event.delta > 0.0)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        """Return the parameters at which :meth:`epsilon` found its bound; none if there was no choice."""
        return {}

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        """Return whether it may show less than ``epsilon``; this is faster than :meth:`epsilon`."""
        return True

    @abstractmethod
    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the smallest epsilon that it can show for the plan at ``delta`` (0 <= delta < 1), rounded up.

        Every event must be covered. Infinite if no guarantee can be shown, 0 if nothing is released.
        """

    @abstractmethod
    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Return a filter, fixed by the plan, that keeps *any* adaptively chosen events (epsilon, delta)-DP.

        The plan passes its own filter if ``self.epsilon(plan, delta) <= epsilon``.
        """

    def summed(
        self, unit: str, cap: Fraction, price: Callable[[Event], Fraction | None], fits: Plan | None = None
    ) -> BudgetFilter:
        """Return the filter of one sum of prices of covered events; ``fits`` is a plan that it must admit.

        The sum of that plan converts to at most epsilon, so rounding in both directions must not refuse its last event.
        """

        def amount(event: Event) -> Amount | None:
            cost = price(event) if self.covers(event) else None
            return None if cost is None else (cost,)

        total = None if fits is None else total_of(fits, price)
        return BudgetFilter(unit, (cap if total is None else max(cap, total),), amount)


ACCOUNTANTS: Registry[type[Accountant]] = Registry("accountant", __name__, group="accountants")
