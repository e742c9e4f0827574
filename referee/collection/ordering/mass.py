"""A question to more agents than a list of them is made for: whom it goes to, as a mask over everybody's numbers.

A list takes eight bytes of memory an agent and 10.7 on the wire; a mask takes an eighth of one, whoever is asked. The
agents are those of the committed order, as in every question. Their slots are in the order of their numbers, so that a
host's are one range, of which only the beginning has to be said. Therefore such a question must be one that asks every
slot the same (:attr:`common.local.queries.query.Query.alike`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.core.arrays import AnyArray, Indices, Words
from common.local.masks import BYTES, Mask, cut, fill, ones
from common.numerics.kernels import njit, njit_inlined
from referee.collection.ordering.order import Order
from referee.collection.ordering.roster import Roster
from referee.state.values import Cohort, Part, Participant

_PIECE = 1 << 20
"""Agents of an order of several layers that are worked out at a time."""


@dataclass(frozen=True, eq=False)
class MassBatch:
    """The agents of one question, in the order of their numbers; it does what ``Batch`` does for those of a list.

    Attributes
    ----------
    mask
        Who is asked, over the numbers of all agents.
    asked
        How many.
    roster
        Everybody who is enrolled. Who comes later has no agent here.
    """

    mask: Mask
    asked: int
    roster: Roster

    @cached_property
    def _begins(self) -> Indices:
        """Each participant's first slot, ascending, and behind the last one the number of all slots."""
        bounds = np.append(self.roster.firsts, self.roster.agents)
        return _ranks(self.mask, bounds)

    def sort(self) -> None:
        """Work out who owns which slots."""
        _ = self._begins

    @property
    def participants(self) -> int:
        """How many participants have an agent that is asked."""
        return int(np.count_nonzero(np.diff(self._begins)))

    def slots(self, key: str) -> range:
        """Return the slots that belong to a participant, ascending (empty if none)."""
        position = self.roster.position(key)
        if position is None or position + 1 >= len(self._begins):
            return range(0)
        return range(int(self._begins[position]), int(self._begins[position + 1]))

    def position(self, slot: int) -> int:
        """Return the place in the roster of the participant to whom a slot belongs."""
        return int(np.searchsorted(self._begins, slot, side="right")) - 1

    def owner(self, slot: int) -> Participant:
        """Return the participant to whom a slot belongs."""
        return self.roster.at(self.position(slot))

    def slots_from(self, slot: int) -> range:
        """Return the slots of the participant to whom a slot belongs, ascending."""
        position = self.position(slot)
        return range(int(self._begins[position]), int(self._begins[position + 1]))

    def people(self, key: str) -> Mask:
        """Return which of a participant's own agents are asked, as a mask over them."""
        own = self.roster.find(key)
        if own is None:
            return np.zeros(0, dtype=np.uint8)
        return cut(self.mask, own.first, own.first + own.agents)


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
            fill(mask, source.first, source.first + size)
            _mark(mask, source.first, order, 0, part.start, put=False)
            _mark(mask, source.first, order, part.stop, size, put=False)
    return MassBatch(mask, ones(mask), roster)


def _mark(mask: Mask, first: int, order: Order, start: int, stop: int, *, put: bool) -> None:
    """Put the agents at some positions of an order into a mask, or take them out."""
    if order.network is None:
        for begin in range(start, stop, _PIECE):
            agents = first + order.slice(begin, min(_PIECE, stop - begin))
            bits = np.left_shift(1, 7 - (agents & 7)).astype(np.uint8)
            if put:
                np.bitwise_or.at(mask, agents >> 3, bits)
            else:
                np.bitwise_and.at(mask, agents >> 3, ~bits)
        return
    half, keys = order.network
    _mark_compiled(mask, first, np.uint64(order.size), half, keys, start, stop, put)


def _ranks(mask: Mask, bounds: Indices) -> Indices:
    """Return how many bits of a mask lie before each of some ascending bounds."""
    found = np.zeros(len(bounds), dtype=np.int64)
    before = 0
    for at in range(0, len(mask), BYTES):
        begin, end = 8 * at, 8 * min(at + BYTES, len(mask))
        counts = np.concatenate([[0], np.cumsum(np.unpackbits(mask[at : at + BYTES]), dtype=np.int64)])
        inside = slice(*np.searchsorted(bounds, [begin, end]))
        found[inside] = before + counts[bounds[inside] - begin]
        before += int(counts[-1])
    found[np.searchsorted(bounds, 8 * len(mask)) :] = before
    return found


@njit
def _mark_compiled(
    mask: AnyArray, first: int, size: np.uint64, half: np.uint64, keys: Words, start: int, stop: int, put: bool
) -> None:
    low = (np.uint64(1) << half) - np.uint64(1)
    for position in range(start, stop):
        value = np.uint64(position)
        while True:
            left, right = value >> half, value & low
            for key in keys:
                left, right = right, left ^ (_mixed(right ^ key) & low)
            value = (left << half) | right
            if value < size:
                break
        agent = first + np.int64(value)
        bit = np.uint8(128 >> (agent & 7))
        if put:
            mask[agent >> 3] |= bit
        else:
            mask[agent >> 3] &= ~bit


@njit_inlined
def _mixed(value: np.uint64) -> np.uint64:
    """Do what :func:`referee.collection.ordering.order._mix` does to one word."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
