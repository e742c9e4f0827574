"""The sequential test: stop asking as soon as the answers so far are clear."""

from __future__ import annotations

from common.statistics.means import evidence
from common.statistics.means.loss_test import LossTest, Reached, Verdict
from common.vocabulary.mechanisms.base import Mechanism


class SequentialTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high``, looking after every batch.

    Whatever the loss is and whenever one looks, a false verdict has probability at most ``beta`` (Ville's
    inequality for two mixture e-processes, :mod:`common.statistics.means.evidence`; docs/corrections.md,
    "Sequential test"). If both hold (``low`` < loss < ``high``), either verdict is true. The test always
    ends by ``worst_case`` answers.

    The state is the sum of the answers and their number, so a replay of the same batches gives the same
    verdict.

    Parameters
    ----------
    mechanism
        How the answers are randomized.
    low, high
        0 < low < high < 1.
    beta
        Failure probability of this test, in (0, 1). For T rounds, give each beta/T.

    Raises
    ------
    BadInput
        If a parameter is outside its range, or low and high cannot be told apart.

    Examples
    --------
    >>> from common.vocabulary.mechanisms.warner import Warner
    >>> test = SequentialTest(Warner(epsilon=1.0), low=0.16, high=0.32, beta=5e-5)
    >>> test.update(total=125, count=250)
    >>> test.verdict
    'above'
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float) -> None:
        super().__init__(evidence.worst_case(mechanism, low, high, beta))
        self._evidences = evidence.gather(mechanism, low, high)
        self._needed = evidence.needed(beta)

    def reached(self) -> Reached:
        """Return how far it is, with the evidence that its verdict is made of."""
        above, below = self._evidence()
        return Reached(self.count, self.worst_case, above, below, self._needed)

    def _evidence(self) -> tuple[float, float]:
        found = self._evidences
        return found.above.log_value(self.total, self.count), found.below.log_value(self.total, self.count)

    def _decide(self) -> Verdict | None:
        above, below = self._evidence()
        # Where both nulls fall at once, "below" ends the run and is as sure as the other.
        if below >= self._needed:
            return "below"
        if above >= self._needed:
            return "above"
        return None

    def next_batch(self, first: int) -> int:
        """Return how many answers to ask for next: ``first``, then half of what came; 0 after the verdict.

        Never more than what is left to ``worst_case``.
        """
        if self.verdict is not None:
            return 0
        wanted = first if self.count == 0 else max(1, -(-self.count // 2))
        return min(wanted, max(1, self.worst_case - self.count))
