"""No privacy: the randomly rounded bit itself."""

from __future__ import annotations

import math
from typing import Literal, Self

from common.local.mechanisms.mechanism import MECHANISMS, BitMechanism


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
