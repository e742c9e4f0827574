"""Reweigh by a hypothesis: records that it gets right weigh less afterwards."""

from __future__ import annotations

from common.privacy.events import Event, NoEvent
from common.vocabulary.operations.reweigh import Reweigh, Reweighed
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("reweigh")
class ReweighHandler(OperationHandler[Reweigh, Reweighed]):
    """Algorithm 2 of Kohen & Sheffet, "w_i <- w_i exp(-eta [1 - L(h(x_i), l(x_i))])".

    Nothing is released, so nothing is charged: the weights are functions of the record and of public messages only,
    also if this curator never released the hypothesis (docs/corrections.md, "Arbitrary reweigh hypotheses").
    The engine changes them (:meth:`curator.engine.workspace.Workspace.advance`).
    """

    def event(self, operation: Reweigh, standing: Standing) -> Event:
        """Return the empty event."""
        return NoEvent()

    def check(self, operation: Reweigh, standing: Standing) -> None:
        """Refuse counts that there is no room for: real losses widen them sooner than was planned."""
        standing.check_room(operation.reweighs_by)

    def run(self, operation: Reweigh, access: Access, standing: Standing) -> Reweighed:
        """Return nothing."""
        return Reweighed()
