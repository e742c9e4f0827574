"""Bisection that ends on the right side: what it returns was itself checked, never only concluded from neighbours.

So where a condition is monotone in theory, and in floating point almost, a search errs by the width that it was given,
towards the side that holds.
"""

import math
from collections.abc import Callable


def between(good: float, bad: float, holds: Callable[[float], bool], width: float) -> float:
    """Return a value that holds, near one that does not: ``good``, or one at which ``holds`` returned True.

    Args:
        good, bad: At least 0; the condition holds at the first and not at the second, the greater or the smaller.
        width: How far apart they may be at the end, as a share of the greater of them.
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
    """Return a value with an excess of at most 0 near one with more, in few steps where the excess is smooth.

    The straight line through both ends says where to look next (the Illinois method: an end that stays twice is given
    half its excess), and now and then the middle. Arguments and result are as for :func:`between`.
    """
    below, above = excess(good), excess(bad)
    stayed, steps = "", 0
    while abs(bad - good) > width * max(good, bad):
        steps += 1  # each third step halves, however bent the excess is
        share = below / (below - above) if below < above and steps % 3 else 0.5
        place = good + (bad - good) * min(max(share, 0.01), 0.99)
        found = excess(place)
        if found <= 0.0:
            good, below = place, found
            above *= 0.5 if stayed == "bad" else 1.0
            stayed = "bad"
        else:
            bad, above = place, found
            below *= 0.5 if stayed == "good" else 1.0
            stayed = "good"
    return good


def largest(holds: Callable[[float], bool], first: float, width: float, limit: float = math.inf) -> float:
    """Return the largest value that holds, to within ``width`` of it; 0 where none does.

    Args:
        holds: True up to some value, and false beyond it.
        first: Where the search begins, positive; it doubles this as long as it holds.
        limit: Values from here on are not tried.
    """
    good, bad = 0.0, first
    while bad < limit and holds(bad):
        good, bad = bad, 2.0 * bad
    return between(good, bad, holds, width)


def least(holds: Callable[[int], bool], first: int = 0, most: float = math.inf, share: float = 0.0) -> int:
    """Return the least integer from ``first`` >= 0 on that holds; whatever is greater must hold, too.

    Args:
        share: The search may end on an integer that holds and is greater by this share of itself.

    Raises:
        LookupError: If none does among those tried up to ``most``.
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
    """Return an integer from ``first`` on that holds, at most ``good``, which does: for tests that take long.

    Each place that is tried is less than the one before by twice its share, by half at the most; the first that does
    not hold ends the search.
    """
    step = share
    while good > first:
        bad = max(first, min(good - 1, math.floor(good * (1.0 - step))))
        if not holds(bad):
            return narrowed(holds, bad, good, share)
        good, step = bad, min(2.0 * step, 0.5)
    return good


def narrowed(holds: Callable[[int], bool], bad: int, good: int, share: float) -> int:
    """Return an integer that holds, of which one less by a share of it, or by 1, does not."""
    while good - bad > max(1.0, share * good):
        middle = (bad + good) // 2
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good
