"""One question as it was asked: what its reports are judged by, live and in the audit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from common.core import canonical
from common.core.arrays import Indices
from common.local.packing import AnswerKind
from common.local.queries.query import Query
from common.wire.messages import Assignment, MassAssignment, pack_index
from referee.collection.ordering.batches import AnyBatch, assign
from referee.collection.ordering.mass import MassBatch

MAX_REMEMBERED = 1 << 10
"""Most hosts of one question whose assignment's digest is kept; others' are computed when they report."""
_END = b'"}'
"""What stands behind an assignment's slots in canonical JSON."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question to some agents.

    Attributes
    ----------
    run, digest
        The run, and the digest of its configuration.
    number
        Of the question in its run.
    query
        What was asked.
    kind
        What an answer is.
    form
        Works out whom it went to; called once, when that is needed.
    """

    run: str
    digest: str
    number: int
    query: Query
    kind: AnswerKind
    form: Callable[[], AnyBatch]
    _fingerprints: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def batch(self) -> AnyBatch:
        """The agents that were asked."""
        return self.form()

    def slots(self, key: str) -> Indices | range:
        """Return the slots of a participant's agents that were asked."""
        return self.batch.slots(key)

    def assignment_kind(self, key: str) -> str:
        """Return as which kind of message a participant is asked: a host, of very many, by a mask."""
        mass = isinstance(self.batch, MassBatch) and self.batch.owner(int(self.slots(key)[0])).agents > 1
        return MassAssignment.KIND if mass else Assignment.KIND

    def assignment(self, key: str, slots: Indices | range | None = None) -> bytes:
        """Return what a participant is asked in canonical JSON: an :class:`~common.wire.messages.Assignment`.

        Of a host, where very many are asked, a :class:`~common.wire.messages.MassAssignment`.

        Parameters
        ----------
        slots
            Those of its agents, if they are known already.
        """
        slots = self.slots(key) if slots is None else slots
        if len(slots) == 1 and self.batch.roster.alone(self.batch.position(int(slots[0]))):
            return self._individual + pack_index(int(slots[0])).encode() + _END
        wire = assign(self.batch, key, self.run, self.digest, self.number, self.query).wire()
        encoded = canonical.encode(wire)
        if len(self._fingerprints) < MAX_REMEMBERED:
            self._fingerprints[key] = hashlib.sha256(encoded).hexdigest()
        return encoded

    def fingerprint(self, key: str, slots: Indices | range | None = None) -> str:
        """Return the digest of what a participant is asked; parameters are those of :meth:`assignment`."""
        return self._fingerprints.get(key) or hashlib.sha256(self.assignment(key, slots)).hexdigest()

    @cached_property
    def _individual(self) -> bytes:
        """The beginning of what every individual is asked; what differs is its slot, which comes last."""
        nobody = pack_index(0)
        asked = Assignment(
            run=self.run, digest=self.digest, question=self.number, query=self.query, people=nobody, slots=nobody
        )
        encoded = canonical.encode(asked.wire())
        end = nobody.encode() + _END
        if not encoded.endswith(end):
            raise AssertionError("an assignment's slots are not its last field")
        return encoded[: -len(end)]
