"""A race of hypotheses on fresh agents: who is shown to be worse leaves, and what is left is known to within a gap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from common.core.errors import BadInput
from common.statistics.intervals import Estimate, estimate
from common.vocabulary.mechanisms.base import Mechanism

WIDER = 1.25
"""By so much a choice by beliefs may widen a gap that is beyond the aim."""
_CAUTION = 1.0
"""Standard errors that are added to what is expected of a candidate before candidates are compared."""
_LEAST = 2.0**-40
"""Of an answer's variance, where answers are told as they are and all alike."""


class Race:
    """Successive elimination (Even-Dar, Mannor and Mansour 2006) with intervals that hold at every number of answers.

    *Theorem.* With probability at least ``confidence``, whatever the losses on T are and whenever the race is stopped:
    no candidate whose loss is the least has left; the winner's loss lies in its interval; and it exceeds the least loss
    of all candidates, those that left included, by at most :attr:`gap`.

    *Proof.* Each candidate is asked about to agents that are fresh and drawn independently, so its interval is a
    confidence sequence that misses with probability (1 - confidence)/K at most over all counts together
    (:func:`common.statistics.intervals.estimate`). By the union bound all K hold at once with probability
    ``confidence``; the rest is deterministic. A candidate leaves when its low is above another's high: then its loss
    is above that one's. Whoever the winner w is, loss(w) <= high(w) and loss(k) >= low(k) for all k, so
    loss(w) - min_k loss(k) <= max(0, high(w) - min_{k != w} low(k)). Nothing is assumed about how many agents are asked
    about whom, nor about how the winner is chosen among those that are left, so what was seen may decide both: also
    what is believed of the candidates from elsewhere, right or wrong.

    Parameters
    ----------
    mechanism
        How the answers are randomized.
    candidates
        K, how many there are; at least 1. They are fixed before any of these agents answers.
    confidence
        In (0, 1).
    aim
        The gap that is asked for. Among those whom answers hardly tell from the one with the least high, beliefs may
        choose: as far as the gap stays within the aim, or, where it is beyond, grows by a quarter at most.

    Raises
    ------
    BadInput
        If there is no candidate.
    """

    def __init__(self, mechanism: Mechanism, candidates: int, confidence: float, aim: float = 0.0) -> None:
        if candidates < 1:
            raise BadInput("a race needs a candidate")
        self._mechanism = mechanism
        self._confidence = confidence
        self._aim = aim
        self._totals, self._counts = [0.0] * candidates, [0] * candidates
        self._running = list(range(candidates))
        self._beliefs: dict[int, tuple[float, float]] = {}
        self._estimates = [self._estimate(k) for k in self._running]

    def _estimate(self, k: int) -> Estimate:
        return estimate(self._mechanism, self._totals[k], self._counts[k], self._confidence, among=len(self._totals))

    def add(self, candidate: int, total: float, count: int) -> None:
        """Take in answers about a candidate, as :func:`common.statistics.intervals.tally` gives them."""
        self._totals[candidate] += total
        self._counts[candidate] += count
        self._estimates[candidate] = self._estimate(candidate)

    def believe(self, candidate: int, mean: float, deviation: float) -> None:
        """Take in what is believed of a candidate's loss besides: it helps to choose, and certifies nothing."""
        self._beliefs[candidate] = (mean, deviation)

    def eliminate(self) -> list[int]:
        """Have those leave who are shown to be worse than another; return them."""
        least = min(self._estimates[k].high for k in self._running)
        out = [k for k in self._running if self._estimates[k].low > least]
        self._running = [k for k in self._running if k not in out]
        return out

    @property
    def running(self) -> Sequence[int]:
        """Who has not left, at least one."""
        return tuple(self._running)

    @property
    def estimates(self) -> Sequence[Estimate]:
        """What is known of every candidate."""
        return tuple(self._estimates)

    @property
    def counts(self) -> Sequence[int]:
        """How many answers there are about every candidate."""
        return tuple(self._counts)

    @property
    def winner(self) -> int:
        """Whose high is least; or, of those whose high is hardly more, who is expected to be best."""
        first = min(self._running, key=lambda k: (self._estimates[k].high, self._estimates[k].value, k))
        if not self._beliefs:
            return first
        gap = self._gap(first)
        most = self._aim if gap <= self._aim else WIDER * gap
        near = [k for k in self._running if k == first or self._gap(k) <= most]
        return min(near, key=lambda k: (self._expected(k), k))

    def _gap(self, candidate: int) -> float:
        others = [found.low for k, found in enumerate(self._estimates) if k != candidate]
        return max(0.0, self._estimates[candidate].high - min(others)) if others else 0.0

    def _expected(self, candidate: int) -> float:
        """Return a standard error above the mean of answers and belief, each weighed by 1 over its variance."""
        said, sure = self._estimates[candidate].value, 0.0
        if self._counts[candidate]:
            within = min(max(said, 0.0), 1.0)
            sure = self._counts[candidate] / max(self._mechanism.variance(within), _LEAST)
        mean, deviation = self._beliefs.get(candidate, (0.5, math.inf))
        weight = 1.0 / (deviation * deviation)
        if sure + weight <= 0.0:
            return math.inf
        return (sure * said + weight * mean) / (sure + weight) + _CAUTION / math.sqrt(sure + weight)

    @property
    def gap(self) -> float:
        """By how much the winner's loss may exceed the least of all candidates."""
        return self._gap(self.winner)
