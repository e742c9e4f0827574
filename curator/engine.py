"""The steps of an operation, the same for real and for simulated people: policy, history, workspace."""

from __future__ import annotations

import io
import logging
import sys
import threading
import traceback
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray
from common.core.errors import BadData, BadScenario, OperationFailed, PolicyRefused
from common.local.hypotheses.hypothesis import Hypothesis, hypothesis_kinds, ordinary_kinds
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Operation, R, parse_operation
from common.privacy.events import Event, NoEvent
from common.protocols.base import demands_of, pattern_of
from common.scenario.scenario import ResolvedScenario
from curator.learners.base import CallSizes, Learner, parse_learner
from curator.mechanisms.access import Access
from curator.operations import HANDLERS, Standing
from curator.sample.base import Sample
from curator.sample.reweighing import Reweighing


def check_features(operation: Operation[Any], dimension: int) -> None:
    """Refuse an operation that needs features which records lack."""
    if operation.min_features > dimension:
        raise PolicyRefused(f"{operation.kind} needs {operation.min_features} features, records have {dimension}")


@dataclass(frozen=True)
class CuratorPolicy:
    """What the curator agrees to do for any referee: at most ``rounds`` operations of each kind in ``operations``.

    Attributes:
        n: Number of records.
        learner: None if nothing is learned.
        further: Number of operations of a kind that are allowed beyond ``rounds``.
    """

    n: int
    kappa: float | None
    eta: float
    rounds: int
    learner: Learner | None
    protocol: str
    operations: frozenset[str]
    further: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_scenario(cls, scenario: ResolvedScenario, sample: Sample, public: Records | None) -> CuratorPolicy:
        """Return the policy in a resolved scenario for this private and this public sample.

        Raises:
            BadScenario: If the learner cannot learn from such samples.
            BadData: If the sample has another size, or contains values that are not numbers.
        """
        if len(sample) != scenario.curator.n:
            raise BadData(f"the curator's policy is for n = {scenario.curator.n} records, found {len(sample)}")
        sample.check()
        policy = cls.for_shape(scenario, sample.dtype, sample.dimension, public)
        if policy.learner is not None:
            policy.learner.check_here()
        return policy

    @classmethod
    def for_shape(
        cls,
        scenario: ResolvedScenario,
        dtype: np.dtype[Any],
        dimension: int,
        public: Records | None,
        *,
        public_is_read: bool = True,
    ) -> CuratorPolicy:
        """Return the policy for samples of this shape, before any record is seen; raises as :meth:`from_scenario`.

        The public sample, if there is one, is checked where it was read (``public_is_read``).
        """
        section, protocol, alone = scenario.curator, scenario.protocol, scenario.alone
        n, kappa, eta, rounds = section.n, section.kappa, section.eta, section.rounds
        operations = pattern_of(protocol, alone).kinds("curator")
        learner = None if section.learner is None else parse_learner(section.learner)
        if learner is not None:
            if scenario.problem is None:  # otherwise each operation states which features its learner sees
                for features in sorted({task.features for task in scenario.tasks} or {dimension}):
                    learner.check(dtype, features)
            if public_is_read:
                learner.check_public(public)
            learner.check_people(n)
            learner.check_run(rounds, operations)
            if public_is_read:
                learner.check_noise(CallSizes(n, 0 if public is None else len(public), dimension, dtype.itemsize))
        name = protocol if alone is None else f"{protocol}, {alone} alone"
        further = {**demands_of(protocol).further, "reweigh": len(scenario.handed_over)}
        return cls(n, kappa, eta, rounds, learner, name, operations, further)

    def most(self, kind: str) -> int:
        """Return the maximum number of operations of a kind."""
        return self.rounds + self.further.get(kind, 0)

    def check_agreed(self, kind: str) -> None:
        """Refuse an operation that the agreed protocol does not use."""
        if kind not in self.operations:
            allowed = " and ".join(map(repr, sorted(self.operations))) or "no operation"
            raise PolicyRefused(
                f"this curator agreed to protocol {self.protocol!r}, which asks it for {allowed}, not for {kind!r}; "
                f"nothing was charged"
            )

    def read(self, wire: Any) -> Operation[Any]:
        """Return the operation in a message (JSON).

        Raises:
            PolicyRefused: If its hypothesis is of a kind that is accepted only from the policy's own learner, or if the
                agreed protocol does not use the operation.
            BadMessage: If it is no operation.
        """
        by_choice = frozenset() if self.learner is None else self.learner.by_choice
        for kind in sorted(hypothesis_kinds(wire) - ordinary_kinds() - by_choice):
            # Refused before it is parsed: this curator has not agreed to parse such hypotheses.
            raise PolicyRefused(f"this curator's learner gives no hypothesis of kind {kind!r}, so it takes none")
        operation = parse_operation(wire)
        self.check_agreed(operation.kind)
        return operation


ENDING = (SystemExit, GeneratorExit, CancelledError)
"""BaseExceptions that an operation's code may raise; KeyboardInterrupt is not among them."""
LOGGER = logging.getLogger(__name__)


@contextmanager
def constant_failure(kind: str) -> Iterator[None]:
    """Convert any exception of an operation's code to OperationFailed; log its type and its line, never its text.

    The text of an exception may quote a record, and its type may depend on one. The failure itself cannot be hidden
    from the party that waits for a release. So no shipped learner fails on some samples and not on others, unless its
    settings are the cause (:meth:`curator.learners.base.Learner.check`). An exception that would end a thread is also a
    failure.
    """
    try:
        yield
    except (Exception, *ENDING) as error:  # noqa: BLE001 - which one it is may depend on a record
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].name}, line {frames[-1].lineno}" if frames else "nowhere"
        LOGGER.error("operation %s failed: %s in %s", kind, type(error).__name__, where)
        raise OperationFailed(
            f"the operation {kind!r} failed inside the curator and released nothing; its charge stays. "
            f"The curator's operator finds the reason in its log: without a change there, it will fail again"
        ) from None


_LOCK = threading.Lock()
_SILENT: Counter[int] = Counter()  # nesting depth of silence() in each thread
_STREAMS: list[TextIO] = []


class _Filter(io.TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return len(text) if _SILENT[threading.get_ident()] else self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def silence() -> Iterator[None]:
    """Discard what this thread writes to standard output and error, warnings included; other threads are unaffected.

    It does not stop non-Python code that writes to the file descriptors themselves. Classifiers of scikit-learn do this
    only with ``verbose``, which is refused (:mod:`common.learners.scikit`).
    """
    thread = threading.get_ident()
    with _LOCK:
        if not _SILENT.total():
            _STREAMS[:] = [sys.stdout, sys.stderr]
            sys.stdout, sys.stderr = (_Filter(stream) for stream in _STREAMS)
        _SILENT[thread] += 1
    try:
        yield
    finally:
        with _LOCK:
            _SILENT[thread] -= 1
            if not _SILENT.total():
                _SILENT.clear()
                sys.stdout, sys.stderr = _STREAMS


def next_lineage(lineage: str, number: str, operation: dict[str, Any]) -> str:
    """Return the digest of an operation and its history, which has the digest ``lineage`` ("" for no history)."""
    return canonical.digest([lineage, number, operation])


class OperationHistory:
    """Operations in the order in which they were entered; only the last one may still be unfinished.

    ``lineages`` maps a number to a digest of the operation and of everything before it; ``counts`` has the number of
    entered operations of each kind. Randomness is derived from the lineage. So the same operation after the same
    history is repeated bit for bit, and after another history, as when an old ledger is restored, it gets other noise.
    """

    def __init__(self) -> None:
        self.lineages: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._before = self._last = ""

    def enter(self, number: str, operation: dict[str, Any]) -> str:
        """Enter an operation (JSON) and return its lineage; the last one may be entered again.

        Raises:
            ValueError: If an earlier operation, or another one, has the number, since randomness would be reused.
        """
        lineage = self.lineages.get(number)
        if lineage is not None:
            if lineage != self._last or lineage != next_lineage(self._before, number, operation):
                raise ValueError(f"operation {number} was entered already, with another operation or before others")
            return lineage
        self._before, self._last = self._last, next_lineage(self._last, number, operation)
        self.lineages[number] = self._last
        self.counts[operation["kind"]] += 1
        return self._last


StoredWeights = tuple[int, list[AnyArray]]
"""The weights after some number of reweighs: that number, and each shard's cumulative losses."""


@dataclass
class Workspace:
    """The state of the engine: its sample, the law of its weights, its learner, and its last released hypothesis."""

    sample: Sample
    reweighing: Reweighing
    learner: Learner | None
    previous: Hypothesis | None = None
    public: Records | None = None

    @property
    def standing(self) -> Standing:
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
        width = self.reweighing.widening(weighing)
        if width:
            try:
                self.sample.check_room(width)
            except BadScenario as error:
                raise PolicyRefused(error.detail) from None

    def event(self, operation: Operation[Any]) -> Event:
        event: Event = HANDLERS[operation.kind]().event(operation, self.standing)
        return event

    def check(self, operation: Operation[Any]) -> None:
        HANDLERS[operation.kind]().check(operation, self.standing)

    def run(self, operation: Operation[R], event: Event, source: RandomSource) -> R:
        """Carry out an operation within what an event pays for, and return its release; does not change the state.

        If its code asked for more, this raises :class:`~curator.mechanisms.access.Overdrawn`, even if the code caught
        the error.
        """
        access = self.access(event, source)
        result: R = HANDLERS[operation.kind]().run(operation, access, self.standing)
        access.close()
        return result

    def access(self, event: Event, source: RandomSource) -> Access:
        sampler = None if isinstance(event, NoEvent) else self.reweighing.sampler(self.sample)
        return Access(event, sampler, source, 0 if self.learner is None else self.learner.shown_features)

    def advance(self, operation: Operation[R], result: R) -> None:
        """Update the state after an operation with this release: its weights, and the hypothesis to start from."""
        if operation.reweighs_by is not None:
            self.reweighing.update(self.sample, operation.reweighs_by)
        learned = HANDLERS[operation.kind]().learned(result)
        if learned is not None:
            self.previous = learned

    def perform(self, operation: Operation[R], source: RandomSource) -> R:
        """Run an operation within its own declared event, and update the state."""
        result = self.run(operation, self.event(operation), source)
        self.advance(operation, result)
        return result


PastOperation = tuple[str, dict[str, Any], dict[str, Any] | None]
"""A past operation: its number, its request, and its result, with or without its event; None if it did not finish."""
FindStored = Callable[[list[str]], StoredWeights | None]
"""A function that finds stored weights, given the lineage of each finished reweigh in order."""


class Engine:
    """A curator's work on its sample, one operation after the other.

    Args:
        sample: Its people; their weights are set to those after ``past``.
        randomness: Secret if people are real. Each operation's randomness is derived from it by its lineage.
        past: Operations so far, in order; only the last one may be unfinished.
        stored: Finds stored weights of the past, which then need not be computed again.
    """

    def __init__(
        self,
        policy: CuratorPolicy,
        sample: Sample,
        randomness: RandomSource,
        *,
        public: Records | None = None,
        past: Iterable[PastOperation] = (),
        find_stored: FindStored = lambda lineages: None,
    ) -> None:
        self._policy = policy
        self._sample = sample
        self._randomness = randomness
        self._history = OperationHistory()
        self._running = False
        finished, lineages, reweighs = [], [], []
        for number, request, release in past:
            lineage = self._history.enter(number, request)
            if release is not None:
                operation = parse_operation(request)
                finished.append((operation, operation.read(release)))
                if operation.reweighs_by is not None:
                    lineages.append(lineage)
                    reweighs.append(operation.reweighs_by)
        restored, cumulative_losses = find_stored(lineages) or (0, None)
        reweighing = Reweighing.restore(sample, policy.kappa, policy.eta, reweighs[:restored], cumulative_losses)
        self.workspace = Workspace(sample, reweighing, policy.learner, public=public)
        for operation, result in finished:  # nothing is drawn and nothing released
            if operation.reweighs_by is not None and restored > 0:
                restored -= 1
            else:
                self.workspace.advance(operation, result)

    def lineage(self, number: str) -> str:
        """Return the digest of an operation and of everything before it."""
        return self._history.lineages[number]

    def access(self, number: str, event: Event) -> Access:
        """Return a new access for a finished operation, with the same event and randomness, so that its work repeats.

        It is for state that outlives the operation, such as a stream's teachers. The event must also pay for anything
        that is released then.
        """
        return self.workspace.access(event, self._randomness.derive(self.lineage(number)))

    def admit(self, operation: Operation[Any], afford: Callable[[Event], None] = lambda event: None) -> Event:
        """Check whether a further operation may be carried out, and return its event; does not change the state.

        ``afford`` raises if the event does not fit into the rest of the budget.

        Raises:
            PolicyRefused: If the agreed protocol does not use it, records lack features that it needs, the policy's
                rounds are used up, or its handler refuses it.
        """
        self._check_settled()
        self._policy.check_agreed(operation.kind)
        check_features(operation, self._sample.dimension)
        event = self.workspace.event(operation)
        afford(event)
        count, limit = self._history.counts[operation.kind], self._policy.most(operation.kind)
        if count >= limit:
            raise PolicyRefused(f"the policy allows {limit} rounds, {count} {operation.kind!r} operations are done")
        self.workspace.check(operation)
        return event

    def run(self, number: str, operation: Operation[R], event: Event) -> R:
        """Carry out an admitted operation under a number of its own; return its release.

        Until :meth:`advance`, the engine accepts no other operation. If the operation fails, or is not stored, memory
        may be ahead of the ledger. Then discard this engine and build another one from the past.

        Raises:
            OperationFailed: If its code fails, or asks for more than was charged (:func:`constant_failure`).
        """
        self._check_settled()
        lineage = self._history.enter(number, operation.wire())
        self._running = True
        with constant_failure(operation.kind), silence():
            result = self.workspace.run(operation, event, self._randomness.derive(lineage))
            self.workspace.advance(operation, result)
        return result

    def advance(self) -> None:
        """Allow the next operation; the caller has stored the last release, if that is required."""
        self._running = False

    def perform(self, number: str, operation: Operation[R]) -> R:
        """Admit and carry out an operation, and advance: for simulated people, whose operations are not charged."""
        event = self.admit(operation)
        result = self.run(number, operation, event)
        self.advance()
        return result

    def _check_settled(self) -> None:
        if self._running:
            raise RuntimeError("an operation was not finished: this engine may be ahead of what has happened")
