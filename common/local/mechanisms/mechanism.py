"""The interface of local randomizers; those of a value: Warner's bit, geometric and Gaussian noise, and no privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from common.core.arrays import AnyArray, Bits, Floats, Words
from common.core.errors import PolicyRefused
from common.core.registry import RegisteredValue, TypeRegistry
from common.local.packing import AnswerKind
from common.numerics.randomness import RandomSource
from common.privacy.rounding import EXP_BITS, MAX_EPSILON, exp_below, up
from common.privacy.theorems.randomized_response import analytic_gaussian_sigma, k_ary_response_probability


class LocalRandomizer(RegisteredValue):
    """A randomized function that an agent applies to the value of a query on its record, as a frozen value.

    A query's value is either a number in [0, 1] (:class:`Mechanism`), or an item of a public domain
    (:class:`common.local.mechanisms.frequency.FrequencyOracle`).
    """

    name: str
    for_real_people: ClassVar[bool] = True
    """Whether the guarantee holds for answers as a computer samples them, and not only for exact real numbers."""

    @property
    @abstractmethod
    def guarantee(self) -> tuple[float, float]:
        """The (epsilon, delta) of one answer, for replacing the record; (inf, 1) if there is no privacy."""

    @abstractmethod
    def answer_kind(self, domain: int | None) -> AnswerKind:
        """Return the kind of an answer, for items of a domain or (None) a value in [0, 1], or raise PolicyRefused."""

    def affordable(self, budget: tuple[float, float]) -> Self:
        """Return the variant for an agent with the (epsilon, delta) ``budget``; it may still cost more than that."""
        return self

    def leaves(self, domain: int | None) -> str:
        """Return, in plain words, what may leave a device in one answer, and with which probabilities."""
        kind = self.answer_kind(domain)
        texts = {"bit": "One randomized bit", "real": "One randomized number"}
        return f"{texts.get(str(kind), f'One of {kind} randomized symbols')}, drawn by the mechanism {self.name!r}."


MIN_EPSILON = 1e-6  # below it a variance exceeds 1e12, so an answer has no use


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
    clamps its input to [0, 1] and treats NaN as 0 before it randomizes, so its guarantee holds for any value
    that a query computes.
    """

    answers: ClassVar[Literal["bit", "real", "levels"]]  # the kind of an answer

    def answer_kind(self, domain: int | None) -> AnswerKind:
        if domain is not None:
            raise PolicyRefused(
                f"mechanism {self.name!r} randomizes a value in [0, 1], the query says one of {domain} items"
            )
        return "bit" if self.answers == "bit" else "real"

    @abstractmethod
    def randomize(self, values: Floats | Bits, source: RandomSource) -> AnyArray:
        """Randomize each of n values in [0, 1] independently.

        Args:
            values: Shape (n,): float64, or uint8 if the query's kind states that values are bits. The running time
                depends on this type only, not on the values.

        Returns:
            Shape (n,): uint8 in {0, 1} where answers are bits, float64 where they are reals.
        """

    def unbias(self, answers: AnyArray) -> Floats:
        """Return an unbiased estimate of the value for each answer, float64 (n,): here the answer itself."""
        return np.asarray(answers, dtype=np.float64)

    def pooled(self, answers: AnyArray) -> tuple[Mechanism, AnyArray]:
        """Return a mechanism and answers of equal weight, whose sum it bounds, for answers that differ in precision."""
        return self, answers

    @abstractmethod
    def variance(self, value: float) -> float:
        """Exact variance of one unbiased answer, given the value in [0, 1] (randomized rounding included)."""

    @abstractmethod
    def log_mgf(self, rate: float) -> float:
        """Return a bound psi(rate) >= ln E exp(rate (A - v)) for the unbiased answer A of an agent drawn at random.

        Here v is the population's mean value. The bound holds for every distribution of the values on [0, 1]; tests
        and intervals for v use it. It is infinite if the moment does not exist.
        """


GRID = 1 << 53  # probabilities of bit mechanisms are whole multiples of 1/GRID: exact as doubles and in samplers

_BLOCK = 1 << 15


class BitMechanism(Mechanism):
    """A mechanism whose answer is one bit: the randomly rounded value, reported truthfully with probability ``truth``.

    The answer for a value v is 1 with probability (1 - truth) + (2 truth - 1) v: one coin flip does both steps, to
    round v to a bit at random and to report that bit truthfully with probability ``truth``. For every v, that
    probability lies in [1 - truth, truth] and is a whole multiple of 1/2^53, so the largest likelihood ratio
    is truth/(1 - truth).
    """

    answers: ClassVar[Literal["bit", "real", "levels"]] = "bit"

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
        """Probability p of a truthful answer, 1/2 < p <= 1, a whole multiple of 1/2^53."""

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
            uniforms = (source.words(len(block)) >> np.uint64(11)).astype(np.float64)
            np.less(uniforms, block, out=answers[start : start + _BLOCK])
        return answers.view(np.uint8)

    def unbias(self, answers: AnyArray) -> Floats:
        return np.asarray((answers - (1 - self.truth)) / (2 * self.truth - 1), dtype=np.float64)

    def variance(self, value: float) -> float:
        ones = (1 - self.truth) + (2 * self.truth - 1) * value
        return ones * (1 - ones) / (2 * self.truth - 1) ** 2

    def log_mgf(self, rate: float) -> float:
        return rate * rate / (8 * (2 * self.truth - 1) ** 2)


def bounded(values: Floats | Bits) -> Floats:
    """Return a float64 copy, clamped to [0, 1], with NaN as 0."""
    return np.fmin(np.fmax(np.asarray(values, dtype=np.float64), 0.0), 1.0)


MECHANISMS: TypeRegistry[LocalRandomizer] = TypeRegistry("mechanism", __name__, "name")
parse_mechanism = MECHANISMS.parse
AnyMechanism = Annotated[SerializeAsAny[LocalRandomizer], BeforeValidator(MECHANISMS.accept)]
"""A field of a value that holds any registered mechanism."""


@MECHANISMS.register("warner")
class Warner(BitMechanism, PureMechanism):
    """Round the value to a bit at random, then report the true bit with probability p = e^eps/(1 + e^eps).

    Both answers have probabilities in [1-p, p] for every value, and p/(1-p) <= e^eps. This holds exactly in floating
    point, too: p is rounded down to a whole multiple of 1/2^53, and the coin is flipped with integers. A dishonest
    agent moves the mean of n answers by at most 1/((2p-1) n).

    The variance of an unbiased answer is p(1-p)/(2p-1)^2 given a bit, and at most 1/(4 (2p-1)^2) over all values: 4.17
    at epsilon = 1/2, where the paper's Gaussian has 79.5 (docs/corrections.md, "Agents"; Warner 1965).
    """

    name: Literal["warner"] = "warner"

    examples: ClassVar = (*PureMechanism.examples, {"epsilon": MAX_EPSILON})

    @cached_property
    def truth(self) -> float:
        # Doubles in [1/2, 1) are whole multiples of 1/2^53.
        return k_ary_response_probability(self.epsilon, 2)


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


FLAT_BITS = 40
LIMIT = 2.0 ** (FLAT_BITS - 1)  # released numbers are clipped to +-LIMIT
_WORD = 1 << 64
FLAT = Fraction(1, _WORD << FLAT_BITS)
"""Probability of each number in the flat part, if a draw is flat with probability 2^-64."""


@MECHANISMS.register("laplace")
class Laplace(Mechanism, PureMechanism):
    """Round the value to a bit at random, then add an integer Z, P(Z = z) = (1-q)/(1+q) q^|z|, q = e^-eps.

    Textbook Laplace noise computed in doubles is not private: the set of reachable doubles depends on the
    value, and one answer can reveal it (Mironov 2012). Here every value can give every integer; the
    ratio of two likelihoods is at most 1/q <= e^eps, pure epsilon-DP for replacing the record (Ghosh,
    Roughgarden and Sundararajan 2009). q is rounded up to a whole multiple of 1/2^53.

    Z is drawn in a time that depends on epsilon only: whether it is 0, its sign, and the binary digits of abs(Z) - 1,
    which are independent for a geometric distribution: digit j is 1 with odds q^(2^j). Probabilities are whole
    multiples of 2^-128, each rounded up as the previous ones require (:attr:`chances`), so that
    q P(z) <= P(z + 1) <= P(z) holds exactly within the range of the digits. At its end P is very small; there one draw
    in 2^64, with abs(Z) - 1 uniform below 2^40, continues the distribution, flat and without a jump. Released numbers
    are clipped to +-:data:`LIMIT`. The mass beyond it exceeds e^eps/(e^eps - 1) times any cell of the flat part, so the
    likelihoods of the end points satisfy the same bound.

    The variance of an answer is 2 q/(1-q)^2 given a bit, a little below the 2/eps^2 of Laplace noise: 8.08 at
    epsilon = 1/2 in the worst case, compared with 8.25 for Laplace noise and 4.17 for Warner's bit.

    Attributes:
        epsilon: Privacy loss of one answer, in [0.001, 30]: beyond 30 there is practically no noise.
    """

    name: Literal["laplace"] = "laplace"
    flat_words: ClassVar[int] = 1  # A draw is flat with probability 2^-64 to this power
    answers: ClassVar[Literal["bit", "real", "levels"]] = "real"
    epsilon: float = Field(ge=0.001, le=30.0)
    examples: ClassVar = ({"epsilon": 0.25}, {"epsilon": 1.0}, {"epsilon": 8.0})

    @cached_property
    def ratio(self) -> float:
        """The smallest whole multiple of 1/2^53 that is at least e^-epsilon."""
        return -((-GRID << EXP_BITS) // exp_below(self.epsilon)) / GRID

    def leaves(self, domain: int | None) -> str:
        self.answer_kind(domain)
        return (
            f"A whole number: the value, rounded to 0 or 1 at random, plus a random whole number of either sign, which "
            f"is 0 with probability {(1 - self.ratio) / (1 + self.ratio):.6g}; each step away from 0 is less likely by "
            f"a factor of {self.ratio:.6g}."
        )

    @property
    def one(self) -> int:
        """The whole number that represents probability 1: 2^128, or more if a flat draw is rarer."""
        return int(_WORD**self._words)

    @property
    def _words(self) -> int:
        return self.flat_words + 1

    @property
    def flat_chance(self) -> Fraction:
        return Fraction(1, _WORD**self.flat_words)

    @cached_property
    def chances(self) -> tuple[int, ...]:
        """Probabilities times :attr:`one`: that Z is not 0, then that each digit of abs(Z) - 1 is 1, lowest first.

        They satisfy q P(g) <= P(g + 1) for the number g of the digits: if the lowest j digits of g are ones and digit j
        is 0, P(g + 1)/P(g) is the odds of digit j over the product of the odds of those below. The digits suffice if
        their greatest number is at most (1/q - 1) times as likely as a flat cell; q P(0) <= P(1) by the first.
        """
        q, digits, product, none, all_ones = Fraction(self.ratio), [], Fraction(1), Fraction(1), Fraction(1)
        flat = self.flat_chance / (1 << FLAT_BITS)
        while all_ones > (1 / q - 1) * flat:
            odds = q * product
            digits.append(math.ceil(self.one * odds / (1 + odds)))
            chance = Fraction(digits[-1], self.one)
            product, none, all_ones = product * chance / (1 - chance), none * (1 - chance), all_ones * chance
        first = none * (1 - self.flat_chance) + flat
        nonzero = math.ceil(self.one * q / (q + first / 2))
        return (nonzero, *digits)

    @cached_property
    def _parts(self) -> Words:
        """:attr:`chances` as 64-bit words, the most significant first, shape (1 + digits, words)."""
        places = range(64 * self._words - 64, -64, -64)
        return np.array([[chance >> place & _WORD - 1 for place in places] for chance in self.chances], dtype=np.uint64)

    def randomize(self, values: Floats | Bits, source: RandomSource) -> Floats:
        rounded = source.uniforms(len(values)) < bounded(values)
        return np.clip(rounded + self.noise(len(values), source), -LIMIT, LIMIT)

    def noise(self, count: int, source: RandomSource) -> Floats:
        """Draw ``count`` independent Z, float64; clip an integer plus Z to +-:data:`LIMIT` before its release."""
        sign = 1.0 - 2.0 * (source.words(count) & np.uint64(1))
        nonzero = _coins(self._parts[:1], count, source)[0]
        return np.asarray(nonzero * sign * (1.0 + self.successes(count, source)), dtype=np.float64)

    def successes(self, count: int, source: RandomSource) -> Floats:
        """Draw ``count`` independent numbers of successes, with probability q each, before a failure, by digits."""
        number = np.zeros(count, dtype=np.float64)
        digits, step = self._parts[1:], max(1, _AT_ONCE // max(1, count))
        for first in range(0, len(digits), step):
            coins = _coins(digits[first : first + step], count, source)
            number += 2.0 ** np.arange(first, first + len(coins)) @ coins  # whole numbers: exact in any order
        flat = source.words(count) == 0
        for _ in range(self.flat_words - 1):
            flat &= source.words(count) == 0
        return np.where(flat, (source.words(count) >> np.uint64(64 - FLAT_BITS)).astype(np.float64), number)

    def variance(self, value: float) -> float:
        return value * (1.0 - value) + 2.0 * self.ratio / (1.0 - self.ratio) ** 2

    def log_mgf(self, rate: float) -> float:
        if abs(rate) >= -math.log(self.ratio):
            return math.inf
        # (1 - q e^r)(1 - q e^-r) = (1-q)^2 (1 - x), x = 4 q sinh(r/2)^2/(1-q)^2: no cancellation near 0.
        x = 4.0 * self.ratio * math.sinh(rate / 2.0) ** 2 / (1.0 - self.ratio) ** 2
        return math.inf if x >= 1.0 else rate * rate / 8.0 - math.log1p(-x)


_AT_ONCE = 1 << 12  # coins flipped at a time, for several digits together if one digit has fewer


def _coins(parts: Words, count: int, source: RandomSource) -> AnyArray:
    """Flip ``count`` coins for each of k probabilities, given as words of shape (k, words); return shape (k, count)."""
    words = source.words(parts.size * count).reshape(*parts.shape, count)
    below = words[:, -1] < parts[:, -1, None]
    for place in reversed(range(parts.shape[1] - 1)):
        word, part = words[:, place], parts[:, place, None]
        below = (word < part) | ((word == part) & below)
    return np.asarray(below)


@MECHANISMS.register("gaussian")
class LocalGaussian(Mechanism):
    """Add N(0, sigma^2) to the value: what Kohen & Sheffet call randomized response (Algorithms 2 and 4).

    (epsilon, delta)-DP for replacing the record, sensitivity 1 (values in [0, 1]). ``calibration: paper``
    has sigma^2 = 2 ln(2/delta)/epsilon^2 and is refused for epsilon > 1, which its proof does not cover; it
    fails first at 8.51, 8.99, 9.73, 10.54 for delta = 1e-3, 1e-4, 1e-6, 1e-9 (docs/corrections.md, K3).
    ``calibration: analytic`` uses the least possible sigma (Balle and Wang 2018), for every epsilon.

    The guarantee holds for real numbers; doubles only approximate it, and their low bits can reveal the
    value. So only simulated people may use it; a source of randomness for real people is refused.

    Attributes:
        epsilon, delta: Guarantee of one answer: 0.001 <= epsilon <= 700, 0 < delta < 1.
        calibration: ``paper`` or ``analytic``.
    """

    name: Literal["gaussian"] = "gaussian"
    for_real_people = False
    answers: ClassVar[Literal["bit", "real", "levels"]] = "real"
    epsilon: float = Field(ge=0.001, le=MAX_EPSILON)
    delta: float = Field(ge=1e-300, lt=1)
    calibration: Literal["paper", "analytic"] = "paper"
    examples: ClassVar = ({"epsilon": 0.5, "delta": 1e-4}, {"epsilon": 4.0, "delta": 1e-6, "calibration": "analytic"})

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
        if self.calibration == "analytic":
            return analytic_gaussian_sigma(self.epsilon, self.delta, 1.0)
        return up(math.sqrt(2.0 * math.log(2.0 / self.delta)) / self.epsilon)

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def randomize(self, values: Floats | Bits, source: RandomSource) -> Floats:
        if not source.simulated:
            raise PolicyRefused(
                "Gaussian noise in doubles protects simulated people only: real people answer with warner or laplace"
            )
        return bounded(values) + self.sigma * source.normals(len(values))

    def variance(self, value: float) -> float:
        return self.sigma**2

    def log_mgf(self, rate: float) -> float:
        return rate * rate * (0.125 + 0.5 * self.sigma**2)
