"""Exact guarantees of the classical local randomizers and their inverses, rounded to the private side.

An agent holds one record; neighbours differ by replacing it. These are statements about real numbers: how a sampler
turns them into bits and doubles is the mechanism's business (:mod:`common.local.mechanisms`).

How often the private parity learner of Kasiviswanathan et al. looks at a record, and how often it answers.

The learner sees n equations <x_i, a> = y_i over F_2. With some probability it says "bottom" at once. Otherwise it keeps
each equation with probability p, and returns a uniform point of the affine space of solutions, or bottom if there is
none.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from common.core.errors import BadInput
from common.privacy.rounding import check_epsilon, down, up
from common.privacy.theorems.gaussian_dp import mu_allowed


def randomized_response_epsilon(probability: float) -> float:
    """Return Warner's guarantee (1965) for answering the true bit with p in [1/2, 1]: ln(p/(1-p)), rounded up."""
    if not 0.5 <= probability <= 1.0:
        raise BadInput(f"a probability to answer truly must be in [1/2, 1], found {probability}")
    if probability == 1.0:
        return math.inf
    # 1 - p is exact for p >= 1/2 (Sterbenz), and so is 2 p - 1.
    return 0.0 if probability == 0.5 else up(math.log1p((2.0 * probability - 1.0) / (1.0 - probability)))


def randomized_response_probability(epsilon: float) -> float:
    """Return the largest p that we can show to be epsilon-DP: e^eps / (1 + e^eps), rounded down."""
    check_epsilon(epsilon)
    probability = max(0.5, min(1.0 / (1.0 + math.exp(-epsilon)), math.nextafter(1.0, 0.0)))
    while randomized_response_epsilon(probability) > epsilon and probability > 0.5:
        probability = math.nextafter(probability, 0.0)
    return probability


def k_ary_response_probability(epsilon: float, symbols: int) -> float:
    """Return the largest p that we can show to be epsilon-DP for k >= 2 symbols: e^eps / (e^eps + k - 1), rounded down.

    Telling one's own of k symbols with probability p, and each other with (1 - p)/(k - 1), is pure epsilon-DP iff p (k
    - 1)/(1 - p) <= e^eps and p >= 1/k (Warner 1965 for k = 2). p is a whole multiple of 1/2^53, computed with fractions
    from a lower bound on e^eps.
    """
    check_epsilon(epsilon)
    if symbols < 2:
        raise BadInput(f"there must be at least 2 symbols, found {symbols}")
    least = Fraction(down(math.exp(epsilon)))
    return math.floor(least / (least + symbols - 1) * 2**53) / 2**53


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least sigma for which Gaussian noise is (epsilon, delta)-DP, sensitivity / mu*, rounded up.

    Balle and Wang (2018), Algorithm 1: valid for every epsilon. The sensitivity is in L2: the width of the range for
    one number.
    """
    if not 0.0 < sensitivity < math.inf:
        raise BadInput(f"sensitivity must be positive and finite, found {sensitivity}")
    return up(sensitivity / down(mu_allowed(epsilon, delta)))


Rule = Literal["tight", "paper"]


class Rates(NamedTuple):
    """p, the chance of each record to be kept, and the chance that the learner tries to answer at all."""

    kept: float
    answers: float


def rates(rule: Rule, epsilon: float) -> Rates:
    """Return the rates with which the learner is epsilon-DP (one record replaced): docs/privacy.md, "Parities".

        tight     p = tanh(epsilon/2), bottom with probability b = (1-p)/(3-p)
        printed   p = epsilon/4,       bottom with probability b = 1/2

    The printed rule (Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011; Beimel et al., the power of synergy;
    Kohen and Sheffet, Appendix B) really costs ln((1+p)/(1-p)), which exceeds epsilon from 3.83 on: there it is
    refused. p and the chance of an answer are rounded down to multiples of 2^-53, so that uniform doubles decide them
    exactly; both roundings lower both ratios.
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
