"""Which agents a question goes to: pure functions, the same live and in the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from common.core.arrays import Indices
from common.local.masks import encode
from common.local.queries.query import Query
from common.wire.messages import MAX_LISTED, AnyAssignment, Assignment, MassAssignment, pack_indices
from referee.collection.ordering.mass import MassBatch, form_mass
from referee.collection.ordering.order import Order
from referee.collection.ordering.roster import Roster
from referee.state.values import Cohort, Part, Participant, Question


def take(cohorts: Iterable[Cohort], count: int) -> tuple[Part, ...]:
    """Take the next ``count`` agents from the cohorts, oldest first (fewer if there are no more)."""
    parts: list[Part] = []
    for cohort in cohorts:
        wanted = min(count - sum(p.stop - p.start for p in parts), cohort.agents - cohort.used)
        if wanted > 0:
            parts.append(Part(cohort.first, cohort.used, cohort.used + wanted))
    return tuple(parts)


def passed_over(
    run: str, order: Mapping[int, int], last: int, after: Callable[[int], Iterable[Question]]
) -> list[list[Any]]:
    """Say which agents of a run's orders other runs have asked since its last question, or since it began.

    Parameters
    ----------
    run
        The run.
    order
        How many agents of each order were asked when it began, by the order's first agent.
    last
        The key of its last question, 0 before the first.
    after
        Returns the questions of all runs that were opened after the one with a key (0: all).

    Returns
    -------
    Run, question, order, and the positions from ... to (exclusive) of each part, by order and position.
    """
    found = [
        [question.run, question.question, part.cohort, part.start, part.stop]
        for question in after(last)
        if question.run != run
        for part in question.parts
        if part.cohort in order and part.start >= order[part.cohort]
    ]
    return sorted(found, key=lambda part: (part[2], part[3]))


@dataclass(frozen=True, eq=False)
class Batch:
    """The agents of one question, in the order of their slots.

    Attributes
    ----------
    members
        Shape (asked,): agent numbers by slot.
    roster
        Everybody who is enrolled. Who comes later has no agent here.
    """

    members: Indices
    roster: Roster

    @cached_property
    def _owners(self) -> tuple[Indices, Indices, Indices]:
        """The owner of each slot, slots sorted by owner, and where each owner's slots begin, and the last one's end."""
        firsts = self.roster.firsts
        # Where everybody speaks for one person, that person's number is the place in the list.
        owner = np.searchsorted(firsts, self.members, side="right") - 1 if self.roster.hosts else self.members
        slots = np.argsort(owner, kind="stable")
        edges = np.zeros(len(firsts) + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=len(firsts)), out=edges[1:])
        return owner, slots.astype(np.int64), edges

    def sort(self) -> None:
        """Work out who owns which slots, which everything else here needs: once, before several threads ask."""
        _ = self._owners

    @property
    def participants(self) -> int:
        """How many participants have an agent that is asked."""
        return int(np.count_nonzero(np.diff(self._owners[2])))

    @property
    def asked(self) -> int:
        """How many agents were asked."""
        return len(self.members)

    def slots(self, key: str) -> Indices:
        """Return the slots that belong to a participant, ascending (empty if none)."""
        position = self.roster.position(key)
        _, slots, edges = self._owners
        if position is None or position + 1 >= len(edges):
            return np.empty(0, dtype=np.int64)
        return slots[edges[position] : edges[position + 1]]

    def position(self, slot: int) -> int:
        """Return the place in the roster of the participant to whom a slot belongs."""
        return int(self._owners[0][slot])

    def owner(self, slot: int) -> Participant:
        """Return the participant to whom a slot belongs."""
        return self.roster.at(self.position(slot))

    def slots_from(self, slot: int) -> Indices:
        """Return the slots of the participant to whom a slot belongs, ascending."""
        owners, slots, edges = self._owners
        return slots[edges[owners[slot]] : edges[owners[slot] + 1]]

    def people(self, key: str) -> Indices:
        """Return the participant's own indices (0-based) of its agents that are asked, in the order of their slots."""
        slots = self.slots(key)
        return self.members[slots] - (self.owner(int(slots[0])).first if len(slots) else 0)


AnyBatch = Batch | MassBatch


def form_batch(parts: Sequence[Part], cohort: Callable[[int], Cohort], roster: Roster) -> AnyBatch:
    """Work out the members of a question from its parts of the committed orders: too many to list as a mask."""
    if sum(part.stop - part.start for part in parts) > MAX_LISTED:
        return form_mass(parts, cohort, roster)
    pieces = [np.empty(0, dtype=np.int64)]
    for part in parts:
        source = cohort(part.cohort)
        pieces.append(source.first + Order(source.seed, source.agents).slice(part.start, part.stop - part.start))
    return Batch(np.concatenate(pieces), roster)


def assign(batch: AnyBatch, key: str, run: str, digest: str, number: int, query: Query) -> AnyAssignment:
    """Return the one assignment that a participant gets for a question: live and in the audit the same."""
    if isinstance(batch, MassBatch):
        people, slot = encode(batch.people(key)), int(batch.slots(key)[0])
        return MassAssignment(run=run, digest=digest, question=number, query=query, people=people, slot=slot)
    return Assignment(
        run=run,
        digest=digest,
        question=number,
        query=query,
        people=pack_indices(batch.people(key)),
        slots=pack_indices(batch.slots(key)),
    )
