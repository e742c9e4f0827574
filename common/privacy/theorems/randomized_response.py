"""Exact guarantees of classical local randomizers, their inverses, and rates of the private parity learner.

All numbers are rounded conservatively. An agent holds one record; neighbours differ by replacing it. These are
statements about real numbers; the mechanisms turn them into bits and doubles (:mod:`common.local.mechanisms`).

The parity learner of Kasiviswanathan et al. sees n equations <x_i, a> = y_i over F_2. With some probability it returns
"bottom" at once. Otherwise it keeps each equation with probability p, and returns a uniform point of the affine space
of solutions, or bottom if there is none.
"""

import math
from typing import Literal, NamedTuple

from common.core.errors import BadInput
from common.privacy.rounding import EXP_BITS, check_epsilon, down, exp_below, up
from common.privacy.theorems.gaussian_dp import mu_allowed


def k_ary_response_probability(epsilon: float, symbols: int) -> float:
    """Return the largest multiple p of 1/2^53 below e^eps / (e^eps + k - 1), for k >= 2 symbols.

    Reporting the true one of k symbols with probability p, and each other one with (1 - p)/(k - 1), is pure epsilon-DP
    if 1/k <= p and p (k - 1)/(1 - p) <= e^eps (Warner 1965 for k = 2). p is computed in whole numbers from a lower
    bound on e^eps (:func:`common.privacy.rounding.exp_below`), so it is never too large.
    """
    check_epsilon(epsilon)
    if symbols < 2:
        raise BadInput(f"there must be at least 2 symbols, found {symbols}")
    least = exp_below(epsilon)
    return (least << 53) // (least + (symbols - 1 << EXP_BITS)) / 2**53


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least sigma for which Gaussian noise is (epsilon, delta)-DP, sensitivity / mu*, rounded up.

    Balle and Wang (2018), Algorithm 1, valid for every epsilon. The sensitivity is in L2; for one number it is the
    width of its range.
    """
    if not 0.0 < sensitivity < math.inf:
        raise BadInput(f"sensitivity must be positive and finite, found {sensitivity}")
    return up(sensitivity / down(mu_allowed(epsilon, delta)))


Rule = Literal["tight", "paper"]


class Rates(NamedTuple):
    """p, the probability that a record is kept, and the probability that the learner tries to answer at all."""

    kept: float
    answers: float


def rates(rule: Rule, epsilon: float) -> Rates:
    """Return the rates with which the learner is epsilon-DP (one record replaced): docs/privacy.md, "Parities".

        tight     p = tanh(epsilon/2), bottom with probability b = (1-p)/(3-p)
        printed   p = epsilon/4,       bottom with probability b = 1/2

    The printed rule (Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011; Beimel et al., the power of synergy;
    Kohen and Sheffet, Appendix B) actually costs ln((1+p)/(1-p)), which exceeds epsilon from 3.83 on; there it is
    refused. p and the probability of an answer are rounded down to multiples of 2^-53, so that comparisons with uniform
    doubles have exactly these probabilities; both roundings lower both likelihood ratios.
    """
    if not 0.0 < epsilon < math.inf:
        raise BadInput(f"epsilon must be positive and finite, found {epsilon}")
    if rule == "tight":
        keep_rate = _grid(down(math.tanh(0.5 * epsilon)))
        return Rates(keep_rate, _grid(down(2.0 / (3.0 - keep_rate))))
    keep_rate = _grid(0.25 * epsilon)
    if keep_rate >= 1.0 or 2.0 * math.atanh(keep_rate) > down(epsilon):
        raise BadInput(
            f"the paper's rule p = epsilon/4 costs more than epsilon = {epsilon:g} (it does from 3.83 on): "
            "take the tight rule, or a smaller epsilon"
        )
    return Rates(keep_rate, 0.5)


def _grid(chance: float) -> float:
    return math.floor(chance * 2.0**53) * 2.0**-53
