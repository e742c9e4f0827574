"""A race of hypotheses on fresh agents: who is shown to be worse leaves, and what is left is known to within a gap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations

import numpy as np

from common.core.arrays import Bits
from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.numerics.bisection import least
from common.statistics.intervals import Estimate, Matches, bounds, estimate

WIDER = 1.25  # by so much a choice by beliefs may widen a gap that is beyond the aim
HALVES = 2
"""beta is divided into so many parts: one for the intervals of the losses, one for those of their differences."""
_CAUTION = 1.0  # standard errors that are added to what is expected of a candidate before candidates are compared
_FAINT = 1e-6  # weight of a loss of 1/2, where nothing else is known
_LEAST = 2.0**-40  # of an answer's variance, where answers are sent as they are and all alike


def pairs(candidates: int) -> int:
    """Return how many differences of two losses are bounded together; 1 at least."""
    return max(1, candidates * (candidates - 1) // 2)


class Race:
    """Successive elimination (Even-Dar, Mannor and Mansour 2006) with intervals that hold at every number of answers.

    *Theorem.* With probability at least ``confidence``, whatever the losses on T are and whenever the race is stopped:
    no candidate whose loss is the least has left; the winner's loss lies in its interval; and it exceeds the least loss
    of all candidates, those that left included, by at most :attr:`gap`.

    The proof is in docs/portfolio.md, "What is guaranteed". U[i][j] bounds loss(i) - loss(j) from above, the loss of
    one more candidate being 0: its bounds are the ends of the intervals of losses. What follows from several is the
    shortest path, U[i][j] <= U[i][k] + U[k][j], and the least value that each ever had is kept. A candidate k leaves
    when U[j][k] < 0 for another j. The gap of a winner w is max(0, max_{k != w} U[w][k]), whatever it was chosen by.

    Args:
        candidates: K, at least 1; fixed before the answers of :meth:`update` and :meth:`compare`.
        confidence: In (0, 1).
        aim: The gap that is asked for. Beliefs may choose as far as the gap stays within it, or, beyond, grows by a
            quarter.
        planned: About how many answers there will be about each, a public number: where differences are known best.
        mirrored: Two candidates exactly one of which errs on any record, as two constants do: an answer about the
            second is the mirror image of one about the first, and counts for both.

    Attributes:
        running: Who has not left, at least one.
        estimates, counts: What is known of every candidate's loss, and how many answers there are about it.
    """

    def __init__(
        self,
        mechanism: BitMechanism,
        candidates: int,
        confidence: float,
        aim: float = 0.0,
        planned: int = 0,
        mirrored: tuple[int, int] | None = None,
    ) -> None:
        if candidates < 1:
            raise BadInput("a race needs a candidate")
        self._mechanism = mechanism
        self._confidence = confidence
        self._aim = aim
        self._planned = planned
        self._miss = (1.0 - confidence) / (HALVES * pairs(candidates))
        self._totals, self.counts = [0.0] * candidates, [0] * candidates
        self.running = tuple(range(candidates))
        self._beliefs: dict[int, tuple[float, float]] = {}
        self._mirrored = mirrored
        self._matched: dict[tuple[int, int], Matches] = {}
        self._compared: dict[tuple[int, int], list[float]] = {}
        self.estimates = [self._estimate(k) for k in self.running]
        # The last row and column are of a candidate without loss.
        self._most = [[0.0 if i == j else 1.0 for j in range(candidates + 1)] for i in range(candidates + 1)]
        for k in range(candidates):
            self._most[candidates][k] = 0.0

    def _estimate(self, k: int) -> Estimate:
        among = HALVES * len(self._totals)
        return estimate(self._mechanism, self._totals[k], self.counts[k], self._confidence, among=among)

    def add(self, candidate: int, total: float, count: int) -> None:
        """Take in answers about a candidate's loss, as :func:`common.statistics.intervals.tally` gives them.

        They count for the losses alone and for no difference. So other candidates may have been chosen by them.
        """
        self._add(candidate, total, count)
        self._tighten()

    def _add(self, candidate: int, total: float, count: int) -> None:
        for k, ones in self._with_mirror(candidate, total, count):
            self._totals[k] += ones
            self.counts[k] += count
            found = self.estimates[k] = self._estimate(k)
            self._most[k][-1] = min(self._most[k][-1], found.high)
            self._most[-1][k] = min(self._most[-1][k], -found.low)

    def _match(self, i: int, j: int, found: Matches) -> None:
        matches = self._matched[i, j] = self._matched.get((i, j), Matches()) + found
        low, high = bounds(self._mechanism, matches, self._miss, self._planned)
        self._most[i][j], self._most[j][i] = min(self._most[i][j], high), min(self._most[j][i], -low)

    def _with_mirror(self, candidate: int, total: float, count: int) -> list[tuple[int, float]]:
        if self._mirrored is None or candidate not in self._mirrored:
            return [(candidate, total)]
        (other,) = set(self._mirrored) - {candidate}
        return [(candidate, total), (other, count - total)]

    def believe(self, candidate: int, mean: float, deviation: float) -> None:
        """Take in what is believed of a candidate's loss besides: it helps to choose, and certifies nothing."""
        self._beliefs[candidate] = (mean, deviation)

    def update(self, answers: Mapping[int, Bits]) -> None:
        """Take in bits of different agents about the losses of candidates, all asked for before any was seen."""
        tapes = dict(answers)
        if self._mirrored is not None:
            first, second = self._mirrored
            tapes |= {b: 1 - tapes[a] for a, b in ((first, second), (second, first)) if a in tapes and b not in tapes}
        for i, j in combinations(sorted(tapes), 2):
            if self._mirrored is None or {i, j} != set(self._mirrored):
                self._match(i, j, Matches.of(tapes[i], tapes[j]))
        for k, bits in answers.items():
            self._add(k, float(bits.sum(dtype=np.int64)), len(bits))
        self._tighten()

    def compare(self, first: int, second: int, firsts: Bits, seconds: Bits) -> None:
        """Take in bits about where only the first errs and, of other agents, about where only the second does.

        Both were asked for before any was seen.
        """
        if first > second:
            first, second, firsts, seconds = second, first, seconds, firsts
        self._match(first, second, Matches.of(firsts, seconds))
        tally = self._compared.setdefault((first, second), [0.0] * 4)
        for place, bits in ((0, firsts), (2, seconds)):
            tally[place] += float(bits.sum(dtype=np.int64))
            tally[place + 1] += len(bits)
        self._tighten()

    def _tighten(self) -> None:
        """Take in what follows from several bounds: all paths."""
        places = range(len(self._most))
        paths = [list(row) for row in self._most]
        for k in places:
            for i in places:
                for j in places:
                    paths[i][j] = min(paths[i][j], paths[i][k] + paths[k][j])
        # Bounds that contradict one another show that one of them failed: they are then left as they are.
        if all(paths[k][k] >= 0.0 for k in places):
            self._most = paths

    def eliminate(self) -> list[int]:
        """Have those leave who are shown to be worse than another; return them."""
        out = [k for k in self.running if any(self._most[j][k] < 0.0 for j in self.running)]
        if len(out) == len(self.running):  # bounds that contradict one another
            return []
        self.running = tuple(k for k in self.running if k not in out)
        return out

    @property
    def answers(self) -> int:
        """How many answers there are in all, about losses and to comparisons."""
        mirror = self.counts[self._mirrored[0]] if self._mirrored else 0
        return sum(self.counts) - mirror + int(sum(tally[1] + tally[3] for tally in self._compared.values()))

    @property
    def winner(self) -> int:
        """Whose gap is least; or, of those whose gap is hardly more, who is expected to be best."""
        first = min(self.running, key=lambda k: (self._gap(k), self.estimates[k].value, k))
        if not self._beliefs:
            return first
        gap = self._gap(first)
        most = self._aim if gap <= self._aim else WIDER * gap
        near = [k for k in self.running if k == first or self._gap(k) <= most]
        expected = self._expected()
        return min(near, key=lambda k: (expected[k], k))

    def _gap(self, candidate: int) -> float:
        others = range(len(self._totals))
        return max([0.0, *(self._most[candidate][k] for k in others if k != candidate)])

    def _expected(self) -> list[float]:
        """Return a standard error above the mean of answers and beliefs, each weighed by 1 over its variance."""
        size = len(self._totals)
        matrix = [[0.0] * size for _ in range(size)]
        vector = [0.0] * size
        for k in range(size):
            value, sure = self.estimates[k].value, 0.0
            if self.counts[k]:
                sure = self.counts[k] / max(self._mechanism.variance(value), _LEAST)
            mean, deviation = self._beliefs.get(k, (0.5, math.inf))
            weight = 1.0 / (deviation * deviation)
            matrix[k][k] = sure + weight + _FAINT
            vector[k] = sure * value + weight * mean + _FAINT * 0.5
        for (i, j), (ones, count, others, asked) in self._compared.items():
            if count and asked:
                mean, variance = self._sole(ones, count)
                less, further = self._sole(others, asked)
                weight = 1.0 / (variance + further)
                for a, b, sign in ((i, i, 1.0), (j, j, 1.0), (i, j, -1.0), (j, i, -1.0)):
                    matrix[a][b] += sign * weight
                vector[i] += weight * (mean - less)
                vector[j] -= weight * (mean - less)
        means, variances = solved(matrix, vector)
        return [mean + _CAUTION * math.sqrt(variance) for mean, variance in zip(means, variances, strict=True)]

    def _sole(self, ones: float, count: float) -> tuple[float, float]:
        truth = self._mechanism.truth
        share = (ones / count - (1.0 - truth)) / (2.0 * truth - 1.0)
        return share, max(self._mechanism.variance(min(max(share, 0.0), 1.0)), _LEAST) / count

    @property
    def gap(self) -> float:
        """By how much the winner's loss may exceed the least of all candidates."""
        return self._gap(self.winner)


def solved(matrix: list[list[float]], vector: list[float]) -> tuple[list[float], list[float]]:
    """Return the solution of a positive definite system and the inverse's diagonal: alike on every machine."""
    size = len(vector)
    rows = [[*matrix[i], vector[i], *(float(i == j) for j in range(size))] for i in range(size)]
    for i in range(size):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i and rows[k][i] != 0.0:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[size] for row in rows], [rows[i][size + 1 + i] for i in range(size)]


@lru_cache(maxsize=1 << 10)  # a plan is made several times over for one command, each time by a search
def detectable_gap(mechanism: Mechanism, agents: int, rivals: int, beta: float, labels: float = 0.0) -> float:
    """Return the widest gap that so many judges can leave if all answer and all of ``rivals`` candidates stay.

    One question serves both constants, so each of ``rivals - 1`` questions goes to m = agents/(rivals - 1) agents, and
    answers about two candidates are matched (:class:`Race`). Let w have the least mean of answers. Against a candidate
    with other answers its difference is at most 0, so U[w][k] is at most half the width of the interval from m matches,
    which is widest where half of the bits are 1. Against the other constant, if w is one, U[w][k] = 2 high(w) - 1 is at
    most the width of the interval of w, from the answers about labels, too. The gap is at most the larger of both. Who
    left earlier is worse than one of those who stayed; the last two, compared by where only one errs, have as many
    matches, which vary less. How many matched bits are alike is taken to be four standard deviations below its mean:
    but for one chance in 30,000 it is more.

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
    """Return the gap that a run is sure to state: ``reported``, and a quarter more where beliefs choose beyond the aim.

    Args:
        recalibrates: Whether there are beliefs, which repairs come with.
    """
    return min(1.0, WIDER * reported) if recalibrates and reported > aim else reported


def judges_needed(mechanism: Mechanism, gap: float, rivals: int, beta: float, labels: float = 0.0) -> int:
    """Return with how many answers, 2^40 at most, no wider gap can be stated; see :func:`detectable_gap`."""
    try:
        return least(lambda agents: detectable_gap(mechanism, agents, rivals, beta, labels) <= gap, 1, 1 << 40)
    except LookupError:
        raise BadInput("such a gap takes more than 2^40 agents: allow a larger alpha, or a larger epsilon") from None
