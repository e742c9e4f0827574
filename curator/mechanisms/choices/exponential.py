"""The exponential mechanism (McSherry and Talwar 2007) on whole scores, level by level, in whole numbers."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from common.core.arrays import Indices
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from curator.mechanisms.choices.whole_numbers import place_of, random_bits

_SHARE_BITS = 64
"""No level has less than 2^-64 of the best's weight."""
_WEIGHT_BITS = 192
_FIXED_BITS = 320
_SPARE_BITS = 128
_COUNT_BITS = 64


def choose_level(people: Indices, epsilon: float, source: RandomSource) -> int:
    """Draw a count of mistakes c with probability proportional to people[c] * w(c), and so a hypothesis of count c.

    ::

        w(c) = max(e^{-epsilon (c - c_min)/2}, 2^-64),    c_min the least count of any hypothesis

    *Pure epsilon-DP* where a record changes each hypothesis' count by at most 1. With J = 128 ln 2/epsilon, the weight
    is e^{-epsilon min(c - c_min, J)/2}, and min(c - c_min, J) + c_min = min(c, c_min + J) changes by at most 1 as well;
    the common factor e^{epsilon c_min/2} cancels. So without rounding, the law is that of the exponential mechanism for
    that score. It is drawn for epsilon', the double below epsilon. Weights are whole numbers of at least 2^128, within
    2^-100 of what they should be, relative to that; a uniform number of 128 spare bits finds each with its probability
    to within 2^-120 of it. Both change a ratio of probabilities by a factor below e^{2^-96}, and epsilon - epsilon' is
    at least 2^-54 epsilon.

    The numbers of words, of weights and of comparisons are functions of epsilon and of the greatest possible count.

    Parameters
    ----------
    people
        Shape (m + 1,): how many hypotheses make each number of mistakes; at least one is positive.
    epsilon
        At least 2^-40.
    """
    shares = _weights(epsilon, len(people) - 1)
    far = len(shares) - 1
    best = int(np.argmax(people > 0))
    near = np.zeros(far, dtype=np.int64)
    present = people[best : best + far]
    near[: len(present)] = present
    beyond = np.cumsum(people[best + far :])
    groups = [*near.tolist(), int(beyond[-1]) if len(beyond) else 0]
    weights = [count * share for count, share in zip(groups, shares, strict=True)]
    bits = _COUNT_BITS + _WEIGHT_BITS + _SPARE_BITS
    gap = place_of(random_bits(bits, source) * sum(weights) >> bits, weights)
    rank = random_bits(_COUNT_BITS + _SPARE_BITS, source) * groups[-1] >> _COUNT_BITS + _SPARE_BITS
    behind = int(np.searchsorted(beyond, rank, side="right"))
    return best + gap + (behind if gap == far else 0)


@cache
def _weights(epsilon: float, most: int) -> tuple[int, ...]:
    """Return 2^192 max(e^{-epsilon' j/2}, 2^-64), rounded, for all j up to the first of 2^-64, or up to ``most``."""
    exponent = down(epsilon) / 2.0
    last = min(most, math.ceil(_SHARE_BITS * math.log(2.0) / exponent))
    ratio, weight, weights = _exponential(exponent), 1 << _FIXED_BITS, []
    for _ in range(last + 1):
        weights.append(max(weight >> _FIXED_BITS - _WEIGHT_BITS, 1 << _WEIGHT_BITS - _SHARE_BITS))
        weight = weight * ratio >> _FIXED_BITS
    return tuple(weights)


def _exponential(exponent: float) -> int:
    """Return e^-x in multiples of 2^-320, to some 2^-300, for an exponent x >= 0: by Taylor's series of x/2^h."""
    above, below = exponent.as_integer_ratio()
    halvings = max(0, math.frexp(exponent)[1] + 8)
    fixed = _FIXED_BITS + halvings + 16
    argument = (above << fixed) // (below << halvings)
    total = term = 1 << fixed
    k = 0
    while term:
        k += 1
        term = term * argument // (k << fixed)
        total += -term if k % 2 else term
    for _ in range(halvings):
        total = total * total >> fixed
    return total >> fixed - _FIXED_BITS
