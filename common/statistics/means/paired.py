"""By how much the losses of two hypotheses differ, from answers to paired comparisons, at every number of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from common.core.errors import BadInput
from common.core.values import Value
from common.statistics.means.intervals import edge
from common.vocabulary.mechanisms.krr import KaryResponse
from common.vocabulary.queries.compare import OUTCOMES

RATES = tuple(0.49 * 2.0 ** (-k / 2) for k in range(48))
"""The sizes of bets, below 1/2: scores and their mean are in [-1, 1]."""
SPREAD = tuple(-math.log((k + 1) * (k + 2)) for k in range(len(RATES)))
"""Logarithms of the weights of a mixture of all sizes; they add up to 1 at most."""
_ROUNDING = 2.0**-44


class Difference(Value):
    """The first hypothesis' loss less the second one's, with its confidence interval.

    Attributes
    ----------
    value
        Mean of the answers, each of them unbiased, clipped to [-1, 1]: biased after a stop or a choice that depends on
        the answers.
    low, high
        The interval, inside [-1, 1].
    confidence
        Probability, before any answer exists, that the interval will cover the difference on T.
    """

    value: float = Field(ge=-1, le=1)
    low: float = Field(ge=-1, le=1)
    high: float = Field(ge=-1, le=1)
    confidence: float = Field(gt=0, lt=1)


def difference(oracle: KaryResponse, counts: Sequence[int], confidence: float, among: int = 1) -> Difference:
    """Estimate loss(first) - loss(second) on T from answers to comparisons.

    The query is :class:`~common.vocabulary.queries.compare.CompareQuery`. An answer scores x = 1 if it names outcome 0,
    -1 for outcome 2, else 0. With p and q the chances of the own outcome and of each other one, E x = m =
    (p - q) (loss(first) - loss(second)).

    *Theorem.* With probability ``confidence`` over independent agents the interval covers the difference at every
    number of answers at once. *Proof.* For a rate r in [0, 1/2) and the true m the product of 1 + r (x - m) over the
    answers is a martingale from 1 on that is never negative, as x - m >= -2; so is a mixture over rates. By Ville's
    inequality it reaches 2/(1 - confidence) with probability (1 - confidence)/2 at most. Each factor falls in m, so the
    means at which that is not reached are those above a bound: the lower end. Mirrored, the upper end; the union bound
    has both.

    The product is a function of the three counts. The mixture adapts to the spread of x (Waudby-Smith and Ramdas 2024),
    so the interval is narrow where both hypotheses mostly agree.

    Parameters
    ----------
    oracle
        How the answers are randomized.
    counts
        How many answers name each of the three outcomes.
    confidence
        In (0, 1).
    among
        The confidence holds for so many estimates at once (union bound).

    Raises
    ------
    BadInput
        If a number is outside its range.
    """
    if len(counts) != OUTCOMES or min(counts) < 0 or among < 1:
        raise BadInput(f"a difference needs three counts and among >= 1, found {list(counts)} and {among}")
    if not 0.0 < confidence < 1.0:
        raise BadInput(f"a confidence must be in (0, 1), found {confidence}")
    first, same, second = counts
    total = first + same + second
    if total == 0:
        return Difference(value=0.0, low=-1.0, high=1.0, confidence=confidence)
    own, other = oracle.rates(OUTCOMES)
    found = ((first - second) / total, *ends(first, same, second, (1.0 - confidence) / among, SPREAD))
    value, low, high = (min(1.0, max(-1.0, x / (own - other))) for x in found)
    return Difference(value=value, low=low, high=high, confidence=confidence)


def ends(ups: int, zeros: int, downs: int, miss: float, weights: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the interval for the mean of scores of 1, 0 and -1: theorem and proof in :func:`difference`.

    Parameters
    ----------
    ups, zeros, downs
        How many scores there are of each, at least one in all.
    miss
        The chance that the interval ever misses, both ends together.
    weights
        Logarithms of the mixture's weights of :data:`RATES`, chosen before any score is seen.
    """
    total = ups + zeros + downs
    bar = math.log(2.0 / miss) + _ROUNDING * (total + 64)

    def below(mean: float) -> bool:
        return _evidence(ups, zeros, downs, mean, weights) < bar

    def above(mean: float) -> bool:
        return _evidence(downs, zeros, ups, -mean, weights) < bar

    mean = (ups - downs) / total
    return edge(below, mean, -1.0), edge(above, mean, 1.0)


def _evidence(ups: int, zeros: int, downs: int, mean: float, weights: Sequence[float]) -> float:
    """Return the logarithm of the mixture, against means of at most ``mean``."""
    terms = [
        ups * math.log1p(rate * (1.0 - mean))
        + zeros * math.log1p(-rate * mean)
        + downs * math.log1p(-rate * (1.0 + mean))
        + weight
        for rate, weight in zip(RATES, weights, strict=True)
    ]
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
