"""A budget is spent once: whatever is done to the ledger, nothing is released beyond it, and somebody says so."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BrokenLedger, RolledBack, TandemError
from common.log.entries import Head
from common.log.witness import FileWitness
from common.wire import messages
from curator.service.curator import Curator
from curator.service.startup import open_curator
from tests.support import Bench, seal, tiny
from tests.tiers import for_each

LEARN: dict[str, Any] = {"kind": "learn", "round": 1}
LEDGER = "ledger.sqlite"


def learn(number: int) -> dict[str, Any]:
    return {"kind": "learn", "round": number + 1}


def reopened(folder: Path, **named: Any) -> Curator:
    return open_curator(tiny(), folder, 1, None, **named)


@pytest.fixture
def spent(tmp_path) -> tuple[Path, Path]:
    """A curator's directory after two releases, and a copy of it after the first."""
    with Bench(tmp_path / "bench") as bench:
        bench.open()
        bench.perform(0, LEARN)
        bench.curator.close()
        shutil.copytree(bench.folder / "curator", tmp_path / "older")
        bench.curator = reopened(bench.folder / "curator")
        bench.perform(1, learn(1))
    return tmp_path / "bench" / "curator", tmp_path / "older"


def older_copy(folder: Path, older: Path) -> None:
    shutil.copy(older / LEDGER, folder / LEDGER)


def deleted(folder: Path, older: Path) -> None:
    (folder / LEDGER).unlink()


def emptied(folder: Path, older: Path) -> None:
    (folder / LEDGER).write_bytes(b"")


def truncated(folder: Path, older: Path) -> None:
    content = (folder / LEDGER).read_bytes()
    (folder / LEDGER).write_bytes(content[: len(content) // 2])


def _statement(statement: str) -> Callable[[Path, Path], None]:
    def edit(folder: Path, older: Path) -> None:
        with sqlite3.connect(folder / LEDGER) as connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()

    return edit


def without_bodies(folder: Path, older: Path) -> None:
    """A table of the same columns, in which nothing stands where each entry's body was."""
    with sqlite3.connect(folder / LEDGER) as connection:
        connection.executescript(
            "CREATE TABLE other AS SELECT position, kind, NULL AS body, hash FROM entries;"
            "DROP TABLE entries; ALTER TABLE other RENAME TO entries;"
        )
    connection.close()


ATTACKS: dict[str, Callable[[Path, Path], None]] = {
    "an older copy": older_copy,
    "deleted": deleted,
    "emptied": emptied,
    "truncated": truncated,
    "the last rows edited out": _statement("DELETE FROM entries WHERE position > 2"),
    "one row edited out": _statement("DELETE FROM entries WHERE position = 2"),
    "all rows edited out": _statement("DELETE FROM entries"),
    "a cost edited": _statement("UPDATE entries SET body = replace(body, '300', '1') WHERE kind = 'charge'"),
    "all bodies edited out": without_bodies,
    "the head forgotten": lambda folder, older: (folder / "head.json").unlink(),
    "the head of before": lambda folder, older: (folder / "head.json").write_bytes(b"{}"),
}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_ledger_that_was_touched_is_not_started_on(spent, name):
    folder, older = spent
    reopened(folder).close()
    ATTACKS[name](folder, older)
    with pytest.raises(TandemError, match=r"curator restore|cannot be opened"):
        reopened(folder)


def test_the_main_file_alone_is_the_whole_ledger(bench):
    """Nothing that was released is in a write-ahead log only: a curator that is killed leaves one file."""
    bench.open()
    bench.perform(0, LEARN)
    folder = bench.folder / "curator"
    assert [path.name for path in folder.glob("ledger*")] == [LEDGER]
    copy = bench.folder / "copy.sqlite"
    copy.write_bytes((folder / LEDGER).read_bytes())  # while it runs
    with sqlite3.connect(copy) as connection:
        kinds = [row[0] for row in connection.execute("SELECT kind FROM entries ORDER BY position")]
    connection.close()
    assert kinds == ["genesis", "open", "charge", "result"]


def test_a_whole_directory_put_back_is_noticed_by_the_referee(spent, tmp_path):
    """Head and ledger together are older than what the referee has seen: its request says so, nothing is charged."""
    folder, older = spent
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    with Bench(tmp_path / "bench") as bench:
        opened = messages.Terms.parse(bench.curator.open_run(bench.referee.configuration("run")).message).ledger.head
        known = {c.operation_id: c for c in bench.curator._ledger}
        assert set(known) == {"0"}
        first = bench.perform(0, LEARN)
        seen = Head(chain=opened.chain, entries=first.ledger.head.entries + 2, hash="1" * 64)
        request = messages.Perform(run="run", digest=first.digest, operation_id="2", operation=learn(1), seen=seen)
        with pytest.raises(RolledBack, match="put back or cut off"):
            bench.curator.perform(seal(bench.referee.identity, request))
        assert {c.operation_id for c in bench.curator._ledger} == {"0"}


def test_two_copies_used_in_turn_stop_at_a_witness(tmp_path):
    witness = tmp_path / "disk" / "heads"
    witness.parent.mkdir()
    with Bench(tmp_path / "bench", witnesses=[FileWitness(witness)]) as bench:
        bench.open()
        bench.perform(0, LEARN)
        bench.curator.close()
        one, two = bench.folder / "curator", tmp_path / "two"
        shutil.copytree(one, two)
        bench.curator = reopened(one, witnesses=[FileWitness(witness)])
        copy = reopened(two, witnesses=[FileWitness(witness)])
        bench.perform(1, learn(1))
        forked = messages.Perform(
            run="run", digest=bench.open()[1], operation_id="1", operation=learn(2), seen=copy._ledger.since(
                bench.curator._ledger.opening().head, copy._ledger.find("0")
            ).head,
        )  # fmt: skip
        with pytest.raises(RolledBack, match="the newest copy"):
            copy.perform(seal(bench.referee.identity, forked))
        copy.close()
        with pytest.raises(BrokenLedger, match="the witness"):
            reopened(two, witnesses=[FileWitness(witness)])


@for_each("attack", ["without it", "forgotten", "older"])
def test_a_witness_that_was_named_once_is_needed_for_ever(tmp_path, attack):
    witness = tmp_path / "heads"
    with Bench(tmp_path / "bench", witnesses=[FileWitness(witness)]) as bench:
        bench.open()
        bench.perform(0, LEARN)
        bench.curator.close()
        folder = bench.folder / "curator"
        shutil.copytree(folder, tmp_path / "older")
        bench.curator = reopened(folder, witnesses=[FileWitness(witness)])
        bench.perform(1, learn(1))
    given = [FileWitness(witness)]
    if attack == "without it":
        given = []
    elif attack == "forgotten":
        witness.unlink()
    else:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "older", folder)
    with pytest.raises(BrokenLedger, match="witness"):
        reopened(folder, witnesses=given)


def test_a_torn_line_of_a_witness_is_a_head_that_was_never_acknowledged(tmp_path):
    witness = tmp_path / "heads"
    with Bench(tmp_path / "bench", witnesses=[FileWitness(witness)]) as bench:
        bench.open()
        with witness.open("ab") as file:
            file.write(b'{"kind": "chain-ext')
        bench.perform(0, LEARN)
        assert FileWitness(witness).last() == bench.curator._ledger.journal.chain.head()


def test_a_referee_refuses_a_release_that_forgets(bench, monkeypatch):
    """A curator that signs a head which does not extend the one before is not believed."""
    real = messages.Release.wire

    def forgetful(self: messages.Release) -> dict[str, Any]:
        wire = real(self)
        wire["ledger"] = {**wire["ledger"], "links": wire["ledger"]["links"][1:]}
        return wire

    monkeypatch.setattr(messages.Release, "wire", forgetful)
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
