"""One run's privacy budget: does the plan fit, may this event still happen, what may be published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from common.core.errors import BadInput, BudgetExceeded
from common.privacy.accountants.base import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Plan, grouped, within
from common.privacy.certificate import Certificate, certificate_of
from common.privacy.events import Event


class Budget:
    """A budget filter: all admitted events together keep to the guarantee, however adaptively they are chosen.

    The filter is fixed by the plan. The guarantee is the cap, never what was spent: publishing the spent
    amount would not be a valid claim. A run that starts again needs a budget of its own.

    Attributes
    ----------
    guarantee
        (epsilon, delta) with respect to replacing one record, n public; (inf, 1) for a run without privacy.
    accountant
        Name of the accountant that counts.
    certificate
        Of the plan, for the guarantee; None for a run without privacy.
    """

    def __init__(
        self,
        guarantee: tuple[float, float],
        accountant: str,
        budget_filter: BudgetFilter,
        certificate: Certificate | None = None,
    ) -> None:
        self.guarantee = guarantee
        self.accountant = accountant
        self.certificate = certificate
        self._filter = budget_filter
        self._seen: list[Event] = []
        self._spent: Amount = Fraction(0)

    def admit(self, charged: Sequence[Event], event: Event) -> None:
        """Check that ``event`` may happen after all of ``charged``; changes nothing.

        Costs time in the number of events since the last call, as long as ``charged`` only grows.

        Parameters
        ----------
        charged
            Every event recorded so far in this run, in any order.
        event
            The event to come.

        Raises
        ------
        BudgetExceeded
            With ``spent``, ``requested``, ``budget`` in the filter's ``unit``.
        """
        spent = self._sum(charged)
        requested = self._filter.amount(event)
        if requested is None or not within(spent + requested, self._filter.cap):
            unit, cap = self._filter.unit, float(self._filter.cap)
            asked = "what this budget never admits" if requested is None else f"{float(requested):.6g}"
            raise BudgetExceeded(
                f"spent {float(spent):.6g} of {cap:.6g} {unit}, a {event.kind} event asks for {asked}",
                spent=float(spent),
                requested="inadmissible" if requested is None else float(requested),
                budget=cap,
                unit=unit,
            )

    def _sum(self, charged: Sequence[Event]) -> Amount:
        """Add what is new; begin again if ``charged`` is not a continuation of what was seen."""
        known = len(self._seen)
        if list(charged[:known]) != self._seen:
            self._seen, self._spent, known = [], Fraction(0), 0
        for event in charged[known:]:
            amount = self._filter.amount(event)
            if amount is None:
                raise BudgetExceeded(
                    f"a {event.kind} event is on record that this budget never admits",
                    spent="inadmissible",
                    requested=0.0,
                    budget=float(self._filter.cap),
                    unit=self._filter.unit,
                )
            self._spent += amount
            self._seen.append(event)
        return self._spent


def cost(plan: Plan, delta: float) -> float:
    """Return the smallest epsilon that any accountant can show for the plan at ``delta``, rounded up.

    Infinite if no accountant covers every event of the plan.

    Raises
    ------
    BadInput
        If delta is not in [0, 1).
    """
    if not 0.0 <= delta < 1.0:
        raise BadInput(f"delta must be in [0, 1), found {delta}")
    return _cheapest(plan, delta)[2]


def open_budget(epsilon: float | None, delta: float | None, planned: Sequence[Event]) -> Budget:
    """Open the budget of a run whose planned events are known, or of a run without privacy.

    Parameters
    ----------
    epsilon, delta
        The curator's cap: epsilon > 0 and 0 <= delta < 1, or both None for no privacy.
    planned
        The events of all rounds, T_max of them: the worst case.

    Raises
    ------
    BudgetExceeded
        If the plan does not fit, with ``requested`` and ``budget`` as epsilons at ``delta``.
    BadInput
        If a number is out of range.
    """
    plan = grouped(planned)
    if epsilon is None and delta is None:
        return Budget((math.inf, 1.0), "none", ACCOUNTANTS["none"]().budget_filter(plan, math.inf, 1.0))
    if epsilon is None or delta is None or not 0.0 < epsilon < math.inf or not 0.0 <= delta < 1.0:
        raise BadInput(f"a budget needs epsilon > 0 and 0 <= delta < 1, or neither; found {epsilon} and {delta}")
    name, accountant, requested = _cheapest(plan, delta)
    if requested > epsilon:
        raise BudgetExceeded(
            f"the plan costs epsilon = {requested:.6g} at delta = {delta:g}, the budget is {epsilon:g}",
            requested=requested if math.isfinite(requested) else "infinite",
            budget=epsilon,
            delta=delta,
        )
    certificate = certificate_of(name, accountant, plan, epsilon, delta)
    return Budget((epsilon, delta), name, accountant.budget_filter(plan, epsilon, delta), certificate)


def certify(plan: Plan, delta: float) -> Certificate | None:
    """Return a certificate of the least epsilon that any accountant shows for a plan; None if none shows any.

    Raises
    ------
    BadInput
        If delta is not in [0, 1).
    """
    epsilon = cost(plan, delta)
    if not math.isfinite(epsilon):
        return None
    name, accountant, _ = _cheapest(plan, delta)
    return certificate_of(name, accountant, plan, epsilon, delta)


def fits(plan: Plan, epsilon: float, delta: float) -> bool:
    """Tell whether :func:`cost` is at most epsilon, without asking more accountants than it takes."""
    quick = _cheapest(plan, delta, slow=False)[2]
    return quick <= epsilon or any(
        accountant.worth(plan, delta, epsilon) and accountant.epsilon(plan, delta) <= epsilon
        for _, accountant in _covering(plan)
        if not accountant.quick
    )


def _cheapest(plan: Plan, delta: float, *, slow: bool = True) -> tuple[str, Accountant, float]:
    covering = _covering(plan)
    best = min(((n, a, a.epsilon(plan, delta)) for n, a in covering if a.quick), key=lambda found: found[2])
    for name, accountant in covering:
        if slow and not accountant.quick and accountant.worth(plan, delta, best[2]):
            best = min(best, (name, accountant, accountant.epsilon(plan, delta)), key=lambda found: found[2])
    return best


def _covering(plan: Plan) -> list[tuple[str, Accountant]]:
    """Return the accountants that know all events of a plan; the one of runs without privacy always does."""
    candidates = [(name, kind()) for name, kind in ACCOUNTANTS.items()]
    return [(name, accountant) for name, accountant in candidates if all(accountant.covers(event) for event, _ in plan)]
