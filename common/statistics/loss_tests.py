"""Sequential and fixed-size tests of a loss: they add up answers, and decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.statistics import evidence

Verdict = Literal["above", "below"]


@dataclass(frozen=True)
class Reached:
    """How far a test is, from its answers so far.

    Attributes:
        answers: How many it has.
        worst_case: Number of answers by which it has decided.
        above, below: Natural logarithms of the e-values against "the loss is at most ``low``" and "the loss is at least
            ``high``"; None where the test looks once only, at the end.
        needed: ln(1/beta): the first of the two to get there is the verdict. None as well where the test looks once
            only.
    """

    answers: int
    worst_case: int
    above: float | None = None
    below: float | None = None
    needed: float | None = None


class LossTest(ABC):
    """Decides whether the loss on T is above a lower level or below a higher one.

    Its state is the sum of the answers and their number, so a replay of the same batches gives the same verdict.

    Attributes:
        total, count: Sum of the answers so far (ones, or unbiased answers), and their number.
        verdict: None until it has decided; never changes afterwards.
        worst_case: Number of answers by which it has decided.
    """

    def __init__(self, worst_case: int) -> None:
        self.worst_case = worst_case
        self.total = 0.0
        self.count = 0
        self.verdict: Verdict | None = None

    def update(self, total: float, count: int) -> None:
        """Take in a batch.

        Args:
            total: Number of ones (bit mechanisms), or sum of the unbiased answers (real ones).
            count: Number of answers; 0 changes nothing.

        Raises:
            BadInput: If ``count`` is negative.
        """
        if count < 0:
            raise BadInput(f"a batch holds at least 0 answers, found {count}")
        self.total += total
        self.count += count
        if self.verdict is None and count:
            self.verdict = self._decide()

    def reached(self) -> Reached:
        """Return how far it is; it is made of the answers alone, and changes nothing."""
        return Reached(self.count, self.worst_case)

    @abstractmethod
    def next_batch(self, first: int) -> int:
        """Return how many answers to ask for next, if ``first`` is how many to begin with; 0 after the verdict."""

    @abstractmethod
    def _decide(self) -> Verdict | None:
        """Look at total and count."""


class FixedTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high`` by comparing one mean with a threshold.

    With ``worst_case`` answers the mean falls on the wrong side of the mid-point with probability at most
    ``beta`` (Chernoff's bound with the mechanism's own moment generating function; for bits with the exact
    binomial's exponent). The interface is that of :class:`~common.statistics.loss_tests.SequentialTest`;
    there is no verdict before all answers are in.

    Args:
        mechanism: How the answers are randomized.
        low, high: 0 < low < high < 1.
        beta: Failure probability of this test, in (0, 1). For T rounds, give each beta/T.
        size: Number of answers; by default the least that Chernoff's bound admits. A smaller one than that (the paper's
            N0) carries the guarantee that its own source claims, not this one; the threshold is then the arithmetic
            mid-point, 3 alpha in Algorithms 2 and 4 of Kohen & Sheffet.

    Raises:
        BadInput: If a parameter is outside its range.
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
        return max(0, self.worst_case - self.count)

    def _mean(self) -> float:
        mean = self.total / self.count
        if isinstance(self._mechanism, BitMechanism):
            truth = self._mechanism.truth
            return (mean - (1.0 - truth)) / (2.0 * truth - 1.0)
        return mean


class SequentialTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high``, looking after every batch.

    Whatever the loss is and whenever one looks, a false verdict has probability at most ``beta`` (Ville's
    inequality for two mixture e-processes, :mod:`common.statistics.evidence`; docs/corrections.md,
    "Sequential test"). If both hold (``low`` < loss < ``high``), either verdict is true. The test always
    ends by ``worst_case`` answers.

    The state is the sum of the answers and their number, so a replay of the same batches gives the same
    verdict.

    Args:
        mechanism: How the answers are randomized.
        low, high: 0 < low < high < 1.
        beta: Failure probability of this test, in (0, 1). For T rounds, give each beta/T.

    Raises:
        BadInput: If a parameter is outside its range, or low and high cannot be distinguished.

    Examples:
        >>> from common.local.mechanisms.warner import Warner
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
