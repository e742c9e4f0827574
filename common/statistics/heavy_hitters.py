"""All frequent items of {0,1}^b, b up to 64, from one question that is asked of all agents at once.

The prefix extending method (Wang, Li and Jha 2019, "Locally differentially private heavy hitter identification"): the
agents' slots put them into groups, each of which reports prefixes of one length. The prefixes that the first group
supports most are extended by all continuations to the second length, the second group says which of these it supports
most, and so on; the last group says which whole items are frequent. Groups are disjoint, so what a group says about its
candidates is independent of how they became candidates.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import bdtr, bdtrc

from common.core.arrays import Floats, Indices, Words
from common.core.errors import BadInput
from common.local.mechanisms.frequency import MAX_LISTED, FrequencyOracle, HadamardResponse
from common.local.queries.features import ItemQuery
from common.local.queries.query import Answers
from common.numerics.bisection import between, narrowed
from common.statistics.frequency import Reports, binomial_intervals, reports_by_length

KEPT = 256  # prefixes that go on to the next length
MAX_CANDIDATES = 1 << 26
_BLOCK = 1 << 20  # candidates whose counts are in memory at once
_CUTS = 100  # counts that are tried as the border between what survives and what does not


def ladder(bits: int, oracle: FrequencyOracle) -> tuple[int, ...]:
    """Return the prefix lengths of the groups: few and far apart, as far as counting allows.

    With Hadamard response a transform counts all continuations of a prefix; with other oracles each candidate is
    compared with each answer: steps are of 8 bits. Measured with ``python -m benchmarks.heavy_hitters``.
    """
    most, first, step = (24, 20, 16) if isinstance(oracle, HadamardResponse) else (16, 16, 8)
    if bits <= most:
        return (bits,)
    steps = -(-(bits - first) // step)
    return (first, *(first + -(-(bits - first) * k // steps) for k in range(1, steps + 1)))


def find(query: ItemQuery, oracle: FrequencyOracle, answers: Answers, beta: float, kept: int = KEPT) -> Words:
    """List the items whose share is shown to be above 0, the most supported first, uint64.

    A candidate of the last group is listed if the interval of its share lies above 0. All these intervals hold together
    with probability 1 - beta (:func:`~common.statistics.frequency.binomial_intervals`, among all candidates), so that
    none with a share of 0 is listed but with probability beta/2. What is listed surely: :func:`guarantee`. Time is
    proportional to answers times ``kept`` with Hadamard response, and to answers times candidates with others.

    Args:
        query: What was asked; :func:`ladder` gives good prefixes. Its public randomness was drawn at random.
        answers: One batch.
        beta: Failure probability, in (0, 1).
        kept: Prefixes that go on from each length to the next; at least 1.
    """
    _check(beta, kept)
    lengths = tuple(sorted(set(query.lengths)))
    _candidates(lengths, kept)
    came = reports_by_length(query, answers)
    prefixes, before = np.zeros(1, dtype=np.uint64), 0
    for length in lengths[:-1]:
        prefixes = _most_supported(came[length], oracle, prefixes, length - before, kept)
        before = length
    last, step = came[lengths[-1]], lengths[-1] - before
    bar = _listing_count(oracle, query.domain, len(last), beta / (len(prefixes) << step))
    found = [
        (items[above], supports[above])
        for items, supports in _continuations(last, oracle, prefixes, step)
        for above in [np.flatnonzero(supports >= bar)]
    ]
    items, supports = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return np.asarray(items[np.lexsort((items, -supports))])


def _most_supported(came: Reports, oracle: FrequencyOracle, prefixes: Words, step: int, kept: int) -> Words:
    """Return the most supported continuations, at most ``kept``; of equals the smaller ones."""
    items, supports = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    for more, theirs in _continuations(came, oracle, prefixes, step):
        bar = supports[-1] if len(supports) == kept else 0
        above = np.flatnonzero(theirs >= bar)
        if len(above) > 4 * kept:
            bar = np.partition(theirs, len(theirs) - kept)[len(theirs) - kept]
            above = np.flatnonzero(theirs >= bar)
        items, supports = np.concatenate([items, more[above]]), np.concatenate([supports, theirs[above]])
        order = np.lexsort((items, -supports))[:kept]
        items, supports = items[order], supports[order]
    return items


def _continuations(
    came: Reports, oracle: FrequencyOracle, prefixes: Words, step: int
) -> Iterator[tuple[Words, Indices]]:
    width = max(1, _BLOCK >> step)
    ends = np.arange(1 << step, dtype=np.uint64)
    for begin in range(0, len(prefixes), width):
        some = prefixes[begin : begin + width]
        supports = oracle.extended_supports(came.answers, came.domain, came.publics, some, step)
        yield ((some[:, None] << np.uint64(step)) + ends).reshape(-1), supports.reshape(-1)


def _listing_count(oracle: FrequencyOracle, domain: int, count: int, miss: float) -> int:
    """Return the least number of supports that noise alone hardly reaches (count + 1 if there is none)."""

    def listed(supports: int) -> bool:
        return supports > count or binomial_intervals(np.array([supports]), count, miss)[0][0] > oracle.rates(domain)[1]

    return narrowed(listed, -1, count + 1, 0.0)


def guarantee(query: ItemQuery, oracle: FrequencyOracle, agents: int, beta: float, kept: int = KEPT) -> float:
    """Return the least share that :func:`find` lists surely, if so many agents drawn from T answer.

    Theorem 2.18 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), with the constants of this implementation:
    with probability 1 - beta every item with at least this share is listed, and none that nobody has.

    For a share f there are at most H = 1/f items to be found. A prefix of such an item has a share of at least f, and
    an answer supports a candidate of share s with probability r(s) = q + s (p - q). One is missed by the last group
    with probability P(Bin(n, r(f)) < the count that is listed); by an earlier group with N candidates, only if its
    count is below some t, or more than ``kept`` candidates reach t: at most 1/s of these have a share above s, and of
    the others N P(0) + max_{u <= s} (P(u) - P(0))/u are expected, P(u) = P(Bin(n, r(u)) >= t), as shares sum to at most
    1. P is convex as long as r(u) <= (t-1)/(n-1), which makes that N P(0) + (P(s) - P(0))/s; then Markov's inequality.
    The best t and s are looked for. What is returned is the least f for which H times the first, and the same for each
    group, sum to at most beta/2; false listings have the other half. All probabilities are exact binomial tails.
    """
    _check(beta, kept)
    failing = _Failing(query, oracle, agents, beta, kept)
    if failing.at(1.0) > beta / 2.0:
        raise BadInput(f"{agents} agents may not find even an item that all of them hold: ask more, or raise epsilon")
    return between(1.0, 0.0, lambda share: failing.at(share) <= beta / 2.0, 1e-4)


class _Failing:
    """Bounds on the probability that some item of a share is not listed."""

    def __init__(self, query: ItemQuery, oracle: FrequencyOracle, agents: int, beta: float, kept: int) -> None:
        lengths = tuple(sorted(set(query.lengths)))
        self._p, self._q = oracle.rates(query.domain)
        self._kept = kept
        self._candidates = _candidates(lengths, kept)
        self._sizes = [agents // len(query.lengths) * query.lengths.count(length) for length in lengths]
        self._bar = _listing_count(oracle, query.domain, self._sizes[-1], beta / self._candidates[-1])

    def at(self, share: float) -> float:
        """Return the bound for the items of at least a share."""
        if min(self._sizes) < 2:
            return math.inf
        missed = float(bdtr(self._bar - 1, self._sizes[-1], self._rate(share))) * math.floor(1.0 / share)
        earlier = zip(self._sizes[:-1], self._candidates[:-1], strict=True)
        return missed + sum(self._pruned(share, size, among) for size, among in earlier)

    def _rate(self, share: float) -> float:
        return self._q + share * (self._p - self._q)

    def _pruned(self, share: float, size: int, among: int) -> float:
        if among <= self._kept:
            return 0.0
        cuts = np.unique(np.linspace(size * self._q, size * self._rate(share), _CUTS).astype(np.int64)) + 1
        short = np.asarray(bdtr(cuts - 1, size, self._rate(share)), dtype=np.float64) * math.floor(1.0 / share)
        return float((short + self._population(cuts, size, among)).min())

    def _population(self, cuts: Indices, size: int, among: int) -> Floats:
        """Return bounds on the probability that more than ``kept`` candidates reach each count."""
        noise = bdtrc(cuts - 1, size, self._q)
        middle = ((cuts - 1) / (size - 1) - self._q) / (self._p - self._q)
        best = np.full(len(cuts), np.inf)
        for part in np.linspace(0.2, 1.0, 9):
            light = part * middle
            some = np.flatnonzero(light * (self._kept + 1) > 1.0)
            s = light[some]
            room = self._kept + 1 - np.floor(1.0 / s)
            reaching = bdtrc(cuts[some] - 1, size, self._q + s * (self._p - self._q))
            best[some] = np.minimum(best[some], (among * noise[some] + (reaching - noise[some]) / s) / room)
        return best


def _candidates(lengths: tuple[int, ...], kept: int) -> list[int]:
    found, before, survivors = [], 0, 1
    for length in lengths:
        found.append(survivors << (length - before))
        survivors, before = min(found[-1], kept), length
        if found[-1] > (MAX_LISTED if len(found) == 1 else MAX_CANDIDATES):
            raise BadInput(
                f"there would be {found[-1]} candidates of {length} bits: ask for prefixes of more lengths, nearer to "
                "each other, or keep fewer"
            )
    return found


def _check(beta: float, kept: int) -> None:
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    if kept < 1:
        raise BadInput(f"at least 1 prefix must be kept, found {kept}")
