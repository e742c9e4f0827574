"""Agents with different epsilons in one run: each answers at the highest of several levels that its budget allows."""

from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Bits, Floats
from common.core.errors import PolicyRefused
from common.local.mechanisms.mechanism import MECHANISMS, MIN_EPSILON, Mechanism, Warner
from common.local.packing import AnswerKind
from common.numerics.randomness import RandomSource
from common.privacy.rounding import MAX_EPSILON


@MECHANISMS.register("warner-levels")
class WarnerLevels(Mechanism):
    """Randomized response at one of several public epsilons; the answer says which, and its randomized bit.

    An answer at level j is epsilons[j]-DP for replacing the record, by Warner's mechanism: a person's level depends
    only on the remaining budget, not on the record. A host answers at the highest level for all of its people.

    Estimates and tests assume that the answers at each level are a sample of all people. If people with a large budget
    differ from those with a small one, an estimate is about a population in which the former count more.

    Attributes:
        epsilons: The levels, ascending, each in [1e-6, 700].
        level: The level of one agent; None (as in a scenario): the highest.
    """

    name: Literal["warner-levels"] = "warner-levels"
    answers: ClassVar[Literal["bit", "real", "levels"]] = "levels"
    epsilons: tuple[float, ...] = Field(min_length=2, max_length=16)
    level: int | None = Field(default=None, ge=0, exclude_if=lambda level: level is None)
    examples: ClassVar = ({"epsilons": [0.5, 1.0], "level": 0}, {"epsilons": [0.5, 1.0, 3.0], "level": 2})

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if not self.epsilons[0] >= MIN_EPSILON or not self.epsilons[-1] <= MAX_EPSILON:
            raise ValueError(f"epsilons lie between {MIN_EPSILON:g} and {MAX_EPSILON:g}")
        if any(low >= high for low, high in zip(self.epsilons, self.epsilons[1:], strict=False)):
            raise ValueError("epsilons are given in ascending order, each once")
        if self.level is not None and self.level >= len(self.epsilons):
            raise ValueError(f"there are {len(self.epsilons)} levels, 0 is the first")
        return self

    @property
    def _level_index(self) -> int:
        return len(self.epsilons) - 1 if self.level is None else self.level

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilons[self._level_index], 0.0

    def affordable(self, budget: tuple[float, float]) -> Self:
        paid = sum(epsilon <= budget[0] for epsilon in self.epsilons[: self._level_index + 1])
        return self.model_copy(update={"level": max(0, paid - 1)})

    def answer_kind(self, domain: int | None) -> AnswerKind:
        super().answer_kind(domain)
        return 2 * len(self.epsilons)

    def leaves(self, domain: int | None) -> str:
        self.answer_kind(domain)
        rr = Warner(epsilon=self.epsilons[self._level_index])
        return f"One level of privacy, epsilon {rr.epsilon:g}, as your budget allows, and one bit. {rr.leaves(None)}"

    def randomize(self, values: Floats | Bits, source: RandomSource) -> AnyArray:
        bits = Warner(epsilon=self.epsilons[self._level_index]).randomize(values, source)
        return np.asarray(2 * self._level_index + bits, dtype=np.uint8)

    def unbias(self, answers: AnyArray) -> Floats:
        bits, slopes = self._read(answers)
        return np.asarray((bits - 0.5) / slopes + 0.5)

    def _read(self, answers: AnyArray) -> tuple[AnyArray, Floats]:
        return answers & 1, np.asarray(_slopes(self.epsilons)[answers >> 1])

    def variance(self, value: float) -> float:
        """Variance at the agent's own level; if there is none, at the lowest level, where it is largest."""
        return Warner(epsilon=self.epsilons[self.level or 0]).variance(value)

    def log_mgf(self, rate: float) -> float:
        """Bound for an answer at the lowest level; it is the largest, so it holds for answers at every level."""
        return Warner(epsilon=self.epsilons[0]).log_mgf(rate)

    def pooled(self, answers: AnyArray) -> tuple[Mechanism, Floats]:
        """Weight answers by their inverse variances.

        *Theorem.* Let answer i have slope s_i = 2 p_i - 1, let people's values have the mean v at every level, and let
        r be the mean of s_i^2 over the n answers. Then the terms

            c_i = s_i (bit_i - (1 - p_i)) / r

        satisfy ln E exp(rate (sum c_i - n v)) <= n rate^2/(8 r) given the levels, as do n answers of slope sqrt(r).
        *Proof.* E c_i = s_i^2 v / r, and the sum of these is n v. Given the levels, c_i lies in an interval of length
        s_i/r, so Hoeffding's lemma gives rate^2 s_i^2/(8 r^2), and these sum to n rate^2/(8 r).

        An unbiased answer has variance at most 1/(4 s_i^2), so c_i weights it by the inverse of that bound; no other
        fixed weights have a smaller bound on the variance of the mean (by the Cauchy-Schwarz inequality).
        """
        bits, slopes = self._read(answers)
        precision = float(np.square(slopes).mean()) if len(slopes) else float(_slopes(self.epsilons)[0] ** 2)
        return PooledLevels(precision=precision), np.asarray(slopes * (bits - 0.5 * (1.0 - slopes)) / precision)


@lru_cache(maxsize=64)
def _slopes(epsilons: tuple[float, ...]) -> Floats:
    """Return 2 p - 1 for each level, where p is the probability of a truthful answer."""
    return np.array([2.0 * Warner(epsilon=epsilon).truth - 1.0 for epsilon in epsilons])


class PooledLevels(Mechanism):
    """The mechanism that weighted answers at several levels are evaluated by; no agent answers with it.

    Attributes:
        precision: The mean of (2 p - 1)^2 over the answers, in (0, 1].
    """

    name: Literal["pooled"] = "pooled"
    answers: ClassVar[Literal["bit", "real", "levels"]] = "real"
    precision: float = Field(gt=0, le=1)

    @property
    def guarantee(self) -> tuple[float, float]:
        return float("inf"), 1.0

    def randomize(self, values: Floats | Bits, source: RandomSource) -> AnyArray:
        raise PolicyRefused("answers are pooled after they were given")

    def variance(self, value: float) -> float:
        """Bound on the variance of one term; divided by the number of answers, it bounds that of their mean."""
        return 1.0 / (4.0 * self.precision)

    def log_mgf(self, rate: float) -> float:
        return rate * rate / (8.0 * self.precision)
