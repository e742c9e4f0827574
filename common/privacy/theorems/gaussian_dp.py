"""Gaussian differential privacy: what Gaussian noise costs, exactly, and its inverse; rounded to the private side.

A release is mu-GDP if telling neighbours apart by it is no easier than telling N(0, 1) from N(mu, 1) (Dong, Roth and
Su 2022). Noise N(0, sigma^2 I) on a vector of L2 sensitivity s is s/sigma-GDP, tightly; adaptive releases compose to
the root of the sum of their mu^2, exactly (their Corollary 2). That is no limit theorem: nothing here is approximate.
"""

from __future__ import annotations

import math

from common.core.errors import BadInput
from common.numerics.bisection import between, largest
from common.privacy.rounding import MAX_EPSILON, UNIT, check_delta, check_epsilon


def delta_of(mu: float, epsilon: float) -> float:
    """Return the exact delta of a mu-GDP release at epsilon, rounded up.

    ::

        delta_G(eps; mu) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

    Balle and Wang (2018), Theorem 8; necessary and sufficient. With x = eps/mu - mu/2, y = eps/mu + mu/2, it
    is phi(x) (M(x) - M(y)) for the Mills ratio M = (1 - Phi)/phi, which does not cancel where delta is tiny.

    Args:
        mu: L2 sensitivity in units of the noise's standard deviation, positive.
        epsilon: At least 0.

    Raises:
        BadInput: If epsilon is negative or mu is not positive, or either is not finite.
    """
    if not 0.0 <= epsilon < math.inf:
        raise BadInput(f"epsilon must be at least 0 and finite, found {epsilon}")
    if not 0.0 < mu < math.inf:
        raise BadInput(f"mu must be positive and finite, found {mu}")
    from scipy.special import (  # here, since agents need this module and rarely this function
        erfcx,
        log_ndtr,
        ndtr,
    )

    x, y = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    if x <= 0.0:
        above = float(ndtr(-x))
        return min(1.0, above - math.exp(epsilon + float(log_ndtr(-y))) + (64.0 + 8.0 * epsilon) * UNIT)
    density = math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    mills = math.sqrt(math.pi / 2.0)
    upper, lower = mills * float(erfcx(x / math.sqrt(2.0))), mills * float(erfcx(y / math.sqrt(2.0)))
    # x errs by a few units, which the exponent x^2/2 magnifies by x^2.
    slack = (32.0 + 8.0 * x * x) * UNIT
    return min(1.0, density * ((upper - lower) * (1.0 + slack) + 32.0 * UNIT * upper * (1.0 + epsilon / mu)) + 5e-324)


def mu_allowed(epsilon: float, delta: float) -> float:
    """Return mu*(eps, delta), the largest mu with delta_G(eps; mu) <= delta, rounded down.

    By a part in 10^12, so that :func:`epsilon_of` finds it within epsilon again.

    Raises:
        BadInput: If epsilon is not a positive finite number or delta is not in (0, 1).
    """
    check_epsilon(epsilon)
    check_delta(delta)
    return largest(lambda mu: delta_of(mu, epsilon) <= delta, 1.0, 2.0 * UNIT) * (1.0 - 1e-12)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon with delta_G(eps; mu) <= delta, rounded up; infinite where none up to 700 suffices.

    Raises:
        BadInput: If mu is not positive or delta is not in (0, 1).
    """
    check_delta(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    leaky, private = 0.0, 1.0
    while delta_of(mu, private) > delta:
        if private >= MAX_EPSILON:
            return math.inf
        leaky, private = private, min(2.0 * private, MAX_EPSILON)
    return between(private, leaky, lambda epsilon: delta_of(mu, epsilon) <= delta, 1e-13)
