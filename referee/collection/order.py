"""The committed random order of agents, and which agents each question asks.

The order is a keyed permutation of 0..size-1 that needs no memory: a balanced Feistel network over the smallest even
number of bits that covers ``size``, with cycle walking; eight rounds of a 64-bit mixer keyed from SHA-256 of the seed.
The referee publishes SHA-256(seed) before any agent answers, and the seed when the run ends. So no party can choose a
batch by its answers, and any party can verify that this did not happen.

If a question asks more agents than a list is made for, a mask over all agents' numbers represents them: an eighth of a
byte for each agent, where a list takes eight bytes. Their slots are in the order of their numbers, so a host's slots
are one range, of which only the start has to be sent. Therefore such a question must ask every slot the same
(:attr:`common.local.queries.query.Query.alike`).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray, Indices, Words
from common.core.machine import on_all_cores
from common.local.packing import PIECE, Mask, count_ones, cut_mask, encode_mask, fill_mask
from common.local.queries.query import Query
from common.net.messages import (
    MAX_LISTED,
    AnyAssignment,
    Assignment,
    MassAssignment,
    OrderCommitment,
    pack_indices,
    pack_slots,
)
from common.numerics.counter import mix
from common.numerics.kernels import njit
from referee.collection.roster import Roster
from referee.tables import Cohort, Part, Participant, StoredQuestion

_ROUNDS = 8


class _Network:
    """One keyed permutation of 0..size-1."""

    def __init__(self, key: str, size: int) -> None:
        self.size = size
        self.half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = (np.uint64(1) << self.half) - np.uint64(1)
        stream = hashlib.shake_256(f"tandem order {key}".encode()).digest(8 * _ROUNDS)
        self.keys = np.frombuffer(stream, dtype="<u8").astype(np.uint64)

    def apply(self, values: Words) -> Words:
        if len(values) < _MANY:
            return self._walk(values, self._permute)
        permuted = np.empty_like(values)
        parts = [slice(begin, begin + _PIECE) for begin in range(0, len(values), _PIECE)]
        on_all_cores(lambda part: _permuted(values[part], self.keys, self.half, self.size, permuted[part]), parts)
        return permuted

    def invert(self, values: Words) -> Words:
        return self._walk(values, self._undo)

    def _walk(self, values: Words, step: Callable[[Words], Words]) -> Words:
        values = step(values)
        outside = np.flatnonzero(values >= np.uint64(self.size))
        while outside.size:
            values[outside] = step(values[outside])
            outside = outside[values[outside] >= np.uint64(self.size)]
        return values

    def _permute(self, values: Words) -> Words:
        left, right = values >> self.half, values & self._mask
        for key in self.keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << self.half) | right

    def _undo(self, values: Words) -> Words:
        left, right = values >> self.half, values & self._mask
        for key in self.keys[::-1]:
            left, right = right ^ (_mix(left ^ key) & self._mask), left
        return (left << self.half) | right


class Order:
    """A permutation of ``size`` agents, 1..2^32; ValueError if the size is outside, or the seed does not fit it.

    Any string without "/" and ":" is a seed of one layer.
    """

    def __init__(self, seed: str, size: int) -> None:
        if not 1 <= size <= 1 << 32:
            raise ValueError(f"size must be in 1..2^32, got {size}")
        self.size = size
        layers = read_layers(seed)
        if layers[-1].start >= size:
            raise ValueError(f"a layer of the order's seed begins behind its {size} agents")
        self._layers = [(layer.start, _Network(layer.key, size - layer.start)) for layer in layers]

    def slice(self, start: int, count: int) -> Indices:
        """Return the agents at positions start..start+count-1 of the order, int64."""
        values = np.arange(start, min(start + count, self.size), dtype=np.uint64)
        for begin, network in reversed(self._layers):
            if begin == 0:
                values = network.apply(values)
                continue
            inside = values >= np.uint64(begin)
            values[inside] = np.uint64(begin) + network.apply(values[inside] - np.uint64(begin))
        return values.view(np.int64)

    def position(self, agent: int) -> int:
        """Return the position of an agent: the inverse of :meth:`slice`."""
        values = np.array([agent], dtype=np.uint64)
        for begin, network in self._layers:
            if values[0] >= begin:
                values = np.uint64(begin) + network.invert(values - np.uint64(begin))
        return int(values[0])


def simulated(seed: int) -> str:
    """Return the seed of the order in a simulated run with a public seed."""
    return hashlib.sha256(f"order {seed}".encode()).hexdigest()


def commitment(seed: str) -> str:
    """Return the commitment to a seed, published before the order is used: SHA-256 of its label and the seed, hex."""
    return hashlib.sha256(f"tandem order {seed}".encode()).hexdigest()


def public_randomness(scenario: dict[str, Any], order: Iterable[OrderCommitment]) -> int:
    """Return public randomness of a run, below 2^60, from its scenario and the commitments to the agents' order.

    It is fixed before any agent answers. With real people the committed seeds are secret and random, so no party knows
    it before the agents are enrolled. No party's privacy depends on it.
    """
    agreed = [scenario, [promised.wire() for promised in order]]
    return int(canonical.digest(agreed)[:15], 16)


def _mix(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_MANY, _PART, _PIECE = 1 << 12, 1 << 10, 1 << 18
"""Agents of an order from which the compiled loop is used, agents that it processes at a time, within the cache, and
agents in one core's share of the work."""


@njit
def _permuted(values: Words, keys: Words, half: np.uint64, size: int, output: Words) -> None:
    """Do what :meth:`_Network._walk` does with ``_permute``, one part at a time; inner loops are vectorized."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    lefts, rights = np.empty(_PART, dtype=np.uint64), np.empty(_PART, dtype=np.uint64)
    places = np.empty(_PART, dtype=np.uint32)  # indices of the part's values that are still outside the range
    for first in range(0, len(values), _PART):
        out = output[first : first + _PART]
        out[:] = values[first : first + _PART]
        left = len(out)
        for k in range(left):
            places[k] = k
        while left:
            for k in range(left):
                lefts[k], rights[k] = out[places[k]] >> half, out[places[k]] & mask
            for key in keys:
                for k in range(left):
                    right = rights[k]
                    rights[k] = lefts[k] ^ (mix(right ^ key) & mask)
                    lefts[k] = right
            outside = 0
            for k in range(left):
                value = (lefts[k] << half) | rights[k]
                out[places[k]] = value
                places[outside] = places[k]
                outside += value >= np.uint64(size)
            left = outside


_LAYER = re.compile(r"(?:([0-9]{1,10}):)?([^/:]*)", re.DOTALL)


class Layer(NamedTuple):
    """One layer of a seed: positions from ``start`` on are permuted with ``key``, a secret with a curator's share."""

    start: int
    key: str


def read_layers(seed: str) -> list[Layer]:
    """Return the layers of a seed, whose starts ascend from 0; ValueError if it is no seed."""
    layers = []
    for number, text in enumerate(seed.split("/")):
        match = _LAYER.fullmatch(text)
        if match is None or (match[1] is None) != (number == 0):
            raise ValueError(f"layer {number} of an order's seed is none")
        layers.append(Layer(int(match[1] or 0), match[2]))
    if any(after.start <= before.start for before, after in itertools.pairwise(layers)):
        raise ValueError("the layers of an order's seed do not ascend")
    return layers


def write_layers(layers: list[Layer]) -> str:
    """Return the seed that :func:`read_layers` reads."""
    return "/".join(key if number == 0 else f"{start}:{key}" for number, (start, key) in enumerate(layers))


def add_layer(seed: str, start: int, secret: str) -> str:
    """Return a seed with a further layer for the agents at position ``start`` and later.

    No agent there was asked, so a layer that starts there, or later, was never used and is left out.
    """
    return write_layers([*(layer for layer in read_layers(seed) if layer.start < start), Layer(start, secret)])


def join_share(seed: str, share: str | None) -> str:
    """Return a seed whose newest layer includes a curator's share; without a share, the same seed."""
    return seed if share is None else f"{seed}+{share}"


_MARKED = 1 << 20  # agents of an order that are put into a mask at a time


@dataclass(frozen=True, eq=False)
class MassBatch:
    """A :class:`Batch` with slots in the order of the agents' numbers; ``mask`` has a bit for each agent's number."""

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
        ranges = (self._slots_at(place) for place in self.roster.places(key) if place + 1 < len(self._begins))
        return next((slots for slots in ranges if len(slots)), range(0))

    def _slots_at(self, place: int) -> range:
        return range(int(self._begins[place]), int(self._begins[place + 1]))

    def asks(self, places: Indices) -> AnyArray:
        return self._begins[places + 1] > self._begins[places]

    def position(self, slot: int) -> int:
        return int(np.searchsorted(self._begins, slot, side="right")) - 1

    def owner(self, slot: int) -> Participant:
        return self.roster.at(self.position(slot))

    def slots_from(self, slot: int) -> range:
        return self._slots_at(self.position(slot))

    def people(self, key: str) -> Mask:
        """Return which of a participant's own agents are asked, as a mask over its agents."""
        slots = self.slots(key)
        own = self.owner(slots[0]) if slots else self.roster.find(key)
        if own is None:
            return np.zeros(0, dtype=np.uint8)
        return cut_mask(self.mask, own.first, own.first + own.agents)


def form_mass(parts: Sequence[Part], cohort: Callable[[int], Cohort], roster: Roster) -> MassBatch:
    """Return the agents of a question, as a mask, from its parts of the committed orders."""
    mask = np.zeros((roster.agents + 7) // 8, dtype=np.uint8)
    for part in parts:
        source = cohort(part.cohort)
        asked, size = part.stop - part.start, source.agents
        order = Order(source.seed, size)
        if 2 * asked <= size:
            _mark(mask, source.first, order, part.start, part.stop, put=True)
        else:  # fewer agents are left out than asked: mark those instead
            fill_mask(mask, source.first, source.first + size)
            _mark(mask, source.first, order, 0, part.start, put=False)
            _mark(mask, source.first, order, part.stop, size, put=False)
    return MassBatch(mask, count_ones(mask), roster)


def _mark(mask: Mask, first: int, order: Order, start: int, stop: int, *, put: bool) -> None:
    for begin in range(start, stop, _MARKED):
        _put(mask, first + order.slice(begin, min(_MARKED, stop - begin)), put)


@njit
def _put(mask: Mask, agents: Indices, put: bool) -> None:
    for k in range(len(agents)):
        agent = np.uint64(agents[k])
        bit = np.uint8(128) >> np.uint8(agent & np.uint64(7))
        place = agent >> np.uint64(3)
        mask[place] = (mask[place] | bit) if put else (mask[place] & ~bit)


def _ranks(mask: Mask, bounds: Indices) -> Indices:
    """Return how many bits of a mask are set before each of some ascending bounds."""
    ranks = np.zeros(len(bounds), dtype=np.int64)
    before = 0
    for start in range(0, len(mask), PIECE):
        begin, end = 8 * start, 8 * min(start + PIECE, len(mask))
        counts = np.concatenate([[0], np.cumsum(np.unpackbits(mask[start : start + PIECE]), dtype=np.int64)])
        inside = slice(*np.searchsorted(bounds, [begin, end]))
        ranks[inside] = before + counts[bounds[inside] - begin]
        before += int(counts[-1])
    ranks[np.searchsorted(bounds, 8 * len(mask)) :] = before
    return ranks


def take(cohorts: Iterable[Cohort], count: int) -> tuple[Part, ...]:
    """Take the next ``count`` agents from the cohorts, oldest first (fewer if there are no more)."""
    parts: list[Part] = []
    for cohort in cohorts:
        size = min(count - sum(p.stop - p.start for p in parts), cohort.agents - cohort.used)
        if size > 0:
            parts.append(Part(cohort.first, cohort.used, cohort.used + size))
    return tuple(parts)


def passed_over(run: str, order: Mapping[int, int], since: Iterable[StoredQuestion]) -> list[list[Any]]:
    """Return which agents of a run's orders other runs have asked since its last question, or since it began.

    ``order`` maps the first agent of each order to how many of its agents were asked when the run began; ``since`` are
    the questions of all runs that were opened after the run's last one. Each part is [run, question, order, start,
    stop], with positions start to stop (exclusive); parts are sorted by order and position.
    """
    parts = [
        [question.run, question.question, part.cohort, part.start, part.stop]
        for question in since
        if question.run != run and question.again is None
        for part in question.parts
        if part.cohort in order and part.start >= order[part.cohort]
    ]
    return sorted(parts, key=lambda part: (part[2], part[3]))


@dataclass(frozen=True, eq=False)
class Batch:
    """The agents of one question, in the order of their slots: ``members`` are their numbers, shape (asked,).

    ``roster`` holds all enrolled participants; those that enrol later have no agent in the batch.
    """

    members: Indices
    roster: Roster

    @cached_property
    def _owners(self) -> tuple[Indices, Indices, Indices]:
        """The slots sorted by owner, and where each owner's slots begin; after the last, where they end."""
        firsts = self.roster.firsts
        # Where every participant has one agent, the agent's number is the participant's place in the roster.
        owner = np.searchsorted(firsts, self.members, side="right") - 1 if self.roster.hosts else self.members
        slots = np.argsort(owner, kind="stable")
        edges = np.zeros(len(firsts) + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=len(firsts)), out=edges[1:])
        return owner, slots.astype(np.int64), edges

    def sort(self) -> None:
        """Compute which participant owns which slots, once, before several threads need it."""
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
        """Return for each of some places in the roster whether an agent is asked there."""
        edges = self._owners[2]
        return edges[places + 1] > edges[places]

    def position(self, slot: int) -> int:
        return int(self._owners[0][slot])

    def owner(self, slot: int) -> Participant:
        return self.roster.at(self.position(slot))

    def slots_from(self, slot: int) -> Indices:
        owners, slots, edges = self._owners
        return slots[edges[owners[slot]] : edges[owners[slot] + 1]]

    def people(self, key: str) -> Indices:
        """Return the indices, among a participant's own agents from 0, of those asked, in the order of their slots."""
        slots = self.slots(key)
        return self.members[slots] - (self.owner(int(slots[0])).first if len(slots) else 0)


AnyBatch = Batch | MassBatch


def form_batch(parts: Sequence[Part], cohort: Callable[[int], Cohort], roster: Roster) -> AnyBatch:
    """Return the agents of a question from its parts of the committed orders, as a mask if too many to list."""
    if sum(part.stop - part.start for part in parts) > MAX_LISTED:
        return form_mass(parts, cohort, roster)
    pieces = [np.empty(0, dtype=np.int64)]
    for part in parts:
        source = cohort(part.cohort)
        pieces.append(source.first + Order(source.seed, source.agents).slice(part.start, part.stop - part.start))
    return Batch(np.concatenate(pieces), roster)


def assign(batch: AnyBatch, key: str, run: str, digest: str, number: int, query: Query) -> AnyAssignment:
    """Return the assignment of a participant for a question; the live run and the audit both use this function."""
    if isinstance(batch, MassBatch):
        people, slot = encode_mask(batch.people(key)), int(batch.slots(key)[0])
        return MassAssignment(run=run, digest=digest, question=number, query=query, people=people, slot=slot)
    return Assignment(
        run=run,
        digest=digest,
        question=number,
        query=query,
        people=pack_indices(batch.people(key)),
        slots=pack_slots(batch.slots(key)),
    )
