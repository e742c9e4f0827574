"""Exact guarantees of the classical local randomizers and their inverses, rounded to the private side.

An agent holds one record; neighbours differ by replacing it. These are statements about real numbers: how a
sampler turns them into bits and doubles is the mechanism's business (:mod:`common.local.mechanisms`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from common.core.errors import BadInput
from common.privacy.rounding import check_epsilon, down, up
from common.privacy.theorems.gaussian_dp import mu_allowed


def randomized_response_epsilon(probability: float) -> float:
    """Return Warner's guarantee: answering the true bit with probability p >= 1/2 is pure epsilon-DP.

    ::

        epsilon = ln(p / (1 - p))

    Rounded up; infinite at p = 1. Warner (1965).

    Raises:
        BadInput: If p is not in [1/2, 1].
    """
    if not 0.5 <= probability <= 1.0:
        raise BadInput(f"a probability to answer truly must be in [1/2, 1], found {probability}")
    if probability == 1.0:
        return math.inf
    # 1 - p is exact for p >= 1/2 (Sterbenz), and so is 2 p - 1.
    return 0.0 if probability == 0.5 else up(math.log1p((2.0 * probability - 1.0) / (1.0 - probability)))


def randomized_response_probability(epsilon: float) -> float:
    """Return the largest p that we can show to be epsilon-DP: e^eps / (1 + e^eps), rounded down.

    Raises:
        BadInput: If epsilon is not a positive finite number.
    """
    check_epsilon(epsilon)
    probability = max(0.5, min(1.0 / (1.0 + math.exp(-epsilon)), math.nextafter(1.0, 0.0)))
    while randomized_response_epsilon(probability) > epsilon and probability > 0.5:
        probability = math.nextafter(probability, 0.0)
    return probability


def k_ary_response_probability(epsilon: float, symbols: int) -> float:
    """Return the largest p that we can show to be epsilon-DP for k symbols: e^eps / (e^eps + k - 1), rounded down.

    Telling one's own of k symbols with probability p, and each other with (1 - p)/(k - 1), is pure epsilon-DP iff
    p (k - 1)/(1 - p) <= e^eps and p >= 1/k (Warner 1965 for k = 2). p is a whole multiple of 1/2^53, computed with
    fractions from a lower bound on e^eps.

    Raises:
        BadInput: If epsilon is not a positive finite number, or there are fewer than 2 symbols.
    """
    check_epsilon(epsilon)
    if symbols < 2:
        raise BadInput(f"there must be at least 2 symbols, found {symbols}")
    least = Fraction(down(math.exp(epsilon)))
    return math.floor(least / (least + symbols - 1) * 2**53) / 2**53


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least sigma for which Gaussian noise is (epsilon, delta)-DP, sensitivity / mu*, rounded up.

    Valid for every epsilon, unlike the textbook variance 2 ln(2/delta)/epsilon^2. Balle and Wang (2018),
    Algorithm 1.

    Args:
        sensitivity: L2 sensitivity: the width of the range for one number in a public range.

    Raises:
        BadInput: If epsilon or the sensitivity is not a positive finite number, or delta is not in (0, 1).
    """
    _check_positive("sensitivity", sensitivity)
    return up(sensitivity / down(mu_allowed(epsilon, delta)))


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise BadInput(f"{name} must be positive and finite, found {value}")
