"""Learn a parity in each of several blocks of people who are sorted by a value."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from common.core.arrays import Bits, Indices
from common.core.errors import BadInput, PolicyRefused
from common.numerics.bits import pack
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Release
from common.privacy.rounding import down
from common.privacy.theorems.klnrs import Rates, rates
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.operations.parities import BlockParities, LearnParities
from curator.numerics.equations import Equations
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK


@HANDLERS.register("parities")
class ParitiesHandler(OperationHandler[LearnParities, BlockParities]):
    """The curator of Lemma 3.3, "The power of synergy": sort, divide into blocks, learn a parity in each.

    Record i belongs to part i mod ``parts``, a place in the sample: replacing it changes one part only, so all parts
    together cost epsilon (parallel composition). Within its part, the record's place in the order by value may be
    another afterwards; the others keep their order (ties by their place in the sample), so each of the ``blocks``
    blocks of ranks loses at most one record and gains at most one. The KLNRS learner of each block is
    epsilon/blocks-DP for such a change, blocks add up to epsilon (basic composition).
    """

    def event(self, operation: LearnParities, workspace: Workspace) -> Event:
        """One pure release from the sample itself."""
        return Release(epsilon=operation.epsilon)

    def check(self, operation: LearnParities, workspace: Workspace) -> None:
        """Refuse features that are not 0 and 1, blocks without people, and an epsilon that a rule does not keep to."""
        if operation.parts * operation.blocks > len(workspace.sample):
            raise PolicyRefused(
                f"{operation.parts} parts of {operation.blocks} blocks are more than the {len(workspace.sample)} people"
            )
        if workspace.sample.dtype != np.uint8:
            raise PolicyRefused(f"parities want 0/1 features, found {workspace.sample.dtype}")
        try:
            _rates(operation)
        except BadInput as unsound:
            raise PolicyRefused(unsound.detail) from None

    def run(self, operation: LearnParities, workspace: Workspace, source: RandomSource) -> BlockParities:
        """Release the features that each part's and block's parity sums up (the constant is one more), or null."""
        columns, rows, labels = [], [], []
        for records in workspace.sample.blocks(BLOCK):
            columns.append(pack(records.features[:, operation.first : operation.first + operation.bits]))
            ones = np.ones((len(records), 1), dtype=np.uint8)
            rows.append(np.concatenate([records.features[:, : operation.features], ones], axis=1))
            labels.append((records.labels > 0).view(np.uint8))
        values, x, sums = np.concatenate(columns), np.concatenate(rows), np.concatenate(labels)
        answers = []
        for part in range(operation.parts):
            members = np.arange(part, len(values), operation.parts)
            ranked = members[np.argsort(values[members], kind="stable")]
            cuts = [len(ranked) * block // operation.blocks for block in range(operation.blocks + 1)]
            answers.append(
                tuple(
                    _learned(x, sums, ranked[begin:end], _rates(operation), source.derive("block", part, block))
                    for block, (begin, end) in enumerate(pairwise(cuts))
                )
            )
        return BlockParities(parities=tuple(answers))


def _rates(operation: LearnParities) -> Rates:
    epsilon = operation.epsilon if operation.blocks == 1 else down(operation.epsilon / operation.blocks)
    return rates(operation.rule, epsilon)


def _learned(x: Bits, sums: Bits, rows: Indices, law: Rates, source: RandomSource) -> FeatureSet | None:
    """Answer as KLNRS does for these records."""
    kept = rows[source.derive("kept").uniforms(len(rows)) < law.kept]
    system = Equations(x.shape[1])
    system.add(np.ascontiguousarray(x[kept]), sums[kept])
    if not (source.derive("answer").uniforms(1)[0] < law.answers and system.consistent):
        return None
    return tuple(np.flatnonzero(system.point(source.derive("point"))).tolist())
