"""Reweigh by a hypothesis: records that it gets right weigh less afterwards."""

from __future__ import annotations

from common.core.errors import BadScenario, PolicyRefused
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, NoEvent
from common.vocabulary.operations.reweigh import Reweigh, Reweighed
from curator.operations.base import HANDLERS, OperationHandler, Workspace


@HANDLERS.register("reweigh")
class ReweighHandler(OperationHandler[Reweigh, Reweighed]):
    """Algorithm 2 of Kohen & Sheffet, "w_i <- w_i exp(-eta [1 - L(h(x_i), l(x_i))])".

    Nothing is released, so nothing is charged: the weights are functions of the record and of public messages only,
    also if this curator never released the hypothesis (docs/corrections.md, "Arbitrary reweigh hypotheses").
    """

    def event(self, operation: Reweigh, workspace: Workspace) -> Event:
        """Return the empty event."""
        return NoEvent()

    def check(self, operation: Reweigh, workspace: Workspace) -> None:
        """Refuse counts that there is no room for: real losses widen them sooner than was planned."""
        grown = workspace.reweighing.widening(operation.loss)
        if grown:
            try:
                workspace.sample.check_room(grown)
            except BadScenario as full:
                raise PolicyRefused(full.detail) from None

    def run(self, operation: Reweigh, workspace: Workspace, source: RandomSource) -> Reweighed:
        """Update the weights; the result is empty."""
        workspace.reweighing.update(workspace.sample, operation.hypothesis, operation.loss)
        return Reweighed()

    def replay(self, operation: Reweigh, result: Reweighed, workspace: Workspace) -> None:
        """Update the weights again."""
        workspace.reweighing.update(workspace.sample, operation.hypothesis, operation.loss)
