"""List the values that many people hold, and count their holders among other people."""

from __future__ import annotations

from common.core.errors import PolicyRefused
from common.numerics.loops import pack
from common.privacy.events import Event, Release
from common.vocabulary.operations.head import CountedHead, HeadList
from curator.mechanisms.counting.head import NoisyHead
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("head")
class HeadHandler(OperationHandler[HeadList, CountedHead]):
    """Two noisy histograms, of even places and of odd ones: :class:`curator.mechanisms.counting.head.NoisyHead`."""

    def event(self, operation: HeadList, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def check(self, operation: HeadList, standing: Standing) -> None:
        """Refuse a sample in which nobody is at an odd place."""
        if standing.people < 2:
            raise PolicyRefused(f"one half lists and the other counts: that takes two people, found {standing.people}")

    def run(self, operation: HeadList, access: Access, standing: Standing) -> CountedHead:
        """Release values, noisy counts, and among how many people they were counted."""
        columns = slice(operation.first, operation.first + operation.bits)
        items, counts, people = access.release(
            NoisyHead(operation.bits, operation.most, operation.epsilon),
            lambda records: pack(records.features[:, columns]),
        )
        return CountedHead(items=tuple(items.tolist()), counts=tuple(counts.tolist()), people=people)
