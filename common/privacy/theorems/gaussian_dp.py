"""Gaussian differential privacy: the exact cost of Gaussian noise, and its inverse; rounded conservatively.

A release is mu-GDP if it makes neighbours no easier to distinguish than N(0, 1) and N(mu, 1) (Dong, Roth and Su 2022).
Noise N(0, sigma^2 I) on a vector of L2 sensitivity s is s/sigma-GDP, tightly. Adaptive releases compose exactly to the
root of the sum of their mu^2 (their Corollary 2). That is no limit theorem: nothing here is approximate.

The last functions calibrate private domain adaptation (Bassily, Cortes, Mao and Mohri 2024; docs/adaptation.md). An
iteration releases two noisy vectors with noise of deviations sigma_1 and sigma_2: the gradient of w, of sensitivity
s_1, and that of the private records' scales, of sensitivity s_2. Neighbours are at a distance mu_step = sqrt(a + b), a
= (s_1/sigma_1)^2, b = (s_2/sigma_2)^2, and T iterations are sqrt(T) mu_step-GDP. For the squared loss the gradients
differ most where the losses do not: mu_step^2 = max_q (1 + q)^2 (a/4 + b (1 - q)^2). Functions raise :class:`BadInput`
for numbers outside the ranges that they state.
"""

import math
from typing import NamedTuple

from common.core.errors import BadInput
from common.numerics.bisection import between, largest
from common.privacy.rounding import MAX_EPSILON, UNIT, check_delta, check_epsilon, down, up


def delta_of(mu: float, epsilon: float) -> float:
    """Return the exact delta of a mu-GDP release at epsilon >= 0, rounded up.

        delta_G(eps; mu) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

    Balle and Wang (2018), Theorem 8; necessary and sufficient. With x = eps/mu - mu/2, y = eps/mu + mu/2, it is phi(x)
    (M(x) - M(y)) for the Mills ratio M = (1 - Phi)/phi, which avoids cancellation if delta is tiny. ``mu`` is the L2
    sensitivity in units of the noise's standard deviation.
    """
    if not 0.0 <= epsilon < math.inf:
        raise BadInput(f"epsilon must be at least 0 and finite, found {epsilon}")
    if not 0.0 < mu < math.inf:
        raise BadInput(f"mu must be positive and finite, found {mu}")
    from scipy.special import erfcx, log_ndtr, ndtr  # imported here: agents rarely need this function

    x, y = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    if x <= 0.0:
        above = float(ndtr(-x))
        return min(1.0, above - math.exp(epsilon + float(log_ndtr(-y))) + (64.0 + 8.0 * epsilon) * UNIT)
    density = math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    mills = math.sqrt(math.pi / 2.0)
    upper, lower = mills * float(erfcx(x / math.sqrt(2.0))), mills * float(erfcx(y / math.sqrt(2.0)))
    # x has an error of a few units, which the exponent x^2/2 magnifies by x^2.
    slack = (32.0 + 8.0 * x * x) * UNIT
    return min(1.0, density * ((upper - lower) * (1.0 + slack) + 32.0 * UNIT * upper * (1.0 + epsilon / mu)) + 5e-324)


def mu_allowed(epsilon: float, delta: float) -> float:
    """Return mu*(eps, delta), the largest mu with delta_G(eps; mu) <= delta, rounded down.

    It is lowered by one part in 10^12, so that :func:`epsilon_of` gives at most epsilon for it.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    return largest(lambda mu: delta_of(mu, epsilon) <= delta, 1.0, 2.0 * UNIT) * (1.0 - 1e-12)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least epsilon with delta_G(eps; mu) <= delta, rounded up; infinite if none up to 700 suffices."""
    check_delta(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    leaky, private = 0.0, 1.0
    while delta_of(mu, private) > delta:
        if private >= MAX_EPSILON:
            return math.inf
        leaky, private = private, min(2.0 * private, MAX_EPSILON)
    return between(private, leaky, lambda epsilon: delta_of(mu, epsilon) <= delta, 1e-13)


FREE = 0.693
"""b/a up to which the joint bound of the squared loss is a alone: min_q (3 + q)/(4 (1 + q)^2 (1 - q)) = .6933."""


class StepNoise(NamedTuple):
    """Standard deviations of one iteration's noise in units of the sensitivities: sigma_1/s_1 and sigma_2/s_2."""

    gradient: float
    scales: float


def joint_step(gradient: float, scales: float) -> float:
    """Return mu_step^2 for the squared loss: ``max_q (1 + q)^2 (a/4 + b (1 - q)^2)`` over [0, 1], rounded up.

    The derivative is 2 (1 + q)(a/4 - 2 b q (1 - q)): a local maximum at q = (1 - sqrt(1 - a/(2b)))/2, beside the end q
    = 1, where the value is a. ``gradient`` is a = (s_1/sigma_1)^2 and ``scales`` b = (s_2/sigma_2)^2, not negative.
    """
    if 2.0 * scales <= gradient:
        return up(gradient)
    q = 0.5 * (1.0 - math.sqrt(1.0 - gradient / (2.0 * scales)))
    return up(max(gradient, (1.0 + q) ** 2 * (gradient / 4.0 + scales * (1.0 - q) ** 2)), 32.0)


def step_noise(mu: float, iterations: int, scales_share: float, *, joint: bool) -> StepNoise:
    """Return the least noise with this division with which all iterations together are mu-GDP.

    Args:
        iterations: T.
        scales_share: theta_2 = b/(a + b), in (0, 1): the share of the scales.
        joint: Whether the joint bound of the squared loss holds; the scales then get at least what is free.
    """
    step = down(down(mu) / math.sqrt(iterations), 16.0)
    ratio = scales_share / (1.0 - scales_share)
    if joint:
        ratio = max(ratio, FREE)
    total = joint_step(1.0, ratio) if joint else 1.0 + ratio
    gradient = up(math.sqrt(total) / step, 16.0)
    return StepNoise(gradient, up(gradient / math.sqrt(ratio), 16.0))


def scales_share(gradient: float, scales: float) -> float:
    """Return theta_2 of the division that minimizes ``a_1 sigma_1 + a_2 sigma_2``: theta_i ~ (a_i s_i)^(2/3).

    Args:
        gradient: a_1 s_1, a_1 = radius sqrt(d): what the noise of w adds to the bound of Theorem 4.3.
        scales: a_2 s_2, a_2 = sqrt(n U).
    """
    first, second = gradient ** (2.0 / 3.0), scales ** (2.0 / 3.0)
    return float(second / (first + second))


def paper_mu(epsilon: float, delta: float) -> float:
    """Return the mu of all iterations with the paper's noise, ``eps/sqrt(2 ln(3/delta))``, if that is private."""
    check_delta(delta)
    most = 8.0 * math.log(1.0 / delta)
    if not 0.0 < epsilon <= most:
        raise BadInput(f"Theorem 4.3 covers epsilon in (0, 8 ln(1/delta) = {most:.4g}], found {epsilon}")
    mu = up(epsilon / math.sqrt(2.0 * math.log(3.0 / delta)), 16.0)
    cost = delta_of(mu, epsilon)
    if cost > delta:
        raise BadInput(
            f"the printed noise is not private at epsilon = {epsilon:g}: its delta is {cost:.3g}, not {delta:g}; "
            "lower epsilon, or use bounds: tight"
        )
    return mu
