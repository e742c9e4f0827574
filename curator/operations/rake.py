"""Rake: reweigh by a public table of items."""

from __future__ import annotations

from common.privacy.events import Event, NoEvent
from common.vocabulary.operations.rake import Rake
from common.vocabulary.operations.reweigh import Reweighed
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("rake")
class RakeHandler(OperationHandler[Rake, Reweighed]):
    """Weights are changed by the engine, as by :class:`curator.operations.reweigh.ReweighHandler`; nothing is released.

    Deming and Stephan (1940) fit tables by such factors; survey statistics calls it raking. Here the factors come from
    the referee, who has what the agents say of T and what ``margins`` said of the sample.
    """

    def event(self, operation: Rake, standing: Standing) -> Event:
        """Return the empty event."""
        return NoEvent()

    def check(self, operation: Rake, standing: Standing) -> None:
        """Refuse counts that there is no room for."""
        standing.check_room(operation.tilt)

    def run(self, operation: Rake, access: Access, standing: Standing) -> Reweighed:
        """Return nothing."""
        return Reweighed()
