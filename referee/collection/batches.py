"""A question to more agents than a list of them is made for: whom it goes to, as a mask over everybody's numbers.

A list takes eight bytes of memory an agent and 10.7 on the wire; a mask takes an eighth of one, whoever is asked. The
agents are those of the committed order, as in every question. Their slots are in the order of their numbers, so that a
host's are one range, of which only the beginning has to be said. Therefore such a question must be one that asks every
slot the same (:attr:`common.local.queries.query.Query.alike`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.local.packing import PIECE, Mask, count_ones, cut_mask, encode_mask, fill_mask
from common.local.queries.query import Query
from common.net.messages import MAX_LISTED, AnyAssignment, Assignment, MassAssignment, pack_indices
from referee.collection.order import Order
from referee.collection.roster import Roster
from referee.tables import Cohort, Part, Participant, StoredQuestion

_PIECE = 1 << 20  # agents of an order that are worked out at a time


@dataclass(frozen=True, eq=False)
class MassBatch:
    """Like :class:`Batch`, of agents in the order of their numbers: ``mask`` is over the numbers of all agents."""

    mask: Mask
    asked: int
    roster: Roster

    @cached_property
    def _begins(self) -> Indices:
        return _ranks(self.mask, np.append(self.roster.firsts, self.roster.agents))

    def sort(self) -> None:
        _ = self._begins

    @property
    def participants(self) -> int:
        return int(np.count_nonzero(np.diff(self._begins)))

    def slots(self, key: str) -> range:
        found = (self._slots_at(place) for place in self.roster.places(key) if place + 1 < len(self._begins))
        return next((slots for slots in found if len(slots)), range(0))

    def _slots_at(self, place: int) -> range:
        return range(int(self._begins[place]), int(self._begins[place + 1]))

    def asks(self, places: Indices) -> AnyArray:
        """Tell for each of some places in the roster whether anybody is asked there."""
        return self._begins[places + 1] > self._begins[places]

    def position(self, slot: int) -> int:
        return int(np.searchsorted(self._begins, slot, side="right")) - 1

    def owner(self, slot: int) -> Participant:
        return self.roster.at(self.position(slot))

    def slots_from(self, slot: int) -> range:
        return self._slots_at(self.position(slot))

    def people(self, key: str) -> Mask:
        """Return which of a participant's own agents are asked, as a mask over them."""
        slots = self.slots(key)
        own = self.owner(slots[0]) if slots else self.roster.find(key)
        if own is None:
            return np.zeros(0, dtype=np.uint8)
        return cut_mask(self.mask, own.first, own.first + own.agents)


def form_mass(parts: Sequence[Part], cohort: Callable[[int], Cohort], roster: Roster) -> MassBatch:
    """Work out the members of a question from its parts of the committed orders."""
    mask = np.zeros((roster.agents + 7) // 8, dtype=np.uint8)
    for part in parts:
        source = cohort(part.cohort)
        asked, size = part.stop - part.start, source.agents
        order = Order(source.seed, size)
        if 2 * asked <= size:
            _mark(mask, source.first, order, part.start, part.stop, put=True)
        else:  # whoever is not asked is fewer
            fill_mask(mask, source.first, source.first + size)
            _mark(mask, source.first, order, 0, part.start, put=False)
            _mark(mask, source.first, order, part.stop, size, put=False)
    return MassBatch(mask, count_ones(mask), roster)


def _mark(mask: Mask, first: int, order: Order, start: int, stop: int, *, put: bool) -> None:
    """Put the agents at some positions of an order into a mask, or take them out."""
    for begin in range(start, stop, _PIECE):
        agents = first + order.slice(begin, min(_PIECE, stop - begin))
        bits = np.left_shift(1, 7 - (agents & 7)).astype(np.uint8)
        if put:
            np.bitwise_or.at(mask, agents >> 3, bits)
        else:
            np.bitwise_and.at(mask, agents >> 3, ~bits)


def _ranks(mask: Mask, bounds: Indices) -> Indices:
    """Return how many bits of a mask lie before each of some ascending bounds."""
    found = np.zeros(len(bounds), dtype=np.int64)
    before = 0
    for at in range(0, len(mask), PIECE):
        begin, end = 8 * at, 8 * min(at + PIECE, len(mask))
        counts = np.concatenate([[0], np.cumsum(np.unpackbits(mask[at : at + PIECE]), dtype=np.int64)])
        inside = slice(*np.searchsorted(bounds, [begin, end]))
        found[inside] = before + counts[bounds[inside] - begin]
        before += int(counts[-1])
    found[np.searchsorted(bounds, 8 * len(mask)) :] = before
    return found


def take(cohorts: Iterable[Cohort], count: int) -> tuple[Part, ...]:
    """Take the next ``count`` agents from the cohorts, oldest first (fewer if there are no more)."""
    parts: list[Part] = []
    for cohort in cohorts:
        wanted = min(count - sum(p.stop - p.start for p in parts), cohort.agents - cohort.used)
        if wanted > 0:
            parts.append(Part(cohort.first, cohort.used, cohort.used + wanted))
    return tuple(parts)


def passed_over(
    run: str, order: Mapping[int, int], last: int, after: Callable[[int], Iterable[StoredQuestion]]
) -> list[list[Any]]:
    """Return which agents of a run's orders other runs have asked since its last question, or since it began.

    ``order`` has how many agents of each order were asked when it began, by the order's first agent; ``last`` is the
    key of its last question, 0 before the first; ``after`` returns the questions of all runs that were opened after the
    one with a key. Each part is run, question, order, and positions from ... to (exclusive), by order and position.
    """
    found = [
        [question.run, question.question, part.cohort, part.start, part.stop]
        for question in after(last)
        if question.run != run and question.again is None
        for part in question.parts
        if part.cohort in order and part.start >= order[part.cohort]
    ]
    return sorted(found, key=lambda part: (part[2], part[3]))


@dataclass(frozen=True, eq=False)
class Batch:
    """The agents of one question, in the order of their slots: ``members`` are their numbers, shape (asked,).

    ``roster`` has everybody who is enrolled. Who comes later has no agent here.
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
        return int(np.count_nonzero(np.diff(self._owners[2])))

    @property
    def asked(self) -> int:
        return len(self.members)

    def slots(self, key: str) -> Indices:
        """Return the slots that belong to a participant, ascending (empty if none)."""
        _, slots, edges = self._owners
        for place in self.roster.places(key):
            if place + 1 < len(edges) and edges[place] < edges[place + 1]:
                return slots[edges[place] : edges[place + 1]]
        return np.empty(0, dtype=np.int64)

    def asks(self, places: Indices) -> AnyArray:
        """Tell for each of some places in the roster whether anybody is asked there."""
        edges = self._owners[2]
        return edges[places + 1] > edges[places]

    def position(self, slot: int) -> int:
        return int(self._owners[0][slot])

    def owner(self, slot: int) -> Participant:
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
        people, slot = encode_mask(batch.people(key)), int(batch.slots(key)[0])
        return MassAssignment(run=run, digest=digest, question=number, query=query, people=people, slot=slot)
    return Assignment(
        run=run,
        digest=digest,
        question=number,
        query=query,
        people=pack_indices(batch.people(key)),
        slots=pack_indices(batch.slots(key)),
    )
