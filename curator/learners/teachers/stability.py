"""A_stab and A_binClas: the winner is said where it is stable, bottom where it is not."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Indices
from common.numerics.randomness import RandomSource
from common.privacy.theorems.votes import Thresholds, stability_level
from curator.mechanisms.counting.geometric import geometric_noise

BOTTOM = -1
"""Said in the place of a class where the votes do not agree."""
UNANSWERED = -2
"""Stands for the queries that come after the last bottom that is allowed."""


def release_if_stable(values: Indices, stable: Indices, epsilon: float, delta: float, source: RandomSource) -> Indices:
    """Algorithm 1, A_stab, for each of m queries: the value, or :data:`BOTTOM`; (epsilon, delta)-DP *each*.

    Says the value if dist + Z > Gamma, Z two-sided geometric noise of epsilon, Gamma the least level with P(Z > Gamma)
    <= delta (:func:`common.privacy.theorems.votes.stability_level`).

    Parameters
    ----------
    values, stable
        Shape (m,): the winners and their distances to instability (:mod:`curator.learners.teachers.counts`).
    """
    noise = geometric_noise(len(values), epsilon, source)
    return np.where(stable + noise > stability_level(epsilon, delta), values, BOTTOM)


def release_until_cutoff(values: Indices, stable: Indices, law: Thresholds, source: RandomSource) -> Indices:
    """Algorithm 2, A_binClas, its loop: each value or :data:`BOTTOM`; after T bottoms :data:`UNANSWERED`.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), corrected: it stops at the T-th
    bottom (`c < T`; as printed, `c <= T`, there are T+1), distances have sensitivity 1, and the noise is calibrated
    exactly, for any number of classes. The threshold is drawn anew after each bottom. Private as
    :meth:`~common.privacy.theorems.votes.Thresholds.failure` says, for one sequence of queries.

    Parameters
    ----------
    values, stable
        Shape (m,): the winners and their distances to instability.
    law
        T, the threshold and both noises.
    """
    refreshed = law.level + geometric_noise(law.cutoff, law.of_threshold, source.derive("thresholds"))
    noisy = stable + geometric_noise(len(values), law.of_query, source.derive("queries"))
    said = np.full(len(values), UNANSWERED, dtype=np.int64)
    bottoms = 0
    for query in range(len(values)):
        if not bottoms < law.cutoff:
            break
        passes = noisy[query] > refreshed[bottoms]
        said[query] = values[query] if passes else BOTTOM
        bottoms += not passes
    return said
