"""The paper's local mechanism: the value plus Gaussian noise, for comparison with the paper."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Bits, Floats
from common.core.errors import PolicyRefused
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism, bounded
from common.numerics.randomness import RandomSource
from common.privacy.rounding import MAX_EPSILON, up
from common.privacy.theorems.randomized_response import analytic_gaussian_sigma


@MECHANISMS.register("gaussian")
class LocalGaussian(Mechanism):
    """Add N(0, sigma^2) to the value: what Kohen & Sheffet call randomized response (Algorithms 2 and 4).

    (epsilon, delta)-DP for replacing the record, sensitivity 1 (values in [0, 1]). ``calibration: paper``
    has sigma^2 = 2 ln(2/delta)/epsilon^2 and is refused beyond epsilon = 1: its proof ends there, and it
    fails first at 8.51, 8.99, 9.73, 10.54 for delta = 1e-3, 1e-4, 1e-6, 1e-9 (docs/corrections.md, K3).
    ``calibration: analytic`` takes the least sigma there is (Balle and Wang 2018), for every epsilon.

    The guarantee is that of real numbers; doubles only come near to it, and their low bits can betray the
    value. So it serves simulated people, and a source of randomness for real ones is refused.

    Attributes:
        epsilon, delta: Guarantee of one answer: 0.001 <= epsilon <= 700, 0 < delta < 1.
        calibration: ``paper`` or ``analytic``.
    """

    name: Literal["gaussian"] = "gaussian"
    for_real_people = False
    answers: ClassVar[Literal["bit", "real"]] = "real"
    epsilon: float = Field(ge=0.001, le=MAX_EPSILON)
    delta: float = Field(ge=1e-300, lt=1)
    calibration: Literal["paper", "analytic"] = "paper"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(epsilon=0.5, delta=1e-4), cls(epsilon=4.0, delta=1e-6, calibration="analytic"))

    @model_validator(mode="after")
    def _proven(self) -> Self:
        if self.calibration == "paper" and self.epsilon > 1.0:
            raise ValueError(
                f"the variance 2 ln(2/delta)/epsilon^2 is proven for epsilon <= 1 only, found "
                f"{self.epsilon}; take calibration: analytic, or the mechanism warner"
            )
        return self

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        if self.calibration == "analytic":
            return analytic_gaussian_sigma(self.epsilon, self.delta, 1.0)
        return up(math.sqrt(2.0 * math.log(2.0 / self.delta)) / self.epsilon)

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def randomize(self, values: Floats | Bits, source: RandomSource) -> Floats:
        """Answer for each value, shape (n,), float64.

        Raises:
            PolicyRefused: If the randomness is not a simulation's.
        """
        if not source.simulated:
            raise PolicyRefused(
                "Gaussian noise in doubles protects simulated people only: real people answer with warner or laplace"
            )
        return bounded(np.asarray(values, dtype=np.float64)) + self.sigma * source.normals(len(values))

    def unbias(self, answers: AnyArray) -> Floats:
        return np.asarray(answers, dtype=np.float64)

    def variance(self, value: float) -> float:
        return self.sigma**2

    def log_mgf(self, rate: float) -> float:
        return rate * rate * (0.125 + 0.5 * self.sigma**2)
