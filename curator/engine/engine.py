"""The curator's engine: what becomes of an operation, in one order, for real people and for simulated ones.

admit (features, event, what it costs, rounds, what the operation's handler wants) -> [charge] -> run -> [store] ->
advance. What is in brackets a service does between two calls; a simulation does nothing there. No call reads or writes
anything but memory, and everything is a function of the sample, the policy, the randomness and the past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from common.core.errors import PolicyRefused
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Operation, R, parse_operation
from common.privacy.events import Event
from curator.engine.failures import constant_failure
from curator.engine.history import History
from curator.engine.policy import Policy, check_features
from curator.engine.silence import silence
from curator.engine.workspace import Finished, KeptWeights, replayed
from curator.sample.base import Sample


class Past(Protocol):
    """An operation of the past."""

    @property
    def operation_id(self) -> str:
        """Its number."""
        ...

    @property
    def operation(self) -> dict[str, Any]:
        """Its JSON form."""
        ...

    @property
    def result(self) -> dict[str, Any] | None:
        """What it released, with or without its event; None where it did not finish."""
        ...


Kept = Callable[[list[str]], KeptWeights | None]
"""Finds weights that were kept: given the lineage of each finished reweigh, in order."""


class Engine:
    """A curator's work on its sample, one operation after the other.

    Parameters
    ----------
    policy
        What it agrees to do.
    sample
        Its people; their weights are set to what the past has made of them.
    randomness
        Secret where people are real. Each operation's randomness is derived from it by the operation's lineage.
    public
        The public sample, if there is one.
    past
        Operations so far, in order; only the last one may be unfinished.
    kept
        Where weights that the past led to may be found, instead of computing them again.
    """

    def __init__(
        self,
        policy: Policy,
        sample: Sample,
        randomness: RandomSource,
        *,
        public: Records | None = None,
        past: Iterable[Past] = (),
        kept: Kept = lambda lineages: None,
    ) -> None:
        self._policy = policy
        self._sample = sample
        self._randomness = randomness
        self._history = History()
        self._running = False
        finished, lineages = [], []
        for entry in past:
            lineage = self._history.enter(entry.operation_id, entry.operation)
            if entry.result is not None:
                operation = parse_operation(entry.operation)
                finished.append(Finished(operation, operation.read(entry.result)))
                if operation.reweighs_by is not None:
                    lineages.append(lineage)
        self.workspace = replayed(policy, sample, public, finished, kept(lineages))

    def lineage(self, number: str) -> str:
        """Return the digest of an operation and of everything before it."""
        return self._history.lineage(number)

    def admit(self, operation: Operation[Any], afford: Callable[[Event], None] = lambda event: None) -> Event:
        """Check whether a further operation may be carried out, and return what it costs; changes nothing.

        Parameters
        ----------
        afford
            Told what it costs; raises if that is more than what is left.

        Raises
        ------
        PolicyRefused
            If the agreed protocol does not use it, records lack features that it needs, the policy's rounds are used
            up, or its handler refuses it.
        """
        self._check_settled()
        self._policy.check_agreed(operation.kind)
        check_features(operation, self._sample.dimension)
        event = self.workspace.event(operation)
        afford(event)
        done, most = self._history.count(operation.kind), self._policy.most(operation.kind)
        if done >= most:
            raise PolicyRefused(f"the policy allows {most} rounds, {done} {operation.kind!r} operations are done")
        self.workspace.check(operation)
        return event

    def run(self, number: str, operation: Operation[R], event: Event) -> R:
        """Carry out an operation that was admitted, under a number of its own; return what it releases.

        Until :meth:`advance` the engine takes no other. Should the operation fail, or not be stored, memory may be
        ahead of what has happened: then this engine is of no use any more, and another one is built from the past.

        Parameters
        ----------
        event
            What was charged: the operation gets no more of the sample than this pays for.

        Raises
        ------
        OperationFailed
            If its code fails, or asks for more: the same sentence whatever happened, since texts of errors, like where
            they come from, may depend on records. The operator finds the type and the line in the curator's log.
        """
        self._check_settled()
        lineage = self._history.enter(number, operation.wire())
        self._running = True
        with constant_failure(operation.kind), silence():
            result = self.workspace.run(operation, event, self._randomness.derive(lineage))
            self.workspace.advance(operation, result)
        return result

    def advance(self) -> None:
        """Go on from where the last operation has led: what it released is stored, if it has to be."""
        self._running = False

    def perform(self, number: str, operation: Operation[R]) -> R:
        """Admit an operation, carry it out and go on: for simulated people, whose operations nobody charges."""
        event = self.admit(operation)
        result = self.run(number, operation, event)
        self.advance()
        return result

    def _check_settled(self) -> None:
        if self._running:
            raise RuntimeError("an operation was not finished: this engine may be ahead of what has happened")
