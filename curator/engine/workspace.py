"""What the engine works with, and how an operation is carried out on it and leads on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from common.core.arrays import AnyArray
from common.core.errors import BadScenario, PolicyRefused
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Operation, R, Result
from common.privacy.events import Event, NoEvent
from curator.engine.policy import Policy
from curator.learners.base import Learner
from curator.metering.access import Access
from curator.operations import HANDLERS, Standing
from curator.sample.base import Sample
from curator.weights.reweighing import Reweighing


class Finished(NamedTuple):
    """An operation that was carried out, and what was released."""

    operation: Operation[Any]
    result: Result


KeptWeights = tuple[int, list[AnyArray]]
"""The weights as they were after the first so many reweighs: that number, and each shard's cumulative losses."""


@dataclass
class Workspace:
    """The engine's own: its sample, the law of its weights, its learner, and what it released last.

    ``learner`` is None where the policy has none, ``public`` where the scenario has no public sample.
    """

    sample: Sample
    reweighing: Reweighing
    learner: Learner | None
    previous: Hypothesis | None = None
    public: Records | None = None

    @property
    def standing(self) -> Standing:
        """Where the curator stands: what is public."""
        return Standing(
            people=len(self.sample),
            dimension=self.sample.dimension,
            dtype=self.sample.dtype,
            tv_bound=self.reweighing.sampling_bound(),
            learner=self.learner,
            previous=self.previous,
            public=self.public,
            check_room=self._check_room,
        )

    def _check_room(self, weighing: Weighing) -> None:
        grown = self.reweighing.widening(weighing)
        if grown:
            try:
                self.sample.check_room(grown)
            except BadScenario as full:
                raise PolicyRefused(full.detail) from None

    def event(self, operation: Operation[Any]) -> Event:
        """Return what an operation costs now."""
        event: Event = HANDLERS[operation.kind]().event(operation, self.standing)
        return event

    def check(self, operation: Operation[Any]) -> None:
        """Refuse what could not be carried out.

        Raises
        ------
        PolicyRefused
            Saying what is missing.
        """
        HANDLERS[operation.kind]().check(operation, self.standing)

    def run(self, operation: Operation[R], event: Event, source: RandomSource) -> R:
        """Carry out an operation by what an event pays for, and return what it releases; changes nothing here.

        Raises
        ------
        Overdrawn
            If its code asked for more than that, even if it caught the error.
        """
        sampler = None if isinstance(event, NoEvent) else self.reweighing.sampler(self.sample)
        access = Access(event, sampler, source, 0 if self.learner is None else self.learner.shown_features)
        result: R = HANDLERS[operation.kind]().run(operation, access, self.standing)
        access.close()
        return result

    def advance(self, operation: Operation[R], result: R) -> None:
        """Go on to where an operation leads that released this: new weights, and a hypothesis to begin with."""
        if operation.reweighs_by is not None:
            self.reweighing.update(self.sample, operation.reweighs_by)
        learned = HANDLERS[operation.kind]().learned(result)
        if learned is not None:
            self.previous = learned

    def perform(self, operation: Operation[R], source: RandomSource) -> R:
        """Run an operation by what it declares itself, and go on."""
        result = self.run(operation, self.event(operation), source)
        self.advance(operation, result)
        return result


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
    reweighs = [operation.reweighs_by for operation, _ in finished if operation.reweighs_by is not None]
    done, cumulative_losses = kept if kept is not None else (0, None)
    reweighing = Reweighing.restore(sample, policy.kappa, policy.eta, reweighs[:done], cumulative_losses)
    workspace = Workspace(sample, reweighing, policy.learner, public=public)
    for operation, result in finished:
        if operation.reweighs_by is not None and done > 0:
            done -= 1
        else:
            workspace.advance(operation, result)
    return workspace
