"""What a reweigh multiplies weights by: a public loss of every record, in whole parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from common.core.arrays import AnyArray
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.losses import Loss, count, grain
from common.vocabulary.records import Records


class Weighing(Protocol):
    """A public function of one record into [0, 1], on a public grid.

    A reweigh multiplies each weight by ``exp(-eta (1 - value))``. Whatever the function is, log-weights stay functions
    of the record and of public messages, and two of them differ by ``eta t`` at most after t reweighs: this is all that
    the sampling bound rests on (:meth:`curator.weights.reweighing.Reweighing.sampling_bound`).
    """

    @property
    def grain(self) -> int:
        """Into how many parts the unit is divided."""
        ...

    def count(self, records: Records) -> AnyArray:
        """Return each record's value in whole parts, shape (n,), unsigned, 0..grain."""
        ...


@dataclass(frozen=True)
class HypothesisLoss:
    """The loss of a hypothesis (:mod:`common.vocabulary.losses`)."""

    hypothesis: Hypothesis
    loss: Loss = "zero-one"

    @property
    def grain(self) -> int:
        """That of the loss."""
        return grain(self.loss)

    def count(self, records: Records) -> AnyArray:
        """Return the losses."""
        return count(self.loss, self.hypothesis, records)
