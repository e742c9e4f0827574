"""Select the feature that is 1 most often."""

from __future__ import annotations

from common.privacy.events import Event, Release
from common.vocabulary.operations.select import Select, SelectedFeature
from curator.mechanisms.counting.counts import MostFrequent
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("select")
class SelectHandler(OperationHandler[Select, SelectedFeature]):
    """The exponential mechanism (:class:`.counting.counts.MostFrequent`) on the sample, weights or not."""

    def event(self, operation: Select, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Select, access: Access, standing: Standing) -> SelectedFeature:
        """Release the number of the feature, as one of the whole record."""
        columns = slice(operation.first, operation.first + operation.count)
        chosen = access.release(
            MostFrequent(operation.epsilon, operation.count), lambda records: records.features[:, columns] > 0
        )
        return SelectedFeature(feature=operation.first + chosen)
