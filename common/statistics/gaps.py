"""How fine a difference of losses so many judges can detect, and how many judges a gap takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.statistics.intervals import estimate
from common.statistics.paired import Matches, bounds
from common.statistics.race import HALVES, WIDER, pairs

_MOST = 1 << 40


@lru_cache(maxsize=1 << 10)  # a plan is made several times over for one command, each time by a search
def detectable_gap(mechanism: Mechanism, agents: int, rivals: int, beta: float, labels: float = 0.0) -> float:
    """Return the widest gap that so many judges can leave if all answer and all of ``rivals`` candidates stay.

    One question serves both constants, so each of ``rivals - 1`` questions goes to m = agents/(rivals - 1) agents, and
    answers about two candidates are matched (:class:`common.statistics.race.Race`). Let w have the least mean of
    answers. Against a candidate with other answers its difference is at most 0, so U[w][k] is at most half the width of
    the interval from m matches, which is widest where half of the bits are 1. Against the other constant, if w is one,
    U[w][k] = 2 high(w) - 1 is at most the width of the interval of w, from the answers about labels, too. The gap is at
    most the larger of both. Who left earlier is worse than one of those who stayed, so it adds nothing; the last two,
    compared by where only one errs, have as many matches, which vary less. How many matched bits are alike is a
    random number, and taken to be four standard deviations below its mean: but for one chance in 30,000 it is more.

    Args:
        mechanism: How the answers are randomized. Answers that are no bits are not matched, and the gap is that of
            intervals.
        agents: Who judge.
        rivals: Candidates, both constants among them; 1: there is no race, and what is stated is the width of its
            interval.
        beta: In (0, 1).
        labels: How many agents say their label besides, for each one who judges.
    """
    if not isinstance(mechanism, BitMechanism):
        each = agents // rivals
        return 1.0 if each == 0 else _width(mechanism, each, HALVES * rivals, beta)
    if rivals == 1:
        return 1.0 if agents == 0 else _width(mechanism, agents, 1, beta)
    each = agents // (rivals - 1)
    if each == 0:
        return 1.0
    same = max(0, math.floor(0.5 * each - 2.0 * math.sqrt(each)))
    apart = each - same
    matches = Matches((apart + 1) // 2, same, (apart + 1) // 2)
    low, high = bounds(mechanism, matches, beta / (HALVES * pairs(rivals)), each)
    half = max(high, -low)
    return min(1.0, max(half, _width(mechanism, each + math.floor(labels * agents), HALVES * rivals, beta)))


def _width(mechanism: Mechanism, count: int, among: int, beta: float) -> float:
    total = count // 2 if mechanism.answers == "bit" else 0.5 * count
    found = estimate(mechanism, total, count, 1.0 - beta, among=among)
    return found.high - found.low


def stated_gap(reported: float, aim: float, *, recalibrates: bool) -> float:
    """Return the gap that a run is sure to state: ``reported``, and a quarter more where beliefs may choose beyond it.

    Args:
        reported: As :func:`detectable_gap` returns it.
        aim: alpha: a gap within it stays there.
        recalibrates: Whether there are beliefs, which repairs come with (:class:`common.statistics.race.Race`).
    """
    return min(1.0, WIDER * reported) if recalibrates and reported > aim else reported


def judges_needed(mechanism: Mechanism, gap: float, rivals: int, beta: float, labels: float = 0.0) -> int:
    """Return with how many answers no wider gap can be stated; the parameters are those of :func:`detectable_gap`.

    Raises:
        BadInput: If more than 2^40 are needed.
    """

    def enough(agents: int) -> bool:
        return detectable_gap(mechanism, agents, rivals, beta, labels) <= gap

    return _least(enough)


def _least(enough: Callable[[int], bool]) -> int:
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise BadInput("such a gap takes more than 2^40 agents: allow a larger alpha, or a larger epsilon")
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
