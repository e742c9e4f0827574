"""One run's privacy budget: whether a plan fits, whether an event is admitted, certificates, and sample sizes.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from common.core.errors import BadInput, BudgetExceeded
from common.core.values import Value
from common.numerics.bisection import least, lesser
from common.numerics.elementary import exp
from common.privacy.accountants import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Plan, grouped
from common.privacy.events import Event, delta_left, error_paid, payable, sampling_error
from common.privacy.rounding import up

GAIN = 1.02  # a slow accountant is asked only if it might show less than the quick ones by at least this factor
FAR = 1.3  # a patient accountant is not asked about plans that cost more than this times the budget by all others


class Budget:
    """A budget filter: all admitted events together satisfy the guarantee, however adaptively they are chosen.

    The filter is fixed by the plan. The guarantee is the cap, never the spent amount: publishing the latter would not
    be a valid claim. A run that starts again needs a budget of its own.

    Attributes:
        guarantee: (epsilon, delta) with respect to replacing one record, n public; (inf, 1) for a run without privacy.
        accountant: Name of the accountant behind the filter.
        unit, cap: Description of the amounts, and their largest sum, rounded.
        certificate: Certificate of the plan for the guarantee; None for a run without privacy.
    """

    def __init__(
        self,
        guarantee: tuple[float, float],
        accountant: str,
        budget_filter: BudgetFilter,
        error: Fraction,
        certificate: Certificate | None = None,
    ) -> None:
        self.guarantee = guarantee
        self.accountant = accountant
        self.certificate = certificate
        self.unit, self.cap = budget_filter.unit, float(sum(budget_filter.cap))
        self._filter = budget_filter
        self._error_cap = error
        self._forget()

    def _forget(self) -> None:
        self._summed: list[Event] = []
        self._spent: Amount = self._filter.nothing
        self._error = Fraction(0)

    def amount(self, event: Event) -> float | None:
        """Return an event's amount of :attr:`cap`, rounded, for display; None for an event that is never admitted."""
        amounts = self._filter.amount(event)
        return None if amounts is None else float(sum(amounts))

    def admit(self, charged: Sequence[Event], event: Event) -> None:
        """Raise BudgetExceeded if ``event`` does not fit after all of ``charged``; does not change the budget.

        ``charged`` is every event recorded so far in this run, in any order. As long as it only grows, a call adds up
        only the events since the last call, and compares the others with those that it knows. BudgetExceeded has
        ``spent``, ``requested`` and ``budget`` in the filter's ``unit``.
        """
        spent, requested = self._sum(charged), self._filter.amount(event)
        if requested is None or any(a + b > c for a, b, c in zip(spent, requested, self._filter.cap, strict=True)):
            total, amount = float(sum(spent)), None if requested is None else float(sum(requested))
            request = "what this budget never admits" if amount is None else f"{amount:.6g}"
            raise BudgetExceeded(
                f"spent {total:.6g} of {self.cap:.6g} {self.unit}, a {event.kind} event asks for {request}",
                spent=total,
                requested="inadmissible" if amount is None else amount,
                budget=self.cap,
                unit=self.unit,
            )
        error = self._error + sampling_error(event)
        if error > self._error_cap and self.accountant != "none":
            raise BudgetExceeded(
                f"the noise of a {event.kind} event and of all before may be {float(error):.3g} from its exact law, of "
                f"which the plan paid for {float(self._error_cap):.3g}: ask for no more numbers than planned",
                spent=float(self._error),
                requested=float(sampling_error(event)),
                budget=float(self._error_cap),
                unit="total variation of the noise from its exact law",
            )

    def share(self, charged: Sequence[Event]) -> float:
        """Return the used share of the filter's cap, in [0, 1], for the fullest kind; 0 if nothing is counted.

        It shows how much more work fits. It is not a guarantee: that is the cap (:attr:`guarantee`) at any share.
        """
        parts = zip(self._sum(charged), self._filter.cap, strict=True)
        return max((float(part / most) for part, most in parts if part), default=0.0)

    def _sum(self, charged: Sequence[Event]) -> Amount:
        """Return the sum of amounts: add the new ones, or start again if ``charged`` does not continue the last one."""
        count = len(self._summed)
        if list(charged[:count]) != self._summed:
            self._forget()
            count = 0
        for event in charged[count:]:
            amount = self._filter.amount(event)
            if amount is None:
                raise BudgetExceeded(
                    f"a {event.kind} event is on record that this budget never admits",
                    spent="inadmissible",
                    requested=0.0,
                    budget=self.cap,
                    unit=self.unit,
                )
            self._spent = tuple(a + b for a, b in zip(self._spent, amount, strict=True))
            self._error += sampling_error(event)
            self._summed.append(event)
        return self._spent


def cost(plan: Plan, delta: float, enough: float = math.inf) -> float:
    """Return the smallest epsilon that accountants can show for the plan at ``delta``, rounded up, or infinity.

    The distance of the noise from its exact law is paid for out of delta (:mod:`common.privacy.events`). Patient
    accountants are asked if the others show more than ``enough``: by default never, with 0 always.
    """
    if not 0.0 <= delta < 1.0:
        raise BadInput(f"delta must be in [0, 1), found {delta}")
    error, share = error_paid(plan), delta
    while True:
        # A smaller delta needs a larger epsilon, which leaves a smaller delta: iterate until both agree.
        requested = _cheapest(plan, share, enough)[2]
        remaining = delta_left(delta, requested, error)
        if remaining >= share:
            return requested
        if remaining < 0.0:
            return math.inf
        share = remaining


def open_budget(epsilon: float | None, delta: float | None, events: Sequence[Event]) -> Budget:
    """Open the budget of a run whose planned events are known, or of a run without privacy.

    Raises BudgetExceeded if the plan does not fit, with ``requested`` and ``budget`` as epsilons at ``delta``.

    Args:
        epsilon, delta: The curator's cap: epsilon > 0 and 0 <= delta < 1, or both None for no privacy.
        events: The events of all rounds: the worst case.
    """
    plan = grouped(events)
    if epsilon is None and delta is None:
        nothing = ACCOUNTANTS["none"]().budget_filter(plan, math.inf, 1.0)
        return Budget((math.inf, 1.0), "none", nothing, Fraction(0))
    if epsilon is None or delta is None or not 0.0 < epsilon < math.inf or not 0.0 <= delta < 1.0:
        raise BadInput(f"a budget needs epsilon > 0 and 0 <= delta < 1, or neither; found {epsilon} and {delta}")
    error = error_paid(plan)
    used = _used(epsilon, delta, error)
    remaining = delta_left(delta, used, error)
    best = _cheapest_quick(plan, max(remaining, 0.0))
    name, accountant, requested = best if best[2] <= used else _cheapest(plan, max(remaining, 0.0), used)
    if remaining < 0.0:
        requested = math.inf
    if requested > used:
        most = "" if used == epsilon else f", of which delta = {delta:g} pays for {used:.6g} with noise from tables"
        raise BudgetExceeded(
            f"the plan costs epsilon = {requested:.6g} at delta = {delta:g}, the budget is {epsilon:g}{most}: take "
            "more people, a larger budget, fewer rounds, or more noise",
            requested=requested if math.isfinite(requested) and not most else "infinite",
            budget=epsilon,
            delta=delta,
        )
    certificate = certificate_of(name, accountant, plan, used, delta, error)
    return Budget((epsilon, delta), name, accountant.budget_filter(plan, used, remaining), error, certificate)


def _used(epsilon: float, delta: float, error: Fraction) -> float:
    """Return the epsilon of an opened budget: a smaller one if (1 + e^epsilon) times the error exceeds delta.

    The smaller one is what half of delta pays for; all of delta would pay for at most 1.4 more.
    """
    return epsilon if delta_left(delta, epsilon, error) >= 0.0 else payable(delta, error)


def certify(plan: Plan, delta: float, enough: float = math.inf) -> Certificate | None:
    """Return a certificate of the result of :func:`cost`; None if accountants show no guarantee."""
    epsilon = cost(plan, delta, enough)
    if not math.isfinite(epsilon):
        return None
    error = error_paid(plan)
    name, accountant, bound = _cheapest(plan, delta_left(delta, epsilon, error), enough)
    return certificate_of(name, accountant, plan, max(epsilon, bound), delta, error)


def fits(plan: Plan, epsilon: float, delta: float, *, quick: bool = False) -> bool:
    """Return whether a budget of (epsilon, delta) covers a plan; asks as few accountants as needed, or quick ones."""
    error = error_paid(plan)
    epsilon = _used(epsilon, delta, error)
    delta = delta_left(delta, epsilon, error)
    if delta < 0.0:
        return False
    least = _cheapest_quick(plan, delta, epsilon, epsilon)[2]
    if quick or least <= epsilon:
        return least <= epsilon
    return any(
        accountant.worth(plan, delta, min(epsilon, least / GAIN)) and accountant.epsilon(plan, delta) <= epsilon
        for _, accountant in _covering(plan)
        if not accountant.quick and not accountant.patient
    )


def _cheapest(plan: Plan, delta: float, enough: float = math.inf) -> tuple[str, Accountant, float]:
    """Return the accountant with the least epsilon; patient ones are asked last, if the others show too much."""
    covering, best = _covering(plan), _cheapest_quick(plan, delta)
    for name, accountant in covering:
        if not accountant.quick and not accountant.patient and accountant.worth(plan, delta, best[2] / GAIN):
            best = min(best, (name, accountant, accountant.epsilon(plan, delta)), key=lambda candidate: candidate[2])
    for name, accountant in covering:
        hopeful = enough < best[2] and (enough == 0.0 or best[2] <= FAR * enough)
        if accountant.patient and hopeful and accountant.worth(plan, delta, enough or best[2]):
            best = min(best, (name, accountant, accountant.epsilon(plan, delta)), key=lambda candidate: candidate[2])
    return best


def _cheapest_quick(
    plan: Plan, delta: float, most: float = math.inf, enough: float = 0.0
) -> tuple[str, Accountant, float]:
    """Return the quick accountant with the least epsilon; an epsilon of at most ``enough`` ends the search."""
    candidates: list[tuple[str, Accountant, float]] = []
    for name, accountant in _covering(plan):
        least = min(most, *(epsilon for _, _, epsilon in candidates), math.inf)
        if accountant.quick and accountant.worth(plan, delta, least):
            candidates.append((name, accountant, accountant.epsilon(plan, delta)))
            if candidates[-1][2] <= enough:
                break
    return min(candidates, key=lambda candidate: candidate[2], default=("none", ACCOUNTANTS["none"](), math.inf))


def _covering(plan: Plan) -> list[tuple[str, Accountant]]:
    candidates = [(name, kind()) for name, kind in ACCOUNTANTS.items()]
    return [(name, accountant) for name, accountant in candidates if all(accountant.covers(event) for event, _ in plan)]


NEIGHBOURS = "one record replaced, n public"


class Counted(Value):
    """An event, in its JSON form, and how often it happens."""

    event: dict[str, Any]
    count: int = Field(ge=1)


class Certificate(Value):
    """The claim that all events together, however adaptively they are chosen within them, are (epsilon, delta)-DP.

    Attributes:
        events: The planned events, or those that happened.
        numbers: The accountant's parameters: ``order`` (rdp); ``pad`` and ``rate`` (comparison); ``width``, ``tilt``,
            ``points``, ``beyond`` (pld: the grid, the transform, and the part of delta for everything outside the
            grid); ``width`` (game); none for the others.
        distance: Bound on the total variation between all noise as drawn and as priced (:mod:`common.privacy.events`).
            The accountant was given delta - (1 + e^epsilon) distance.
        epsilon, delta: The claim, for the noise as drawn.
    """

    kind: Literal["privacy-certificate"] = "privacy-certificate"
    neighbours: str = NEIGHBOURS
    events: tuple[Counted, ...]
    accountant: str
    numbers: dict[str, float]
    distance: float = Field(ge=0)
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)


def certificate_of(
    name: str, accountant: Accountant, plan: Plan, epsilon: float, delta: float, error: Fraction = Fraction(0)
) -> Certificate:
    """Return the certificate of a plan that, by the accountant, costs at most epsilon at :func:`delta_left`."""
    events = tuple(Counted(event=event.wire(), count=count) for event, count in plan)
    numbers = accountant.numbers(plan, max(delta_left(delta, epsilon, error), 0.0))
    distance = up(float(error)) if error else 0.0
    return Certificate(events=events, accountant=name, numbers=numbers, distance=distance, epsilon=epsilon, delta=delta)


MIN_SUPPORT = 10.0  # lower limit of kappa n: mu is spread over at least that many records
PRECISION = 1 / 256
"""Share by which people or noise may exceed the minimum if only a slow accountant shows that they are enough."""
MOST = 1 << 50  # largest sample size or number of steps that a search considers


def least_people(kappa: float) -> int:
    """Return the least number of people n with kappa n > :data:`MIN_SUPPORT`, in doubles as it is compared."""
    n = math.floor(MIN_SUPPORT / kappa)
    return n if kappa * n > MIN_SUPPORT else n + 1 if kappa * (n + 1) > MIN_SUPPORT else n + 2


def sampling_schedule(n: int, kappa: float, eta: float, rounds: int, before: int = 0) -> tuple[float, ...]:
    """Return the sampling bounds s_t >= TV(mu, mu') after t = before, ..., before + rounds - 1 reweighs, rounded up.

        s_t = min(e^{eta t} / (n - 1 + e^{eta t}), 1 / (kappa n))

    Log-weights are -eta times at most t losses in [0, 1], so any two weights have a ratio of at most e^{eta t}. The
    projection gives mu_i <= 1/(kappa n). Over records TV(mu, mu') = max(mu_i, mu'_i), if the weights that are kept
    between rounds are *unprojected* (docs/privacy.md, "The curator's draws").

    Args:
        kappa: Density, in (0, 1], with kappa n > 10.
        eta: Step of multiplicative weights, at least 0.
        before: Number of reweighs before the first of at least 1 ``rounds``.
    """
    if not 0.0 < kappa <= 1.0 or not kappa * n > MIN_SUPPORT:
        few = f"n = {n:,} people are too few, {least_people(kappa):,} would do: " if 0.0 < kappa <= 1.0 else ""
        raise BadInput(f"{few}kappa must be in (0, 1] with kappa n > {MIN_SUPPORT:g}, found {kappa} and n = {n}")
    if not 0.0 <= eta < math.inf or rounds < 1 or before < 0:
        raise BadInput(f"eta and before must be at least 0, rounds at least 1, found {eta}, {before} and {rounds}")
    cap = up(1.0 / (kappa * n))
    with np.errstate(over="ignore"):  # the result of an infinite exponent is 0
        decay = exp(-eta * np.arange(before, before + rounds, dtype=np.float64))
    # An exponent of size x errs by x units; beyond 60 the cap, at most 1/10, is in force for n below 2^50.
    unbiased = 1.0 / (1.0 + (n - 1.0) * decay) * (1.0 + 256.0 * 2.0**-52)
    return tuple(np.minimum(unbiased, cap).tolist())


def smallest_n(epsilon: float, delta: float, kappa: float, plan: Callable[[int], Plan]) -> int:
    """Return a sample size with kappa n > 10 whose plan fits: the smallest for the quick accountants, or a smaller one.

    Slow accountants are asked for an n smaller by :data:`PRECISION`, and then for smaller ones. The cost of ``plan``
    must not increase in n; the returned n fits in any case. BudgetExceeded if no n up to 2^50 fits.
    """

    def holds(n: int, *, quick: bool = False) -> bool:
        return fits(plan(n), epsilon, delta, quick=quick)

    first = least_people(kappa)
    try:
        return lesser(holds, least(partial(holds, quick=True), first, MOST), first, PRECISION)
    except LookupError:
        try:
            return least(holds, first, MOST, PRECISION)
        except LookupError:
            raise BudgetExceeded(f"no sample size up to {MOST} fits ({epsilon:g}, {delta:g})") from None
