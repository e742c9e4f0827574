"""List the values that many people hold, and count their holders among other people."""

from __future__ import annotations

import numpy as np

from common.core.errors import PolicyRefused
from common.numerics.bits import pack
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Release
from common.privacy.rounding import down
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.operations.head import CountedHead, HeadList
from curator.mechanisms.geometric import noisy_counts
from curator.mechanisms.histogram import listed
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK


@HANDLERS.register("head")
class HeadHandler(OperationHandler[HeadList, CountedHead]):
    """Two noisy histograms, of the people at even places (which values?) and at odd ones (how many hold them?).

    *The list* is a function of the histogram of the whole domain with two-sided geometric noise in every cell,
    epsilon/2 each: replacing a record changes two cells by 1, so that is pure epsilon-DP. Values with a noisy count of
    at least a public threshold are listed, the largest first. Of the cells that nobody holds only those that reach the
    threshold are drawn: how many these are is binomial, which they are is uniform, by how much is geometric (Cormode,
    Procopiuc, Srivastava and Tran 2012, "filtering"). *The counts* of the listed values have the same noise. A record
    is in one of the two parts, by its place: both together cost epsilon (parallel composition), and the counts are
    unbiased, since other people chose the list.
    """

    def event(self, operation: HeadList, workspace: Workspace) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def check(self, operation: HeadList, workspace: Workspace) -> None:
        """Refuse a sample in which nobody is at an odd place."""
        if len(workspace.sample) < 2:
            raise PolicyRefused(
                f"one half lists and the other counts: that takes two people, found {len(workspace.sample)}"
            )

    def run(self, operation: HeadList, workspace: Workspace, source: RandomSource) -> CountedHead:
        """Release values, noisy counts, and among how many people they were counted."""
        columns = slice(operation.first, operation.first + operation.bits)
        blocks = workspace.sample.blocks(BLOCK)
        values = np.concatenate([pack(records.features[:, columns]) for records in blocks])
        noise = Laplace(epsilon=down(operation.epsilon / 2.0))
        items = listed(values[::2], operation.bits, operation.most, noise, source.derive("list"))
        others = np.sort(values[1::2])
        counts = np.searchsorted(others, items, side="right") - np.searchsorted(others, items, side="left")
        noisy = noisy_counts(counts, noise.epsilon, source.derive("counts"))
        return CountedHead(items=tuple(items.tolist()), counts=tuple(noisy.tolist()), people=len(others))
