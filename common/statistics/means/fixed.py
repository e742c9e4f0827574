"""The fixed-size test: ask a number of agents that is known beforehand, look once."""

from __future__ import annotations

from common.core.errors import BadInput
from common.statistics.means import evidence
from common.statistics.means.loss_test import LossTest, Verdict
from common.vocabulary.mechanisms.base import BitMechanism, Mechanism


class FixedTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high`` by comparing one mean with a threshold.

    With ``worst_case`` answers the mean falls on the wrong side of the mid-point with probability at most
    ``beta`` (Chernoff's bound with the mechanism's own moment generating function; for bits with the exact
    binomial's exponent). The interface is that of :class:`~common.statistics.means.sequential.SequentialTest`;
    there is no verdict before all answers are in.

    Parameters
    ----------
    mechanism
        How the answers are randomized.
    low, high
        0 < low < high < 1.
    beta
        Failure probability of this test, in (0, 1). For T rounds, give each beta/T.
    size
        Number of answers; by default the least that Chernoff's bound admits. A smaller one than that (the
        paper's N0) carries the guarantee that its own source claims, not this one; the threshold is then
        the arithmetic mid-point, 3 alpha in Algorithms 2 and 4 of Kohen & Sheffet.

    Raises
    ------
    BadInput
        If a parameter is outside its range.
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float, size: int | None = None) -> None:
        evidences = evidence.gather(mechanism, low, high)
        if size is not None and size < 1:
            raise BadInput(f"a test needs at least 1 answer, found {size}")
        super().__init__(evidence.fixed_size(mechanism, low, high, beta) if size is None else size)
        self._threshold = evidences.middle if size is None else (low + high) / 2.0
        self._mechanism = mechanism

    def _decide(self) -> Verdict | None:
        if self.count < self.worst_case:
            return None
        return "above" if self._mean() > self._threshold else "below"

    def next_batch(self, first: int) -> int:
        """Return how many answers are missing; ``first`` does not matter here."""
        return max(0, self.worst_case - self.count)

    def _mean(self) -> float:
        mean = self.total / self.count
        if isinstance(self._mechanism, BitMechanism):
            truth = self._mechanism.truth
            return (mean - (1.0 - truth)) / (2.0 * truth - 1.0)
        return mean
