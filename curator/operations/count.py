"""Count the records of which a feature is 1."""

from __future__ import annotations

from common.privacy.events import Event, Release
from common.vocabulary.operations.count import Count, NoisyCount
from curator.mechanisms.counting import counts
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("count")
class CountHandler(OperationHandler[Count, NoisyCount]):
    """A noisy count (:class:`curator.mechanisms.counting.counts.NoisyCount`) on the sample itself, weights or not."""

    def event(self, operation: Count, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Count, access: Access, standing: Standing) -> NoisyCount:
        """Release the noisy count: an integer, which may lie outside 0..n."""
        counted = access.release(
            counts.NoisyCount(operation.epsilon), lambda records: records.features[:, operation.feature] > 0
        )
        return NoisyCount(count=counted)
