"""All enrolled participants, in memory, and how often they poll, by their number."""

from __future__ import annotations

import hashlib
import random
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import numpy as np

from common.core.arrays import Bits, Indices
from common.core.errors import BadMessage
from common.log.merkle import merkle_root
from common.net.messages import MAX_AGENTS
from referee.tables import Participant

_ENTRY = struct.Struct("<32sQ")
_BLOCK = 256  # participants in one leaf of the Merkle tree over all; a proof that one is listed holds one leaf


class Roster:
    """Participants in the order of their agents' numbers; 150 to 200 bytes for each.

    An individual that was asked may be entered again, and then has a further place in the list; a run asks it at one
    place at most, the newest. ValueError if a host is listed twice, or numbers are left out or given twice.
    """

    def __init__(self, participants: Iterable[Participant] = ()) -> None:
        self._positions: dict[bytes, int] = {}  # the newest place of each
        self._earlier: dict[int, int] = {}  # a further place of an individual -> its place before that
        self._keys: list[bytes] = []
        self._firsts = np.zeros(1024, dtype=np.int64)  # each one's first agent; after the last, the number of agents
        self.hosts = 0
        self.extend(participants)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Participant]:
        return (self.at(position) for position in range(len(self)))

    @property
    def agents(self) -> int:
        return self.before(len(self))

    @property
    def individuals(self) -> int:
        """The number of participants with one agent, each counted once."""
        return len(self) - self.hosts - len(self._earlier)

    def people_before(self, position: int) -> int:
        """Return the number of people at the first ``position`` places; a further place of an individual adds none."""
        return self.before(position) - sum(place < position for place in self._earlier)

    def before(self, position: int) -> int:
        """Return the number of agents at the first ``position`` places; other threads may add places meanwhile."""
        return int(self._firsts[position])

    def extend(self, participants: Iterable[Participant]) -> None:
        for participant in participants:
            self.add(participant)

    def add(self, participant: Participant) -> None:
        key, position = bytes.fromhex(participant.key), len(self._keys)
        if participant.first != self.agents or participant.agents < 1:
            raise ValueError(f"agent {self.agents} does not belong to exactly one participant")
        place = self._positions.get(key)
        if place is not None:
            if participant.agents > 1 or not self.alone(place):
                raise ValueError("a host is listed twice")
            self._earlier[position] = place
        self._positions[key] = position
        if position + 1 == len(self._firsts):
            self._firsts = np.concatenate([self._firsts, np.zeros(position + 1, dtype=np.int64)])
        self._firsts[position + 1] = participant.first + participant.agents
        self._keys.append(key)
        self.hosts += participant.agents > 1

    def position(self, key: str) -> int | None:
        """Return the newest place of a participant in the list, by its key (64 hexadecimal digits)."""
        return self._positions.get(bytes.fromhex(key))

    def places(self, key: str) -> Iterator[int]:
        place = self.position(key)
        while place is not None:
            yield place
            place = self._earlier.get(place)

    def people(self) -> tuple[Indices, Indices]:
        """Return all places of individuals that have several, and for each place the first place of that individual."""
        first: dict[int, int] = {}
        for place in sorted(self._earlier):
            before = self._earlier[place]
            first[place] = first.setdefault(before, before)
        return np.array(list(first), dtype=np.int64), np.array(list(first.values()), dtype=np.int64)

    def find(self, key: str) -> Participant | None:
        position = self.position(key)
        return None if position is None else self.at(position)

    def _key(self, position: int) -> bytes:
        return self._keys[position]

    def at(self, position: int) -> Participant:
        first = self.before(position)
        return Participant(self._key(position).hex(), first, self.before(position + 1) - first)

    def alone(self, position: int | None) -> bool:
        """Return whether the participant at a place in the list has one agent; False for None."""
        return position is not None and bool(self._firsts[position + 1] - self._firsts[position] == 1)

    def speaks_for(self) -> Indices:
        return np.diff(self._firsts[: len(self) + 1])

    @property
    def firsts(self) -> Indices:
        return self._firsts[: len(self)]

    def encode(self, count: int) -> bytes:
        """Return the first ``count`` participants, 40 bytes each: key, number of agents (little-endian, 64 bits)."""
        keys = np.frombuffer(b"".join(map(self._key, range(count))), dtype=np.uint8).reshape(count, _ENTRY.size - 8)
        agents = self.speaks_for()[:count].astype("<u8").view(np.uint8).reshape(count, 8)
        return np.concatenate([keys, agents], axis=1).tobytes()

    @classmethod
    def decode(cls, raw: bytes) -> Roster:
        """Read what :meth:`encode` has written; BadMessage if it is no such list."""
        if len(raw) % _ENTRY.size:
            raise BadMessage("the list of participants ends in the middle of one")
        try:
            return ListedRoster(np.frombuffer(raw, dtype=np.uint8).reshape(-1, _ENTRY.size))
        except ValueError as error:
            raise BadMessage(f"the list of participants: {error}") from None


class ListedRoster(Roster):
    """A roster read from a file, to which no participant is added: 56 bytes for each.

    ``listed`` has shape (n, 40): as :meth:`Roster.encode` writes each.
    """

    def __init__(self, listed: Bits) -> None:
        agents = np.ascontiguousarray(listed[:, -8:]).view("<u8").ravel()
        wrong = agents[(agents < 1) | (agents > MAX_AGENTS)]  # without these the sum fits into 64 bits
        if len(wrong):
            raise ValueError(f"no participant has {wrong[0]} agents")
        self._listed = np.ascontiguousarray(listed[:, :-8])
        self._firsts = np.concatenate([[0], np.cumsum(agents, dtype=np.int64)])
        self.hosts = int((agents > 1).sum())
        words = self._listed.view(">u8").astype(np.uint64)
        self._order = np.lexsort(words.T[::-1])
        ordered = words[self._order]
        again = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        if (agents[self._order[again]] > 1).any() or (agents[self._order[again + 1]] > 1).any():
            raise ValueError("a host is listed twice")
        # The places of one key ascend, because the sort is stable.
        self._earlier = dict(zip(self._order[again + 1].tolist(), self._order[again].tolist(), strict=True))
        self._words = ordered[:, 0].copy()

    def __len__(self) -> int:
        return len(self._listed)

    def add(self, participant: Participant) -> None:
        raise ValueError("no participant can be added to the list of a run that has ended")

    def position(self, key: str) -> int | None:
        raw = bytes.fromhex(key)
        word = np.uint64(int.from_bytes(raw[:8], "big"))
        # An attacker can make many keys with the same prefix; those are compared in full.
        alike = slice(self._words.searchsorted(word), self._words.searchsorted(word, "right"))
        places: list[int] = self._order[alike].tolist()
        index = bisect_right(places, raw, key=self._key) - 1
        return places[index] if index >= 0 and self._key(places[index]) == raw else None

    def _key(self, position: int) -> bytes:
        return bytes(self._listed[position])


def participants_root(raw: bytes) -> str:
    """Return the Merkle root over a list of participants (:meth:`Roster.encode`), hex; a leaf is 256 of them."""
    size = _BLOCK * _ENTRY.size
    return merkle_root(hashlib.sha256(raw[at : at + size]).digest() for at in range(0, len(raw), size))


HELD = 1000
"""Polls held at the same time: those of all participants where no more are enrolled, else those of hosts.

Other polls are answered at once, with the time after which to poll again.
"""
POLLS = 500.0  # approximate rate, in polls per second, of all participants whose polls are not held
LONGEST = 600.0  # longest pause before the next poll, in seconds


def may_hold(roster: Roster, key: str) -> bool:
    """Return whether a participant's poll may be held, so that it may poll again at once."""
    return len(roster) <= HELD or not roster.alone(roster.position(key))


def longest_pause(participants: int) -> float:
    """Return the seconds within which each of so many participants polls again; 0 where all polls are held.

    If a question closed earlier, individuals that were asked to poll later would count as not answering.
    """
    return 0.0 if participants <= HELD else min(LONGEST, participants / POLLS)


def usual_pause(participants: int) -> float:
    """Return the average pause, in seconds, before an individual's next poll where so many are enrolled."""
    return 0.75 * min(LONGEST, participants / POLLS)


def random_pause(participants: int) -> float:
    """Return a random pause, in seconds, before an individual's next poll, so that polls spread."""
    return usual_pause(participants) * random.uniform(2 / 3, 4 / 3)
