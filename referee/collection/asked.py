"""One question as it was asked: what its reports are judged by, live and in the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from common.vocabulary.packing import AnswerKind
from common.vocabulary.queries.base import Query
from common.wire.messages import Assignment
from referee.collection.batches import Batch, assign

MAX_REMEMBERED = 1 << 16
"""Most participants of one question whose assignment's digest is kept; others' are computed when they report."""


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
    form: Callable[[], Batch]
    _fingerprints: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def batch(self) -> Batch:
        """The agents that were asked."""
        return self.form()

    def agents(self, key: str) -> int:
        """Return how many agents of a participant were asked."""
        return len(self.batch.slots(key))

    def assignment(self, key: str) -> Assignment:
        """Return what a participant is asked."""
        found = assign(self.batch, key, self.run, self.digest, self.number, self.query)
        if len(self._fingerprints) < MAX_REMEMBERED:
            self._fingerprints[key] = found.fingerprint()
        return found

    def fingerprint(self, key: str) -> str:
        """Return the digest of what a participant is asked."""
        known = self._fingerprints.get(key)
        return self.assignment(key).fingerprint() if known is None else known
