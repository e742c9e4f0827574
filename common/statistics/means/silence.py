"""What those who were asked and did not answer could change: an estimate is about those who answer.

*Theorem.* Let each person who is asked answer or not, as their record and chance have it; let m be the chance that one
does not answer, and let [a, b], within [0, 1], cover the mean of a value in [0, 1] over those who answer with
probability 1 - miss. Let M be at least m with probability 1 - other. Then with probability 1 - miss - other the mean
over all people is in [(1 - M) a, (1 - M) b + M], whatever the values of those who do not answer are. A difference of
two such means that is at most g over those who answer is at most (1 - M) g + M over all.

*Proof.* The mean over all is (1 - m) times that over those who answer and m times that over the others, which is in
[0, 1]. The lower end falls with m, since a >= 0, and the upper one grows, since b <= 1; so M in place of m makes the
interval no smaller. A difference is taken apart in the same way, and that of the others is at most 1. Union bound. QED.

It holds for silence that depends on the record. It does not where randomized answers are left out after they were seen:
those are as good as lies, and :func:`unseen` is for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from common.core.errors import BadInput
from common.statistics.means.intervals import Estimate, estimate
from common.vocabulary.mechanisms.base import BitMechanism, Mechanism
from common.vocabulary.mechanisms.none import NoMechanism

_EXACT = NoMechanism()


@dataclass(frozen=True)
class Silence:
    """How many of those who were asked did not answer, and what they could change.

    Attributes
    ----------
    missing
        The share of those who were asked whose answers are not there; of several questions, the largest.
    most
        The chance that one who is asked does not answer is at most this, with the probability ``confidence``.
    confidence
        Of ``most`` alone.
    """

    missing: float
    most: float
    confidence: float

    def widened(self, found: Estimate) -> Estimate:
        """Return what is known of the mean over all people, from what is known of those who answer (the theorem)."""
        sure = found.confidence + self.confidence - 1.0
        if sure <= 0.0:
            return found.model_copy(update={"low": 0.0, "high": 1.0})
        low, high = (1.0 - self.most) * found.low, self.exceeded(found.high)
        return found.model_copy(update={"low": low, "high": high, "confidence": sure})

    def exceeded(self, difference: float) -> float:
        """Return what bounds a difference of two means over all people that is bounded so over those who answer."""
        return (1.0 - self.most) * difference + self.most


def silence(questions: list[tuple[int, int]], confidence: float, among: int = 1) -> Silence | None:
    """Return what is known of the silent; None where everybody who was asked has answered.

    Parameters
    ----------
    questions
        How many were asked and how many answered, for each thing that people were asked about, in order.
    confidence
        In (0, 1): of all these bounds at once, at every number of people. The k-th of them, of any number, may miss
        with probability (1 - confidence)/(k (k + 1)), and these add up to 1 - confidence at most.
    among
        The reader will choose among so many such lists (union bound).

    Raises
    ------
    BadInput
        If more answered than were asked.
    """
    if any(not 0 <= answered <= asked for asked, answered in questions):
        raise BadInput(f"of those who were asked some answer, found {questions}")
    missing = most = 0.0
    for number, (asked, answered) in enumerate(questions, start=1):
        if answered < asked:
            missing = max(missing, 1.0 - answered / asked)
            most = max(most, estimate(_EXACT, asked - answered, asked, confidence, among * number * (number + 1)).high)
    return Silence(missing, most, confidence) if missing else None


def unseen(
    mechanism: Mechanism, total: float, count: int, asked: int, confidence: float, among: int = 1, *, lies: int = 0
) -> Estimate:
    """Return what is known of the mean if answers were left out because of what they say, or are lies.

    *Theorem.* As for lies (:mod:`common.statistics.means.liars`): had all who were asked answered by their mechanism,
    the ones among ``asked`` answers would number ``total - lies`` to ``total + lies`` and those that are not there, and
    the interval for what would have been counted covers the mean with probability ``confidence``. So the hull does.

    Parameters
    ----------
    mechanism, total, count, confidence, among
        As of :func:`common.statistics.means.intervals.estimate`, of the answers that are there.
    asked
        How many were asked.
    lies
        How many of the answers that are there may be lies.
    """
    found = estimate(mechanism, total, count, confidence, among)
    if count == asked and not lies:
        return found
    if not isinstance(mechanism, BitMechanism):
        return found.model_copy(update={"low": 0.0, "high": 1.0})
    low = estimate(mechanism, max(0.0, total - lies), asked, confidence, among).low
    high = estimate(mechanism, min(float(asked), total + lies + asked - count), asked, confidence, among).high
    return found.model_copy(update={"low": low, "high": high})
