"""Estimates and tests that hold even if a share of the answers is adversarial, or some answers are missing.

**Adversarial answers.** A liar is an agent whose answer is not what its mechanism gives: it may send any answer,
knowing all the others' answers and what was asked. *Theorem.* Let a set of values be covered by the interval of
:func:`common.statistics.intervals.estimate` for every number of answers at once with probability 1 - miss if all are
honest. Whatever at most k of the first n agents answer, for every n at once and with the same probability, the value
lies in the hull of the intervals for ones - k, ..., ones + k at the same n, where ones is what was counted; the first
and the last interval give the ends of the hull, and the same holds for the e-processes of a test. Real-valued answers
have no such bound: one liar moves their sum arbitrarily far.

**Missing answers.** *Theorem.* Let each person who is asked answer or not, depending on their record and on chance; let
m be the chance that one does not answer, and let [a, b], within [0, 1], cover the mean of a value in [0, 1] over those
who answer with probability 1 - miss. Let M be at least m with probability 1 - other. Then with probability 1 - miss -
other the mean over all people is in [(1 - M) a, (1 - M) b + M], whatever the values of those who do not answer are. A
difference of two such means that is at most g over those who answer is at most (1 - M) g + M over all. It does not hold
where randomized answers are left out after they were seen: those are like lies, and :func:`robust_estimate` is for
them.

The proofs are in docs/statistics.md. Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

import math
from dataclasses import dataclass

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism, NoMechanism
from common.statistics.evidence import SequentialTest
from common.statistics.intervals import Estimate, estimate


def most_adversarial(count: int, share: float) -> int:
    """Return how many of ``count`` answers may be lies if at most a share of them, in [0, 1], are."""
    return min(count, math.floor(share * count + 1e-6))


def robust_estimate(
    mechanism: Mechanism,
    total: float,
    count: int,
    confidence: float,
    among: int = 1,
    *,
    share: float = 0.0,
    missing: int = 0,
    once: bool = False,
) -> Estimate:
    """Estimate a population's mean even if answers are lies, or were left out because of what they say.

    *Theorem.* As for lies alone: had all who were asked answered by their mechanism, the ones among ``count + missing``
    answers would number ``total - lies`` to ``total + lies + missing``, and the interval for what would have been
    counted covers the mean with probability ``confidence``. So the hull does.

    Args:
        share: At most so many of the answers, in [0, 1], are lies.
        missing: How many who were asked have no answer here; all else, ``once`` too, is as of
            :func:`common.statistics.intervals.estimate`.
    """
    if not 0.0 <= share <= 1.0:
        raise BadInput(f"the share of adversarial answers must be in [0, 1], found {share}")
    interval = estimate(mechanism, total, count, confidence, among, once=once)
    lies = most_adversarial(count, share)
    if lies == missing == 0:
        return interval
    if not isinstance(mechanism, BitMechanism):
        return interval.model_copy(update={"low": 0.0, "high": 1.0})
    n = count + missing
    low = estimate(mechanism, max(0.0, total - lies), n, confidence, among, once=once).low
    high = estimate(mechanism, min(float(n), total + lies + missing), n, confidence, among, once=once).high
    return interval.model_copy(update={"low": low, "high": high})


class RobustTest(SequentialTest):
    """A sequential test whose verdict is false with probability beta at most although a share of the answers are lies.

    It has no worst case: lies may keep it between both levels for ever, and it then asks until there are no agents
    left. That must happen where 2 share/(2p - 1) is above the distance of the levels, p being the chance of the truth.

    Args:
        mechanism, low, high, beta: As of :class:`~common.statistics.evidence.SequentialTest`.
        share: Of the answers, in [0, 1/2).
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float, share: float) -> None:
        if not isinstance(mechanism, BitMechanism) or not 0.0 <= share < 0.5:
            raise BadInput(
                f"adversarial answers need a mechanism of bits and a share in [0, 1/2), found {mechanism}, {share}"
            )
        super().__init__(mechanism, low, high, beta)
        self._share = share

    def _evidence(self) -> tuple[float, float]:
        lies, processes = most_adversarial(self.count, self._share), self._processes
        above = processes.above.log_value(max(0.0, self.total - lies), self.count)
        return above, processes.below.log_value(min(float(self.count), self.total + lies), self.count)

    def next_batch(self, first: int) -> int:
        if self.verdict is not None:
            return 0
        return first if self.count == 0 else max(1, -(-self.count // 2))


_EXACT = NoMechanism()


@dataclass(frozen=True)
class Silence:
    """The share of those asked who did not answer, and how much they could change.

    Attributes:
        missing: The share of those who were asked whose answers are missing; of several questions, the largest.
        most: An upper bound, with probability ``confidence``, on the chance that someone who is asked does not answer.
    """

    missing: float
    most: float
    confidence: float

    def widened(self, interval: Estimate) -> Estimate:
        """Return the estimate for all people, from that for those who answer (the theorem)."""
        confidence = interval.confidence + self.confidence - 1.0
        if confidence <= 0.0:
            return interval.model_copy(update={"low": 0.0, "high": 1.0})
        low, high = (1.0 - self.most) * interval.low, self.exceeded(interval.high)
        return interval.model_copy(update={"low": low, "high": high, "confidence": confidence})

    def exceeded(self, difference: float) -> float:
        """Return a bound on a difference of two means over all people, from a bound on it over those who answer."""
        return (1.0 - self.most) * difference + self.most


def silence_bound(questions: list[tuple[int, int]], confidence: float, among: int = 1) -> Silence | None:
    """Return the bound on the share who do not answer; None where all who were asked have answered.

    Args:
        questions: How many were asked and how many answered, for each thing that people were asked about, in order.
        confidence: In (0, 1): of all these bounds at once, at every number of people. The k-th of them may miss with
            probability (1 - confidence)/(k (k + 1)), and these add up to 1 - confidence at most.
        among: The reader will choose among so many such lists (union bound).
    """
    if any(not 0 <= answered <= asked for asked, answered in questions):
        raise BadInput(f"of those who were asked some answer, found {questions}")
    missing = most = 0.0
    for number, (asked, answered) in enumerate(questions, start=1):
        if answered < asked:
            missing = max(missing, 1.0 - answered / asked)
            most = max(most, estimate(_EXACT, asked - answered, asked, confidence, among * number * (number + 1)).high)
    return Silence(missing, most, confidence) if missing else None
