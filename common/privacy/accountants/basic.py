"""Accountants of (epsilon, delta)-DP releases: basic composition, optimal composition; runs without privacy."""

from __future__ import annotations

import math
from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Counts, Plan
from common.privacy.events import Event, NoEvent, Release, SubsampledRelease
from common.privacy.theorems.composition import composed_epsilon, subsampled


@ACCOUNTANTS.register("basic")
class BasicAccountant(Accountant):
    """Adds up the epsilons and the deltas of releases.

    **Theorem** (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006, Theorem 1; as a filter Rogers, Roth, Ullman and
    Vadhan 2016, Theorem 3.6). Releases that are (eps_i, delta_i)-DP, each chosen after all before with eps_i and
    delta_i of its own, are (epsilon, delta)-DP together if always sum eps_i <= epsilon and sum delta_i <= delta.

    *Proof.* By induction over the releases. Take an event E; write E_y for it given that the first release, which is
    (eps_1, delta_1)-DP, put out y. What follows has epsilon - eps_1 and delta - delta_1 left, so P(E_y) <= c(y) +
    delta - delta_1 with c(y) = min(1, e^{epsilon - eps_1} Q(E_y)). As c lies in [0, 1], its mean under P's first
    release is at most e^{eps_1} times that under Q's, and delta_1. Together P(E) <= e^epsilon Q(E) + delta. Nothing
    but the two sums is used, so the filter takes any releases up to the caps.

    It is exact for pure releases at delta = 0: randomized responses reach the sum. ``kov`` counts each release as the
    dearest, and is exact where they are equal; so this one is for few that differ. Sums are exact rationals, so that
    neither the order nor the grouping of events matters.
    """

    def covers(self, event: Event) -> bool:
        return isinstance(event, SubsampledRelease | Release | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        releases = [(cost_of(event), count) for event, count in plan if isinstance(event, SubsampledRelease | Release)]
        if not all(math.isfinite(epsilon) for (epsilon, _), _ in releases):
            return math.inf
        total, failing = (sum((count * Fraction(cost[i]) for cost, count in releases), Fraction(0)) for i in (0, 1))
        return _above(total) if failing <= Fraction(delta) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        pure, some = delta == 0.0, any(not isinstance(event, NoEvent) for event, _ in plan)
        caps = Fraction(epsilon) if some else Fraction(0), Fraction(delta) if some else Fraction(0)

        def amount(event: Event) -> Amount | None:
            if not isinstance(event, SubsampledRelease | Release):
                return Fraction(0) if isinstance(event, NoEvent) else None
            each, failing = cost_of(event)
            if not math.isfinite(each) or (pure and failing > 0.0):
                return None
            return Fraction(each) if pure else Counts((Fraction(each), Fraction(failing)))

        unit = "epsilon of releases, added up" if pure else "epsilon and delta of releases, each added up"
        return BudgetFilter(unit, caps[0] if pure else Counts(caps), amount)


def _above(total: Fraction) -> float:
    try:
        nearest = float(total)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)


@ACCOUNTANTS.register("kov")
class OptimalCompositionAccountant(Accountant):
    """The optimal k-fold composition of releases that are (eps*, delta*)-DP by the subsampling lemma.

    Kairouz, Oh and Viswanath (2015), Theorem 3.3; :func:`common.privacy.theorems.composition.subsampled`.

    Exact for releases of one price: no smaller epsilon holds for all mechanisms with that guarantee. Where prices
    differ, every release is counted as the dearest one planned, which is too much (``basic`` adds them up). The filter
    fixes both before the first event: the number of releases and the most that each may cost.
    """

    def covers(self, event: Event) -> bool:
        return isinstance(event, SubsampledRelease | Release | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        count, star, star_delta = _dearest(plan)
        return composed_epsilon(count, star, star_delta, delta) if count else 0.0

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        count, star, star_delta = _dearest(plan)
        private = count > 0 and composed_epsilon(count, star, star_delta, delta) <= epsilon

        def amount(event: Event) -> Fraction | None:
            if isinstance(event, SubsampledRelease | Release):
                each, each_delta = cost_of(event)
                return Fraction(1) if each <= star and each_delta <= star_delta else None
            return Fraction(0) if isinstance(event, NoEvent) else None

        unit = f"releases of ({star:.3g}, {star_delta:.3g}) each"
        return BudgetFilter(unit, Fraction(count if private else 0), amount)


def cost_of(event: SubsampledRelease | Release) -> tuple[float, float]:
    """Return the (epsilon, delta) of one release, on the sample or on draws from mu, rounded up."""
    if isinstance(event, Release):
        return event.epsilon, event.delta
    return subsampled(event.draws, event.tv_bound, event.epsilon, event.delta)


def _dearest(plan: Plan) -> tuple[int, float, float]:
    releases = [(event, count) for event, count in plan if isinstance(event, SubsampledRelease | Release)]
    costs = [cost_of(event) for event, _ in releases]
    count = sum(count for _, count in releases)
    return count, max((c[0] for c in costs), default=0.0), max((c[1] for c in costs), default=0.0)


@ACCOUNTANTS.register("none")
class NoAccountant(Accountant):
    """Claims nothing: every release costs infinity, only no event is free."""

    def covers(self, event: Event) -> bool:
        return True

    def epsilon(self, plan: Plan, delta: float) -> float:
        return 0.0 if all(isinstance(event, NoEvent) for event, _ in plan) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        def amount(event: Event) -> Fraction | None:
            return Fraction(0) if isinstance(event, NoEvent) or math.isinf(epsilon) else None

        return BudgetFilter("releases without a guarantee", Fraction(0), amount)
