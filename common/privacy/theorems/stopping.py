"""How often a private choice tries: laws of a secret number of runs K, in 1..``most``, in ratios of integers.

A choice that tries a fixed number of times has no good guarantee: its best output is the best of *all* runs, and the
composition of all of them is what it costs. With a random K that is never released it is far less (Liu and Talwar 2019;
Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy"). What that costs is in
:mod:`common.privacy.theorems.selection`.

Each law is one of the paper's, conditioned on 1 <= K <= most, so that the time is bounded. The condition is part of the
law: K is drawn from the conditional one, and the bounds there are proven for it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Annotated, Literal

from pydantic import Field

from common.core.values import Value
from common.privacy.rounding import UNIT, up

MAX_RUNS = 1024  # largest ``most``: the weights of a law are integers of some hundred bits for each possible run


class Stopping(Value):
    """A law of K, conditioned on K <= most, given by the rational ratios of successive probabilities."""

    name: str
    most: int = Field(ge=1, le=MAX_RUNS)

    @abstractmethod
    def ratio(self, count: int) -> tuple[int, int]:
        """Return P(K = count + 1) / P(K = count) as numerator and denominator, exactly; count >= 1."""

    @property
    @abstractmethod
    def whole_mean(self) -> float:
        """E[K] without the condition K <= most, rounded up."""

    @property
    @abstractmethod
    def _log_first(self) -> float:
        """Logarithm of P(K = 1) without the condition K <= most."""

    @property
    def expected(self) -> float:
        """E[K], rounded up."""
        return _sums(self)[1]

    @property
    def log_covered(self) -> float:
        """Logarithm of P(K <= most) without the condition, rounded down; at most 0."""
        first, others = self._log_first, math.log(_sums(self)[0])
        return min(0.0, first + others - 64.0 * UNIT * (1.0 + abs(first) + others))


class NegativeBinomial(Stopping):
    """The truncated negative binomial law D(eta, gamma), Definition 1 of Papernot and Steinke.

        P(K = k) proportional to (1 - gamma)^k prod_{l=0..k-1} (l + eta)/(l + 1),   k >= 1

    Attributes:
        eta: Shape, above -1: 1 is geometric, with mean 1/gamma; 0 logarithmic (the limit). The smaller, the less it
            costs at the same mean, and the more of the runs are in few lucky draws of K.
        gamma: In (0, 1]; 1 always stops after one run.
    """

    name: Literal["negative-binomial"] = "negative-binomial"
    eta: float = Field(default=1.0, gt=-1, le=16)
    gamma: float = Field(ge=1e-30, le=1)

    def ratio(self, count: int) -> tuple[int, int]:
        stop, parts = self.gamma.as_integer_ratio()
        shape, whole = self.eta.as_integer_ratio()
        return (parts - stop) * (count * whole + shape), parts * whole * (count + 1)

    @property
    def log_stop(self) -> float:
        """ln(1/gamma)."""
        return -math.log(self.gamma)

    @property
    def whole_mean(self) -> float:
        return 1.0 if self.gamma == 1.0 else up((1.0 - self.gamma) / self.gamma * self._shape, 64.0)

    @property
    def _shape(self) -> float:
        exponent = self.eta * self.log_stop
        return self.eta / -math.expm1(-exponent) if exponent else 1.0 / self.log_stop

    @property
    def _log_first(self) -> float:
        if self.gamma == 1.0:
            return 0.0
        return math.log1p(-self.gamma) - self.eta * self.log_stop + math.log(self._shape)


class Poisson(Stopping):
    """Poisson's law, given that there is a run at all: P(K = k) proportional to rate^k/k!, k >= 1.

    The most concentrated of the laws, and the best one for a few runs of a base with a small mu; ``rate`` is the mean
    before the condition K >= 1.
    """

    name: Literal["poisson"] = "poisson"
    rate: float = Field(ge=1e-6, le=500)

    def ratio(self, count: int) -> tuple[int, int]:
        top, bottom = self.rate.as_integer_ratio()
        return top, bottom * (count + 1)

    @property
    def whole_mean(self) -> float:
        return up(self.rate / -math.expm1(-self.rate), 16.0)

    @property
    def _log_first(self) -> float:
        return math.log(self.rate) - self.rate - math.log(-math.expm1(-self.rate))


StoppingDistribution = Annotated[NegativeBinomial | Poisson, Field(discriminator="name")]
"""A field of a value that holds a law."""


def geometric(mean: float, most: int | None = None) -> NegativeBinomial:
    """Return the geometric law of the given mean (before the condition), by default up to four times that."""
    return NegativeBinomial(eta=1.0, gamma=1.0 / mean, most=most or min(MAX_RUNS, math.ceil(4.0 * mean)))


@lru_cache(maxsize=8)
def weights(law: Stopping) -> tuple[int, ...]:
    """Return integers proportional to P(K = 1), ..., P(K = most)."""
    ratios = [law.ratio(count) for count in range(1, law.most)]
    rising = accumulate((top for top, _ in ratios), mul, initial=1)
    falling = list(accumulate((bottom for _, bottom in reversed(ratios)), mul, initial=1))
    return tuple(top * bottom for top, bottom in zip(rising, reversed(falling), strict=True))


@lru_cache(maxsize=256)
def _sums(law: Stopping) -> tuple[float, float]:
    shares = weights(law)
    total = sum(shares)
    return total / shares[0], up(sum(k * share for k, share in enumerate(shares, start=1)) / total)
