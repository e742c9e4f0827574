"""Accountant of privacy loss distributions: dominating pairs, composed with proven errors."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Counts, Plan
from common.privacy.events import Event, Gaussian, NoEvent, Release, SubsampledRelease, SubsampledSteps
from common.privacy.profiles import limit, profile_of
from common.privacy.rounding import up
from common.privacy.theorems.fourier import Composed, compose_profiles

MAX_KINDS = 8
"""Most kinds of events that are composed: more are merged, each into the next dearer one of its kind."""


@ACCOUNTANTS.register("pld")
class LossDistributionAccountant(Accountant):
    """Composes upper envelopes of profiles on a grid: theorems ``profiles``, ``loss_grids`` and ``tilting``.

    Dominating pairs compose: if each event's laws, given all that was released before, are dominated by a pair, so is
    the whole by the product of the pairs (Zhu, Dong and Wang 2022, Theorem 10).

    The filter counts by kinds that the plan fixes. An event takes one place of the cheapest kind that dominates it,
    and passes only while there is one. Proof: given the places that are left, an adversary that stops has at most the
    profile of nothing, below that of any pair; one that goes on releases something dominated by the pair whose place
    it takes, after which the rest is at most the product of the places left, by induction. Products do not depend on
    the order. So all admitted events together are dominated by the product of the plan's pairs, however adaptively
    they were chosen. Gaussian releases are one kind, counted by mu^2, as they compose to one.
    """

    quick = False

    def covers(self, event: Event) -> bool:
        return isinstance(event, SubsampledSteps | Gaussian | SubsampledRelease | Release | NoEvent)

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        kinds = _kinds(plan)
        if len(kinds) == 1 and not isinstance(kinds[0][0], SubsampledSteps):
            return False  # the other accountants are exact
        return limit(plan, delta) < epsilon

    def epsilon(self, plan: Plan, delta: float) -> float:
        kinds = _kinds(plan)
        if not kinds:
            return 0.0
        return _composed_epsilon(tuple(kinds), delta) if delta > 0.0 else math.inf

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        found = composed(plan, delta) if delta > 0.0 else None
        if found is None:
            return {}
        width = float(found.losses[1] - found.losses[0])
        return {"width": width, "tilt": found.tilt, "points": float(len(found.losses)), "beyond": found.beyond}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        kinds = _kinds(plan)
        if not kinds:
            return BudgetFilter(
                "places of the plan", Fraction(0), lambda event: Fraction(0) if isinstance(event, NoEvent) else None
            )
        private = self.epsilon(plan, delta) <= epsilon
        none = Counts((Fraction(0),) * len(kinds))
        cap = Counts(tuple(amount if private else Fraction(0) for _, amount in kinds))

        def amount(event: Event) -> Counts | None:
            if isinstance(event, NoEvent):
                return none
            place = next((i for i, (kind, _) in enumerate(kinds) if _dominates(kind, event)), None)
            if place is None:
                return None
            taken = _amount(event)
            return Counts(tuple(taken if i == place else Fraction(0) for i in range(len(kinds))))

        return BudgetFilter("places of the plan", cap, amount)


def composed(plan: Plan, delta: float) -> Composed | None:
    """Return the composition of a plan, tuned to a delta > 0; None where its grid would be too long."""
    return _compose(tuple(_kinds(plan)), delta) if plan else None


@lru_cache(maxsize=64)
def _composed_epsilon(kinds: tuple[tuple[Event, Fraction], ...], delta: float) -> float:
    found = _compose(kinds, delta)
    return found.epsilon(delta) if found is not None else math.inf


@lru_cache(maxsize=2)
def _compose(kinds: tuple[tuple[Event, Fraction], ...], delta: float) -> Composed | None:
    parts = [
        (profile_of(_single(kind, amount)), 1 if isinstance(kind, Gaussian) else int(amount)) for kind, amount in kinds
    ]
    return compose_profiles(parts, delta)


def _kinds(plan: Plan) -> list[tuple[Event, Fraction]]:
    """Return kinds with amounts, cheaper ones before those that dominate them; all Gaussian releases are one kind."""
    amounts: dict[Event, Fraction] = {}
    for event, count in plan:
        if not isinstance(event, NoEvent):
            kind = _kind(event)
            amounts[kind] = amounts.get(kind, Fraction(0)) + count * _amount(event)
    ordered = sorted(amounts.items(), key=lambda item: _order(item[0]))
    return _merged(ordered)


def _merged(kinds: list[tuple[Event, Fraction]]) -> list[tuple[Event, Fraction]]:
    """Merge kinds into dearer ones with nearly their tv_bound, until few are left or none can be merged."""
    spread = 0.01
    while len(kinds) > MAX_KINDS and spread < 100.0:
        kept: list[tuple[Event, Fraction]] = []
        for kind, amount in reversed(kinds):
            if kept and _dominates(kept[-1][0], kind) and _gap(kind, kept[-1][0]) <= spread:
                kept[-1] = (kept[-1][0], kept[-1][1] + amount)
            else:
                kept.append((kind, amount))
        kinds, spread = kept[::-1], 1.5 * spread
    return kinds


def _gap(cheap: Event, dear: Event) -> float:
    return math.log(getattr(dear, "tv_bound", 1.0) / getattr(cheap, "tv_bound", 1.0))


def _kind(event: Event) -> Event:
    if isinstance(event, SubsampledSteps):
        return event.model_copy(update={"count": 1})
    return Gaussian(mu=1.0) if isinstance(event, Gaussian) else event


def _amount(event: Event) -> Fraction:
    if isinstance(event, Gaussian):
        return event.count * Fraction(event.mu) ** 2
    return Fraction(event.count if isinstance(event, SubsampledSteps) else 1)


def _single(kind: Event, amount: Fraction) -> Event:
    return Gaussian(mu=up(math.sqrt(amount))) if isinstance(kind, Gaussian) else kind


def _order(kind: Event) -> tuple[str, tuple[float, ...]]:
    if isinstance(kind, SubsampledSteps):
        return kind.kind, (kind.ratio, kind.tv_bound)
    if isinstance(kind, SubsampledRelease):
        return kind.kind, (kind.draws, kind.epsilon, kind.delta, kind.tv_bound)
    return kind.kind, (kind.epsilon, kind.delta) if isinstance(kind, Release) else ()


def _dominates(kind: Event, event: Event) -> bool:
    """Tell whether each event of a kind is at least as dear at every level, by its declared numbers alone."""
    if isinstance(kind, SubsampledSteps) and isinstance(event, SubsampledSteps):
        return event.tv_bound <= kind.tv_bound and event.ratio <= kind.ratio
    if isinstance(kind, SubsampledRelease) and isinstance(event, SubsampledRelease):
        pairs = ((event.draws, kind.draws), (event.tv_bound, kind.tv_bound))
        return all(a <= b for a, b in (*pairs, (event.epsilon, kind.epsilon), (event.delta, kind.delta)))
    if isinstance(kind, Release) and isinstance(event, Release):
        return event.epsilon <= kind.epsilon and event.delta <= kind.delta
    return isinstance(kind, Gaussian) and isinstance(event, Gaussian)
