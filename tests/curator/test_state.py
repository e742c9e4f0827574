"""The ledger: what it has returned from is on disk, in order, once; what it says follows from its entries."""

from __future__ import annotations

import os
import shutil

import pytest

from common.core.errors import BadData, BadInput, BrokenLedger, BudgetExceeded, CannotWrite
from common.crypto.identity import Identity, Signed
from common.log.entries import Head
from common.log.ledger import LEDGER, Chain, Journal
from common.log.witness import FileWitness, last_head
from common.net.client import HttpWitness, witness_at
from common.net.messages import Perform
from common.privacy.events import NoEvent, SubsampledSteps
from curator import ledger as ledgers
from curator.ledger import Holder, Ledger, backup, check_copy, entry_summaries, restore, verify_ledger
from referee.service.witness import witness_app
from tests.curator.given import SCRIPT, Crash, begun, crash_at, cut_off, edited, no_space, reopened
from tests.support import TOKEN, served

HOLDER = Holder(run="run", digest="a" * 64, policy="b" * 64, referee="c" * 64)
STEPS = SubsampledSteps(count=3, tv_bound=0.1, ratio=1.0)
SEEN = Head(chain="1" * 64, entries=2, hash="2" * 64)
LEARN = {"kind": "learn"}
REFEREE = Identity.create()


def request(number: int, kind: str = "learn") -> Signed:
    asked = Perform(run="run", digest="d" * 64, operation_id=str(number), operation={"kind": kind}, seen=SEEN)
    return REFEREE.sign(asked.KIND, asked.wire())


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path, {"policy": "b" * 64})


def test_a_reopened_ledger_says_the_same(journal, tmp_path):
    ledger = Ledger(journal)
    assert (ledger.holder, ledger.unfinished()) == (None, None)
    ledger.open_run(HOLDER)
    for number, (kind, event) in enumerate([("learn", STEPS), ("reweigh", NoEvent()), ("learn", STEPS)]):
        ledger.charge(request(number, kind), {"kind": kind}, event)
        if number < 2:
            ledger.finish(str(number), {"released": number / 10})
    journal.publish()
    again = Ledger(Journal(tmp_path, {"policy": "b" * 64}))
    assert again.holder == HOLDER
    assert [c.operation_id for c in again] == ["0", "1", "2"]
    assert again.events == ledger.events == [STEPS, STEPS]
    assert again.unfinished() == ledger.unfinished() == ledger.find("2")
    assert (again.find("1").request, again.find("1").result) == (request(1, "reweigh"), {"released": 0.1})
    assert again.find("7") is None


@pytest.mark.parametrize("deed", ["charge", "finish"])
def test_what_the_disk_does_not_take_is_not_in_the_ledger(journal, monkeypatch, deed):
    # Durably first: were it the other way round, memory would know what the disk may never learn.
    ledger = Ledger(journal)
    ledger.charge(request(0), LEARN, STEPS)

    monkeypatch.setattr(Chain, "append", no_space)
    with pytest.raises(CannotWrite, match="no space left"):
        ledger.charge(request(1), LEARN, STEPS) if deed == "charge" else ledger.finish("0", {"released": 0})
    assert [c.operation_id for c in ledger] == ["0"]
    assert ledger.events == [STEPS]
    assert ledger.find("0").result is None
    assert ledger.unfinished() == ledger.find("0")


@pytest.fixture
def bench(tmp_path):
    with begun(tmp_path / "bench") as parties:
        parties.perform(0, SCRIPT[0])
        yield parties


def test_the_newest_copy_takes_the_place_of_a_lost_ledger(bench, tmp_path):
    folder = bench.folder / "curator"
    first = bench.perform(0, SCRIPT[0])
    head = backup(folder, tmp_path / "copy")  # while it serves
    assert ((tmp_path / "copy").stat().st_mode & 0o077, head) == (0, first.ledger.head)
    bench.curator.close()
    (folder / LEDGER).unlink()
    with pytest.raises(BrokenLedger, match="curator restore"):
        reopened(folder)
    assert restore(tmp_path / "copy", folder) == head
    bench.use(reopened(folder))
    assert bench.perform(0, SCRIPT[0]) == first
    bench.perform(1, SCRIPT[2])


@pytest.mark.parametrize("case", ["behind", "no head", "other witness"])
def test_a_copy_that_may_be_old_is_refused_or_closes_the_budget(bench, tmp_path, case):
    folder, copy = bench.folder / "curator", tmp_path / "copy"
    backup(folder, copy)
    first = bench.perform(0, SCRIPT[0])
    if case == "behind":
        bench.perform(1, SCRIPT[2])
    bench.curator.close()
    (folder / LEDGER).unlink()
    if case == "no head":
        (folder / "heads.jsonl").unlink()
    given = [FileWitness(tmp_path / "empty")] if case == "other witness" else []
    with pytest.raises(BrokenLedger, match="--close"):
        restore(copy, folder, given)
    assert not (folder / LEDGER).exists()
    restore(copy, folder, given, close=True)
    bench.use(reopened(folder))
    assert bench.perform(0, SCRIPT[0]) == first  # what was released may be asked for again
    with pytest.raises(BudgetExceeded, match=r"counts as spent.*new people") as refused:
        bench.perform(2, SCRIPT[2])
    assert refused.value.members["spent"] == refused.value.members["budget"] == 60.0
    assert verify_ledger(folder)["closed"]


def test_what_was_lost_is_kept_beside_the_copy_that_takes_its_place(bench, tmp_path):
    folder, copy = bench.folder / "curator", tmp_path / "copy"
    head = backup(folder, copy)
    bench.perform(1, SCRIPT[2])
    bench.curator.close()
    cut_off(folder)
    lost = (folder / LEDGER).read_bytes()
    restored = restore(copy, folder, close=True)
    assert restored.entries == head.entries + 1
    assert entry_summaries(folder)[-1]["kind"] == "closed"
    assert (folder / f"{LEDGER}.replaced").read_bytes() == lost
    restore(copy, folder, close=True)
    assert (folder / f"{LEDGER}.replaced").read_bytes() == lost  # and the second one is kept beside it
    assert (folder / f"{LEDGER}.replaced-2").exists()
    assert not (folder / f"{LEDGER}.copied").exists()


def test_a_copy_that_is_to_be_closed_is_closed_before_it_takes_the_ledgers_place(tmp_path, monkeypatch):
    """Of a copy from before the first run, and no head: cut off in between, it would be a curator with a new budget."""
    folder, copy = tmp_path / "curator", tmp_path / "copy"
    reopened(folder).close()
    backup(folder, copy)
    for name in (LEDGER, "heads.jsonl"):
        (folder / name).unlink()
    crash_at(monkeypatch, ledgers, "sync_folder", 1, after=False)
    with pytest.raises(Crash):
        restore(copy, folder, close=True)
    monkeypatch.undo()
    with pytest.raises(BrokenLedger, match=r"head .* is gone"):
        reopened(folder)
    restore(copy, folder, close=True)
    assert [entry["kind"] for entry in entry_summaries(folder)] == ["genesis", "closed"]
    assert not list(folder.glob(f"{LEDGER}.copied*"))


def test_a_copy_is_not_written_over_anything_and_is_not_restored_under_a_running_curator(bench, tmp_path):
    folder, copy = bench.folder / "curator", tmp_path / "copy"
    backup(folder, copy)
    with pytest.raises(BadInput, match="not empty"):
        backup(folder, copy)
    with pytest.raises(BadInput, match="in use by another process"):
        restore(copy, folder)
    with pytest.raises(BadInput, match="no copy"):
        restore(tmp_path, tmp_path / "elsewhere")


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_directory_is_made_and_one_that_holds_anything_else_is_left_as_it_is(bench, tmp_path):
    folder, copy = bench.folder / "curator", tmp_path / "copy"
    backup(folder, copy)
    bench.curator.close()
    with pytest.raises(BrokenLedger, match="no head of this ledger is left"):
        restore(copy, tmp_path / "new" / "below")
    assert not (tmp_path / "new").exists()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    host = bench.folder / "agents"
    bench.population.close()
    before = files(tmp_path)
    for place, why in (
        (tmp_path / "thesis", "is not empty, and no curator's state directory"),
        (tmp_path / "file", "is no directory"),
        (host, "has the key of another party"),
        (copy, "is the copy itself"),
    ):
        with pytest.raises(BadInput, match=why):
            restore(copy, place, close=True)
    assert files(tmp_path) == before
    for place in (tmp_path / "new" / "below", tmp_path / "empty"):
        restore(copy, place, close=True)
        assert place.stat().st_mode & 0o077 == 0
        assert verify_ledger(place)["closed"]
    (folder / "identity.key").write_bytes(b"damaged")  # and is put back with the rest
    restore(copy, folder)
    bench.use(reopened(folder))


def test_what_was_charged_is_listed_with_what_the_referee_had_seen(bench):
    entries = entry_summaries(bench.folder / "curator")
    assert [e["kind"] for e in entries] == ["genesis", "open", "charge", "result"]
    assert (entries[2]["asks"], entries[2]["referee_had_seen"]) == ("learn", 2)
    found = verify_ledger(bench.folder / "curator")
    assert (found["entries"], found["closed"]) == (4, None)


def test_a_witness_over_http_is_a_witness(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_WITNESS_TOKEN", TOKEN)
    with served(witness_app(tmp_path / "heads", TOKEN)) as address:
        place = f"{address}/v1/heads/clinic"
        with begun(tmp_path / "bench", witnesses=[witness_at(place)]) as bench:
            folder = bench.folder / "curator"
            bench.curator.close()
            shutil.copytree(folder, tmp_path / "older")
            bench.use(reopened(folder, witnesses=[HttpWitness(place)]))
            head = bench.perform(0, SCRIPT[0]).ledger.head
            assert last_head(HttpWitness(place)) == head
            assert verify_ledger(folder, [HttpWitness(place)])["entries"] == head.entries
        with pytest.raises(BrokenLedger, match="was put back or cut off"):
            reopened(tmp_path / "older", witnesses=[HttpWitness(place)])
        with pytest.raises(BrokenLedger, match="another ledger"):
            reopened(tmp_path / "deleted", witnesses=[HttpWitness(place)])


def link(file):
    file.unlink()
    file.symlink_to("/dev/zero")


HOSTILE = {
    "nested more than": edited(lambda lines: lines.append(b"[" * 100_000)),
    "more than .* values": edited(lambda lines: lines.append(b"[" + b"[]," * 1_000_000 + b"0]")),
    "holds more than 8,388,608 values": edited(lambda lines: lines.extend([b"," * 2_000_000 + b"\n"] * 5)),
    "key .*identity.key cannot be used: found a link": lambda copy: link(copy / "identity.key"),
    "ledger.jsonl cannot be used: found a link": lambda copy: link(copy / LEDGER),
    "has 1,099,511,627,776 bytes": lambda copy: os.truncate(copy / LEDGER, 1 << 40),
}


def test_a_copy_that_was_made_to_do_something_is_not_put_back(bench, tmp_path):
    backup(bench.folder / "curator", tmp_path / "copy")
    check_copy(tmp_path / "copy")
    for said, change in HOSTILE.items():
        copy = tmp_path / "changed"
        shutil.copytree(tmp_path / "copy", copy)
        change(copy)
        with pytest.raises(BadData, match=said):
            check_copy(copy)
        shutil.rmtree(copy)
