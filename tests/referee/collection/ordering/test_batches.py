"""Whose slots are whose, among individuals alone and beside hosts."""

from __future__ import annotations

import numpy as np

from referee.collection.ordering.batches import Batch
from referee.collection.ordering.roster import Roster
from referee.state.values import Participant
from tests.tiers import for_each


def enrolled(sizes: list[int]) -> Roster:
    starts = np.cumsum([0, *sizes])
    return Roster(Participant(f"{number:064x}", int(starts[number]), size) for number, size in enumerate(sizes))


@for_each("sizes", [[1] * 7, [1, 1, 3, 1, 2], [4], [1]])
@for_each("share", [1.0, 0.6])
def test_slots_belong_to_who_speaks_for_the_agent(sizes, share):
    roster = enrolled(sizes)
    members = np.random.default_rng(3).permutation(roster.agents)[: max(1, int(share * roster.agents))].astype(np.int64)
    batch = Batch(members, roster)
    owners = np.repeat(np.arange(len(sizes)), sizes)[members]
    for number in range(len(sizes)):
        mine = np.flatnonzero(owners == number)
        key = roster.at(number).key
        assert batch.slots(key).tolist() == mine.tolist()
        assert batch.people(key).tolist() == (members[mine] - roster.before(number)).tolist()
    assert [batch.position(slot) for slot in range(len(members))] == owners.tolist()
    assert batch.participants == len(set(owners))


def test_who_comes_later_has_no_slots():
    roster = enrolled([1, 1, 1])
    batch = Batch(np.array([2, 0]), roster)
    batch.sort()
    roster.add(Participant(f"{9:064x}", 3, 5))
    assert batch.slots(f"{9:064x}").size == 0
    assert batch.slots(roster.at(2).key).tolist() == [0]
