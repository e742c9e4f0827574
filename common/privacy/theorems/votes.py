"""What teachers' votes cost: the sparse vector of stable votes, and GNMax, the noisy class with most votes.

Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), Algorithm 2, as docs/model-agnostic.md
corrects it. Queries have a distance to instability d_i, a whole number >= 0 that changes by at most 1 when a record is
replaced, and a value f_i, which is the same on both neighbours unless d_i = 0 on both. With a threshold w and two-sided
geometric noise (P(Z = z) proportional to e^{-e |z|}, one draw in 2^64 apart) the value is released if

    d_i + Z_i > w + Z,     Z with e = ``of_threshold``, Z_i with e = ``of_query``,

and bottom otherwise; after each bottom Z is drawn anew, after T bottoms nothing more is released.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from common.core.errors import BadInput
from common.numerics.bisection import between, least
from common.privacy.rounding import down, up
from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.gaussian_dp import mu_allowed

MIN_NOISE_EPSILON = 0.001  # geometric noise of a smaller one takes too long to draw
_FLAT = 2.0**-64
"""How often noise is drawn flat (:class:`common.local.mechanisms.mechanism.Laplace`): no level is beyond that."""
_FARTHEST = 1 << 38  # a level beyond all that matters, and below what noise is cut to
_GREATEST = 60.0  # cost of an epoch beyond which there is hardly any noise left
_RATIOS = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Spreads of the threshold's noise, in units of that of the queries', among which the calibration chooses."""


class Thresholds(NamedTuple):
    """A sparse vector of T = ``cutoff`` bottoms and w = ``level``; a change of 1 costs the e of either noise."""

    cutoff: int
    level: int
    of_threshold: float
    of_query: float

    @property
    def epoch(self) -> float:
        """Pure cost of what is released from one refreshed threshold to the next, leaks apart: e + 2 e_i, rounded up.

        Proof (Dwork and Roth 2014, Theorem 3.23, with geometric noise). Lower Z by 1: whatever passed on S passes on
        S', which costs e; the one bottom at the end stays one if its Z_i is lowered by 2, which costs 2 e_i.
        """
        return up(self.of_threshold + 2.0 * self.of_query)

    def failure(self, epsilon: float) -> float:
        """Return the delta at which the whole sequence is (epsilon, delta)-DP, rounded up.

        It is the delta of T adaptively composed pure releases (Kairouz, Oh and Viswanath 2015, Theorem 3.3) plus T
        times :func:`leak`: which unstable query of an epoch comes first does not depend on the noise, so there are at
        most T chances to leak, however many queries there are (docs/model-agnostic.md, 4).
        """
        composed = composed_delta(self.cutoff, self.epoch, 0.0, down(epsilon))
        return min(1.0, up(composed + self.cutoff * leak(self.level, self.of_threshold, self.of_query)))

    def margin(self, chance: float) -> int:
        """Return the least distance to instability at which bottom is the output with at most this probability."""
        beyond = _least_level(lambda size: leak(size, self.of_threshold, self.of_query), chance)
        return self.level + beyond + 1


def leak(level: int, of_threshold: float, of_query: float) -> float:
    """Return P(Z_i - Z > w) for two different noises, rounded up.

        (g P(Z_i > w) - g_i P(Z > w)) / (g - g_i),   g = (1-q)^2/q,  P(Z > w) = q^(w+1)/(1+q),  q = e^-e

    By partial fractions of the product of both characteristic functions (1-q)^2/(1 - 2 q cos t + q^2). In the limit of
    wide noise it is (b_i^2 e^{-w/b_i} - b^2 e^{-w/b})/(2 (b_i^2 - b^2)), b = 1/e. As noise is drawn, q is up to 2^-53
    more; and where one of both is flat the difference, which is symmetric, exceeds w once in two times at most.
    """
    if level < 0 or of_threshold == of_query:
        raise BadInput(f"a leak needs a level of at least 0 and different noises, found {level} and {of_threshold}")
    own, other = _curvature(of_query), _curvature(of_threshold)
    cost = other * _geometric_tail(level, of_query) - own * _geometric_tail(level, of_threshold)
    steps = level + 8.0 + 8.0 / min(of_query, of_threshold)
    rounding = 1e6 + steps * math.exp(max(of_query, of_threshold))
    return min(1.0, max(0.0, up(cost / (other - own), rounding)) + _FLAT)


def calibrated(cutoff: int, queries: int, epsilon: float, delta: float) -> Thresholds:
    """Return the sparse vector that is (epsilon, delta)-DP for T bottoms and answers least stable queries.

    Half of delta is for the composition of the epochs, half for leaks. Of several divisions of the epochs' cost that
    one is taken at which all of ``queries`` equally stable queries are answered with probability 95% at the least
    distance.
    """
    if cutoff < 1 or queries < 1:
        raise BadInput(f"the cutoff and the number of queries must be at least 1, found {cutoff} and {queries}")
    if not 0.0 < epsilon < math.inf or not 0.0 < delta < 1.0:
        raise BadInput(f"the sparse vector needs epsilon > 0 and 0 < delta < 1, found {epsilon} and {delta}")
    epoch = _epoch(cutoff, epsilon, delta / 2.0)
    found = [_divided(cutoff, ratio, epoch, down(delta / 2.0)) for ratio in _RATIOS]
    best = min(found, key=lambda thresholds: thresholds.margin(0.05 / queries))
    if best.failure(epsilon) > delta:
        raise AssertionError("a calibration must end on the private side")
    return best


def printed(cutoff: int, queries: int, epsilon: float, delta: float, beta: float) -> tuple[Thresholds, int]:
    """Return the constants that Algorithm 2 prints, with the number k of chunks that it prescribes.

        lambda = sqrt(32 T ln(2/delta))/epsilon,  k = 34 sqrt(2) lambda ln(4 m T/min(delta, beta/2)),
        w = 2 lambda ln(2 m/delta)

    With the corrected distances and `c < T`. Raises :class:`BadInput` if not even so they keep to (epsilon, delta).
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

    With it one release is (epsilon, delta)-DP. *Proof.* If both neighbours have one value, it is post-processing of d +
    Z. Else d = 0 on both, and a value is released with probability P(Z > threshold). (ln(1/delta)/epsilon, Theorem 2.4,
    is a little more.)
    """
    return _least_level(lambda level: _tail(level, epsilon), down(delta))


def stability_share(queries: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the guarantee of each of m releases by A_stab that are (epsilon, delta)-DP together.

    Half of delta is in equal parts the releases' own; they compose by Kairouz, Oh and Viswanath (2015), Theorem 3.3.
    """
    if queries < 1 or not 0.0 < epsilon < math.inf or not 0.0 < delta < 1.0:
        raise BadInput(f"a share wants queries >= 1, epsilon > 0, 0 < delta < 1, found {queries}, {epsilon}, {delta}")
    own = down(delta / (2.0 * queries))
    each = _drawable(min(30.0, _epoch(queries, epsilon, delta, own)))
    stability_level(each, own)  # refused here where there is none
    return each, own


def stability_margin(chance: float, epsilon: float, delta: float) -> int:
    """Return the least distance at which A_stab of this guarantee says bottom with at most this probability."""
    return stability_level(epsilon, delta) + 1 + _least_level(lambda size: _tail(size, epsilon), chance)


def _divided(cutoff: int, ratio: float, epoch: float, delta: float) -> Thresholds:
    of_query = _drawable(down(epoch / (2.0 + 1.0 / ratio)))
    of_threshold = _drawable(down(epoch - 2.0 * of_query))
    level = _least_level(lambda w: up(cutoff * leak(w, of_threshold, of_query)), delta)
    return Thresholds(cutoff, level, of_threshold, of_query)


def _epoch(cutoff: int, epsilon: float, delta: float, own: float = 0.0) -> float:
    def fits(each: float) -> bool:
        return composed_delta(cutoff, each, own, down(epsilon)) <= down(delta)

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
    """Return P(Z > level), rounded up, as noise is drawn: q is up to 2^-53 more, and a flat draw is as often below."""
    rounding = 16.0 + (level + 1) * (noise + math.exp(noise))
    return up(_geometric_tail(level, noise), rounding) + 0.5 * _FLAT


def _least_level(chance: Callable[[int], float], most: float) -> int:
    """Return the least level at which a chance, which falls with it, is at most so much; BadInput if there is none."""
    if chance(_FARTHEST) > most:
        raise BadInput(f"one draw of noise in 2^64 is flat: no level has a chance of {most:.3g} or less; raise delta")
    return least(lambda level: chance(level) <= most)


MIN_NOISE, MAX_NOISE = 1e-3, 1e6
"""What sigma may be, in votes: less hides nothing, and more than there are teachers is no answer."""


def answer_mu(sigma: float, touched: int = 1) -> float:
    """Return mu of one answer, which is mu-GDP: sqrt(2) touched / sigma, rounded up.

    A teacher that changes its vote lowers one count by 1 and raises another: L2 sensitivity sqrt(2), whatever the
    number of classes. The class is post-processing of the Gaussian mechanism (Dong, Roth and Su 2022, Theorem 1). m
    answers, chosen adaptively, are exactly sqrt(m) mu-GDP (Corollary 2).
    """
    return up(math.sqrt(2.0) * touched / sigma)


def answers_sigma(queries: int, epsilon: float, delta: float, touched: int = 1) -> float:
    """Return the least sigma, in votes, at which m answers are (epsilon, delta)-DP: sqrt(2 m) touched / mu*.

    Rounded up, and at least :data:`MIN_NOISE`. At (1, 1e-6), 1000 answers need sigma = 189.
    """
    return max(MIN_NOISE, up(math.sqrt(2.0 * queries) * touched / down(mu_allowed(epsilon, delta)), 16.0))


def flips(agreement: float, chunks: int, sigma: float, classes: int = 2) -> float:
    """Return the chance that an answer is not what most teachers say, if this share a of k agree; at most.

        Phi(-(2 a - 1) k / (sqrt(2) sigma)) + (C - 2) Phi(-a k / (sqrt(2) sigma))

    With two classes it is exact, with C a union bound for a >= 1/2: each summand is convex in how many say that class.
    """

    def beaten(by: float) -> float:
        return 0.5 * math.erfc(by * chunks / (2.0 * sigma))

    return min(1.0, beaten(2.0 * agreement - 1.0) + (classes - 2) * beaten(agreement))
