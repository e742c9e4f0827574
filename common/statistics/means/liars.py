"""What agents who lie can move: intervals and tests that hold although a share of the answers are lies.

A liar is an agent whose answer is not what its mechanism gives: it may say whatever suits it, knowing all the others'
answers and what was asked.

*Theorem.* Let a set of values be covered by the interval of :func:`common.statistics.means.intervals.estimate` for
every number of answers at once with probability 1 - miss if all are honest. Whatever at most k of the first n agents
answer, for every n at once and with the same probability, the value lies in the hull of the intervals for ones - k,
..., ones + k at the same n, where ones is what was counted.

*Proof.* Let ones* be what would have been counted had the liars answered by their mechanism, with their own noise.
These answers are those of honest agents, so the value is in the interval of (ones*, n) for all n at once with
probability 1 - miss. Each bit that differs changes the count by one: |ones - ones*| <= k. QED.

*The hull has the ends of its two ends.* Let L(s) be the lower end for s ones among n. If a mean q <= s/n of the
answers is not covered for s, it is not for s + 1: the mixture's likelihood ratio grows by the factor
(s + 1/2) (1 - q)/((n - s - 1/2) q), which is 1 or more as s + 1/2 >= n q. So L never falls with s; mirrored, neither
does the upper end.

The same argument holds for a test: of the e-process against "the loss is at most low", which grows with the ones, the
least value for ones - k, ..., ones + k is that for ones - k, and it is at most the honest one.

Answers that are numbers have no such bound: one liar moves their sum as far as it likes.
"""

from __future__ import annotations

import math

from common.core.errors import BadInput
from common.statistics.means.intervals import Estimate, estimate
from common.statistics.means.sequential import SequentialTest
from common.vocabulary.mechanisms.base import BitMechanism, Mechanism


def liars(count: int, share: float) -> int:
    """Return how many of ``count`` answers may be lies if at most a share of them are, a number in [0, 1]."""
    return min(count, math.floor(share * count + 1e-6))


def robust(
    mechanism: Mechanism, total: float, count: int, confidence: float, among: int = 1, *, share: float
) -> Estimate:
    """Estimate a population's mean although at most a share of the answers are lies (the module's theorem).

    Parameters
    ----------
    mechanism, total, count, confidence, among
        As of :func:`common.statistics.means.intervals.estimate`, which this is for share 0.
    share
        Of the answers, in [0, 1].

    Raises
    ------
    BadInput
        If a number is outside its range.
    """
    if not 0.0 <= share <= 1.0:
        raise BadInput(f"a share of liars must be in [0, 1], found {share}")
    found, lies = estimate(mechanism, total, count, confidence, among), liars(count, share)
    if lies == 0:
        return found
    if not isinstance(mechanism, BitMechanism):
        return found.model_copy(update={"low": 0.0, "high": 1.0})
    low = estimate(mechanism, max(0.0, total - lies), count, confidence, among).low
    high = estimate(mechanism, min(float(count), total + lies), count, confidence, among).high
    return found.model_copy(update={"low": low, "high": high})


class RobustTest(SequentialTest):
    """A sequential test whose verdict is false with probability beta at most although a share of the answers are lies.

    It has no worst case: lies may keep it between both levels for ever, and it then asks until there are no agents
    left. That must happen where 2 share/(2p - 1) is above the distance of the levels, p being the chance of the truth.

    Parameters
    ----------
    mechanism, low, high, beta
        As of :class:`~common.statistics.means.sequential.SequentialTest`.
    share
        Of the answers, in [0, 1/2).

    Raises
    ------
    BadInput
        If a parameter is outside its range, or answers are not bits.
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float, share: float) -> None:
        if not isinstance(mechanism, BitMechanism) or not 0.0 <= share < 0.5:
            raise BadInput(f"a test that bears liars takes bits and a share in [0, 1/2), found {mechanism}, {share}")
        super().__init__(mechanism, low, high, beta)
        self._share = share

    def _evidence(self) -> tuple[float, float]:
        lies, found = liars(self.count, self._share), self._evidences
        above = found.above.log_value(max(0.0, self.total - lies), self.count)
        return above, found.below.log_value(min(float(self.count), self.total + lies), self.count)

    def next_batch(self, first: int) -> int:
        """Return how many answers to ask for next: ``first``, then half of what came; 0 after the verdict."""
        if self.verdict is not None:
            return 0
        return first if self.count == 0 else max(1, -(-self.count // 2))
