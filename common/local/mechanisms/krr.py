"""k-ary randomized response: the item itself, or another one."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Indices, Words
from common.core.errors import PolicyRefused
from common.local.mechanisms.frequency import FrequencyOracle, within
from common.local.mechanisms.mechanism import MECHANISMS
from common.local.mechanisms.warner import MIN_EPSILON
from common.local.packing import MAX_SYMBOLS, answer_type
from common.numerics.randomness import RandomSource
from common.privacy.rounding import MAX_EPSILON
from common.privacy.theorems.randomized_response import k_ary_response_probability


@MECHANISMS.register("krr")
class KaryResponse(FrequencyOracle):
    """Answer with the own item with probability p = e^eps/(e^eps + k - 1), else with any other, all alike.

    Pure epsilon-DP for replacing the record: every answer has one of two probabilities, p and q = (1-p)/(k-1), for any
    the item is, and p/q <= e^eps. p is rounded down to a whole multiple of 1/2^53, coins and the other items are drawn
    with integers: exact. An answer supports the item that it names. The best oracle where k < 3 e^eps + 2; its variance
    grows with k (Kairouz, Bonawitz and Ramage 2016; Wang et al. 2017).

    Attributes:
        epsilon: Privacy loss of one answer, in [1e-6, 700].
    """

    max_domain: ClassVar[int] = MAX_SYMBOLS

    name: Literal["krr"] = "krr"
    epsilon: float = Field(ge=MIN_EPSILON, le=MAX_EPSILON)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(epsilon=0.1), cls(epsilon=1.0), cls(epsilon=3.0))

    @property
    def guarantee(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def symbols(self, domain: int) -> int:
        """Return k.

        Raises:
            PolicyRefused: If there are more items than an answer can name.
        """
        if not 2 <= domain <= self.max_domain:
            raise PolicyRefused(
                f"mechanism 'krr' names one of 2 to {self.max_domain} items, found {domain}: take olh or hadamard"
            )
        return domain

    def rates(self, domain: int) -> tuple[float, float]:
        truth = k_ary_response_probability(self.epsilon, self.symbols(domain))
        return truth, (1.0 - truth) / (domain - 1)

    def leaves(self, domain: int | None) -> str:
        self.answer_kind(domain)
        truth, other = self.rates(domain or 0)
        return (
            f"The number of one of {domain} items: your own item with probability {truth:.6g}, "
            f"each other one with probability {other:.6g}."
        )

    def randomize(self, items: Words, domain: int, publics: Words, source: RandomSource) -> AnyArray:
        return respond(within(items, domain), self.symbols(domain), self.rates(domain)[0], source)

    def supports(self, answers: AnyArray, domain: int, publics: Words, candidates: Words) -> Indices:
        named = np.bincount(answers, minlength=domain)
        return np.asarray(named[candidates.astype(np.int64)], dtype=np.int64)


def respond(symbols: Words, count: int, truth: float, source: RandomSource) -> AnyArray:
    """Tell each of n symbols out of ``count`` with probability ``truth``, else a uniform one of the others.

    Time does not depend on the symbols.
    """
    truthful = source.bernoullis(truth, len(symbols)).view(np.bool_)
    others = source.integers(count - 1, len(symbols))
    own = symbols.astype(np.int64)
    others += others >= own
    return np.where(truthful, own, others).astype(answer_type("bit" if count == 2 else count))
