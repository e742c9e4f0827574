"""Accountants for releases, by their epsilons and deltas, and for all events with a Renyi divergence."""

import math
from fractions import Fraction
from functools import cache, lru_cache

from common.privacy.accountants import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Plan, released, total_of
from common.privacy.events import Event, Gaussian, PrivateSelection, Release, SubsampledRelease, SubsampledSteps
from common.privacy.rounding import above, up
from common.privacy.theorems.composition import composed_epsilon, subsampled
from common.privacy.theorems.renyi import ORDERS, epsilon_at, pure_rdp, rho_allowed, step_rdp
from common.privacy.theorems.selection import epsilon_of_selection, order_of_selection, selection_rdp


@ACCOUNTANTS.register("basic")
class BasicAccountant(Accountant):
    """Adds up the epsilons and the deltas of releases.

    **Theorem** (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006, Theorem 1; as a filter Rogers, Roth, Ullman and
    Vadhan 2016, Theorem 3.6). Releases that are (eps_i, delta_i)-DP, each chosen with its eps_i and delta_i after all
    earlier ones, are (epsilon, delta)-DP together if always sum eps_i <= epsilon and sum delta_i <= delta.

    *Proof.* By induction over the releases. Take an event E; write E_y for E given that the output of the first
    release, which is (eps_1, delta_1)-DP, is y. The rest has epsilon - eps_1 and delta - delta_1 left, so P(E_y) <=
    c(y) + delta - delta_1 with c(y) = min(1, e^{epsilon - eps_1} Q(E_y)). As c lies in [0, 1], its mean under P's first
    release is at most e^{eps_1} times that under Q's, plus delta_1. Together P(E) <= e^epsilon Q(E) + delta. The proof
    uses only the two sums, so the filter admits any releases up to the caps. It is exact for pure releases, delta = 0.
    """

    kinds = (SubsampledRelease, Release)

    def epsilon(self, plan: Plan, delta: float) -> float:
        releases = [(cost_of(event), count) for event, count in plan if isinstance(event, SubsampledRelease | Release)]
        if not all(math.isfinite(epsilon) for (epsilon, _), _ in releases):
            return math.inf
        total, failing = (sum((count * Fraction(cost[i]) for cost, count in releases), Fraction(0)) for i in (0, 1))
        return above(total) if failing <= Fraction(delta) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        def price(event: Event) -> Amount | None:
            if not isinstance(event, SubsampledRelease | Release):
                return None
            each, failing = cost_of(event)
            return (Fraction(each), Fraction(failing)) if math.isfinite(each) and failing <= delta else None

        cap = (Fraction(epsilon), Fraction(delta)) if released(plan) else (Fraction(0), Fraction(0))
        return BudgetFilter("epsilon and delta of releases, each added up", cap, price)


@ACCOUNTANTS.register("kov")
class OptimalCompositionAccountant(Accountant):
    """The optimal k-fold composition of releases that are (eps*, delta*)-DP by the subsampling lemma.

    Kairouz, Oh and Viswanath (2015), Theorem 3.3; :func:`common.privacy.theorems.composition.subsampled`. Exact for
    releases of one price; if prices differ, every release is counted as the costliest one planned. The filter fixes the
    number of releases and the greatest cost of each before the first event.
    """

    kinds = (SubsampledRelease, Release)

    def epsilon(self, plan: Plan, delta: float) -> float:
        count, star, star_delta = _costliest(plan)
        return composed_epsilon(count, star, star_delta, delta) if count else 0.0

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        count, star, star_delta = _costliest(plan)
        private = count > 0 and composed_epsilon(count, star, star_delta, delta) <= epsilon

        def price(event: Event) -> Fraction | None:
            if not isinstance(event, SubsampledRelease | Release):
                return None
            each, each_delta = cost_of(event)
            return Fraction(1) if each <= star and each_delta <= star_delta else None

        return self.summed(f"releases of ({star:.3g}, {star_delta:.3g}) each", Fraction(count if private else 0), price)


def cost_of(event: SubsampledRelease | Release) -> tuple[float, float]:
    """Return the (epsilon, delta) of one release, on the sample or on draws from mu, rounded up."""
    if isinstance(event, Release):
        return event.epsilon, event.delta
    return subsampled(event.draws, event.tv_bound, event.epsilon, event.delta)


def _costliest(plan: Plan) -> tuple[int, float, float]:
    releases = [(event, count) for event, count in plan if isinstance(event, SubsampledRelease | Release)]
    costs = [cost_of(event) for event, _ in releases]
    count = sum(count for _, count in releases)
    return count, max((c[0] for c in costs), default=0.0), max((c[1] for c in costs), default=0.0)


@ACCOUNTANTS.register("none")
class NoAccountant(Accountant):
    """Gives no guarantee: every release costs infinity; only :class:`NoEvent` is free."""

    kinds = (Event,)

    def epsilon(self, plan: Plan, delta: float) -> float:
        return math.inf if released(plan) else 0.0

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        free = () if math.isinf(epsilon) else None
        return BudgetFilter("releases without a guarantee", (), lambda event: free)


@ACCOUNTANTS.register("rdp")
class RenyiAccountant(Accountant):
    """Adds Renyi divergences (Mironov 2017) and converts the sum once (Canonne et al. 2020, Proposition 12).

    The filter counts at *one* order, chosen from the plan before the first event, so it is sound for adaptively chosen
    events (Feldman and Zrnic 2021; Lecuyer 2021). A filter that admits an event while *some* order has budget is not.
    """

    kinds = (SubsampledSteps, Gaussian, PrivateSelection, SubsampledRelease, Release)
    pure = True

    def epsilon(self, plan: Plan, delta: float) -> float:
        return _best_order(tuple(plan), delta)[1]

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        return {"order": float(_best_order(tuple(plan), delta)[0])}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        order, planned_epsilon = _best_order(tuple(plan), delta)
        allowed = rho_allowed(order, epsilon, delta)
        unit, fits = f"Renyi divergence of order {order}", plan if planned_epsilon <= epsilon else None
        cap = Fraction(allowed) if math.isfinite(allowed) and allowed > 0.0 else Fraction(0)
        return self.summed(unit, cap, lambda event: _divergence(event, order), fits)


@lru_cache(maxsize=1 << 8)  # a budget asks for the cost, then for the order, then for the filter of one plan
def _best_order(plan: tuple[tuple[Event, int], ...], delta: float) -> tuple[int, float]:
    """Return the best order and its epsilon by a coarse scan, then a fine one; every order is valid."""

    @cache
    def cost_at(place: int) -> float:
        total = total_of(plan, lambda event: _divergence(event, ORDERS[place]))
        if total is None:
            return math.inf
        return 0.0 if total == 0 else epsilon_at(ORDERS[place], up(float(total)), delta)

    best, stride = 0, 8
    for place in range(0, len(ORDERS), stride):
        if cost_at(place) < cost_at(best):
            best = place
        elif place > best + 2 * stride and math.isfinite(cost_at(best)):
            break
    while stride > 1:
        stride //= 2
        near = [place for place in (best - stride, best, best + stride) if 0 <= place < len(ORDERS)]
        best = min(near, key=cost_at)
    return ORDERS[best], cost_at(best)


def _divergence(event: Event, order: int) -> Fraction | None:
    """Return an upper bound on the event's divergence; None if it is infinite."""
    rho, count = 0.0, 1
    if isinstance(event, SubsampledSteps):
        rho, count = step_rdp(order, event.tv_bound, event.ratio), event.count
    elif isinstance(event, SubsampledRelease | Release):
        star, _ = cost_of(event)
        rho = pure_rdp(order, star) if math.isfinite(star) else math.inf
    elif isinstance(event, Gaussian):
        rho, count = up(0.5 * order * event.mu * event.mu), event.count
    elif isinstance(event, PrivateSelection):
        rho = selection_rdp(order, event.mu, event.law)
    return count * Fraction(rho) if math.isfinite(rho) else None


@ACCOUNTANTS.register("selection")
class SelectionAccountant(Accountant):
    """The direct bound for one choice, :func:`common.privacy.theorems.selection.epsilon_of_selection`.

    The Renyi accountant covers several choices, or a choice beside other releases. The filter admits one choice, with
    the planned law and at most the planned mu.
    """

    kinds = (PrivateSelection,)

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

        def price(event: Event) -> Fraction | None:
            if not isinstance(event, PrivateSelection) or not choices:
                return None
            return Fraction(1) if event.law == choices[0].law and event.mu <= choices[0].mu else None

        return self.summed("choices", Fraction(1 if private else 0), price)


def _choices(plan: Plan) -> list[PrivateSelection]:
    return [event for event, count in plan for _ in range(min(count, 2)) if isinstance(event, PrivateSelection)][:2]
