"""Learn a parity in each of several blocks of people who are sorted by a value."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Bits, Words
from common.core.errors import BadInput, PolicyRefused
from common.numerics.loops import pack
from common.privacy.events import Event, Release
from common.vocabulary.operations.parities import BlockParities, LearnParities
from common.vocabulary.records import Records
from curator.mechanisms.choices.parities import RankParities
from curator.metering.access import Access
from curator.operations.base import HANDLERS, OperationHandler, Standing


@HANDLERS.register("parities")
class ParitiesHandler(OperationHandler[LearnParities, BlockParities]):
    """The curator of Lemma 3.3, "The power of synergy": :class:`curator.mechanisms.choices.parities.RankParities`."""

    def event(self, operation: LearnParities, standing: Standing) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def check(self, operation: LearnParities, standing: Standing) -> None:
        """Refuse features that are not 0 and 1, blocks without people, and an epsilon that a rule does not keep to."""
        if operation.parts * operation.blocks > standing.people:
            raise PolicyRefused(
                f"{operation.parts} parts of {operation.blocks} blocks are more than the {standing.people} people"
            )
        if standing.dtype != np.uint8:
            raise PolicyRefused(f"parities want 0/1 features, found {standing.dtype}")
        try:
            _ = _mechanism(operation).law
        except BadInput as unsound:
            raise PolicyRefused(unsound.detail) from None

    def run(self, operation: LearnParities, access: Access, standing: Standing) -> BlockParities:
        """Release the features that each part's and block's parity sums up (the constant is one more), or null."""

        def equations(records: Records) -> tuple[Words, Bits, Bits]:
            keys = pack(records.features[:, operation.first : operation.first + operation.bits])
            ones = np.ones((len(records), 1), dtype=np.uint8)
            rows = np.concatenate([records.features[:, : operation.features], ones], axis=1)
            return keys, rows, (records.labels > 0).view(np.uint8)

        return BlockParities(parities=access.release(_mechanism(operation), equations))


def _mechanism(operation: LearnParities) -> RankParities:
    return RankParities(operation.rule, operation.epsilon, operation.parts, operation.blocks)
