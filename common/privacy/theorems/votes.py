"""The privacy cost of teachers' votes: the sparse vector of stable votes, and GNMax, the noisy plurality.

Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), Algorithm 2, as docs/model-agnostic.md
corrects it. Queries have a distance to instability d_i, a whole number >= 0 that changes by at most 1 when a record is
replaced, and a value f_i, which is the same on both neighbours unless d_i = 0 on both. With a threshold w and two-sided
geometric noise (P(Z = z) proportional to e^{-e |z|}, except for one draw in 2^64) the value is released if

    d_i + Z_i > w + Z,     Z with e = ``of_threshold``, Z_i with e = ``of_query``,

and bottom otherwise. After each bottom Z is drawn anew; after T bottoms nothing more is released.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from common.core.errors import BadInput
from common.numerics.bisection import between, least
from common.privacy.rounding import down, up
from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.gaussian_dp import mu_allowed

MIN_NOISE_EPSILON = 0.001  # geometric noise of a smaller epsilon takes too long to draw
_FLAT = 2.0**-64
"""Probability of flat noise (:class:`common.local.mechanisms.mechanism.Laplace`): no level has a smaller tail."""
_FARTHEST = 1 << 38  # a level above all relevant ones, and below the cut of noise
_GREATEST = 60.0  # cost of an epoch above which there is hardly any noise
_RATIOS = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Spreads of the threshold's noise, in units of that of the queries', among which the calibration chooses."""


class Thresholds(NamedTuple):
    """A sparse vector with T = ``cutoff`` bottoms and w = ``level``; a shift of 1 costs the e of the noise."""

    cutoff: int
    level: int
    of_threshold: float
    of_query: float

    @property
    def epoch(self) -> float:
        """Pure cost of the releases from one refreshed threshold to the next, without leaks: e + 2 e_i, rounded up.

        Proof (Dwork and Roth 2014, Theorem 3.23, with geometric noise). Lower Z by 1, which costs e: every query that
        passed on S passes on S'. The bottom at the end stays one if its Z_i is lowered by 2, which costs 2 e_i.
        """
        return up(self.of_threshold + 2.0 * self.of_query)

    def failure(self, epsilon: float) -> float:
        """Return the delta at which the whole sequence is (epsilon, delta)-DP, rounded up.

        It is the delta of T adaptively composed pure releases (Kairouz, Oh and Viswanath 2015, Theorem 3.3) plus T
        times :func:`leak`. Which unstable query of an epoch comes first does not depend on the noise, so there are at
        most T opportunities to leak, for any number of queries (docs/model-agnostic.md, 4).
        """
        composed = composed_delta(self.cutoff, self.epoch, 0.0, down(epsilon))
        return min(1.0, up(composed + self.cutoff * leak(self.level, self.of_threshold, self.of_query)))

    def margin(self, chance: float) -> int:
        """Return the least distance to instability at which bottom is the output with at most this probability."""
        excess = _least_level(lambda size: leak(size, self.of_threshold, self.of_query), chance)
        return self.level + excess + 1


def leak(level: int, of_threshold: float, of_query: float) -> float:
    """Return P(Z_i - Z > w) for two different noises, rounded up.

        (g P(Z_i > w) - g_i P(Z > w)) / (g - g_i),   g = (1-q)^2/q,  P(Z > w) = q^(w+1)/(1+q),  q = e^-e

    By partial fractions of the product of both characteristic functions (1-q)^2/(1 - 2 q cos t + q^2). In the limit of
    wide noise it is (b_i^2 e^{-w/b_i} - b^2 e^{-w/b})/(2 (b_i^2 - b^2)), b = 1/e. In the noise as drawn, q is larger by
    up to 2^-53. If one of both is flat, the difference, which is symmetric, exceeds w with probability at most 1/2.
    """
    if level < 0 or of_threshold == of_query:
        raise BadInput(f"a leak needs a level of at least 0 and different noises, found {level} and {of_threshold}")
    g_query, g_threshold = _curvature(of_query), _curvature(of_threshold)
    cost = g_threshold * _geometric_tail(level, of_query) - g_query * _geometric_tail(level, of_threshold)
    steps = level + 8.0 + 8.0 / min(of_query, of_threshold)
    rounding = 1e6 + steps * math.exp(max(of_query, of_threshold))
    return min(1.0, max(0.0, up(cost / (g_threshold - g_query), rounding)) + _FLAT)


def calibrated(cutoff: int, queries: int, epsilon: float, delta: float) -> Thresholds:
    """Return the sparse vector that is (epsilon, delta)-DP for T bottoms and answers the least stable queries.

    Half of delta is for the composition of the epochs, half for leaks. Among several divisions of an epoch's cost, it
    chooses the one with the least distance at which all of ``queries`` equally stable queries are answered with
    probability 95%.
    """
    if cutoff < 1 or queries < 1:
        raise BadInput(f"the cutoff and the number of queries must be at least 1, found {cutoff} and {queries}")
    if not 0.0 < epsilon < math.inf or not 0.0 < delta < 1.0:
        raise BadInput(f"the sparse vector needs epsilon > 0 and 0 < delta < 1, found {epsilon} and {delta}")
    epoch = _epoch(cutoff, epsilon, delta / 2.0)
    candidates = [_divided(cutoff, ratio, epoch, down(delta / 2.0)) for ratio in _RATIOS]
    best = min(candidates, key=lambda thresholds: thresholds.margin(0.05 / queries))
    if best.failure(epsilon) > delta:
        raise AssertionError("a calibration must end on the private side")
    return best


def printed(cutoff: int, queries: int, epsilon: float, delta: float, beta: float) -> tuple[Thresholds, int]:
    """Return the constants of Algorithm 2 as printed, with the number k of chunks that it prescribes.

        lambda = sqrt(32 T ln(2/delta))/epsilon,  k = 34 sqrt(2) lambda ln(4 m T/min(delta, beta/2)),
        w = 2 lambda ln(2 m/delta)

    Distances and `c < T` are the corrected ones. Raises :class:`BadInput` if even then it is not (epsilon, delta)-DP.
    """
    width = math.sqrt(32.0 * cutoff * math.log(2.0 / delta)) / epsilon
    chunks = round(34.0 * math.sqrt(2.0) * width * math.log(4.0 * queries * cutoff / min(delta, beta / 2.0)))
    level = math.ceil(2.0 * width * math.log(2.0 * queries / delta))
    thresholds = Thresholds(cutoff, level, _drawable(1.0 / width), _drawable(0.5 / width))
    if thresholds.failure(epsilon) > delta:
        raise BadInput(
            f"the printed constants of Algorithm 2 do not keep to epsilon = {epsilon:g}, delta = {delta:g}: take tight"
        )
    return thresholds, chunks


def enough_bottoms(mistakes: float, queries: int, beta: float) -> int:
    """Return Theorem 3.2's T for teachers that make this share of mistakes, at least 1.

    ::

        T = 3 (e m + sqrt(e m ln(m/beta)/2)),   e = gamma + alpha

    None of k teachers errs on more than T/3 of m queries, so (Lemma 3.3) on all but T of them more than two thirds
    agree.
    """
    expected = mistakes * queries
    return max(1, math.ceil(3.0 * (expected + math.sqrt(expected * math.log(queries / beta) / 2.0))))


def stability_level(epsilon: float, delta: float) -> int:
    """Return the least whole threshold of A_stab (Algorithm 1): P(Z > threshold) <= delta for Z of ``epsilon``.

    With it one release is (epsilon, delta)-DP. *Proof.* If both neighbours have the same value, it is post-processing
    of d + Z. Otherwise d = 0 on both, and a value is released with probability P(Z > threshold). (The paper's
    threshold in Theorem 2.4, ln(1/delta)/epsilon, is a little larger.)
    """
    return _least_level(lambda level: _tail(level, epsilon), down(delta))


def stability_share(queries: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the guarantee of each of m releases by A_stab that are (epsilon, delta)-DP together.

    Half of delta is divided equally among the releases; they compose by Kairouz, Oh and Viswanath (2015), Theorem 3.3.
    """
    if queries < 1 or not 0.0 < epsilon < math.inf or not 0.0 < delta < 1.0:
        raise BadInput(f"a share wants queries >= 1, epsilon > 0, 0 < delta < 1, found {queries}, {epsilon}, {delta}")
    delta_each = down(delta / (2.0 * queries))
    epsilon_each = _drawable(min(30.0, _epoch(queries, epsilon, delta, delta_each)))
    stability_level(epsilon_each, delta_each)  # raises BadInput if there is none
    return epsilon_each, delta_each


def stability_margin(chance: float, epsilon: float, delta: float) -> int:
    """Return the least distance at which A_stab with this guarantee returns bottom with probability <= ``chance``."""
    return stability_level(epsilon, delta) + 1 + _least_level(lambda size: _tail(size, epsilon), chance)


def _divided(cutoff: int, ratio: float, epoch: float, delta: float) -> Thresholds:
    of_query = _drawable(down(epoch / (2.0 + 1.0 / ratio)))
    of_threshold = _drawable(down(epoch - 2.0 * of_query))
    level = _least_level(lambda w: up(cutoff * leak(w, of_threshold, of_query)), delta)
    return Thresholds(cutoff, level, of_threshold, of_query)


def _epoch(cutoff: int, epsilon: float, delta: float, delta_each: float = 0.0) -> float:
    def fits(each: float) -> bool:
        return composed_delta(cutoff, each, delta_each, down(epsilon)) <= down(delta)

    return down(between(0.0, min(epsilon, _GREATEST), fits, 1e-9), 64.0)


def _drawable(noise: float) -> float:
    if not noise >= MIN_NOISE_EPSILON:
        raise BadInput(
            f"the sparse vector's noise would be of epsilon {noise:.2g}, at least {MIN_NOISE_EPSILON:g} can be "
            "drawn: lower the cutoff or raise epsilon"
        )
    return noise


def _curvature(noise: float) -> float:
    return 4.0 * math.sinh(noise / 2.0) ** 2


def _geometric_tail(level: int, noise: float) -> float:
    return math.exp(-noise * (level + 1)) / (1.0 + math.exp(-noise))


def _tail(level: int, noise: float) -> float:
    """Return P(Z > level) of noise as drawn, rounded up: q is larger by up to 2^-53, and flat draws are symmetric."""
    rounding = 16.0 + (level + 1) * (noise + math.exp(noise))
    return up(_geometric_tail(level, noise), rounding) + 0.5 * _FLAT


def _least_level(chance: Callable[[int], float], most: float) -> int:
    """Return the least level at which a decreasing chance is at most ``most``; BadInput if there is none."""
    if chance(_FARTHEST) > most:
        raise BadInput(f"one draw of noise in 2^64 is flat: no level has a chance of {most:.3g} or less; raise delta")
    return least(lambda level: chance(level) <= most)


MIN_NOISE, MAX_NOISE = 1e-3, 1e6
"""Range of sigma in votes: less hides nothing, and more than the number of teachers gives no useful answer."""


def answer_mu(sigma: float, touched: int = 1) -> float:
    """Return mu of one answer, which is mu-GDP: sqrt(2) touched / sigma, rounded up.

    A teacher that changes its vote lowers one count by 1 and raises another: L2 sensitivity sqrt(2), for any number of
    classes. The class is post-processing of the Gaussian mechanism (Dong, Roth and Su 2022, Theorem 1). m adaptively
    chosen answers are exactly sqrt(m) mu-GDP (Corollary 2).
    """
    return up(math.sqrt(2.0) * touched / sigma)


def answers_sigma(queries: int, epsilon: float, delta: float, touched: int = 1) -> float:
    """Return the least sigma, in votes, at which m answers are (epsilon, delta)-DP: sqrt(2 m) touched / mu*.

    Rounded up, and at least :data:`MIN_NOISE`. At (1, 1e-6), 1000 answers need sigma = 189.
    """
    return max(MIN_NOISE, up(math.sqrt(2.0 * queries) * touched / down(mu_allowed(epsilon, delta)), 16.0))


def flips(agreement: float, chunks: int, sigma: float, classes: int = 2) -> float:
    """Return an upper bound on the probability that an answer differs from the vote of a share a of k teachers.

        Phi(-(2 a - 1) k / (sqrt(2) sigma)) + (C - 2) Phi(-a k / (sqrt(2) sigma))

    With two classes it is exact. With C it is a union bound for a >= 1/2: each summand is convex in the class's votes.
    """

    def beaten(lead: float) -> float:
        return 0.5 * math.erfc(lead * chunks / (2.0 * sigma))

    return min(1.0, beaten(2.0 * agreement - 1.0) + (classes - 2) * beaten(agreement))
