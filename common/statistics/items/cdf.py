"""The distribution function of an item of {0,1}^b, at all thresholds, from one question asked of everybody at once.

As in TreeHist, agents report prefixes, a group for each length (Bassily, Nissim, Stemmer and Thakurta 2017), and the
share below a threshold is put together from the nodes of the tree of prefixes beside the path to it. Two things are
done better than that:

* Reports are weighted, as in a consistent tree (Hay, Rastogi, Miklau and Suciu 2010). What is said about a node is the
  mean of the report on it and of what the next few levels say about the parts of it, by inverse variance; and how much
  of a node's share is in its left half is the half of the share and of the difference of what is said about its halves.
  At any threshold this is unbiased for every T, as plain sums of nodes are; at b = 16 their largest variance is seven
  times as large.
* Only a search looks at the estimates. For each of k levels c = i/(k+1) a binary search goes down the tree to the least
  item at or below which are c of the people; the distribution function is the steps at these cuts. It is monotone and
  inside [0, 1] by itself, and what noise does where no search comes along does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats, Words
from common.statistics.items.cdf_levels import AHEAD, check
from common.statistics.items.frequency import Reports, reports_by_length
from common.vocabulary.mechanisms.frequency import FrequencyOracle
from common.vocabulary.queries.item import ItemQuery
from common.vocabulary.steps import Answers


@dataclass(frozen=True, eq=False)
class Cdf:
    """A monotone function q from {0, ..., 2^b - 1} to [0, 1]: q(w) is about the share of people with an item <= w.

    Attributes
    ----------
    cuts
        Shape (k,), uint64, not decreasing: cut i, counted from 1, is about the least item at or below which are i/(k+1)
        of the people.
    """

    cuts: Words

    def __call__(self, items: Words) -> Floats:
        """Return q of each item: (i + 1/2)/(k + 1), where i cuts are at or below it."""
        below = np.searchsorted(self.cuts, items, side="right")
        return np.asarray((below + 0.5) / (len(self.cuts) + 1), dtype=np.float64)


def estimate_cdf(query: ItemQuery, oracle: FrequencyOracle, answers: Answers, cuts: int) -> Cdf:
    """Estimate the distribution function.

    Time is proportional to answers times cuts at most; cuts that go the same way are searched together.

    Parameters
    ----------
    query
        What was asked, with the prefixes of :func:`common.statistics.items.cdf_levels.ladder`.
    oracle
        How the answers were randomized.
    answers
        One batch.
    cuts
        k, at least 1; about 16 divided by the error is best.

    Raises
    ------
    BadInput
        If there are no or too many cuts, or the prefixes are others.
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
        window = [told.reshape(cuts, 2, -1)[rows, right.astype(np.int64)] for told in window[1:]]
    return Cdf(nodes)


def _shares_below(oracle: FrequencyOracle, came: Reports, nodes: Words, step: int) -> Floats:
    """Return a group's estimates of the shares of the nodes ``step`` levels below each node, shape (k, 2^step)."""
    different, place = np.unique(nodes, return_inverse=True)
    supports = oracle.extended_supports(came.answers, came.domain, came.publics, different, step)
    return oracle.shares(supports, len(came), came.domain)[place]


def _halves(window: list[Floats], sizes: list[int]) -> Floats:
    """Return what several levels together say about the two halves of each node, shape (k, 2).

    ``window[j]`` has the shape (k, 2^(j+1)): what the group of the level j+1 below the nodes says.
    """
    said, weight = window[-1], float(sizes[len(window) - 1])
    for told, size in zip(reversed(window[:-1]), reversed(sizes[: len(window) - 1]), strict=True):
        # The sum of two halves has twice the variance of each.
        weight /= 2.0
        said = (size * told + weight * said.reshape(*told.shape, 2).sum(axis=2)) / (size + weight or 1.0)
        weight += size
    return said
