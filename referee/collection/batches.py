"""Which agents a question goes to, and what their reports add up to: pure functions, the same live and in the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.vocabulary.packing import AnswerKind, answer_type, unpack_answers
from common.vocabulary.queries.base import Query
from common.vocabulary.steps import Answers
from common.wire.messages import Assignment, pack_indices
from common.wire.transcript import merkle_root
from referee.collection.order import Order
from referee.state.values import Cohort, Part, Participant, StoredReport


def take(cohorts: Iterable[Cohort], count: int) -> tuple[Part, ...]:
    """Take the next ``count`` agents from the cohorts, oldest first (fewer if there are no more)."""
    parts: list[Part] = []
    for cohort in cohorts:
        wanted = min(count - sum(p.stop - p.start for p in parts), cohort.agents - cohort.used)
        if wanted > 0:
            parts.append(Part(cohort.first, cohort.used, cohort.used + wanted))
    return tuple(parts)


@dataclass(frozen=True, eq=False)
class Batch:
    """The agents of one question, in the order of their slots.

    Attributes
    ----------
    members
        Shape (asked,): agent numbers by slot.
    participants
        All enrolled participants, by ascending ``first``.
    """

    members: Indices
    participants: tuple[Participant, ...]

    @cached_property
    def _owners(self) -> tuple[Indices, Indices, Indices]:
        """Slots sorted by owner, and where each owner's slots begin and end."""
        firsts = np.array([p.first for p in self.participants], dtype=np.int64)
        owner = np.searchsorted(firsts, self.members, side="right") - 1
        slots = np.argsort(owner, kind="stable")
        edges = np.searchsorted(owner[slots], np.arange(len(firsts) + 1))
        return slots.astype(np.int64), edges[:-1].astype(np.int64), edges[1:].astype(np.int64)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {p.key: i for i, p in enumerate(self.participants)}

    def slots(self, key: str) -> Indices:
        """Return the slots that belong to a participant, ascending (empty if none)."""
        position = self._positions.get(key)
        if position is None:
            return np.empty(0, dtype=np.int64)
        slots, begin, end = self._owners
        return slots[begin[position] : end[position]]

    def people(self, key: str) -> Indices:
        """Return the participant's own indices (0-based) of its agents that are asked, in the order of their slots."""
        return self.members[self.slots(key)] - self.participants[self._positions[key]].first

    def owners(self) -> set[str]:
        """Return the keys of all participants that have at least one agent in the batch."""
        _, begin, end = self._owners
        return {p.key for p, a, b in zip(self.participants, begin, end, strict=True) if b > a}


def form_batch(parts: Sequence[Part], cohort: Callable[[int], Cohort], participants: tuple[Participant, ...]) -> Batch:
    """Work out the members of a question from its parts of the committed orders."""
    pieces = [np.empty(0, dtype=np.int64)]
    for part in parts:
        source = cohort(part.cohort)
        pieces.append(source.first + Order(source.seed, source.agents).slice(part.start, part.stop - part.start))
    return Batch(np.concatenate(pieces), participants)


def assign(batch: Batch, key: str, run: str, digest: str, number: int, query: Query) -> Assignment:
    """Return the one assignment that a participant gets for a question: live and in the audit the same."""
    return Assignment(
        run=run,
        digest=digest,
        question=number,
        query=query,
        people=pack_indices(batch.people(key)),
        slots=pack_indices(batch.slots(key)),
    )


def assemble(batch: Batch, reports: Iterable[StoredReport], kind: AnswerKind) -> Answers:
    """Put the answers of all reports into the order of their slots."""
    answered = np.zeros(len(batch.members), dtype=np.bool_)
    values: AnyArray = np.zeros(len(batch.members), dtype=answer_type(kind))
    for report in reports:
        slots = batch.slots(report.participant)
        answered[slots], values[slots] = unpack_answers(report.body, len(slots), kind)
    slots = np.flatnonzero(answered)
    return Answers(len(batch.members), values[slots], slots.astype(np.int64))


def report_root(reports: Iterable[StoredReport]) -> str:
    """Return the Merkle root over the reports of a question (signature of the header and the body), by participant."""
    ordered = sorted(reports, key=lambda r: r.participant)
    return merkle_root(bytes.fromhex(r.header["signature"]) + r.body for r in ordered)
