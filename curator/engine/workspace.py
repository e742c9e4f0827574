"""Bring a workspace to where finished operations have led."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from common.core.arrays import AnyArray
from common.vocabulary.operations.base import Operation, Result
from common.vocabulary.records import Records
from curator.engine.policy import Policy
from curator.operations.base import HANDLERS, Workspace
from curator.sample.base import Sample
from curator.weights.reweighing import Reweighing


class Finished(NamedTuple):
    """An operation that was carried out, and what was released."""

    operation: Operation[Any]
    result: Result


KeptWeights = tuple[int, list[AnyArray]]
"""The weights as they were after the first so many reweighs: that number, and each shard's cumulative losses."""


def replayed(
    policy: Policy, sample: Sample, public: Records | None, finished: Sequence[Finished], kept: KeptWeights | None
) -> Workspace:
    """Return the workspace that operations lead to, in their order; nothing is drawn and nothing released.

    Parameters
    ----------
    sample
        Whatever its weights are; they are set.
    kept
        Spares the reweighs before it; None computes all of them.
    """
    losses = [operation.reweighs_by for operation, _ in finished if operation.reweighs_by is not None]
    done, cumulative_losses = kept if kept is not None else (0, None)
    reweighing = Reweighing.restore(sample, policy.kappa, policy.eta, losses[:done], cumulative_losses)
    workspace = Workspace(sample, reweighing, policy.learner, public=public)
    for operation, result in finished:
        if operation.reweighs_by is not None and done > 0:
            done -= 1
        else:
            HANDLERS[operation.kind]().replay(operation, result, workspace)
    return workspace
