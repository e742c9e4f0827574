"""Randomized response on one bit: Warner's, the default and the best there is for a 0/1 loss; and no privacy."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal, Self

from common.local.mechanisms.mechanism import MECHANISMS, BitMechanism, PureMechanism
from common.privacy.rounding import MAX_EPSILON
from common.privacy.theorems.randomized_response import randomized_response_probability


@MECHANISMS.register("warner")
class Warner(BitMechanism, PureMechanism):
    """Round the value to a bit at random, then tell the truth about it with p = e^eps/(1 + e^eps).

    Both answers have probabilities in [1-p, p] whatever the value is, and p/(1-p) <= e^eps. There is no floating-point
    gap in this: p is rounded down to a whole multiple of 1/2^53, and the coin is flipped with integers. A liar moves
    the mean of n answers by at most 1/((2p-1) n).

    The variance of an unbiased answer is p(1-p)/(2p-1)^2 given a bit, and at most 1/(4 (2p-1)^2) over all values: 4.17
    at epsilon = 1/2, where the paper's Gaussian has 79.5 (docs/corrections.md, "Agents"; Warner 1965).
    """

    name: Literal["warner"] = "warner"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (*super().example(), cls(epsilon=MAX_EPSILON))

    @cached_property
    def truth(self) -> float:
        # Doubles in [1/2, 1) are whole multiples of 1/2^53.
        return randomized_response_probability(self.epsilon)


@MECHANISMS.register("none")
class NoMechanism(BitMechanism):
    """Answer with the value itself, rounded to a bit at random: for comparison, on simulated people."""

    name: Literal["none"] = "none"
    for_real_people = False

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(),)

    @property
    def truth(self) -> float:
        return 1.0

    @property
    def guarantee(self) -> tuple[float, float]:
        return math.inf, 1.0
