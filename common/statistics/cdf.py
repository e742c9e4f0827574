"""The distribution function of an item of {0,1}^b, at all thresholds, from one question asked of all agents at once.

As in TreeHist, agents report prefixes, a group for each length (Bassily, Nissim, Stemmer and Thakurta 2017), and the
share below a threshold is put together from the nodes of the tree of prefixes beside the path to it. Reports are
weighted, as in a consistent tree (Hay, Rastogi, Miklau and Suciu 2010): the estimate of a node is the mean of the
report on it and of what the next few levels say about the parts of it, by inverse variance; and how much of a node's
share is in its left half is the half of the share and of the difference between its halves. That is unbiased for every
T. And only a search looks at the estimates: for each of k levels c = i/(k+1) a binary search goes down the tree to the
least item at or below which are c of the people; the distribution function is the steps at these cuts, monotone and
inside [0, 1] by itself.

Functions raise :class:`BadInput` for numbers outside the ranges that they state, and for other prefixes than
:func:`ladder`'s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats, Words
from common.core.errors import BadInput
from common.local.mechanisms.frequency import FrequencyOracle, HadamardResponse
from common.local.queries.features import ItemQuery
from common.local.queries.query import Answers
from common.statistics.frequency import Reports, reports_by_length


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
        query: What was asked, with the prefixes of :func:`ladder`.
        answers: One batch.
        cuts: k, at least 1; about 16 divided by the error is best.
    """
    check(query, cuts)
    groups, rows = list(reports_by_length(query, answers).values()), np.arange(cuts)
    levels = (rows + 1) / (cuts + 1)
    nodes, left, share = np.zeros(cuts, dtype=np.uint64), np.zeros(cuts), np.ones(cuts)
    window = [_shares_below(oracle, came, nodes, depth) for depth, came in enumerate(groups[:AHEAD], start=1)]
    for depth in range(query.bits):
        if depth + AHEAD < query.bits:
            window.append(_shares_below(oracle, groups[depth + AHEAD], nodes, AHEAD + 1))
        halves = _halves(window, [len(came) for came in groups[depth:]])
        lower = (share + halves[:, 0] - halves[:, 1]) / 2.0
        right = left + lower < levels
        left, share = np.where(right, left + lower, left), np.where(right, share - lower, lower)
        nodes = (nodes << np.uint64(1)) + right.astype(np.uint64)
        window = [shares.reshape(cuts, 2, -1)[rows, right.astype(np.int64)] for shares in window[1:]]
    return Cdf(nodes)


def _shares_below(oracle: FrequencyOracle, came: Reports, nodes: Words, step: int) -> Floats:
    different, place = np.unique(nodes, return_inverse=True)
    supports = oracle.extended_supports(came.answers, came.domain, came.publics, different, step)
    return oracle.shares(supports, len(came), came.domain)[place]


def _halves(window: list[Floats], sizes: list[int]) -> Floats:
    """Return what several levels together say about the two halves of each node, shape (k, 2).

    ``window[j]`` has the shape (k, 2^(j+1)): what the group of the level j+1 below the nodes says.
    """
    combined, weight = window[-1], float(sizes[len(window) - 1])
    for shares, size in zip(reversed(window[:-1]), reversed(sizes[: len(window) - 1]), strict=True):
        # The sum of two halves has twice the variance of each.
        weight /= 2.0
        combined = (size * shares + weight * combined.reshape(*shares.shape, 2).sum(axis=2)) / (size + weight or 1.0)
        weight += size
    return combined


MAX_CUTS = 1 << 14
AHEAD = 4  # levels below a node that its estimate uses: more would improve little
_CELLS = 1 << 12


def ladder(bits: int) -> tuple[int, ...]:
    """Return the prefix lengths of the groups: all of them, as steps of 2 to 4 bits have up to 63% more variance."""
    return tuple(range(1, bits + 1))


def error(query: ItemQuery, oracle: HadamardResponse, agents: int, beta: float, cuts: int) -> float:
    """Return the error that the estimate has at most, at all thresholds at once, with probability 1 - beta.

    Theorem 2.15 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), with the constants of this implementation: for
    agents drawn from T, |q(w) - P(x <= w)| <= t + 1/(2 (k+1)) for every w, where t is such that an estimate at one
    threshold is off by t, to one side, with probability at most beta/(2 m), and m = sum over l <= b of min(2^(l-1), k):
    searches do not meet all 2^b thresholds. t is Bernstein's, with the variance of :func:`largest_sum`. The proof is in
    docs/statistics.md.
    """
    variance, most = _spread(query, oracle, cuts)
    exponent = _exponent(query, beta, cuts)
    group = agents // len(query.lengths)
    if group < 1:
        raise BadInput(f"{agents} agents are fewer than the {len(query.lengths)} groups of the question")
    linear = exponent * most / (3.0 * group)
    return linear + math.sqrt(linear * linear + 2.0 * variance * exponent / group) + _width(cuts)


def agents_needed(
    query: ItemQuery, oracle: HadamardResponse, tau: float, beta: float, cuts: int = 0
) -> tuple[int, int]:
    """Return how many agents an error of at most tau takes, and the cuts that this is for (by default the best)."""
    if not 0.0 < tau < 0.5:
        raise BadInput(f"an error must be in (0, 1/2), found {tau}")
    choices = [cuts] if cuts else [math.ceil(factor / tau) for factor in (1, 2, 4, 8, 16, 32, 64)]
    choices = [some for some in choices if some == cuts or some <= MAX_CUTS]
    if not choices:
        raise BadInput(f"an error of {tau:g} takes more than {MAX_CUTS} cuts: allow a larger one")
    return min((_agents_needed(query, oracle, tau, beta, some), some) for some in choices)


def _agents_needed(query: ItemQuery, oracle: HadamardResponse, tau: float, beta: float, cuts: int) -> int:
    variance, most = _spread(query, oracle, cuts)
    noise = tau - _width(cuts)
    if noise <= 0.0:
        raise BadInput(f"{cuts} cuts alone have an error of {_width(cuts):g}: an error of {tau:g} takes more cuts")
    group = 2.0 * _exponent(query, beta, cuts) * (variance + most * noise / 3.0) / (noise * noise)
    return (math.floor(group) + 1) * len(query.lengths)


def _width(cuts: int) -> float:
    return 0.5 / (cuts + 1)


def _exponent(query: ItemQuery, beta: float, cuts: int) -> float:
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    return math.log(2.0 * sum(min(1 << level, cuts) for level in range(query.bits)) / beta)


def _spread(query: ItemQuery, oracle: HadamardResponse, cuts: int) -> tuple[float, float]:
    check(query, cuts)
    p, q = oracle.rates(query.domain)
    # An answer counts for at most as many nodes of the path, and the weights of its signs about each sum to 1.
    levels = min(AHEAD + 1, query.bits)
    return largest_sum(query.bits) / (4.0 * (p - q) ** 2), levels / (p - q)


def largest_sum(bits: int) -> float:
    """Return a bound on the sum of 2 min(x, 1-x)^2 v over the path to any threshold, where groups are of one agent.

    The place in the half is 2 x mod 1. From the last level to the first, the largest sum for each of some small
    intervals of x is that for one of the two intervals in it that come next.
    """
    cells = np.arange(_CELLS)
    nearest = np.where(cells < _CELLS // 2, cells + 1, _CELLS - cells) / _CELLS
    largest, after = np.zeros(_CELLS), (2 * cells) % _CELLS
    for depth in reversed(range(bits)):
        v = 1.0
        for _ in range(min(AHEAD, bits - 1 - depth)):
            v = 1.0 / (1.0 + 0.5 / v)
        largest = 2.0 * nearest**2 * v + np.maximum(largest[after], largest[after + 1])
    return float(largest.max())


def check(query: ItemQuery, cuts: int) -> None:
    """Refuse a question or a number of cuts that are not for a distribution function."""
    if not 1 <= cuts <= MAX_CUTS:
        raise BadInput(f"there must be 1 to {MAX_CUTS} cuts, found {cuts}")
    if query.lengths != ladder(query.bits):
        raise BadInput(f"prefixes must be of 1, 2, ... and {query.bits} bits, found {query.lengths}")
