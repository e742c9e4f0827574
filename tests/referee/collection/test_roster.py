"""Who is enrolled, in memory: everybody has one key, and agents' numbers without gaps."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from referee.collection.roster import Roster, participants_root
from referee.state.values import Participant
from tests.tiers import for_each

KEYS = [f"{number:064x}" for number in range(3000)]


def many(sizes: list[int]) -> Roster:
    firsts = np.cumsum([0, *sizes])
    return Roster(Participant(key, int(a), size) for key, a, size in zip(KEYS, firsts, sizes, strict=False))


def test_a_key_leads_to_its_agents_and_back():
    sizes = [1 + number % 7 for number in range(2500)]
    roster = many(sizes)
    assert (len(roster), roster.agents) == (2500, sum(sizes))
    assert [p.agents for p in roster] == sizes
    for position in (0, 1, 1023, 1024, 2499):
        found = roster.find(KEYS[position])
        assert found == roster.at(position) == Participant(KEYS[position], sum(sizes[:position]), sizes[position])
        assert np.searchsorted(roster.firsts, found.first + found.agents - 1, side="right") - 1 == position
    assert roster.find(KEYS[2500]) is None


@for_each(
    ("participant", "why"),
    [
        (Participant(KEYS[0], 5, 1), "listed twice"),
        (Participant(KEYS[1], 4, 1), "exactly one participant"),
        (Participant(KEYS[1], 6, 1), "exactly one participant"),
        (Participant(KEYS[1], 5, 0), "exactly one participant"),
    ],
)
def test_numbers_are_given_once_and_without_gaps(participant, why):
    with pytest.raises(ValueError, match=why):
        many([5]).add(participant)


def test_as_a_file_it_is_the_same_again_and_any_change_has_another_root():
    roster = many([3, 1, 1 << 31, 2])
    raw = roster.encode(4)
    assert list(Roster.decode(raw)) == list(roster)
    assert list(Roster.decode(roster.encode(2))) == list(roster)[:2]
    assert roster.encode(0) == Roster().encode(0) == b""
    roots = {participants_root(raw), participants_root(raw[:-40])}
    for at in range(0, len(raw), 7):
        roots.add(participants_root(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]))
    assert len(roots) == 2 + len(range(0, len(raw), 7))


def test_a_list_that_was_read_finds_everybody_also_where_many_keys_begin_alike():
    keys = [bytes(7) + bytes([n % 3]) + n.to_bytes(24, "big") for n in (*range(40), 1 << 190)]
    roster = Roster(Participant(key.hex(), 2 * n, 2) for n, key in enumerate(keys))
    listed = Roster.decode(roster.encode(len(keys)))
    assert [listed.position(key.hex()) for key in keys] == list(range(len(keys)))
    assert listed.find(keys[5].hex()) == roster.find(keys[5].hex())
    assert (listed.agents, listed.hosts, list(listed.firsts)) == (roster.agents, roster.hosts, list(roster.firsts))
    for other in (bytes(32), bytes(31) + b"\xff", b"\xff" * 32, bytes(7) + b"\2" + bytes(24)):
        assert other in keys or listed.position(other.hex()) is None
    assert listed.encode(len(keys)) == roster.encode(len(keys))
    assert Roster.decode(b"").position(bytes(32).hex()) is None
    with pytest.raises(BadMessage, match="listed twice"):
        Roster.decode(roster.encode(3) + roster.encode(1))


@for_each("raw", [b"\0" * 39, bytes(40), b"\1" * 80, b"\1" * 40, b"\1" * 32 + b"\xff" * 8])
def test_a_file_that_is_no_list_is_refused(raw):
    with pytest.raises(BadMessage, match="list of participants"):
        Roster.decode(raw)


def test_large_lists_are_a_tree_of_leaves_of_256():
    roster = many([1] * 3000)
    raw = roster.encode(3000)
    assert participants_root(raw) != participants_root(raw[40:] + raw[:40])
    assert participants_root(raw[: 256 * 40]) != participants_root(raw[: 257 * 40])
