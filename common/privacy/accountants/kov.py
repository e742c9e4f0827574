"""Accountant of (epsilon, delta)-DP learners on draws from mu, by the optimal composition theorem."""

from __future__ import annotations

from fractions import Fraction

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.events import Event, NoEvent, Release, SubsampledRelease
from common.privacy.theorems.composition import composed_epsilon, subsampled


@ACCOUNTANTS.register("kov")
class OptimalCompositionAccountant(Accountant):
    """The optimal k-fold composition of releases that are (eps*, delta*)-DP by the subsampling lemma.

    Kairouz, Oh and Viswanath (2015), Theorem 3.3; :func:`common.privacy.theorems.composition.subsampled`.

    Exact for releases of one price: no smaller epsilon holds for all mechanisms with that guarantee. Where prices
    differ, every release is counted as the dearest one planned, which is too much (``basic`` adds them up). The filter
    fixes both before the first event: the number of releases and the most that each may cost.
    """

    def covers(self, event: Event) -> bool:
        """Tell whether it is a release or nothing."""
        return isinstance(event, SubsampledRelease | Release | NoEvent)

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return the least epsilon of the counted number of releases, each as dear as the dearest."""
        count, star, star_delta = _dearest(plan)
        return composed_epsilon(count, star, star_delta, delta) if count else 0.0

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        """Allow as many releases as planned, each at most as dear as the dearest planned."""
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
