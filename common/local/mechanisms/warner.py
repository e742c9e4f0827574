"""Randomized response on one bit: Warner's, the default and the best there is for a 0/1 loss; and no privacy."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal, Self

from pydantic import Field

from common.local.mechanisms.mechanism import MECHANISMS, BitMechanism
from common.privacy.rounding import MAX_EPSILON
from common.privacy.theorems.randomized_response import randomized_response_probability

MIN_EPSILON = 1e-6


@MECHANISMS.register("warner")
class Warner(BitMechanism):
    """Round the value to a bit at random, then tell the truth about it with p = e^eps/(1 + e^eps).

    Pure epsilon-DP for replacing the record: both answers have probabilities in [1-p, p] whatever the value
    is, and p/(1-p) <= e^eps. There is no floating-point gap in this: p is rounded down to a whole multiple of
    1/2^53, and the coin is flipped with integers. A liar moves the mean of n answers by at most 1/((2p-1) n).

    The variance of an unbiased answer is p(1-p)/(2p-1)^2 given a bit, and at most 1/(4 (2p-1)^2) over all
    values: 4.17 at epsilon = 1/2, where the paper's Gaussian has 79.5 (docs/corrections.md, "Agents";
    Warner 1965).

    Attributes:
        epsilon: Privacy loss of one answer, in [1e-6, 700] (below, its variance passes 1e12: it says nothing).
    """

    name: Literal["warner"] = "warner"
    epsilon: float = Field(ge=MIN_EPSILON, le=MAX_EPSILON)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(epsilon=0.1), cls(epsilon=1.0), cls(epsilon=3.0), cls(epsilon=MAX_EPSILON))

    @cached_property
    def truth(self) -> float:
        # Doubles in [1/2, 1) are whole multiples of 1/2^53.
        return randomized_response_probability(self.epsilon)

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilon, 0.0


@MECHANISMS.register("none")
class NoMechanism(BitMechanism):
    """Answer with the value itself, rounded to a bit at random: for comparison, on simulated people.

    The bit is an unbiased estimate of the value with variance v(1-v), and guarantees nothing.
    """

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
