"""Release the weighted shares of items: a model's score, a group and a label."""

from __future__ import annotations

from common.privacy.events import Event, Release
from common.vocabulary.operations.margins import Margins, NoisyMargins
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("margins")
class MarginsHandler(OperationHandler[Margins, NoisyMargins]):
    """Weighted shares with noise (:class:`curator.mechanisms.shares.NoisyShares`: theorem and proof)."""

    def event(self, operation: Margins, standing: Standing) -> Event:
        """One pure release from the sample itself; how much a record may weigh is in the noise, not in the price."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Margins, access: Access, standing: Standing) -> NoisyMargins:
        """Release the noisy shares."""
        cells = operation.cells
        shares, whole = access.shares(operation.epsilon, cells.items, cells.items_of)
        return NoisyMargins(shares=tuple(shares.tolist()), whole=whole)
