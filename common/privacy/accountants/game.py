"""Accountant of adaptively chosen neighbours: steps of one kind, priced by the value of a game; it takes seconds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from common.numerics.bisection import between
from common.privacy.accountants.base import ACCOUNTANTS, Accountant, BudgetFilter, Plan
from common.privacy.accountants.gaussian import ComparisonAccountant
from common.privacy.accountants.renyi import RenyiAccountant
from common.privacy.events import Event, NoEvent, SubsampledSteps
from common.privacy.profiles import leading, profile_of
from common.privacy.rounding import MAX_EPSILON
from common.privacy.theorems.games import Game, GameValue, Move, knots, move
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.loss_grids import reach
from common.privacy.theorems.profiles import step_profile
from common.privacy.theorems.triples import cover, triple_profiles

EXCESS = 0.02
"""By this share the chi-squared of a move may exceed the greatest of all triples."""

WIDTH = 0.2
"""Width of the grid, in standard deviations of one step's loss."""

CUT = 1e-3
"""Share of delta for losses beyond the grid."""

LEADERS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15)
"""By these shares, beside :data:`EXCESS`, the squares of leaders' distances exceed the greatest."""

ABOVE = 1.15
"""The game aims at that much more than a pad shows, which is nearly right: leaders are found sooner from above."""

MOST_POINTS = 100_000
"""Longest grid that is worth its time."""


@ACCOUNTANTS.register("game")
class GameAccountant(Accountant):
    """Plays the game of :mod:`common.privacy.theorems.games` on a cover of all triples of Gaussians in the ball.

    The filter counts steps, each of at most the plan's tv_bound and ratio: a step with smaller ones, (1-s')A + s'B, is
    (1-s)A + s B' with B' a mixture of A and B, so that it is a mixture of laws of the game. Which steps are taken is
    the adversary's choice, and to take fewer is no better, since T f >= f for convex f.
    """

    quick = False
    patient = True

    def covers(self, event: Event) -> bool:
        return isinstance(event, SubsampledSteps | NoEvent)

    def worth(self, plan: Plan, delta: float, epsilon: float) -> bool:
        kind = _kind(plan)
        if kind is None or delta <= 0.0:
            return False
        square = (1.0 + EXCESS + WIDTH**2 / 6.0) * sum(count * leading(event) for event, count in plan)
        return math.isfinite(square) and 0.0 < square < 100.0 and epsilon_of(math.sqrt(square), delta) < epsilon

    def epsilon(self, plan: Plan, delta: float) -> float:
        if all(isinstance(event, NoEvent) for event, _ in plan):
            return 0.0
        kind = _kind(plan)
        if kind is None or delta <= 0.0:
            return math.inf
        return _epsilon(kind.tv_bound, kind.ratio, _steps(plan), delta)

    def numbers(self, plan: Plan, delta: float) -> dict[str, float]:
        kind = _kind(plan)
        return {} if kind is None else {"width": _width(kind.tv_bound, kind.ratio)}

    def budget_filter(self, plan: Plan, epsilon: float, delta: float) -> BudgetFilter:
        kind = _kind(plan)
        cap = Fraction(_steps(plan) if kind is not None and self.epsilon(plan, delta) <= epsilon else 0)

        def amount(event: Event) -> Fraction | None:
            if isinstance(event, NoEvent):
                return Fraction(0)
            if kind is None or not isinstance(event, SubsampledSteps):
                return None
            dominated = event.tv_bound <= kind.tv_bound and event.ratio <= kind.ratio
            return Fraction(event.count) if dominated else None

        return BudgetFilter("steps of the plan", cap, amount)


def _kind(plan: Plan) -> SubsampledSteps | None:
    events = [event for event, _ in plan if not isinstance(event, NoEvent)]
    steps = [event for event in events if isinstance(event, SubsampledSteps)]
    one = len(steps) == len(events) and len({(event.tv_bound, event.ratio) for event in steps}) == 1
    return steps[0] if one else None


def _steps(plan: Plan) -> int:
    return sum(event.count * count for event, count in plan if isinstance(event, SubsampledSteps))


def _width(tv_bound: float, ratio: float) -> float:
    return WIDTH * tv_bound * math.sqrt(math.expm1(ratio * ratio))


@lru_cache(maxsize=8)
def _epsilon(tv_bound: float, ratio: float, steps: int, delta: float) -> float:
    plan = [(SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio), 1)]
    by_order, by_pad = (kind().epsilon(plan, delta) for kind in (RenyiAccountant, ComparisonAccountant))
    shown, aim = min(by_order, by_pad), min(by_order, ABOVE * by_pad)
    found = value_of_game(tv_bound, ratio, steps, delta, aim) if 0.0 < shown < MAX_EPSILON else None
    if found is None or found.delta(shown) > delta:
        return shown
    return 0.0 if found.delta(0.0) <= delta else between(shown, 0.0, lambda e: found.delta(e) <= delta, 1e-7)


def value_of_game(tv_bound: float, ratio: float, steps: int, delta: float, aim: float) -> GameValue | None:
    """Return the value of the game of so many steps, good near an epsilon; None where it would take too long.

    Args:
        tv_bound, ratio: s in (0, 1] and u > 0.
        steps: At least 1.
        delta: In (0, 1).
        aim: About the epsilon that is expected, from above; positive.
    """
    square, width = ratio * ratio, _width(tv_bound, ratio)
    grams = cover(ratio, EXCESS)
    leaders = [(1.0 + EXCESS + share, 1e-9, 0.0) for share in LEADERS]
    longest = max(max(gram[:2]) for gram in (*grams, *leaders))
    far = math.ceil(reach(step_profile(tv_bound, ratio * math.sqrt(longest)), CUT * delta / steps) / width)
    if 2.2 * aim / width + 4.0 * far > MOST_POINTS:
        return None
    places = knots(far)
    pairs = [triple_profiles(tv_bound, (square * x, square * y, square * z)) for x, y, z in (*grams, *leaders)]
    envelope = profile_of(SubsampledSteps(count=1, tv_bound=tv_bound, ratio=ratio))
    made = [move(pair, places, width) for pair in (*pairs, (envelope, envelope))]
    found: list[Move] = [each for each in made if each is not None]
    if len(found) < len(made):
        return None
    game = Game(found[: len(grams)], found[len(grams) :], width, (-0.6 * aim, 1.6 * aim))
    return game.value(steps, aim, delta)
