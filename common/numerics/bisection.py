"""Bisection that ends on the right side: what it returns was itself checked, never only concluded from neighbours.

So where a condition is monotone in theory, and in floating point almost, a search errs by the width that it was given,
towards the side that holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_FAR, _LEVEL, _TRIES = 50.0, 1e-14, 30
"""Of a guess: the logarithm of what is no number, how near to the level is enough, and how often it is improved."""


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


def least_near(holds: Callable[[int], bool], guess: int, first: int = 0, most: float = math.inf) -> int:
    """Return what :func:`least` returns, in two questions where the guess is right, and a few more near it."""
    step = 1
    if not holds(guess):
        bad, good = guess, guess + 1
        while good <= most and not holds(good):
            step *= 2
            bad, good = good, good + step
        if good > most:
            raise LookupError(f"nothing up to {most} holds")
        return narrowed(holds, bad, good, 0.0)
    good = guess
    while good > first:
        bad = max(first, good - step)
        if not holds(bad):
            return narrowed(holds, bad, good, 0.0)
        good, step = bad, 2 * step
    return good


def guessed_least(value: Callable[[int], float], level: float, first: int, most: int) -> int:
    """Guess the least integer from ``first`` >= 1 on at which a falling function is at most ``level`` > 0.

    The function is taken for a power of its argument between two points that enclose the place: regula falsi in
    logarithms, with the rule of Anderson and Bjorck that keeps both ends moving. Nothing is promised: what is found is
    a place for :func:`least_near` to begin at.
    """

    def height(place: int) -> float:
        found = value(place)
        return math.log(found / level) if 0.0 < found < math.inf else math.copysign(_FAR, found - level)

    low, above = first, height(first)
    if above <= 0.0:
        return first
    high, below = low, above
    while below > 0.0 and high < most:
        low, above = high, below
        high = min(most, max(2 * low, math.ceil(low * math.exp(min(1.1 * above, 8.0))) if above < _FAR else 16 * low))
        below = height(high)
    for _ in range(_TRIES):
        if below > 0.0 or high - low <= 1:
            break
        share = above / (above - below)
        middle = round(math.exp((1.0 - share) * math.log(low) + share * math.log(high)))
        middle = min(max(middle, low + 1), high - 1)
        found = height(middle)
        if found > 0.0:
            low, above, below = middle, found, below * _fading(found, above)
        else:
            high, below, above = middle, found, above * _fading(found, below)
        if abs(found) < _LEVEL:
            return middle
    return high


def _fading(found: float, before: float) -> float:
    share = 1.0 - found / before
    return share if share > 0.0 else 0.5


def lesser(holds: Callable[[int], bool], good: int, first: int, share: float) -> int:
    """Return an integer that holds, at most ``good``, which does: for tests that take long and gain little.

    The first one tried is less by a share; if it does not hold, the search is over. From there on each place is less
    than the one before by twice its share, by half at the most. Where one holds, those between are taken to: twice as
    many are passed over each time, and the first that does not hold lies between the last two that were tried.
    """
    places, step = [good], share
    while places[-1] > first:
        places.append(max(first, min(places[-1] - 1, math.floor(places[-1] * (1.0 - step)))))
        step = min(2.0 * step, 0.5)
    held, stride = 0, 1
    while held < len(places) - 1:
        failed = min(held + stride, len(places) - 1)
        if not holds(places[failed]):
            break
        held, stride = failed, 2 * stride
    else:
        return places[held]
    while failed - held > 1:
        middle = (held + failed) // 2
        held, failed = (middle, failed) if holds(places[middle]) else (held, middle)
    return narrowed(holds, places[failed], places[held], share)


def narrowed(holds: Callable[[int], bool], bad: int, good: int, share: float) -> int:
    """Return an integer that holds, of which one less by a share of it, or by 1, does not."""
    while good - bad > max(1.0, share * good):
        middle = (bad + good) // 2
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good
