"""What local randomizers can do; those of one bit: Warner's, the default and best for a 0/1 loss, and no privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny

from common.core.arrays import AnyArray, Bits, Floats
from common.core.errors import PolicyRefused
from common.core.registry import RegisteredValue, TypeRegistry
from common.local.packing import AnswerKind
from common.numerics.randomness import RandomSource
from common.privacy.rounding import MAX_EPSILON
from common.privacy.theorems.randomized_response import randomized_response_probability


class LocalRandomizer(RegisteredValue):
    """How one agent answers: a randomized function of what a query says about its record, as a frozen value.

    Queries say one of two things: a value in [0, 1] (:class:`Mechanism`), or an item of a public domain
    (:class:`common.local.mechanisms.frequency.FrequencyOracle`).
    """

    name: str
    for_real_people: ClassVar[bool] = True
    """Whether its answers protect real people as sampled by a computer, not only as real numbers would."""

    @property
    @abstractmethod
    def guarantee(self) -> tuple[float, float]:
        """The (epsilon, delta) of one answer, for replacing the record; (inf, 1) if it gives none."""

    @abstractmethod
    def answer_kind(self, domain: int | None) -> AnswerKind:
        """Return what one answer is, for items of a domain; None: for a value in [0, 1].

        Raises:
            PolicyRefused: If it cannot randomize what the query says.
        """

    def leaves(self, domain: int | None) -> str:
        """Say in plain words what may leave a device in one answer, and with which probabilities."""
        kind = self.answer_kind(domain)
        known = {"bit": "One randomized bit", "real": "One randomized number"}
        return f"{known.get(str(kind), f'One of {kind} randomized symbols')}, drawn by the mechanism {self.name!r}."


MIN_EPSILON = 1e-6  # below it a variance passes 1e12: an answer says nothing


class PureMechanism(LocalRandomizer):
    """A local randomizer that is epsilon-DP for replacing the record.

    Attributes:
        epsilon: Privacy loss of one answer, in [1e-6, 700].
    """

    epsilon: float = Field(ge=MIN_EPSILON, le=MAX_EPSILON)

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"epsilon": 0.1}, {"epsilon": 1.0}, {"epsilon": 3.0})

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilon, 0.0


class Mechanism(LocalRandomizer):
    """A local randomizer for one value in [0, 1].

    Bounding the value (:mod:`common.local.queries`) and adding randomness (here) are two steps: every mechanism
    clamps its input to [0, 1] and reads NaN as 0 before it randomizes, so its guarantee holds for any value
    that a query computes.
    """

    answers: ClassVar[Literal["bit", "real"]]  # what one answer is

    def answer_kind(self, domain: int | None) -> AnswerKind:
        if domain is not None:
            raise PolicyRefused(
                f"mechanism {self.name!r} randomizes a value in [0, 1], the query says one of {domain} items"
            )
        return self.answers

    @abstractmethod
    def randomize(self, values: Floats | Bits, source: RandomSource) -> AnyArray:
        """Randomize each of n values in [0, 1] independently.

        Args:
            values: Shape (n,): float64, or uint8 where the query's kind says that values are bits. Time depends on
                which of the two it is, and on nothing else about the values.

        Returns:
            Shape (n,): uint8 in {0, 1} where answers are bits, float64 where they are reals.
        """

    @abstractmethod
    def unbias(self, answers: AnyArray) -> Floats:
        """Map each answer to an unbiased estimate of its value, float64 (n,)."""

    @abstractmethod
    def variance(self, value: float) -> float:
        """Exact variance of one unbiased answer, given the value in [0, 1] (randomized rounding included)."""

    @abstractmethod
    def log_mgf(self, rate: float) -> float:
        """Bound psi(rate) >= ln E exp(rate (A - v)) for the unbiased answer A of an agent drawn at random.

        Here v is the population's mean value; the bound holds for every law of the values on [0, 1];
        tests and intervals for v rest on it. Infinite where the moment does not exist.
        """


GRID = 1 << 53  # probabilities of bit mechanisms are whole multiples of 1/GRID: doubles and samplers hold them exactly

_BLOCK = 1 << 15


class BitMechanism(Mechanism):
    """A mechanism whose answer is one bit: the randomly rounded value, reported truthfully with probability ``truth``.

    A value v answers 1 with probability (1 - truth) + (2 truth - 1) v: rounding v to a bit at random and then
    telling the truth about the bit with probability ``truth`` are one coin flip. Whatever v is, that
    probability lies in [1 - truth, truth], in whole multiples of 1/2^53, so that the largest likelihood ratio
    is truth/(1 - truth).
    """

    answers: ClassVar[Literal["bit", "real"]] = "bit"

    def leaves(self, domain: int | None) -> str:
        self.answer_kind(domain)
        if self.truth == 1.0:
            return "One bit, 0 or 1, WITHOUT any randomness that protects it: the value itself, if it is 0 or 1."
        true, other = f"{self.truth:.6g}", f"{1 - self.truth:.6g}"
        return (
            f"One bit. If the value is 1, the bit is 1 with probability {true} and 0 with probability {other}; "
            f"if the value is 0, it is 0 with probability {true} and 1 with probability {other}."
        )

    @property
    @abstractmethod
    def truth(self) -> float:
        """Probability p of telling the truth, 1/2 < p <= 1, a whole multiple of 1/2^53."""

    def randomize(self, values: Floats | Bits, source: RandomSource) -> Bits:
        if values.dtype == np.uint8:
            truthful = source.bernoullis(self.truth, len(values))
            return np.asarray(np.minimum(values, 1) ^ truthful ^ 1, dtype=np.uint8)
        low = float(GRID - int(self.truth * GRID))
        width = GRID - 2 * low
        answers = np.empty(len(values), dtype=np.bool_)
        for start in range(0, len(values), _BLOCK):
            block = bounded(values[start : start + _BLOCK])
            np.multiply(block, width, out=block)
            np.rint(block, out=block)
            np.add(block, low, out=block)
            drawn = (source.words(len(block)) >> np.uint64(11)).astype(np.float64)
            np.less(drawn, block, out=answers[start : start + _BLOCK])
        return answers.view(np.uint8)

    def unbias(self, answers: AnyArray) -> Floats:
        return np.asarray((answers - (1 - self.truth)) / (2 * self.truth - 1), dtype=np.float64)

    def variance(self, value: float) -> float:
        ones = (1 - self.truth) + (2 * self.truth - 1) * value
        return ones * (1 - ones) / (2 * self.truth - 1) ** 2

    def log_mgf(self, rate: float) -> float:
        return rate * rate / (8 * (2 * self.truth - 1) ** 2)


def bounded(values: Floats | Bits) -> Floats:
    """Clamp to [0, 1], reading NaN as 0 (a copy, float64)."""
    return np.fmin(np.fmax(np.asarray(values, dtype=np.float64), 0.0), 1.0)


MECHANISMS: TypeRegistry[LocalRandomizer] = TypeRegistry("mechanism", __name__, "name")
parse_mechanism = MECHANISMS.parse
AnyMechanism = Annotated[SerializeAsAny[LocalRandomizer], BeforeValidator(MECHANISMS.accept)]
"""A field of a value that holds any registered mechanism."""


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

    examples: ClassVar = (*PureMechanism.examples, {"epsilon": MAX_EPSILON})

    @cached_property
    def truth(self) -> float:
        # Doubles in [1/2, 1) are whole multiples of 1/2^53.
        return randomized_response_probability(self.epsilon)


@MECHANISMS.register("none")
class NoMechanism(BitMechanism):
    """Answer with the value itself, rounded to a bit at random: for comparison, on simulated people."""

    name: Literal["none"] = "none"
    for_real_people = False
    examples: ClassVar = ({},)

    @property
    def truth(self) -> float:
        return 1.0

    @property
    def guarantee(self) -> tuple[float, float]:
        return math.inf, 1.0
