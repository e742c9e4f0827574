"""How votes become answers: GNMax, stable winners, or the sparse vector over them."""

from __future__ import annotations

import math

from common.core.arrays import Indices
from common.numerics.randomness import RandomSource
from common.privacy.theorems.votes import stability_share
from common.vocabulary.learners.aggregation import GnMax, SparseVector, Stability
from curator.learners.teachers.counts import distances, winners
from curator.learners.teachers.stability import release_if_stable, release_until_cutoff
from curator.mechanisms.gaussian import noisy_winners


def aggregate(
    aggregation: GnMax | Stability | SparseVector,
    counts: Indices,
    queries: int,
    touched: int,
    mistakes: float | None,
    source: RandomSource,
) -> Indices:
    """Return the class of each vote, shape (m,), int64, or a negative number where none is released.

    Parameters
    ----------
    counts
        Shape (m, classes).
    queries
        m.
    touched
        How many teachers one record changes at most.
    mistakes
        The teachers' share of mistakes, if it was estimated.
    """
    if isinstance(aggregation, GnMax):
        return noisy_winners(counts, aggregation.sigma(queries, touched), source)
    if isinstance(aggregation, Stability):
        share = stability_share(queries, aggregation.epsilon, aggregation.delta)
        return release_if_stable(winners(counts), distances(counts, touched), *share, source)
    cutoff = aggregation.cutoff
    if mistakes is not None:
        cutoff = min(cutoff, enough_bottoms(mistakes, queries, aggregation.beta))
    law = aggregation.thresholds(queries, cutoff)
    return release_until_cutoff(winners(counts), distances(counts, touched), law, source)


def enough_bottoms(mistakes: float, queries: int, beta: float) -> int:
    """Return Theorem 3.2's T for teachers that make this share of mistakes, at least 1.

    ::

        T = 3 (e m + sqrt(e m ln(m/beta)/2)),   e = gamma + alpha

    None of k teachers errs on more than T/3 of m queries, so (Lemma 3.3) on all but T of them more than two thirds
    agree.
    """
    expected = mistakes * queries
    return max(1, math.ceil(3.0 * (expected + math.sqrt(expected * math.log(queries / beta) / 2.0))))
