"""Bisection with a verified result: the condition was evaluated at the returned value, not inferred from neighbours.

So if a condition is monotone in theory, and only nearly so in floating point, the error of a search is the given width,
towards the side where the condition holds.
"""

import math
from collections.abc import Callable


def between(good: float, bad: float, holds: Callable[[float], bool], width: float) -> float:
    """Return a value at which the condition holds, near one at which it does not: ``good``, or one that was tried.

    Args:
        good, bad: At least 0, in either order; the condition holds at the first and not at the second.
        width: The most that they may differ at the end, as a share of the greater one.
    """
    while abs(bad - good) > width * max(good, bad):
        middle = 0.5 * (good + bad)
        if middle in (good, bad):  # neighbouring doubles
            break
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def crossing(good: float, bad: float, excess: Callable[[float], float], width: float) -> float:
    """Return a value with an excess of at most 0 near one with a positive excess, in few steps if it is smooth.

    The next value is where the straight line through both ends is 0 (the Illinois method: the excess of an end that is
    kept twice is halved), and each third time the middle. Arguments and result are as for :func:`between`.
    """
    below, above = excess(good), excess(bad)
    stayed, steps = "", 0
    while abs(bad - good) > width * max(good, bad):
        steps += 1  # each third step bisects, for any shape of the excess
        share = below / (below - above) if below < above and steps % 3 else 0.5
        place = good + (bad - good) * min(max(share, 0.01), 0.99)
        value = excess(place)
        if value <= 0.0:
            good, below = place, value
            above *= 0.5 if stayed == "bad" else 1.0
            stayed = "bad"
        else:
            bad, above = place, value
            below *= 0.5 if stayed == "good" else 1.0
            stayed = "good"
    return good


def largest(holds: Callable[[float], bool], first: float, width: float, limit: float = math.inf) -> float:
    """Return the largest value at which a condition holds, up to a relative ``width``; 0 if there is none.

    Args:
        holds: The condition: true up to some value, and false beyond it.
        first: The first value to try, positive; it is doubled as long as the condition holds.
        limit: Values from this one on are not tried.
    """
    good, bad = 0.0, first
    while bad < limit and holds(bad):
        good, bad = bad, 2.0 * bad
    return between(good, bad, holds, width)


def least(holds: Callable[[int], bool], first: int = 0, most: float = math.inf, share: float = 0.0) -> int:
    """Return the least integer from ``first`` >= 0 on at which a condition holds, which must hold at all greater ones.

    Args:
        share: The result may be too large by this share of itself.

    Raises:
        LookupError: If the condition holds at none of the integers tried up to ``most``.
    """
    if holds(first):
        return first
    bad, good = first, max(1, 2 * first)
    while good <= most and not holds(good):
        bad, good = good, 2 * good
    if good > most:
        raise LookupError(f"nothing up to {most} holds")
    return narrowed(holds, bad, good, share)


def lesser(holds: Callable[[int], bool], good: int, first: int, share: float) -> int:
    """Return an integer from ``first`` to ``good`` at which a condition holds, as at ``good``; for slow conditions.

    Each integer that is tried is less than the previous one by a share, which doubles each time, up to a half. The
    first at which the condition does not hold ends this descent.
    """
    step = share
    while good > first:
        bad = max(first, min(good - 1, math.floor(good * (1.0 - step))))
        if not holds(bad):
            return narrowed(holds, bad, good, share)
        good, step = bad, min(2.0 * step, 0.5)
    return good


def narrowed(holds: Callable[[int], bool], bad: int, good: int, share: float) -> int:
    """Return an integer at which a condition holds, while it does not at one less by a share of it, or by 1."""
    while good - bad > max(1.0, share * good):
        middle = (bad + good) // 2
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good
