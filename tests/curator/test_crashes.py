"""A curator may die at every point: what it releases after is what it would have released."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core import canonical
from common.core.errors import BrokenLedger, CannotWrite, Conflict, OperationFailed, RolledBack, TandemError
from common.log.entries import Head
from common.log.ledger import HEADS, LEDGER, Chain, Journal, read_head
from common.log.witness import FileWitness, last_head
from common.net import messages
from curator import state
from curator.ledger import Ledger
from curator.operations import LearnHandler
from curator.sample.shard import Shard
from curator.state import Checkpoints
from tests.curator import given
from tests.curator.given import LEARN, SCRIPT, begun, edited, ledger, no_space, perform_all, reopened, reweigh
from tests.support import Bench, seal, tiny
from tests.tiers import thinned


@pytest.fixture(autouse=True)
def _weights_are_stored_after_every_reweigh():
    every, state.EVERY = state.EVERY, 1
    yield
    state.EVERY = every


def play(folder: Path, crash: tuple[type, str, int, bool] | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Perform the script; with ``crash``, die once at a call of a method, before or after it, and start again."""
    with begun(folder) as bench:
        if crash is not None:
            given.crash_at(monkeypatch, *crash)
            with pytest.raises(given.Crash):
                perform_all(bench)
            monkeypatch.undo()
    with Bench(folder) as bench:
        releases = perform_all(bench)
        rows = [(row[0], row[2], row[3]) for row in ledger(bench)]
    return releases, rows


CRASHES = [
    *((Ledger, "charge", when, after) for when, after in ((1, False), (1, True), (3, True))),
    *((Ledger, "finish", when, after) for when, after in ((1, False), (1, True), (2, False), (4, False))),
    *((Journal, "publish", when, after) for when in (2, 3) for after in (False, True)),
    *((Checkpoints, "offer", when, after) for when in (1, 2) for after in (False, True)),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What the script leads to where nobody dies."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return play(tmp_path_factory.mktemp("crashes") / "undisturbed", None, monkeypatch)


@pytest.mark.parametrize("crash", CRASHES, ids=lambda c: f"{c[1]}-{c[2]}-{'after' if c[3] else 'before'}")
def test_after_a_crash_the_releases_are_what_they_would_have_been(tmp_path, monkeypatch, undisturbed, crash):
    disturbed = play(tmp_path / "disturbed", crash, monkeypatch)
    assert disturbed == undisturbed
    assert len(disturbed[1]) == len(SCRIPT)


@pytest.mark.parametrize(
    "damage", thinned(["one byte", "cut off", "emptied", "deleted", "renamed", "from before", "of another"], 2)
)
def test_weights_that_are_not_beyond_doubt_are_computed_again(tmp_path, undisturbed, caplog, damage):
    folder = tmp_path / "disturbed"
    with begun(folder) as bench:
        perform_all(bench, 2)
        bench.curator._checkpoints.settle()
        (old,) = [path.read_bytes() for path in (folder / "curator").glob("weights-*")]
        perform_all(bench, 4, 2)
    (stored,) = (folder / "curator").glob("weights-*")
    whole = stored.read_bytes()
    assert stored.name == "weights-2"
    if damage == "deleted":
        stored.unlink()
    elif damage == "renamed":
        stored.rename(stored.with_name("weights-1"))
    elif damage == "of another":
        with begun(tmp_path / "another", seed=2) as bench:
            perform_all(bench, 4)
        stored.write_bytes((tmp_path / "another" / "curator" / "weights-2").read_bytes())
    else:
        flipped = whole[:700] + bytes([whole[700] ^ 1]) + whole[701:]
        stored.write_bytes({"cut off": whole[:-40], "emptied": b"", "one byte": flipped, "from before": old}[damage])
    caplog.clear()
    with Bench(folder) as bench:
        assert perform_all(bench) == undisturbed[0]
    assert ("computed again from the ledger" in caplog.text) == (damage != "deleted")


def test_stored_weights_spare_the_reweighs_before_them(tmp_path, monkeypatch, undisturbed):
    with begun(tmp_path / "state") as bench:
        perform_all(bench, 4)
    monkeypatch.setattr(Shard, "reweigh", lambda *given: pytest.fail("reweighed again"))
    with Bench(tmp_path / "state") as bench:
        assert bench.perform(4, SCRIPT[4]).result == undisturbed[0][4]


def test_weights_are_stored_only_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "EVERY", 2)
    with begun(tmp_path, tiny("curator.rounds=5")) as bench:
        seen = []
        for number in range(5):
            bench.perform(number, reweigh())
            bench.curator._checkpoints.settle()
            seen.append([path.name for path in (tmp_path / "curator").glob("weights-*")])
    assert seen == [[], ["weights-2"], ["weights-2"], ["weights-4"], ["weights-4"]]


def test_a_full_disk_stops_no_run(tmp_path, monkeypatch, caplog):
    with begun(tmp_path) as bench:
        monkeypatch.setattr(state.os, "fsync", no_space)  # type: ignore[attr-defined]
        bench.curator._checkpoints.offer(1, 0.0, "lineage", lambda: iter([np.zeros(1200, dtype=np.uint8)]))
        bench.curator._checkpoints.settle()
        monkeypatch.undo()
    assert "could not be stored, and were not: [Errno 28]" in caplog.text
    assert not list((tmp_path / "curator").glob("weights-*"))


def test_what_failed_in_memory_leaves_no_trace(bench, monkeypatch, tmp_path):
    """An operation that fails after it changed the weights is undone in memory, and repeated the same."""
    bench.open()
    perform_all(bench, 1)
    monkeypatch.setattr(Ledger, "finish", no_space)
    with pytest.raises(OSError, match="no space left"):
        bench.perform(1, reweigh())
    monkeypatch.undo()
    with pytest.raises(Conflict, match="operation 1 has not finished"):
        bench.perform(2, LEARN)
    bench.perform(1, reweigh())
    release = bench.perform(2, SCRIPT[2]).result
    with begun(tmp_path / "undisturbed") as other:
        assert perform_all(other, 3)[2] == release


@pytest.fixture(scope="module")
def released_twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of parties whose curator has released twice, and a copy of its own after the first; to be copied."""
    folder = tmp_path_factory.mktemp("spent")
    with begun(folder / "bench") as bench:
        bench.perform(0, LEARN)
        bench.curator.close()
        shutil.copytree(bench.folder / "curator", folder / "older")
        bench.curator = reopened(bench.folder / "curator")
        bench.perform(1, SCRIPT[2])
    return folder


@pytest.fixture
def spent(tmp_path: Path, released_twice: Path) -> Path:
    """A copy of them: the curator's directory."""
    shutil.copytree(released_twice, tmp_path / "parties")
    return tmp_path / "parties" / "bench" / "curator"


def without_bodies(lines: list[bytes]) -> None:
    lines[:] = [canonical.encode(json.loads(line) | {"body": None}) + b"\n" for line in lines]


ATTACKS: dict[str, Callable[[Path], object]] = {
    "an older copy": lambda folder: shutil.copy(folder.parent.parent / "older" / LEDGER, folder / LEDGER),
    "deleted": lambda folder: (folder / LEDGER).unlink(),
    "emptied": lambda folder: (folder / LEDGER).write_bytes(b""),
    "truncated": lambda folder: os.truncate(folder / LEDGER, (folder / LEDGER).stat().st_size // 2),
    "the last entries edited out": edited(lambda lines: lines.__delitem__(slice(3, None))),
    "the last entry in part": edited(lambda lines: lines.append(lines.pop()[:-1])),
    "one entry edited out": edited(lambda lines: lines.pop(2)),
    "all entries edited out": edited(lambda lines: lines.clear()),
    "a cost edited": edited(lambda lines: lines.insert(2, lines.pop(2).replace(b"300", b"1"))),
    "all bodies edited out": edited(without_bodies),
    "the head forgotten": lambda folder: (folder / "heads.jsonl").unlink(),
    "the head of before": lambda folder: (folder / "heads.jsonl").write_bytes(b"{}"),
}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_ledger_that_was_touched_is_not_started_on(spent, name):
    reopened(spent).close()
    ATTACKS[name](spent)
    with pytest.raises(TandemError, match=r"curator restore|cannot be opened"):
        reopened(spent)


def test_the_main_file_alone_is_the_whole_ledger(bench):
    """A curator that is killed leaves one file, and none beside it."""
    bench.open()
    bench.perform(0, LEARN)
    folder = bench.folder / "curator"
    assert {path.name for path in folder.glob("ledger*")} == {LEDGER}
    copy = bench.folder / "copy.jsonl"
    copy.write_bytes((folder / LEDGER).read_bytes())  # while it runs
    assert [entry.kind for entry in Chain(copy).entries] == ["genesis", "open", "charge", "result"]


def test_a_whole_directory_put_back_is_noticed_by_the_referee(spent):
    """Head and ledger together are older than what the referee has seen: its request says so, nothing is charged."""
    shutil.rmtree(spent)
    shutil.copytree(spent.parents[1] / "older", spent)
    with Bench(spent.parent) as bench:
        opened = messages.Terms.parse(bench.curator.open_run(bench.referee.configuration("run")).message).ledger.head
        known = {c.operation_id: c for c in bench.curator._ledger}
        assert set(known) == {"0"}
        first = bench.perform(0, LEARN)
        seen = Head(chain=opened.chain, entries=first.ledger.head.entries + 2, hash="1" * 64)
        request = messages.Perform(run="run", digest=first.digest, operation_id="2", operation=SCRIPT[2], seen=seen)
        with pytest.raises(RolledBack, match="put back or cut off"):
            bench.curator.perform(seal(bench.referee.identity, request))
        assert {c.operation_id for c in bench.curator._ledger} == {"0"}


def test_two_copies_used_in_turn_stop_at_a_witness(tmp_path):
    witness = tmp_path / "disk" / "heads"
    witness.parent.mkdir()
    with begun(tmp_path / "bench", witnesses=[FileWitness(witness)]) as bench:
        bench.perform(0, LEARN)
        bench.curator.close()
        one, two = bench.folder / "curator", tmp_path / "two"
        shutil.copytree(one, two)
        bench.curator = reopened(one, witnesses=[FileWitness(witness)])
        copy = reopened(two, witnesses=[FileWitness(witness)])
        bench.perform(1, SCRIPT[2])
        forked = messages.Perform(
            run="run", digest=bench.open()[1], operation_id="1", operation=SCRIPT[4], seen=copy._ledger.since(
                bench.curator._ledger.opening().head, copy._ledger.find("0")
            ).head,
        )  # fmt: skip
        with pytest.raises(RolledBack, match="the newest copy"):
            copy.perform(seal(bench.referee.identity, forked))
        copy.close()
        with pytest.raises(BrokenLedger, match="the witness"):
            reopened(two, witnesses=[FileWitness(witness)])


@pytest.mark.parametrize("fails", [False, True])
def test_a_witness_has_seen_the_charge_of_whatever_leaves(tmp_path, monkeypatch, fails):
    witness = FileWitness(tmp_path / "heads")
    with begun(tmp_path / "bench", witnesses=[witness]) as bench:
        before = last_head(witness)
        if fails:
            monkeypatch.setattr(LearnHandler, "run", lambda *given: 1 / 0)
            with pytest.raises(OperationFailed):
                bench.perform(0, LEARN)
        else:
            bench.perform(0, LEARN)
        head = bench.curator._journal.chain.head()
        assert head.entries == before.entries + (1 if fails else 2)
        assert last_head(witness) == read_head(bench.folder / "curator" / HEADS, bench.curator.key) == head


def test_nothing_leaves_that_no_witness_has_taken_and_later_it_leaves_once(tmp_path, monkeypatch):
    with begun(tmp_path / "bench", witnesses=[FileWitness(tmp_path / "heads")]) as bench:
        with monkeypatch.context() as away:
            away.setattr(FileWitness, "keep", lambda *given: no_space())
            with pytest.raises(CannotWrite):
                bench.perform(0, LEARN)
        kinds = [entry.kind for entry in bench.curator._journal.chain.entries]
        released = bench.perform(0, LEARN)
        assert released == bench.perform(0, LEARN)
        assert kinds == [entry.kind for entry in bench.curator._journal.chain.entries]
        assert kinds.count("charge") == kinds.count("result") == 1


def test_a_referee_refuses_a_release_that_forgets(bench, monkeypatch):
    """A curator that signs a head which does not extend the one before is not believed."""
    real = messages.StoredRelease.wire

    def forgetful(self: messages.StoredRelease) -> dict[str, Any]:
        wire = real(self)
        wire["ledger"] = {**wire["ledger"], "links": wire["ledger"]["links"][1:]}
        return wire

    monkeypatch.setattr(messages.StoredRelease, "wire", forgetful)
    result = bench.run()
    assert (result["status"], "has seen" in result["reason"]) == ("failed", True)


def test_a_second_run_of_a_curator_that_forgot_the_first_is_refused_by_the_referee(tmp_path):
    with Bench(tmp_path / "bench") as bench:
        bench.curator.close()
        folder = bench.folder / "curator"
        shutil.copytree(folder, tmp_path / "fresh")
        bench.use(reopened(folder))
        bench.open("first")
        bench.curator.close()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "fresh", folder)
        bench.use(reopened(folder))
        result = bench.run("second")
        assert result["status"] == "failed"
        assert "has seen 2 entries" in result["reason"]
        assert "counts as spent" in result["reason"]
