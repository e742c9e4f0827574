"""Accountant of (epsilon, delta)-DP releases by basic composition: epsilons add up, and so do deltas."""

from __future__ import annotations

import math
from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, Amount, BudgetFilter, Counts, Plan
from common.privacy.accountants.kov import cost_of
from common.privacy.events import Event, NoEvent, Release, SubsampledRelease


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
        """Tell whether it is a release or nothing."""
        return isinstance(event, SubsampledRelease | Release | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the sum of all epsilons, rounded up; infinite if the deltas add up to more than ``delta``."""
        releases = [(cost_of(event), count) for event, count in plan if isinstance(event, SubsampledRelease | Release)]
        if not all(math.isfinite(epsilon) for (epsilon, _), _ in releases):
            return math.inf
        total, failing = (sum((count * Fraction(cost[i]) for cost, count in releases), Fraction(0)) for i in (0, 1))
        return _above(total) if failing <= Fraction(delta) else math.inf

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Allow any releases whose epsilons and deltas add up to no more than these; none where none is planned."""
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
    """Return the least double that is no less."""
    try:
        nearest = float(total)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)
