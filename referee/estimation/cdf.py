"""The distribution function of an item of {0,1}^b, at all thresholds, from one question asked of everybody at once.

As in TreeHist, agents report prefixes, a group for each length (Bassily, Nissim, Stemmer and Thakurta 2017), and the
share below a threshold is put together from the nodes beside the path to it. Two things are done better than that:

* The nodes are weighted. Where g is the estimate for a node and f(c) the report on its child c, one of B, the estimate
  for the child is g/B + f(c) - (mean of f over the children): a report only says how a node's share is *split*. At any
  threshold this is unbiased for every T, as plain sums of nodes are, with a fifth of their largest variance.
* Only a search looks at the estimates. For each of k levels c = i/(k+1) a binary search goes down the tree to the least
  item at or below which are c of the people; the distribution function is the steps at these cuts. It is monotone and
  inside [0, 1] by itself, and what noise does where no search comes along does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.arrays import Floats, Indices, Words
from common.errors import BadInput
from common.mechanisms.frequency import FrequencyOracle
from common.mechanisms.hadamard import HadamardResponse
from common.queries.item import ItemQuery
from referee.estimation.frequency import reports_by_length
from referee.protocols.base import Answers

_STEP = 2
_MOST_STEP = 8
_CELLS = 1 << _MOST_STEP
MOST_CUTS = 1 << 16


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


def ladder(bits: int) -> tuple[int, ...]:
    """Return the prefix lengths that need the fewest agents: every second one, up to the whole item.

    Steps of 1, 2, 3, 4 bits take 2.8, 2.2, 2.5, 2.8 million agents at 16 bits, epsilon = 1, an error of .05.
    """
    return tuple(range(2 - bits % 2, bits + 1, _STEP))


def estimate_cdf(query: ItemQuery, oracle: FrequencyOracle, answers: Answers, cuts: int) -> Cdf:
    """Estimate the distribution function.

    Time is proportional to answers times cuts at most; cuts that go the same way are searched together.

    Parameters
    ----------
    query
        What was asked: prefixes of several lengths, up to the whole item. :func:`ladder` gives the best ones.
    oracle
        How the answers were randomized.
    answers
        One batch.
    cuts
        k, at least 1; about 16 divided by the error is best.

    Raises
    ------
    BadInput
        If a number is outside its range, or prefixes are too far apart.
    """
    _steps(query, cuts)
    levels = np.arange(1, cuts + 1) / (cuts + 1)
    nodes, before = np.zeros(cuts, dtype=np.uint64), 0
    left, share = np.zeros(cuts), np.ones(cuts)
    for length, came in reports_by_length(query, answers).items():
        step = length - before
        different, place = np.unique(nodes, return_inverse=True)
        supports = oracle.extended_supports(came.answers, came.domain, came.publics, different, step)
        told = oracle.shares(supports, len(came), came.domain)
        shares = (told - told.mean(axis=1, keepdims=True))[place] + share[:, None] / (1 << step)
        edges = left[:, None] + np.cumsum(shares, axis=1)
        digit = _search(edges, levels, step)
        rows = np.arange(cuts)
        left, share = np.where(digit > 0, edges[rows, digit - 1], left), shares[rows, digit]
        nodes = (nodes << np.uint64(step)) + digit.astype(np.uint64)
        before = length
    return Cdf(nodes)


def _search(edges: Floats, levels: Floats, step: int) -> Indices:
    """Return the child of each node to which a binary search for its level goes, int64."""
    digit = np.zeros(len(levels), dtype=np.int64)
    for half in (1 << k for k in reversed(range(step))):
        digit += half * (edges[np.arange(len(levels)), digit + half - 1] < levels)
    return digit


def error(query: ItemQuery, oracle: HadamardResponse, agents: int, beta: float, cuts: int) -> float:
    """Return the error that :func:`estimate_cdf` has at most, at all thresholds at once, with probability 1 - beta.

    Theorem 2.15 of Beimel, Korolova, Nissim, Sheffet and Stemmer (2020), with the constants of this implementation: for
    agents drawn from T, |q(w) - P(x <= w)| <= t + 1/(2 (k+1)) for every w, where t is such that an estimate at one
    threshold is off by t, to one side, with probability at most beta/(2 m), and m = sum over l <= b of min(2^(l-1), k).

    *Why m, and not 2^b.* A search for c errs at a threshold w if it goes left though P(x < w) <= c - t, or goes right
    though P(x < w) >= c + t. As long as it has not erred, its interval [low, high) has P(x < low) < c + t and
    P(x < high) > c - t. So it can only err to the left in a dyadic interval that the last threshold with
    P(x < w) <= c - t cuts in two, and to the right in one that the first with P(x < w) >= c + t does: one interval of
    each length on either side. Which ones is decided by T alone; there are 2^(l-1) in all for bit l; and where searches
    for several c can err at one threshold, that for the nearest c does if any does. If none errs, the cut v for c has
    P(x < v) < c + t and P(x <= v) > c - t, and the steps between two cuts are as claimed.

    *Why t.* The estimate at a threshold is a sum of means over groups of independent sum_c a_c [an answer supports c],
    over the children c of the node on the path, divided by p - q; x being the threshold's place in the node,
    from 0 to 1, a_c is -x for a child above it, 1 - x for one below, and sum_c a_c = 0. Entries of the Hadamard matrix
    are pairwise independent, so that its variance is at most sum_c a_c^2/(4 (p-q)^2). t is Bernstein's, for the
    threshold in {0,1}^b whose sum over the path is largest.

    Raises
    ------
    BadInput
        If a number is outside its range, or prefixes are too far apart.
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
    """Return how many agents an error of at most tau takes, and the cuts that this is for (by default the best).

    Raises
    ------
    BadInput
        If a number is outside its range, or there are too few cuts for this error.
    """
    if not 0.0 < tau < 0.5:
        raise BadInput(f"an error must be in (0, 1/2), found {tau}")
    choices = [cuts] if cuts else [math.ceil(factor / tau) for factor in (1, 2, 4, 8, 16, 32, 64)]
    choices = [some for some in choices if some == cuts or some <= MOST_CUTS]
    if not choices:
        raise BadInput(f"an error of {tau:g} takes more than {MOST_CUTS} cuts: allow a larger one")
    return min((_agents_needed(query, oracle, tau, beta, some), some) for some in choices)


def _agents_needed(query: ItemQuery, oracle: HadamardResponse, tau: float, beta: float, cuts: int) -> int:
    variance, most = _spread(query, oracle, cuts)
    noise = tau - _width(cuts)
    if noise <= 0.0:
        raise BadInput(f"{cuts} cuts alone have an error of {_width(cuts):g}: an error of {tau:g} takes more cuts")
    group = 2.0 * _exponent(query, beta, cuts) * (variance + most * noise / 3.0) / (noise * noise)
    return (math.floor(group) + 1) * len(query.lengths)


def _width(cuts: int) -> float:
    """Return half of the distance between two levels."""
    return 0.5 / (cuts + 1)


def _exponent(query: ItemQuery, beta: float, cuts: int) -> float:
    """Return ln(2 m/beta)."""
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    return math.log(2.0 * sum(min(1 << level, cuts) for level in range(query.bits)) / beta)


def _spread(query: ItemQuery, oracle: HadamardResponse, cuts: int) -> tuple[float, float]:
    """Return the variance of an estimate and the most that one answer adds to it, where groups are of one agent."""
    steps, parts = _steps(query, cuts), [query.lengths.count(length) for length in sorted(set(query.lengths))]
    p, q = oracle.rates(query.domain)
    # Half the sum of |a_c| is at most B/4, and the mean of what an answer adds at most 1.
    most = max((2.0**step / 4.0 / (p - q) + 1.0) / part for step, part in zip(steps, parts, strict=True))
    return largest_sum(steps, parts) / (4.0 * (p - q) ** 2), most


def largest_sum(steps: list[int], sizes: list[int]) -> float:
    """Return a bound on the sum over the path of sum_c a_c^2 divided by the size of the group, for every threshold.

    Parameters
    ----------
    steps, sizes
        How many bits each group's prefix is longer than the one before, at most 8, and how many agents it has.

    Notes
    -----
    For the place x = (m + y)/B in a node, y the place in its child m, sum_c a_c^2 = m + y^2 - (m + y)^2/B. It is convex
    in y: on each of some small intervals one end is the largest. From the last group to the first, the largest sum for
    each interval of x is that for one of the intervals of y in it.
    """
    largest = np.zeros(_CELLS)
    cells = np.arange(_CELLS)
    for step, size in zip(reversed(steps), reversed(sizes), strict=True):
        children = 1 << step
        within = (cells << step) % _CELLS
        best = np.zeros(_CELLS)
        for part in range(children):
            inner = within + part
            child = (cells << step) // _CELLS
            ends = (child + y**2 - (child + y) ** 2 / children for y in (inner / _CELLS, (inner + 1) / _CELLS))
            best = np.maximum(best, np.maximum(*ends) / size + largest[inner])
        largest = best
    return float(largest.max())


def _steps(query: ItemQuery, cuts: int) -> list[int]:
    """Return how many bits longer each prefix is than the one before."""
    if not 1 <= cuts <= MOST_CUTS:
        raise BadInput(f"there must be 1 to {MOST_CUTS} cuts, found {cuts}")
    lengths = sorted(set(query.lengths))
    steps = [length - before for before, length in zip([0, *lengths], lengths, strict=False)]
    if lengths[-1] != query.bits or max(steps) > _MOST_STEP:
        raise BadInput(
            f"prefixes must go up to all {query.bits} bits in steps of at most {_MOST_STEP}, found {lengths}"
        )
    return steps
