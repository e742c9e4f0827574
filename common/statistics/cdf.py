"""The distribution function of an item of {0,1}^b at all thresholds, from one question; and a quantile, by a search.

As in TreeHist, agents report prefixes, a group for each length (Bassily, Nissim, Stemmer and Thakurta 2017), and the
share below a threshold is the sum over the nodes of the prefix tree beside the path to it. Reports are weighted, as in
a consistent tree (Hay, Rastogi, Miklau and Suciu 2010): the estimate of a node is the inverse-variance mean of the
report on it and of the next few levels' reports on its parts; the share in a node's left half is half of the sum of its
share and the difference between its halves. That is unbiased for every T. Only a search uses the estimates: for each of
k levels c = i/(k+1) a binary search goes down the tree to the least item such that a share c of people is at or below
it; the distribution function is the steps at these cuts, monotone and inside [0, 1] by itself. A single quantile takes
fewer agents by a noisy binary search with fresh ones in every round.

Functions raise :class:`BadInput` for numbers outside the ranges that they state, and for other prefixes than
:func:`ladder`'s.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats, Words
from common.core.errors import BadInput
from common.local.mechanisms.frequency import FrequencyOracle, HadamardResponse
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.features import ItemQuery, ThresholdQuery
from common.local.queries.query import Answers, AskAgents
from common.statistics import evidence
from common.statistics.frequency import Reports, reports_by_length
from common.statistics.intervals import tally


@dataclass(frozen=True, eq=False)
class Cdf:
    """A monotone function q from {0, ..., 2^b - 1} to [0, 1]: q(w) is about the share of people with an item <= w.

    Attributes:
        cuts: Shape (k,), uint64, not decreasing: cut i, counted from 1, is about the least item at or below which are
            i/(k+1) of the people.
    """

    cuts: Words

    def __call__(self, items: Words) -> Floats:
        """Return q of each item: (i + 1/2)/(k + 1), where i cuts are at or below it."""
        below = np.searchsorted(self.cuts, items, side="right")
        return np.asarray((below + 0.5) / (len(self.cuts) + 1), dtype=np.float64)


def estimate_cdf(query: ItemQuery, oracle: FrequencyOracle, answers: Answers, cuts: int) -> Cdf:
    """Estimate the distribution function; time is proportional to answers times cuts at most.

    Args:
        query: The question, with the prefixes of :func:`ladder`.
        answers: One batch.
        cuts: k, at least 1; about 16 divided by the error is best.
    """
    check(query, cuts)
    groups, rows = list(reports_by_length(query, answers).values()), np.arange(cuts)
    levels = (rows + 1) / (cuts + 1)
    nodes, left, share = np.zeros(cuts, dtype=np.uint64), np.zeros(cuts), np.ones(cuts)
    window = [_shares_below(oracle, reports, nodes, depth) for depth, reports in enumerate(groups[:AHEAD], start=1)]
    for depth in range(query.bits):
        if depth + AHEAD < query.bits:
            window.append(_shares_below(oracle, groups[depth + AHEAD], nodes, AHEAD + 1))
        halves = _halves(window, [len(reports) for reports in groups[depth:]])
        lower = (share + halves[:, 0] - halves[:, 1]) / 2.0
        right = left + lower < levels
        left, share = np.where(right, left + lower, left), np.where(right, share - lower, lower)
        nodes = (nodes << np.uint64(1)) + right.astype(np.uint64)
        window = [shares.reshape(cuts, 2, -1)[rows, right.astype(np.int64)] for shares in window[1:]]
    return Cdf(nodes)


def _shares_below(oracle: FrequencyOracle, reports: Reports, nodes: Words, step: int) -> Floats:
    different, place = np.unique(nodes, return_inverse=True)
    supports = oracle.extended_supports(reports.answers, reports.domain, reports.publics, different, step)
    return oracle.shares(supports, len(reports), reports.domain)[place]


def _halves(window: list[Floats], sizes: list[int]) -> Floats:
    """Return the combined estimates of several levels for the two halves of each node, shape (k, 2).

    ``window[j]`` has the shape (k, 2^(j+1)): the estimates of the group j+1 levels below the nodes.
    """
    estimate, weight = window[-1], float(sizes[len(window) - 1])
    for shares, size in zip(reversed(window[:-1]), reversed(sizes[: len(window) - 1]), strict=True):
        # The sum of two halves has twice the variance of each.
        weight /= 2.0
        estimate = (size * shares + weight * estimate.reshape(*shares.shape, 2).sum(axis=2)) / (size + weight or 1.0)
        weight += size
    return estimate


MAX_CUTS = 1 << 14
AHEAD = 4  # levels below a node that its estimate uses: more would improve it little
_CELLS = 1 << 12


def ladder(bits: int) -> tuple[int, ...]:
    """Return the prefix lengths of the groups: all of them, as steps of 2 to 4 bits have up to 63% more variance."""
    return tuple(range(1, bits + 1))


def agents_needed(
    query: ItemQuery, oracle: HadamardResponse, tau: float, beta: float, cuts: int = 0
) -> tuple[int, int]:
    """Return how many agents an error of at most tau takes, and the cuts that this is for (by default the best).

    Theorem 2.15 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), with the constants of this implementation: for
    agents drawn from T, with probability 1 - beta |q(w) - P(x <= w)| <= t + 1/(2 (k+1)) = tau for every w, where t is
    such that an estimate at one threshold is off by t, to one side, with probability at most beta/(2 m), and m = sum
    over l <= b of min(2^(l-1), k): searches do not meet all 2^b thresholds. t is Bernstein's, with the variance of
    :func:`largest_sum`. The proof is in docs/statistics.md.
    """
    if not 0.0 < tau < 0.5:
        raise BadInput(f"an error must be in (0, 1/2), found {tau}")
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    choices = [cuts] if cuts else [math.ceil(factor / tau) for factor in (1, 2, 4, 8, 16, 32, 64)]
    choices = [choice for choice in choices if choice == cuts or choice <= MAX_CUTS]
    if not choices:
        raise BadInput(f"an error of {tau:g} takes more than {MAX_CUTS} cuts: allow a larger one")
    return min((_agents_needed(query, oracle, tau, beta, choice), choice) for choice in choices)


def _agents_needed(query: ItemQuery, oracle: HadamardResponse, tau: float, beta: float, cuts: int) -> int:
    check(query, cuts)
    width = 0.5 / (cuts + 1)
    noise = tau - width
    if noise <= 0.0:
        raise BadInput(f"{cuts} cuts alone have an error of {width:g}: an error of {tau:g} takes more cuts")
    p, q = oracle.rates(query.domain)
    # An answer counts for at most as many nodes of the path, and the weights of its signs about each sum to 1.
    variance, most = largest_sum(query.bits) / (4.0 * (p - q) ** 2), min(AHEAD + 1, query.bits) / (p - q)
    exponent = math.log(2.0 * sum(min(1 << level, cuts) for level in range(query.bits)) / beta)
    group = 2.0 * exponent * (variance + most * noise / 3.0) / (noise * noise)
    return (math.floor(group) + 1) * len(query.lengths)


def largest_sum(bits: int) -> float:
    """Return a bound on the sum of 2 min(x, 1-x)^2 v over the path to any threshold, where groups are of one agent.

    The position within the half is 2 x mod 1. From the last level to the first, the largest sum for each small interval
    of x follows from the largest of the two intervals that it maps to.
    """
    cells = np.arange(_CELLS)
    nearest = np.where(cells < _CELLS // 2, cells + 1, _CELLS - cells) / _CELLS
    largest, successor = np.zeros(_CELLS), (2 * cells) % _CELLS
    for depth in reversed(range(bits)):
        v = 1.0
        for _ in range(min(AHEAD, bits - 1 - depth)):
            v = 1.0 / (1.0 + 0.5 / v)
        largest = 2.0 * nearest**2 * v + np.maximum(largest[successor], largest[successor + 1])
    return float(largest.max())


def check(query: ItemQuery, cuts: int) -> None:
    """Refuse a question or a number of cuts that do not fit a distribution function."""
    if not 1 <= cuts <= MAX_CUTS:
        raise BadInput(f"there must be 1 to {MAX_CUTS} cuts, found {cuts}")
    if query.lengths != ladder(query.bits):
        raise BadInput(f"prefixes must be of 1, 2, ... and {query.bits} bits, found {query.lengths}")


Search = Generator[AskAgents, Answers, "Quantile"]
_FIRST = 8  # the first batch about a threshold is this fraction of the most that a verdict can take
_PATIENCE = 4  # what all waiting for second verdicts may take, in multiples of the most that a verdict can take


@dataclass(frozen=True)
class Quantile:
    """What answers show about a quantile: it is between ``first`` and ``last``, up to the tolerance.

    With the promised probability P(x < first) < share + tolerance and P(x <= last) > share - tolerance for an item x
    drawn from T. Where both are the same item, it is a quantile for some share within the tolerance. They differ only
    if the agents ran out.

    Attributes:
        asked: Number of agents.
        thresholds: Number of different thresholds that they were asked about.
    """

    first: int
    last: int
    asked: int
    thresholds: int


def find_quantile(
    mechanism: Mechanism, bits: int, share: float, tolerance: float, beta: float, feature: int = 0
) -> Search:
    """Search {0,1}^bits for the least item of which a given share of people have one that is no greater.

    Theorem 2.19 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), after Gaboardi, Rogers and Sheffet (2019),
    with sequential tests. The threshold t halves what is left; fresh agents are asked whether their item is below it,
    batch by batch, until it is shown that F(t) = P(x < t) is above share - tolerance (go on below t) or below share +
    tolerance (go on from t). Both cannot be wrong, and by Ville's inequality one of them is shown falsely with
    probability at most beta/bits, however often and whenever one looks (:mod:`common.statistics.evidence`). There are
    at most ``bits`` thresholds, so all that is shown is true with probability 1 - beta. A threshold for which both are
    shown is itself an answer and ends the search, so the search waits for the second verdict unless it seems far off.
    In total it asks at most ``bits`` + 4 times what a verdict can take.

    Args:
        bits: Length of the item, 1 to 64.
        share, tolerance: 0 < share - tolerance < share + tolerance < 1.
        beta: Failure probability, in (0, 1).
        feature: The feature that is the item's most significant bit.
    """
    if not 1 <= bits <= 64:
        raise BadInput(f"an item has 1 to 64 bits, found {bits}")
    levels = share - tolerance, share + tolerance
    if not 0.0 < levels[0] < levels[1] < 1.0:
        raise BadInput(
            f"the tolerance must be positive and leave the share inside (0, 1), found {share} +- {tolerance}"
        )
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    bar = _Bar(evidence.gather(mechanism, *levels), beta / bits, evidence.worst_case(mechanism, *levels, beta / bits))
    low, high, questions, thresholds = 0, 1 << bits, 0, 0
    patience = _PATIENCE * bar.most
    while high - low > 1:
        middle = (low + high) // 2
        query = ThresholdQuery(first=feature, bits=bits, below=middle)
        above, below, new_questions, used = yield from _ask_about(query, mechanism, bar, patience)
        questions, patience, thresholds = questions + new_questions, patience - used, thresholds + 1
        if above and below:
            return Quantile(middle, middle, questions, thresholds)
        if not above and not below:
            break
        low, high = (low, middle) if above else (middle, high)
    return Quantile(low, high - 1, questions, thresholds)


class _Bar(NamedTuple):
    """What a verdict about a threshold takes: an e-process reaches 1/miss, as one does within ``most`` answers."""

    evidences: evidence.EProcesses
    miss: float
    most: int


def _ask_about(
    query: ThresholdQuery, mechanism: Mechanism, bar: _Bar, patience: int
) -> Generator[AskAgents, Answers, tuple[bool, bool, int, int]]:
    """Ask until there are both verdicts, or one and the second seems far off, or no agent is left.

    Return whether F is shown to be above and below, how many agents were asked, and how many after the first verdict.
    """
    questions, used, total, count, needed = 0, 0, 0.0, 0, evidence.needed(bar.miss)
    above = below = False
    while True:
        rest = patience - used if above or below else max(1, bar.most - count)
        answers = yield AskAgents(query, min(-(-count // 2) or -(-bar.most // _FIRST), rest))
        questions += answers.asked
        used += answers.asked if above or below else 0
        batch, size = tally(mechanism, answers.values)
        total, count = total + batch, count + size
        log_values = [e.log_value(total, count) for e in (bar.evidences.above, bar.evidences.below)] if count else [0.0]
        if count:
            above, below = above or log_values[0] >= needed, below or log_values[1] >= needed
        hopeless = used >= patience or min(log_values) < -needed
        if answers.asked == 0 or (above and below) or ((above or below) and hopeless):
            return above, below, questions, used
