"""Composition of (epsilon, delta) guarantees: draws from mu, k-fold adaptive composition, and its inverse.

Neighbours differ in one record by replacement; n is public. Everything is rounded up.
"""

import math
from functools import lru_cache

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.numerics.bisection import between
from common.privacy.rounding import UNIT, up

MAX_RELEASES = 10_000_000  # largest k of :func:`composed_delta` (its tables have k numbers)


def subsampled(draws: int, tv_bound: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (eps*, delta*) of an (epsilon, delta)-DP learner on m independent draws from mu, rounded up.

        eps* = m ln(1 + s (e^epsilon - 1)),     delta* = delta (e^{eps*} - 1) / (e^epsilon - 1)

    By advanced joint convexity (Balle, Barthe and Gaboardi 2018), applied to one draw's law after the other; tight. For
    the proof, and why Kohen & Sheffet's Claim 4.1 is false as printed, see docs/corrections.md, K13.

    Args:
        draws, tv_bound: m >= 1 and s in (0, 1].
        epsilon, delta: The learner's replace-one guarantee for a data set of m records; epsilon > 0, 0 <= delta < 1.

    Returns:
        delta* is at most 1; eps* is infinite if e^epsilon overflows. A mechanism on the sample itself (m = 1, s = 1)
            keeps its own guarantee.
    """
    if draws == 1 and tv_bound == 1.0:
        return epsilon, delta
    try:
        growth = math.expm1(epsilon)
    except OverflowError:
        return math.inf, 1.0 if delta else 0.0
    per_draw = up(math.log1p(up(tv_bound * growth, 16.0)), 16.0)
    star = min(up(draws * per_draw), up(draws * epsilon))
    if delta == 0.0:
        return star, 0.0
    try:
        total = math.expm1(star)
    except OverflowError:
        return star, 1.0
    return star, min(1.0, up(delta * total / growth, 32.0 * (1.0 + star)))


def composed_delta(releases: int, epsilon: float, delta: float, target: float) -> float:
    """Return the exact delta at epsilon = ``target`` >= 0 of k adaptive (epsilon, delta)-DP releases, rounded up.

        1 - (1 - delta)^k (1 - pure),
        pure = sum_l C(k,l) [e^{(k-l) epsilon} - e^{target + l epsilon}]_+ / (1 + e^epsilon)^k

    Kairouz, Oh and Viswanath (2015), Theorem 3.3: every such release is a post-processing of one that reveals the
    record with probability delta and is randomized response otherwise. So the sum is the hockey-stick divergence of k
    randomized responses, l of which disagree. It is optimal. k is in 1..10^7.
    """
    from scipy.special import logsumexp  # imported here, as it is slow to load and rarely needed

    if not 1 <= releases <= MAX_RELEASES:
        raise BadInput(f"between 1 and {MAX_RELEASES} releases can be composed, found {releases}")
    log_weights, slack = _disagreements(releases, epsilon)
    losses = (releases - 2.0 * np.arange(len(log_weights))) * epsilon
    gaps = losses - target + 4.0 * UNIT * (losses + target)
    gaps = gaps[gaps > 0.0]
    pure = 0.0
    if len(gaps):
        pure = math.exp(min(0.0, float(logsumexp(log_weights[: len(gaps)] + np.log(-np.expm1(-gaps)))) + slack))
    failure = _any_failure(releases, delta)
    return min(1.0, up(pure + (1.0 - pure) * failure, 16.0)) if failure else pure


@lru_cache(maxsize=256)
def composed_epsilon(releases: int, epsilon: float, delta: float, total_delta: float) -> float:
    """Return the smallest epsilon of k adaptive (epsilon, delta)-DP releases at a delta, rounded up, or infinity."""
    if releases > MAX_RELEASES or _any_failure(releases, delta) > total_delta or not math.isfinite(epsilon):
        return math.inf
    leaky, private = 0.0, epsilon if releases == 1 else up(releases * epsilon)
    if composed_delta(releases, epsilon, delta, leaky) <= total_delta:
        return leaky
    return between(private, leaky, lambda total: composed_delta(releases, epsilon, delta, total) <= total_delta, 1e-12)


def _any_failure(releases: int, delta: float) -> float:
    if delta in (0.0, 1.0) or releases == 1:
        return delta
    return min(1.0, up(-math.expm1(releases * math.log1p(-delta)), 16.0))


@lru_cache(maxsize=64)
def _disagreements(releases: int, epsilon: float) -> tuple[Floats, float]:
    from scipy.special import gammaln  # imported here, as it is slow to load and rarely needed

    disagree = np.arange(releases // 2 + 1, dtype=np.float64)
    choose = gammaln(releases + 1.0) - gammaln(disagree + 1.0) - gammaln(releases - disagree + 1.0)
    log_weights = choose - disagree * epsilon - releases * math.log1p(math.exp(-epsilon))
    size = float(gammaln(releases + 1.0)) + releases * (epsilon + 1.0)
    return log_weights, 16.0 * UNIT * size + 1e-13
