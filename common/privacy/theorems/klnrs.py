"""How often the private parity learner of Kasiviswanathan et al. looks at a record, and how often it answers.

The learner sees n equations <x_i, a> = y_i over F_2. With some probability it says "bottom" at once. Otherwise it keeps
each equation with probability p, and returns a uniform point of the affine space of solutions, or bottom if there is
none.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from common.core.errors import BadInput
from common.privacy.rounding import down

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
