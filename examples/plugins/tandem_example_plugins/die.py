"""A mechanism: randomized response with a die instead of a coin."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field

from tandem.extend import GRID, MECHANISMS, BitMechanism, up


@MECHANISMS.register("example-die")
class Die(BitMechanism):
    """Round the value to a bit at random, then lie about it if a fair die shows its first side.

    Pure epsilon-DP for replacing the record with epsilon = ln(sides - 1): both answers have probabilities in
    [1/sides, 1 - 1/sides] whatever the value is. The probability of the truth is rounded down to a whole multiple of
    1/2^53, which the sampler needs, and epsilon is rounded up.

    Attributes:
        sides: Of the die, 3 to 1000.
    """

    name: Literal["example-die"] = "example-die"
    sides: int = Field(ge=3, le=1000)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one with much noise, and one with little."""
        return (cls(sides=3), cls(sides=20))

    @property
    def truth(self) -> float:
        """1 - 1/sides, rounded down to the grid of the sampler."""
        return (GRID - GRID // self.sides - 1) / GRID

    @property
    def guarantee(self) -> tuple[float, float]:
        """(ln(truth/(1 - truth)), 0), rounded up."""
        return up(math.log(self.truth / (1.0 - self.truth))), 0.0
