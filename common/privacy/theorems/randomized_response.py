"""Exact guarantees of the classical local randomizers and their inverses, rounded to the private side.

An agent holds one record; neighbours differ by replacing it. These are statements about real numbers: how a
sampler turns them into bits and doubles is the mechanism's business (:mod:`common.local.mechanisms`).

How often the private parity learner of Kasiviswanathan et al. looks at a record, and how often it answers.

The learner sees n equations <x_i, a> = y_i over F_2. With some probability it says "bottom" at once. Otherwise it keeps
each equation with probability p, and returns a uniform point of the affine space of solutions, or bottom if there is
none.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

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


Rule = Literal["tight", "paper"]


class Rates(NamedTuple):
    """p, the chance of each record to be kept, and the chance that the learner tries to answer at all."""

    kept: float
    answers: float


def rates(rule: Rule, epsilon: float) -> Rates:
    """Return the rates with which the learner is epsilon-DP (pure; one record replaced).

    ::

        tight     p = tanh(epsilon/2), bottom with probability b = (1-p)/(3-p)
        printed   p = epsilon/4,       bottom with probability b = 1/2

    Proof. Let A be the law of the output if record i is left out, which neighbours have in common, and B, C
    the laws if it is kept, in S and in S': P = (1-p) A + p B and Q = (1-p) A + p C. *A point a*: one more
    equation leaves a solution space as it is, halves it, or empties it, so 0 <= B(a) <= 2 A(a), and
    P(a)/Q(a) <= ((1-p) + 2p)/(1-p) = (1+p)/(1-p), which is e^epsilon at p = tanh(epsilon/2). *Bottom*: one
    more equation can only empty the space, so A <= C, b <= A and B <= 1 there: Q >= A and P <= (1-p) A + p,
    so P/Q <= 1 - p + p/b, which is (1+p)/(1-p) iff b = (1-p)/(3-p). Both are attained.

    The printed rule (Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011; Beimel et al., the power of
    synergy; Kohen and Sheffet, Appendix B) really costs ln((1+p)/(1-p)), .51 at epsilon = 1. That exceeds
    epsilon from 3.83 on, where it is refused.

    p and the chance of an answer are rounded down to multiples of 2^-53, so that uniform doubles decide them
    exactly; both roundings lower both ratios.

    Raises:
        BadInput: If epsilon is not positive and finite, or the paper's rule does not keep to it.
    """
    if not 0.0 < epsilon < math.inf:
        raise BadInput(f"epsilon must be positive and finite, found {epsilon}")
    if rule == "tight":
        kept = _grid(down(math.tanh(0.5 * epsilon)))
        return Rates(kept, _grid(down(2.0 / (3.0 - kept))))
    kept = _grid(0.25 * epsilon)
    if kept >= 1.0 or 2.0 * math.atanh(kept) > down(epsilon):
        raise BadInput(
            f"the paper's rule p = epsilon/4 costs more than epsilon = {epsilon:g} (it does from 3.83 on): "
            "take the tight rule, or a smaller epsilon"
        )
    return Rates(kept, 0.5)


def _grid(chance: float) -> float:
    return math.floor(chance * 2.0**53) * 2.0**-53
