"""The exponential mechanism (McSherry and Talwar 2007) on whole scores, level by level."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Indices
from common.numerics.elementary import exp
from common.numerics.randomness import RandomSource


def choose_level(people: Indices, epsilon: float, source: RandomSource) -> int:
    """Draw a count of mistakes c with probability proportional to people[c] * exp(-epsilon c / 2).

    Parameters
    ----------
    people
        Shape (m + 1,): how many hypotheses make each number of mistakes; at least one is positive.
    epsilon
        Positive. Weights are relative to the best count present, so none of importance underflows.
    """
    levels = np.flatnonzero(people)
    weights = people[levels] * exp(-0.5 * epsilon * (levels - levels[0]))
    stairs = np.cumsum(weights)
    place = np.searchsorted(stairs, source.uniforms(1)[0] * stairs[-1], side="right")
    return int(levels[min(int(place), len(levels) - 1)])
