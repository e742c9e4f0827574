"""The committed order is a permutation, looks random, and its commitment hides and binds."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deploy.simulation
import referee.collection.batches
from common.core.errors import AlreadyAnswered, BadMessage
from common.crypto.identity import Signed
from common.local import packing
from common.local.packing import count_answers, pack_answers, unpack_answered, unpack_answers
from common.local.queries.loss import LossQuery
from common.local.queries.query import QUERIES
from deploy.load.client import LightAgent
from deploy.simulation import conduct
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.audit.audit import audit
from referee.collection import order as layers
from referee.collection.aggregation import add_up, needed
from referee.collection.batches import Batch, form_mass
from referee.collection.judging import Asked, Sent, claims
from referee.collection.order import Order, commitment
from referee.collection.roster import Roster, participants_root
from referee.tables import Cohort, Part, Participant, StoredReport
from tests.support import TOKEN, Bench, leave_folder, tiny
from tests.tiers import for_each


@settings(max_examples=60, derandomize=True)
@given(st.integers(1, 3000), st.text(st.characters(exclude_characters="/:"), max_size=8))
def test_every_agent_comes_exactly_once(size, seed):
    assert sorted(Order(seed, size).slice(0, size)) == list(range(size))


@settings(max_examples=40, derandomize=True)
@given(st.integers(1, 500), st.data())
def test_slices_are_parts_of_one_order(size, data):
    cut = data.draw(st.integers(0, size))
    order = Order("seed", size)
    whole = order.slice(0, size)
    assert np.array_equal(np.concatenate([order.slice(0, cut), order.slice(cut, size)]), whole)


def test_first_places_are_uniform():
    # 4000 orders of 10 agents: who comes first. Chi-squared (9 degrees) passes 40 with chance 8e-6; seeded.
    firsts = np.array([Order(f"seed {i}", 10).slice(0, 1)[0] for i in range(4000)])
    counts = np.bincount(firsts, minlength=10)
    assert float(((counts - 400) ** 2 / 400).sum()) < 40


def test_another_seed_is_another_order_and_another_commitment():
    assert not np.array_equal(Order("a", 1000).slice(0, 1000), Order("b", 1000).slice(0, 1000))
    assert commitment("a") != commitment("b")
    assert commitment("a") == commitment("a")
    assert "a" * 10 not in commitment("a" * 10)
    found = Order("seed", 1 << 32).slice((1 << 32) - 5, 100)
    assert len(found) == 5
    assert 0 <= found.min() < found.max() < 1 << 32
    for size in (0, -1, (1 << 32) + 1):
        with pytest.raises(ValueError, match="size must be in"):
            Order("seed", size)


SEEDS = ("a", "a+share", "a/3:b", "a+x/3:b+y/7:c+z")


@for_each("seed", SEEDS)
def test_layers_are_read_as_they_are_written(seed):
    assert layers.write_layers(layers.read_layers(seed)) == seed
    assert layers.add_layer("a", 0, "b") == "b"
    assert layers.add_layer("a/3:b", 3, "c") == "a/3:c"
    assert layers.add_layer("a/3:b", 5, "c") == "a/3:b/5:c"


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
        seed = above


def test_below_a_layer_nothing_tells_who_comes_first_above_it():
    # The same lower layer, 4000 secrets above it: who comes next among the 10 left over. As above.
    below = "published"
    left = sorted(Order(below, 16).slice(6, 10))
    nexts = [int(Order(layers.add_layer(below, 6, f"secret {i}"), 16).slice(6, 1)[0]) for i in range(4000)]
    counts = np.array([nexts.count(agent) for agent in left])
    assert counts.sum() == 4000
    assert float(((counts - 400) ** 2 / 400).sum()) < 40


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
    raw = many([1] * 3000).encode(3000)
    assert participants_root(raw) != participants_root(raw[40:] + raw[:40])
    assert participants_root(raw[: 256 * 40]) != participants_root(raw[: 257 * 40])


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
    roster = enrolled([1, 1, 1])
    batch = Batch(np.array([2, 0]), roster)
    batch.sort()
    roster.add(Participant(f"{9:064x}", 3, 5))
    assert batch.slots(f"{9:064x}").size == 0
    assert batch.slots(roster.at(2).key).tolist() == [0]


CHOSEN = ("agents.count=600", "agents.batch=600", "curator.rounds=1")


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question list at most 100 agents."""
    monkeypatch.setattr(referee.collection.batches, "MAX_LISTED", 100)
    monkeypatch.setattr(deploy.simulation, "MAX_LISTED", 100)


# Masks ----------------------------------------------------------------------------------------------------------------


@for_each("people", [1, 7, 8, 9, 64, 100])
def test_masks_are_what_lists_of_bits_are(people):
    bits = np.random.default_rng(people).integers(0, 2, people).astype(np.uint8)
    mask = np.packbits(bits)
    assert packing.count_ones(mask) == bits.sum()
    assert np.concatenate(list(packing.members(mask, 3))).tolist() == np.flatnonzero(bits).tolist()
    np.testing.assert_array_equal(packing.decode_mask(packing.encode_mask(mask), people), mask)
    for start in range(0, people + 1, 1 + people // 16):
        for stop in range(start, people + 1):
            np.testing.assert_array_equal(packing.cut_mask(mask, start, stop), np.packbits(bits[start:stop]))
            filled, expected = mask.copy(), bits.copy()
            packing.fill_mask(filled, start, stop)
            expected[start:stop] = 1
            np.testing.assert_array_equal(filled, np.packbits(expected))
            pasted, expected = np.zeros_like(mask), np.zeros_like(bits)
            packing.paste_mask(pasted, start, np.packbits(bits[start:stop]))
            expected[start:stop] = bits[start:stop]
            np.testing.assert_array_equal(pasted, np.packbits(expected))


@for_each("text", ["", "AA", "AP8=", "&&&&", "AAAA"])
def test_what_is_no_mask_is_refused(text):
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


# Whom a question goes to ----------------------------------------------------------------------------------------------


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


# A whole run ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_are_many")
def test_a_run_that_asks_very_many_is_audited_and_is_that_of_the_simulation(tmp_path):
    with Bench(tmp_path / "state", tiny(*CHOSEN)) as bench:
        result = bench.run()
        finished = bench.finished()
    assert result["agents"]["answered"] == 600
    (_, raw), *_ = finished.reports
    assert len(raw) < 600  # bits
    assert audit(leave_folder(tmp_path / "run", tiny(*CHOSEN), 1, finished)).answers == 600
    outcome = conduct(tiny(*CHOSEN), 1, lambda *seen: None)
    assert outcome.estimate.wire() == result["estimate"]


@pytest.mark.usefixtures("few_are_many")
def test_hosts_and_individuals_are_asked_beside_each_other(tmp_path):
    chosen = tiny(*CHOSEN)
    with Bench(tmp_path / "state", chosen, individuals=250) as bench:
        agents = [LightAgent.fresh() for _ in range(50)]
        for agent in agents[:20]:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)
        public = bench.referee.identity.public
        second = open_population(chosen, tmp_path / "second", 1, public, 200)
        host = Host(second, bench.referee, public)
        host.enrol(TOKEN)
        for agent in agents[20:]:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)

        def all_answer() -> None:
            assert host.step()
            for agent in agents:
                asked = bench.referee.poll(Signed.model_validate_json(agent.poll()))
                report = agent.answer(asked.model_dump_json().encode())
                assert bench.referee.collection.accept(claims([Sent(Signed.model_validate_json(report))])) == [None]

        bench.meanwhile(all_answer)
        result = bench.run()
        second.close()
        finished = bench.finished()
    assert result["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 0}
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).answers == 600


@pytest.mark.usefixtures("few_are_many")
def test_nobody_is_asked_twice_by_masks_either(tmp_path, monkeypatch):
    """A restart remembers who was asked; a mask that names somebody who answered, or nobody, is refused."""
    chosen = tiny("agents.count=600", "agents.batch=300", "curator.rounds=2")
    with Bench(tmp_path / "state", chosen) as bench:
        seen = []
        real = type(bench.population).answer

        def kept(self, assignment, configuration):
            seen.append((assignment, configuration))
            return real(self, assignment, configuration)

        monkeypatch.setattr(type(bench.population), "answer", kept)
        bench.run()
        monkeypatch.setattr(type(bench.population), "answer", real)
        assert bench.population.answered == sum(
            packing.count_ones(packing.decode_mask(assignment.message["people"], 600)) for assignment, _ in seen
        )
        first, configuration = seen[0]
        public = bench.referee.identity
        again = bench.population.answer(first, configuration)
    people = open_population(chosen, tmp_path / "state" / "agents", 1, public.public, 600)
    try:
        assert people.answer(first, configuration) == again  # the stored report
        for slot, mask, problem in (
            (1, first.message["people"], AlreadyAnswered),
            (0, packing.encode_mask(np.zeros(75, dtype=np.uint8)), BadMessage),
            (0, packing.encode_mask(np.zeros(74, dtype=np.uint8)), BadMessage),
        ):
            changed = public.sign("mass-assignment", {**first.message, "people": mask, "slot": slot})
            with pytest.raises(problem):
                people.answer(changed, configuration)
    finally:
        people.close()


def test_what_memory_cannot_hold_is_refused_with_both_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("referee.collection.aggregation.MAX_LISTED", 100)
    with Bench(tmp_path / "state", tiny(*CHOSEN)) as bench:
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
        asked = Asked("run", "0" * 64, 0, LossQuery.example()[0], "bit", lambda: batch)
        answers, _ = add_up(asked, [StoredReport(0, False, b"", batch.asked, b"", body)])
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(answers.values) == batch.asked
    assert peak + len(batch.mask) + len(body) < needed(people, batch.asked, mechanism) + (
        32 << 20
    )  # pieces of 2^20 bytes
