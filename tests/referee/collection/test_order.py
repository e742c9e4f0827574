"""The committed order is a permutation, looks random, and its commitment hides and binds."""

import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deploy.simulation
import referee.collection.order
from common.core.arrays import Indices
from common.core.errors import AlreadyAnswered, BadMessage
from common.local import packing
from common.local.packing import count_answers, pack_answers, unpack_answered, unpack_answers
from common.local.queries.query import QUERIES, LossQuery
from deploy.load.client import LightAgent
from deploy.simulation import conduct
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.collection import order as layers
from referee.collection.aggregation import add_up, needed
from referee.collection.judging import PendingQuestion
from referee.collection.order import Batch, Order, commitment, form_mass
from referee.collection.roster import Roster, participants_root
from referee.tables import Cohort, Part, Participant, StoredReport
from tests.support import ONE_QUESTION, TOKEN, Bench, audited, tiny
from tests.tiers import for_each
from tests.vouched import answer, enrolment


def test_a_compiled_order_is_the_same(monkeypatch):
    for size in (5, 5000, 1 << 33 >> 1):
        compiled: list[Indices] = []
        plain: list[Indices] = []
        for many, found in ((1, compiled), (1 << 40, plain)):
            monkeypatch.setattr(layers, "_MANY", many)
            order = Order("a/3:b", size)
            found += [order.slice(0, 2500), order.slice(size - 3, 3)]
        assert all(map(np.array_equal, compiled, plain))


@settings(max_examples=100)
@given(st.integers(1, 1000), st.text(st.characters(exclude_characters="/:"), max_size=8), st.data())
def test_every_agent_comes_exactly_once_and_slices_are_parts_of_one_order(size, seed, data):
    order, cut = Order(seed, size), data.draw(st.integers(0, size))
    whole = order.slice(0, size)
    assert sorted(whole) == list(range(size))
    assert np.array_equal(np.concatenate([order.slice(0, cut), order.slice(cut, size)]), whole)


def uniform(comes_first: list[int]) -> bool:
    """Tell whether each of ten agents comes first in about a tenth of 4000 orders.

    Chi-squared (9 degrees) passes 40 with chance 8e-6; seeded.
    """
    counts = np.unique(comes_first, return_counts=True)[1]
    return (len(counts), counts.sum()) == (10, 4000) and float(((counts - 400) ** 2 / 400).sum()) < 40


def test_first_places_are_uniform_also_above_a_layer_that_is_known():
    assert uniform([int(Order(f"seed {i}", 10).slice(0, 1)[0]) for i in range(4000)])
    # The same lower layer, 4000 secrets above it: who comes next among the 10 left over.
    nexts = [int(Order(layers.add_layer("published", 6, f"secret {i}"), 16).slice(6, 1)[0]) for i in range(4000)]
    assert uniform(nexts)
    assert set(nexts) == set(Order("published", 16).slice(6, 10).tolist())


def test_another_seed_is_another_order_and_another_commitment():
    assert not np.array_equal(Order("a", 1000).slice(0, 1000), Order("b", 1000).slice(0, 1000))
    assert commitment("a") != commitment("b")
    assert commitment("a") == commitment("a")
    assert "a" * 10 not in commitment("a" * 10)
    found = Order("seed", 1 << 32).slice((1 << 32) - 5, 100)
    assert len(found) == 5
    assert 0 <= found.min() < found.max() < 1 << 32
    assert [Order("seed", 1 << 32).position(int(agent)) for agent in found] == list(range((1 << 32) - 5, 1 << 32))
    for size in (0, -1, (1 << 32) + 1):
        with pytest.raises(ValueError, match="size must be in"):
            Order("seed", size)


def test_layers_are_read_as_they_are_written():
    for seed in ("a", "a+share", "a/3:b", "a+x/3:b+y/7:c+z"):
        assert layers.write_layers(layers.read_layers(seed)) == seed
    for start, seed in ((0, "c"), (3, "a/3:c"), (5, "a/3:b/5:c")):
        assert layers.add_layer("a/3:b", start, "c") == seed


@for_each("seed", ["0:a", "a/b", "a/3:b/3:c", "a/5:b/3:c", "a/-1:b", "a/:b", "a/3:b:c", "a/12345678901:b"])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        layers.read_layers(seed)
    with pytest.raises(ValueError, match="seed"):
        Order(seed, 1 << 32)
    with pytest.raises(ValueError, match="begins behind its 3 agents"):
        Order("a/3:b", 3)


@settings(max_examples=40, derandomize=True)
@given(st.integers(2, 60), st.data())
def test_a_layer_leaves_whoever_was_asked_where_they_were(size, data):
    """The theorem of the layers: all of them are one permutation, in which positions before a layer are as below it."""
    starts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=4)))
    seed = "first"
    for start in starts:
        above = layers.add_layer(seed, start, f"secret {start}")
        whole = Order(above, size).slice(0, size)
        assert sorted(whole) == list(range(size))
        assert np.array_equal(whole[:start], Order(seed, size).slice(0, start))
        assert np.array_equal(np.concatenate([Order(above, size).slice(i, 1) for i in range(size)]), whole)
        assert [Order(above, size).position(int(agent)) for agent in whole] == list(range(size))
        seed = above


KEYS = [f"{number:064x}" for number in range(3000)]


def many(sizes: list[int]) -> Roster:
    firsts = np.cumsum([0, *sizes]).tolist()
    return Roster(Participant(key, first, size) for key, first, size in zip(KEYS, firsts, sizes, strict=False))


def test_a_key_leads_to_its_agents_and_back_also_in_a_list_that_was_read():
    sizes = [1 + number % 7 for number in range(2500)]
    given = many(sizes)
    for roster in (given, Roster.decode(given.encode(2500))):
        assert (len(roster), roster.agents, [p.agents for p in roster]) == (2500, sum(sizes), sizes)
        assert (roster.hosts, list(roster.firsts)) == (given.hosts, list(given.firsts))
        for position in (0, 1, 1023, 1024, 2499):
            found = roster.find(KEYS[position])
            assert found == roster.at(position) == Participant(KEYS[position], sum(sizes[:position]), sizes[position])
            assert np.searchsorted(roster.firsts, found.first + found.agents - 1, side="right") - 1 == position
        assert roster.find(KEYS[2500]) is None


def test_keys_of_a_list_that_was_read_may_begin_alike():
    keys = [bytes(7) + bytes([n % 3]) + n.to_bytes(24, "big") for n in (*range(40), 1 << 190)]
    raw = Roster(Participant(key.hex(), 2 * n, 2) for n, key in enumerate(keys)).encode(len(keys))
    listed = Roster.decode(raw)
    assert [listed.position(key.hex()) for key in keys] == list(range(len(keys)))
    for other in (bytes(31) + b"\xff", b"\xff" * 32, bytes(7) + b"\2" + bytes(24)):
        assert listed.position(other.hex()) is None
    assert listed.encode(len(keys)) == raw


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


def test_as_a_file_it_is_the_same_again_and_any_change_has_another_root_or_is_refused():
    roster = many([3, 1, 1 << 31, 2])
    raw = roster.encode(4)
    for count in range(5):
        assert list(Roster.decode(roster.encode(count))) == list(roster)[:count]
    flipped = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(0, len(raw), 7)]
    assert len({participants_root(other) for other in (raw, raw[:-40], *flipped)}) == 2 + len(flipped)
    raw = many([1] * 3000).encode(3000)
    assert participants_root(raw) != participants_root(raw[40:] + raw[:40])
    assert participants_root(raw[: 256 * 40]) != participants_root(raw[: 257 * 40])
    for wrong in (b"\0" * 39, bytes(40), b"\1" * 80, b"\1" * 40, b"\1" * 32 + b"\xff" * 8, 2 * roster.encode(1)):
        with pytest.raises(BadMessage, match=r"list of participants|listed twice"):
            Roster.decode(wrong)


def test_an_individual_that_is_listed_again_is_asked_at_the_place_that_was_drawn():
    again = [0, 1, 2, 1, 3, 1, 0]
    roster = Roster(Participant(KEYS[key], number, 1) for number, key in enumerate(again))
    for listed in (roster, Roster.decode(roster.encode(len(again)))):
        assert [list(listed.places(KEYS[key])) for key in range(4)] == [[6, 0], [5, 3, 1], [2], [4]]
        assert dict(zip(*map(list, listed.people()), strict=True)) == {0: 0, 6: 0, 1: 1, 3: 1, 5: 1}
        batch = Batch(np.array([3, 4, 0]), listed)
        assert [batch.slots(KEYS[key]).tolist() for key in range(4)] == [[2], [0], [], [1]]
        assert batch.people(KEYS[1]).tolist() == [0]
        assert (len(listed), listed.individuals) == (7, 4)
    with pytest.raises(ValueError, match="a host is listed twice"):
        roster.add(Participant(KEYS[2], len(again), 2))


@for_each("sizes", [[1] * 7, [1, 1, 3, 1, 2], [4], [1]])
@for_each("share", [1.0, 0.6])
def test_slots_belong_to_who_speaks_for_the_agent(sizes, share):
    roster = many(sizes)
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
    roster = many([1, 1, 1])
    batch = Batch(np.array([2, 0]), roster)
    batch.sort()
    roster.add(Participant(KEYS[9], 3, 5))
    assert batch.slots(KEYS[9]).size == 0
    assert batch.slots(roster.at(2).key).tolist() == [0]


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question list at most 100 agents."""
    monkeypatch.setattr(referee.collection.order, "MAX_LISTED", 100)
    monkeypatch.setattr(deploy.simulation, "MAX_LISTED", 100)


@for_each("people", [1, 7, 8, 9, 64, 100])
def test_masks_are_what_lists_of_bits_are(people):
    bits = np.random.default_rng(people).integers(0, 2, people).astype(np.uint8)
    mask = np.packbits(bits)
    assert packing.count_ones(mask) == bits.sum()
    assert np.concatenate(list(packing.members(mask, 3))).tolist() == np.flatnonzero(bits).tolist()
    np.testing.assert_array_equal(packing.decode_mask(packing.encode_mask(mask), people), mask)
    for start in range(0, people + 1, 1 + people // 16):
        for stop in range(start, people + 1):
            part = bits[start:stop]
            filled, full, pasted, only = mask.copy(), bits.copy(), np.zeros_like(mask), np.zeros_like(bits)
            packing.fill_mask(filled, start, stop)
            full[start:stop] = 1
            packing.paste_mask(pasted, start, np.packbits(part))
            only[start:stop] = part
            for found, expected in ((packing.cut_mask(mask, start, stop), part), (filled, full), (pasted, only)):
                np.testing.assert_array_equal(found, np.packbits(expected))
    for text in ("", "AA", "AP8=", "&&&&", "AAAA"):
        with pytest.raises(BadMessage):
            packing.decode_mask(text, 9)


@for_each("kind", ["bit", "real", 5])
@for_each("people", [1, 8, 13])
def test_answers_piece_by_piece_are_the_answers(kind, people, monkeypatch):
    monkeypatch.setattr("common.local.packing.PIECE", 1)
    rng = np.random.default_rng(people)
    answered, answers = rng.random(people) < 0.7, rng.integers(0, 2, people).astype(np.uint8)
    body = pack_answers(answered, answers, kind)
    mask, pieces = unpack_answered(body, people, kind)
    whole, said = unpack_answers(body, people, kind)
    np.testing.assert_array_equal(mask, np.packbits(whole))
    assert np.concatenate([*pieces, said[:0]]).tolist() == said[whole].tolist()
    assert count_answers(body, people, kind) == whole.sum()
    for wrong in (body + b"\0", body[:-1], b"\xff" * len(body)):
        for judge in (unpack_answers, unpack_answered, count_answers):
            if wrong != body and not (people == 8 and kind == "bit" and len(wrong) == len(body)):
                with pytest.raises(BadMessage):
                    judge(wrong, people, kind)


@for_each(("start", "stop"), [(0, 700), (0, 300), (100, 200), (50, 690), (699, 700)])
def test_the_mask_has_the_agents_of_the_committed_order(start, stop):
    roster = Roster([Participant(f"{i:064x}", 7 * i, 7) for i in range(150)])
    cohorts = {0: Cohort(0, 350, "old", 0), 350: Cohort(350, 700, "seed", start)}
    parts = (Part(0, 340, 350), Part(350, start, stop))
    found = form_mass(parts, cohorts.__getitem__, roster)
    expected = np.sort(
        np.concatenate([Order("old", 350).slice(340, 10), 350 + Order("seed", 700).slice(start, stop - start)])
    )
    assert np.concatenate(list(packing.members(found.mask))).tolist() == expected.tolist()
    listed = Batch(expected, roster)
    assert (found.asked, found.participants) == (listed.asked, listed.participants)
    for participant in roster:
        key = participant.key
        assert list(found.slots(key)) == listed.slots(key).tolist()
        assert np.concatenate(list(packing.members(found.people(key)))).tolist() == listed.people(key).tolist()
    for slot in range(found.asked):
        assert found.owner(slot) == listed.owner(slot)
        assert list(found.slots_from(slot)) == listed.slots_from(slot).tolist()


@for_each("kind", QUERIES.names())
def test_queries_that_ask_everybody_the_same_ask_everybody_the_same(kind):
    for query in QUERIES[kind].example():
        parts = query.parts(np.arange(50, dtype=np.int64))
        if query.alike:
            assert not parts.any()


@pytest.mark.usefixtures("few_are_many")
def test_a_run_that_asks_very_many_is_audited_and_is_that_of_the_simulation(tmp_path):
    with Bench(tmp_path, tiny(*ONE_QUESTION)) as bench:
        result = bench.run()
        ((_, raw),) = bench.finished().reports
        assert audited(bench).answers == result["agents"]["answered"] == 600
    assert len(raw) < 600  # bits
    assert conduct(tiny(*ONE_QUESTION), 1, lambda *seen: None).estimate.wire() == result["estimate"]


@pytest.mark.usefixtures("few_are_many")
def test_hosts_and_individuals_are_asked_beside_each_other(tmp_path):
    chosen = tiny(*ONE_QUESTION)
    with Bench(tmp_path / "state", chosen, individuals=250) as bench:
        agents = [LightAgent.fresh() for _ in range(50)]
        public = bench.referee.identity.public
        second = open_population(chosen, tmp_path / "second", 1, public, 200)
        host = Host(second, bench.referee, public)
        for number, agent in enumerate(agents):
            if number == 20:
                host.enrol(TOKEN)
            bench.referee.enrol(enrolment(agent), TOKEN)
        result = bench.during(lambda: host.step() and answer(bench, agents))
        second.close()
        assert result["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 0}
        assert audited(bench).answers == 600


@pytest.mark.usefixtures("few_are_many")
def test_nobody_is_asked_twice_by_masks_either(tmp_path, monkeypatch):
    """A restart remembers who was asked; a mask that names somebody who answered, or nobody, is refused."""
    chosen = tiny("agents.count=600", "agents.batch=300", "curator.rounds=2")
    with Bench(tmp_path / "state", chosen) as bench:
        seen = []
        real = type(bench.population).answer
        with monkeypatch.context() as patched:
            patched.setattr(type(bench.population), "answer", lambda *given: seen.append(given[1:]) or real(*given))
            bench.run()
        assert bench.population.answered == sum(
            packing.count_ones(packing.decode_mask(assignment.message["people"], 600)) for assignment, _ in seen
        )
        first, configuration = seen[0]
        public = bench.referee.identity
        again = bench.population.answer(first, configuration)
    with closing(open_population(chosen, tmp_path / "state" / "agents", 1, public.public, 600)) as people:
        assert people.answer(first, configuration) == again  # the stored report
        for slot, mask, problem in (
            (1, first.message["people"], AlreadyAnswered),
            (0, packing.encode_mask(np.zeros(75, dtype=np.uint8)), BadMessage),
            (0, packing.encode_mask(np.zeros(74, dtype=np.uint8)), BadMessage),
        ):
            changed = public.sign("mass-assignment", {**first.message, "people": mask, "slot": slot})
            with pytest.raises(problem):
                people.answer(changed, configuration)


def test_what_memory_cannot_hold_is_refused_with_both_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("referee.collection.aggregation.MAX_LISTED", 100)
    with Bench(tmp_path / "state", tiny(*ONE_QUESTION)) as bench:
        monkeypatch.setattr("common.core.machine.available_memory", lambda: 100 << 20)
        result = bench.run()
        assert result["status"] == "refused"
        assert "a question to 600 agents needs 256 MiB of memory, 100 MiB are available" in result["reason"]
        assert bench.referee.store.questions("run") == []


def test_the_bound_on_memory_is_one(tmp_path):
    """What a question to two million people really takes at the referee is below what is reserved for it."""
    people = 2_000_000
    roster = Roster([Participant("0" * 64, 0, people)])
    mechanism = tiny().agents.mechanism
    cohort = Cohort(0, people, "seed", 0)
    tracemalloc.start()
    try:
        batch = form_mass((Part(0, 0, people - 9),), lambda first: cohort, roster)
        body = pack_answers(np.ones(batch.asked, np.bool_), np.zeros(batch.asked, np.uint8), "bit")
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        packing.encode_mask(batch.people("0" * 64))
        asked = PendingQuestion("run", "0" * 64, 0, LossQuery.example()[0], "bit", lambda: batch)
        answers, _ = add_up(asked, [StoredReport(0, False, b"", batch.asked, b"", body)])
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(answers.values) == batch.asked
    pieces = 32 << 20  # of 2^20 bytes
    assert peak + len(batch.mask) + len(body) < needed(people, batch.asked, mechanism) + pieces
