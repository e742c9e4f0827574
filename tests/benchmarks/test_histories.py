"""Under seeded faults the invariants hold; and each of the seeded bugs breaks one of them."""

import os
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from benchmarks.histories.bugs import BUGS, found_within
from benchmarks.histories.determined import Drawn
from benchmarks.histories.disk import Disk, moved
from benchmarks.histories.faults import Crash, Faults
from benchmarks.histories.history import play
from benchmarks.histories.world import world
from common.core.durable import make_folder, write_durably

WITHIN = 500


@pytest.mark.slow
def test_a_seed_repeats_a_history_in_another_process_too():
    command = [sys.executable, "-m", "benchmarks.histories", "--seed", "2"]
    played = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    once, again = play(2), play(2)
    assert once.log == again.log == played[: len(once.log)]
    assert f"stored: {once.digest}" in played  # with all keys, signatures and times
    assert once.digest == again.digest
    assert any(": " in line.partition(": ")[2] for line in once.log)  # something went wrong


def test_without_faults_nothing_is_lost():
    history = play(0, message_rate=0.0, step_rate=0.0, pause_rate=0.0)
    assert (history.status, history.broken, history.answered) == ("exhausted", [], 24)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [0, 50, 100, 150, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(200, 500, 50))]
)
def test_what_must_hold_holds_after_every_history(first):
    broken = {seed: history.broken for seed in range(first, first + 50) if (history := play(seed)).broken}
    assert not broken


def test_no_other_thread_draws_from_a_seed():
    drawn = Drawn(1)
    with ThreadPoolExecutor(1) as pool:
        for draw in (
            drawn.random,
            lambda: drawn.randbytes(2),
            lambda: drawn.choice((1, 2)),
            lambda: drawn.shuffle([1, 2]),
        ):
            with pytest.raises(AssertionError, match="another thread draws"):
                pool.submit(draw).result()


def test_what_another_thread_stores_is_no_step_of_a_history(tmp_path):
    def store() -> int:
        engine = create_engine(f"sqlite:///{tmp_path}/other.sqlite")
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE t (a INTEGER)"))
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO t VALUES (1)"))
        with engine.connect() as connection:
            kept = connection.execute(text("SELECT count(*) FROM t")).scalar_one()
        engine.dispose()
        return int(kept)

    faults = Faults(0, step_rate=1.0)
    with world(faults), faults.working("host"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(store).result() == 1
        assert faults.log == []
        with pytest.raises((Crash, OperationalError)):
            store()  # in the history's own thread it is one


@pytest.mark.slow
@pytest.mark.parametrize("bug", list(BUGS))
def test_each_seeded_bug_is_found(bug):
    history = found_within(bug, WITHIN)
    assert history
    assert not any(re.match(r"ends: \w+Error: ", what) for what in history.broken)  # an invariant broke, not the bug


def test_a_driver_that_stands_still_is_replaced_and_writes_nothing_more():
    history = play(1, message_rate=0.0, step_rate=0.0, pause_rate=0.2)
    assert any("stands still" in line for line in history.log)
    assert any("does not drive" in line for line in history.log)
    assert (history.status, history.broken, history.answered) == ("exhausted", [], 24)


def nothing_survives() -> bool:
    return False


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    with Faults(0, 0.0, 0.0, 0.0).installed(disk):
        yield disk


def test_what_is_written_durably_survives_and_is_known_to(disk):
    folder = disk.root / "party"
    make_folder(folder)
    write_durably(folder / "file", b"old")
    write_durably(folder / "file", b"new")
    assert disk.holds(folder / "file") == b"new"
    assert disk.cut(folder, nothing_survives) == []
    assert (folder / "file").read_bytes() == b"new"


def test_a_folder_that_was_not_synchronised_goes_with_all_that_is_in_it(disk):
    folder = disk.root / "party"
    folder.mkdir()
    write_durably(folder / "file", b"content")
    assert disk.holds(folder / "file") is None
    assert disk.cut(folder, nothing_survives) == ["the folder party"]
    assert not folder.exists()


def test_a_file_whose_content_was_not_synchronised_is_there_and_empty(disk):
    folder = disk.root / "party"
    make_folder(folder)
    (folder / "part").write_bytes(b"content")
    os.replace(folder / "part", folder / "file")
    make_folder(folder)
    assert disk.holds(folder / "file") == b""
    assert disk.cut(folder, nothing_survives) == ["what was written to file"]
    assert (folder / "file").read_bytes() == b""


def test_a_file_that_was_replaced_and_not_its_folder_is_the_old_one(disk):
    folder = disk.root / "party"
    make_folder(folder)
    write_durably(folder / "file", b"old")
    with (folder / "part").open("wb") as file:
        file.write(b"new")
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "part", folder / "file")
    assert disk.holds(folder / "file") == b"old"
    assert disk.cut(folder, lambda: True) == []  # it may survive
    assert (folder / "file").read_bytes() == b"new"
    assert disk.holds(folder / "file") == b"new"  # and then it is on the disk


@pytest.mark.parametrize(("synchronous", "rows"), [("NORMAL", 1), ("FULL", 2)])
def test_a_database_has_the_commits_that_it_synchronises(disk, synchronous, rows):
    folder = disk.root / "party"
    make_folder(folder)
    connection = sqlite3.connect(folder / "x.sqlite")
    connection.execute("PRAGMA journal_mode=WAL")
    for pragma in ("FULL", synchronous):
        connection.execute(f"PRAGMA synchronous={pragma}")
        connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        disk.commit(connection)
        connection.commit()
    assert disk.committed(folder) == (synchronous == "FULL")
    connection.close()
    disk.cut(folder, nothing_survives)
    after = sqlite3.connect(folder / "x.sqlite")
    assert after.execute("SELECT count(*) FROM t").fetchone() == (rows,)
    after.close()


def test_a_copy_has_files_of_its_own(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    disk = Disk(before)
    with Faults(0, 0.0, 0.0, 0.0).installed(disk):
        make_folder(before / "party")
        write_durably(before / "party" / "file", b"content")
    other = moved(disk.tree, before, after)
    assert other[after / "party"]["file"].content == b"content"
    assert other[after / "party"]["file"] is not disk.tree[before / "party"]["file"]
