"""Count people by score, group and label."""

from __future__ import annotations

import numpy as np

from common.privacy.events import Event, Release
from common.vocabulary.operations.margins import Margins, NoisyMargins
from curator.mechanisms.counts import NoisyHistogram
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("margins")
class MarginsHandler(OperationHandler[Margins, NoisyMargins]):
    """A noisy histogram (:class:`curator.mechanisms.counts.NoisyHistogram`) of the sample itself, weights or not."""

    def event(self, operation: Margins, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Margins, access: Access, standing: Standing) -> NoisyMargins:
        """Release the noisy counts."""
        cells = operation.cells
        counts = access.release(
            NoisyHistogram(operation.epsilon, cells.items),
            lambda records: (cells.items_of(records), np.ones(len(records), dtype=np.int64)),
        )
        return NoisyMargins(counts=tuple(counts.tolist()))
