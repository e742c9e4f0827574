"""The disks of histories: what was not synchronised may be gone, what was is there."""

from __future__ import annotations

import os
import sqlite3

import pytest

from benchmarks.histories.disk import Disk, moved
from benchmarks.histories.faults import Faults
from common.core.durable import make_folder, write_durably


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
