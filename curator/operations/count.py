"""Count the records of which a feature is 1."""

from __future__ import annotations

import numpy as np

from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Release
from common.vocabulary.operations.count import Count, NoisyCount
from curator.mechanisms.geometric import noisy_counts
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK


@HANDLERS.register("count")
class CountHandler(OperationHandler[Count, NoisyCount]):
    """A count with two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009), exact on the integers.

    The count changes by at most 1 when a record is replaced: pure epsilon-DP on the sample itself, weights or not.
    """

    def event(self, operation: Count, workspace: Workspace) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Count, workspace: Workspace, source: RandomSource) -> NoisyCount:
        """Release the noisy count: an integer, which may lie outside 0..n."""
        ones = sum(
            int(np.count_nonzero(records.features[:, operation.feature] > 0))
            for records in workspace.sample.blocks(BLOCK)
        )
        return NoisyCount(count=int(noisy_counts(np.array([ones]), operation.epsilon, source)[0]))
