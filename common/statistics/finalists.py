"""Two finalists, judged once: exact intervals of a loss, of the difference of two, and of that to the best constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from scipy.special import betaincinv

from common.core.arrays import Bits
from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism
from common.numerics.bisection import least
from common.statistics.intervals import Estimate, estimate

LIKELY = 0.75
"""The probability of statements called likely; those called sure hold with 1 - beta."""
PROBABLE = 0.95
"""The probability with which each statement called probable holds, by itself."""
SHARES = {"gap": 0.5, "worse": 0.05, "answer": 0.2, "alone": 0.05}
"""Shares of beta: the upper bound of the difference, its lower one, and the interval of either loss."""
OF_CONSTANTS = {"constant": 0.125, "constant better": 0.025, "constant alone": 0.05}
"""The rest of beta: the upper bound of the difference to the best constant, its lower one, that constant's interval."""
_OUTWARD = 1e-9  # margin at an end for the floating-point inversion of beta functions


def _clipped(value: float, low: float, high: float) -> float:
    return min(high, max(low, value))


@dataclass(frozen=True)
class BinomialCount:
    """So many of ``count`` bits are ones; the number of bits was fixed before any of them was seen."""

    ones: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.ones <= self.count:
            raise BadInput(f"the number of ones must be in 0..{self.count}, found {self.ones}")

    def low(self, miss: float) -> float:
        """Return a bound that exceeds the mean chance of a one with probability at most ``miss``.

        *Theorem.* The bits are independent; their chances may differ, and q is the mean of these. Let c be the
        Clopper-Pearson bound, at which a binomial number of so many trials reaches ``ones`` with probability ``miss``.
        Then P(min(c, (ones - 1)/count) > q) <= miss.

        *Proof.* If the event occurs, ones > count q + 1, and a binomial number with chance q is at least ``ones`` with
        probability below ``miss``, since that grows with q and q < c. Let k be the least number with both properties.
        Then P(ones >= k) is at most that of the binomial number (Hoeffding 1956, Theorem 4: this holds for each k >=
        count q + 1), which is below ``miss``. QED.
        """
        if self.ones <= 1:
            return 0.0
        exact = float(betaincinv(self.ones, self.count - self.ones + 1, miss))
        return max(0.0, min(exact, (self.ones - 1) / self.count) - _OUTWARD)

    def high(self, miss: float) -> float:
        """Return a bound that is below the mean chance of a one with probability ``miss`` at most, by symmetry."""
        return 1.0 - BinomialCount(self.count - self.ones, self.count).low(miss)


@dataclass(frozen=True)
class Difference:
    """loss(first) - loss(second) on T, from equally many bits about either.

    *Theorem.* Count the ones about the first and the zeros about the second. These are independent bits whose mean
    chance is 1/2 + (2p - 1) (loss(first) - loss(second))/2, p the probability of telling the truth, since a bit about a
    loss v is 1 with probability (1 - p) + (2p - 1) v. So bounds of that mean (:class:`BinomialCount`) are bounds of the
    difference. They need no independence of the two errors on one record, and hold for all losses in [0, 1].

    If the two numbers of bits differ, the last bits of the longer sequence are left out.
    """

    mechanism: BitMechanism
    reported: BinomialCount

    @classmethod
    def of(cls, mechanism: BitMechanism, first: Bits, second: Bits) -> Difference:
        most = min(len(first), len(second))
        ones = int(first[:most].sum(dtype="int64")) + most - int(second[:most].sum(dtype="int64"))
        return cls(mechanism, BinomialCount(ones, 2 * most))

    def _mapped(self, chance: float) -> float:
        return _clipped((2.0 * chance - 1.0) / (2.0 * self.mechanism.truth - 1.0), -1.0, 1.0)

    @property
    def value(self) -> float:
        """The mean of what the bits say, clipped to [-1, 1]: unbiased only if it is never clipped."""
        return self._mapped(self.reported.ones / self.reported.count) if self.reported.count else 0.0

    def low(self, miss: float) -> float:
        return self._mapped(self.reported.low(miss)) if self.reported.count else -1.0

    def high(self, miss: float) -> float:
        return self._mapped(self.reported.high(miss)) if self.reported.count else 1.0

    def width(self, miss: float) -> float:
        """Return how far the upper bound is from the estimate."""
        return self.high(miss) - self.value


@dataclass(frozen=True)
class ToConstant:
    """loss(h) - weight * loss(constant), from bits of h's judges and of agents who reported whether the constant errs.

    *Theorem.* h may depend on the reports in any way. With m bits of judges and n of reporters, w the weight and p the
    probability of telling the truth, the estimate less sqrt((1/m + w^2/n) ln(1/miss)/2)/(2p - 1) is above the
    difference with probability ``miss`` at most; so is the difference above the estimate and as much.

    *Proof.* A bit about a loss v is 1 with probability (1 - p) + (2p - 1) v. Let J be the mean of the judges' bits less
    that of their chances, J' that of the reporters. Given all reports, h is fixed and the judges' bits are independent:
    E[e^(s J) | reports] <= e^(s^2/(8m)) for all s (Hoeffding 1963), whatever h is. The constant's loss is T's: E e^(-s
    w J') <= e^(s^2 w^2/(8n)). So E e^(s (J - w J')) <= e^(s^2 (1/m + w^2/n)/8), and likewise for -s; the estimate is
    off by (J - w J')/(2p - 1). Markov's inequality at the best s. QED.

    (Clopper and Pearson's ends of :class:`Difference` need bits whose chances are fixed, and here h depends on some.)
    """

    mechanism: BitMechanism
    judged: BinomialCount
    reported: BinomialCount
    weight: float = 1.0

    @property
    def value(self) -> float:
        """The estimate, clipped to [-weight, 1]; 0 where nobody answered."""
        return _clipped(self._estimate, -self.weight, 1.0)

    @property
    def _estimate(self) -> float:
        if not (self.judged.count and self.reported.count):
            return 0.0
        judged_rate, reported_rate = self.judged.ones / self.judged.count, self.reported.ones / self.reported.count
        flip, gain = 1.0 - self.mechanism.truth, 2.0 * self.mechanism.truth - 1.0
        return (judged_rate - flip - self.weight * (reported_rate - flip)) / gain

    def width(self, miss: float) -> float:
        """Return how far either bound is from the estimate."""
        return constant_width(self.mechanism, (self.judged.count, self.reported.count), miss, self.weight)

    def low(self, miss: float) -> float:
        return _clipped(self._estimate - self.width(miss), -self.weight, 1.0)

    def high(self, miss: float) -> float:
        return _clipped(self._estimate + self.width(miss), -self.weight, 1.0)


def constant_width(mechanism: BitMechanism, counts: tuple[int, int], miss: float, weight: float = 1.0) -> float:
    """Return how far bounds of :class:`ToConstant` are from its estimate, for these numbers of judges and reporters."""
    judges, reporters = counts
    if not (judges and reporters):
        return 2.0
    spread = math.sqrt((1.0 / judges + weight * weight / reporters) * math.log(1.0 / miss) / 2.0)
    return spread / (2.0 * mechanism.truth - 1.0) + _OUTWARD


@dataclass(frozen=True)
class ToBestConstant:
    """loss(h) minus the least loss of some constants, on each of which agents reported.

    *Theorem.* The greatest of the upper bounds, each of which fails with probability ``miss``, is below the difference
    to the best constant with probability ``miss`` at most. The greatest of k lower bounds, each of which fails with
    probability miss/k, is above it with probability ``miss`` at most. Which constant is the best need not be known.

    *Proof.* The difference is the greatest of the k differences, d. Let j be one of the best constants, which T alone
    decides: the greatest upper bound is not below that of j, which is below d with probability ``miss`` at most. For
    the greatest lower bound to be above d one must be above its own difference, which is d at most: union bound. QED.

    Attributes:
        each: The constants; for one that judges reported on, their bits.
        chosen: Whether the reports decide which constant, the rival, is not among them. The best of the rest is then
            one of two that T alone decides, the best of all and the next one, so each bound fails with half of
            ``miss``; and lower bounds are of one constant more.
    """

    each: Sequence[ToConstant | Difference]
    chosen: bool = False

    @property
    def value(self) -> float:
        return max(test.value for test in self.each)

    def low(self, miss: float) -> float:
        return max(test.low(miss / (len(self.each) + self.chosen)) for test in self.each)

    def high(self, miss: float) -> float:
        return max(test.high(self._share(miss)) for test in self.each)

    def _share(self, miss: float) -> float:
        return miss / 2.0 if self.chosen else miss

    def times_settling(self, miss: float) -> float | None:
        """Return how many times as many agents would show h to be better, if the estimate is right; None: no number."""
        width = max(test.width(self._share(miss)) for test in self.each)
        most = float(1 << 20)
        return None if -self.value * math.sqrt(most) <= width else (width / self.value) ** 2


def estimated(mechanism: BitMechanism, reported: BinomialCount, miss: float, confidence: float) -> Estimate:
    """Return a loss and its interval, which fails with chance ``miss`` at most: exact, for one look.

    ``confidence`` is that of all statements of a result together, which its document states.
    """
    interval = estimate(mechanism, float(reported.ones), reported.count, 1.0 - miss, once=True)
    return interval.model_copy(update={"confidence": confidence})


@lru_cache(maxsize=1 << 10)
def width(mechanism: BitMechanism, judges: int, miss: float) -> float:
    """Return the upper bound of a difference of losses that is estimated as 0, for this many judges of both together.

    This is the widest gap unless the rival's estimate is better. For an estimate somewhat below 0 the bound is a little
    farther away: 3% with 40 judges, a thousandth with 1,000.
    """
    each = judges // 2
    if each == 0:
        return 1.0
    return min(1.0, Difference(mechanism, BinomialCount(each, 2 * each)).high(miss))


def sure_width(mechanism: BitMechanism, judges: int, beta: float) -> float:
    """Return the width that holds with probability 1 - beta together with all else that a run states."""
    return width(mechanism, judges, SHARES["gap"] * beta)


def likely_width(mechanism: BitMechanism, judges: int) -> float:
    """Return the width that holds with probability ``LIKELY``."""
    return width(mechanism, judges, 1.0 - LIKELY)


def judges_needed(mechanism: BitMechanism, gap: float, beta: float) -> int:
    """Return how many judges, at most 2^40, separate two losses that differ by ``gap``; see :func:`sure_width`."""
    try:
        return least(lambda judges: sure_width(mechanism, judges, beta) <= gap, 2, 1 << 40)
    except LookupError:
        raise BadInput("such a gap takes more than 2^40 agents: allow a larger alpha, or a larger epsilon") from None


def settling(mechanism: BitMechanism, difference: Difference, beta: float) -> int | None:
    """Return about how many judges would show the answer to be better, if the estimated difference is right, else None.

    This is a forecast. It is None where the estimate is not below 0 by as much as 2^40 judges can show.
    """
    if difference.value >= 0.0:
        return None
    try:
        return judges_needed(mechanism, -difference.value, beta)
    except BadInput:
        return None
