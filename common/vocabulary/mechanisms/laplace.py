"""Laplace noise in its exact form: two-sided geometric noise on the integers."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Bits, Floats
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from common.vocabulary.mechanisms.base import GRID, MECHANISMS, Mechanism, bounded


@MECHANISMS.register("laplace")
class Laplace(Mechanism):
    """Round the value to a bit at random, then add an integer Z, P(Z = z) = (1-q)/(1+q) q^|z|, q = e^-eps.

    Textbook Laplace noise is not private as doubles compute it: the set of doubles it can reach depends on
    the value, and one answer can reveal it (Mironov 2012). Here every value can give every integer; the
    ratio of two likelihoods is at most 1/q <= e^eps, pure epsilon-DP for replacing the record (Ghosh,
    Roughgarden and Sundararajan 2009). q is rounded up to a whole multiple of 1/2^53, and Z is the
    difference of two numbers of successes before the first failure of coins with bias q, flipped with
    integers: exact.

    The variance of an answer is 2 q/(1-q)^2 given a bit, a little below the 2/eps^2 of Laplace noise: 8.08 at
    epsilon = 1/2 in the worst case, where the textbook has 8.25 and Warner's bit 4.17.

    Attributes
    ----------
    epsilon
        Privacy loss of one answer, in [0.001, 30]: drawing takes time 1/epsilon, and beyond 30 no noise is
        left.
    """

    name: Literal["laplace"] = "laplace"
    answers: ClassVar[Literal["bit", "real"]] = "real"
    epsilon: float = Field(ge=0.001, le=30.0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return some with much and with little noise."""
        return (cls(epsilon=0.25), cls(epsilon=1.0), cls(epsilon=8.0))

    @cached_property
    def ratio(self) -> float:
        """The smallest whole multiple of 1/2^53 that is shown to be at least e^-epsilon."""
        return math.ceil(up(math.exp(-self.epsilon)) * GRID) / GRID

    @property
    def guarantee(self) -> tuple[float, float]:
        """(epsilon, 0)."""
        return self.epsilon, 0.0

    def randomize(self, values: Floats | Bits, source: RandomSource) -> Floats:
        """Answer for each value, shape (n,), float64 holding integers."""
        rounded = source.uniforms(len(values)) < bounded(np.asarray(values, dtype=np.float64))
        return np.asarray(rounded + self.noise(len(values), source), dtype=np.float64)

    def noise(self, count: int, source: RandomSource) -> Floats:
        """Draw ``count`` independent Z, float64 holding integers: each hides a change of 1 of an integer."""
        return self.successes(count, source) - self.successes(count, source)

    def successes(self, count: int, source: RandomSource) -> Floats:
        """Draw ``count`` independent numbers of successes of coins with bias q before the first failure."""
        successes = np.zeros(count, dtype=np.float64)
        going = np.arange(count)
        while going.size:
            going = going[source.bernoullis(self.ratio, going.size) == 1]
            successes[going] += 1.0
        return successes

    def unbias(self, answers: AnyArray) -> Floats:
        """Return the answers: the noise is symmetric around 0."""
        return np.asarray(answers, dtype=np.float64)

    def variance(self, value: float) -> float:
        """Return v (1-v) + 2 q/(1-q)^2."""
        return value * (1.0 - value) + 2.0 * self.ratio / (1.0 - self.ratio) ** 2

    def log_mgf(self, rate: float) -> float:
        """Return rate^2/8 + ln((1-q)^2 / ((1 - q e^rate)(1 - q e^-rate))), infinite for |rate| >= ln(1/q)."""
        if abs(rate) >= -math.log(self.ratio):
            return math.inf
        # (1 - q e^r)(1 - q e^-r) = (1-q)^2 (1 - x), x = 4 q sinh(r/2)^2/(1-q)^2: no cancelling near 0.
        x = 4.0 * self.ratio * math.sinh(rate / 2.0) ** 2 / (1.0 - self.ratio) ** 2
        return math.inf if x >= 1.0 else rate * rate / 8.0 - math.log1p(-x)
