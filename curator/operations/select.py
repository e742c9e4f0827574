"""Select the feature that is 1 most often."""

from __future__ import annotations

import numpy as np

from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Release
from common.vocabulary.operations.select import Select, SelectedFeature
from curator.mechanisms.exponential import choose_level
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK


@HANDLERS.register("select")
class SelectHandler(OperationHandler[Select, SelectedFeature]):
    """The exponential mechanism (McSherry and Talwar 2007): feature i with chance proportional to e^{epsilon C_i/2}.

    C_i, the number of records of which feature i is 1, changes by at most 1 when a record is replaced: pure
    epsilon-DP on the sample itself, weights or not. With probability 1 - beta, C_i >= max C - 2 ln(d/beta)/epsilon.
    """

    def event(self, operation: Select, workspace: Workspace) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def run(self, operation: Select, workspace: Workspace, source: RandomSource) -> SelectedFeature:
        """Release the number of the feature, as one of the whole record."""
        ones = np.zeros(operation.count, dtype=np.int64)
        columns = slice(operation.first, operation.first + operation.count)
        for records in workspace.sample.blocks(BLOCK):
            ones += np.count_nonzero(records.features[:, columns] > 0, axis=0)
        missing = len(workspace.sample) - ones
        level = choose_level(np.bincount(missing, minlength=len(workspace.sample) + 1), operation.epsilon, source)
        alike = np.flatnonzero(missing == level)
        chosen = alike[int(source.integers(len(alike), 1)[0])]
        return SelectedFeature(feature=operation.first + int(chosen))
