"""What every test of a loss has in common: it adds up answers, and decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from common.core.errors import BadInput

Verdict = Literal["above", "below"]


@dataclass(frozen=True)
class Reached:
    """How far a test is, from its answers so far.

    Attributes
    ----------
    answers
        How many it has.
    worst_case
        Number of answers by which it has decided.
    above, below
        Natural logarithms of the e-values against "the loss is at most ``low``" and "the loss is at least ``high``";
        None where the test looks once only, at the end.
    needed
        ln(1/beta): the first of the two to get there is the verdict. None as well where the test looks once only.
    """

    answers: int
    worst_case: int
    above: float | None = None
    below: float | None = None
    needed: float | None = None


class LossTest(ABC):
    """Decides whether the loss on T is above a lower level or below a higher one.

    Its state is the sum of the answers and their number, so a replay of the same batches gives the same verdict.

    Attributes
    ----------
    total, count
        Sum of the answers so far (ones, or unbiased answers), and their number.
    verdict
        None until it has decided; never changes afterwards.
    worst_case
        Number of answers by which it has decided.
    """

    def __init__(self, worst_case: int) -> None:
        self.worst_case = worst_case
        self.total = 0.0
        self.count = 0
        self.verdict: Verdict | None = None

    def update(self, total: float, count: int) -> None:
        """Take in a batch.

        Parameters
        ----------
        total
            Number of ones (bit mechanisms), or sum of the unbiased answers (real ones).
        count
            Number of answers; 0 changes nothing.

        Raises
        ------
        BadInput
            If ``count`` is negative.
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
