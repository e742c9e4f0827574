"""Rows that are kept are those of the file as it is; what is large, or was changed just now, is read each time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.core.errors import BadData
from common.data.tables import files
from common.data.tables.files import SETTLED, Piece, PieceCache, pieces
from common.data.tables.source import Layout

BOTH = frozenset({"a", "b"})


class Counted(PieceCache):
    """Counts how often a file is read."""

    def __init__(self) -> None:
        super().__init__(self._counted)
        self.reads = 0

    def _counted(self, path: Path, layout: Layout, columns: frozenset[str]) -> Iterator[Piece]:
        self.reads += 1
        yield from pieces(path, layout, columns)

    def rows(self, path: Path, columns: frozenset[str] = BOTH) -> list[tuple[str, ...]]:
        return [row for piece in self.pieces(path, Layout(), columns) for row in piece.frame.rows()]


@pytest.fixture
def memory() -> Counted:
    return Counted()


def written(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file, and let it lie for a while."""
    path.write_text(text)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2.0 * SETTLED)
    return path


def test_a_file_is_read_once_for_the_same_columns(tmp_path, monkeypatch, memory):
    path = written(tmp_path / "people.csv", "a,b\n1,2\n3,4\n", monkeypatch)
    assert memory.rows(path) == memory.rows(path) == [("1", "2"), ("3", "4")]
    assert memory.reads == 1
    assert memory.rows(path, frozenset({"b"})) == [("2",), ("4",)]
    assert memory.reads == 2


def test_a_changed_file_is_read_again_if_its_size_and_its_time_of_writing_are_the_same(tmp_path, monkeypatch, memory):
    path = written(tmp_path / "people.csv", "a,b\n1,2\n", monkeypatch)
    before = path.stat()
    assert memory.rows(path) == [("1", "2")]
    time.sleep(0.02)  # a tick of the file system's clock: only the time of the change tells that something happened
    path.write_text("a,b\n5,6\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert memory.rows(path) == [("5", "6")]


def test_what_was_changed_just_now_is_read_each_time(tmp_path, memory):
    path = tmp_path / "people.csv"
    for value in range(20):
        path.write_text(f"a,b\n{value % 10},2\n")
        assert memory.rows(path) == [(str(value % 10), "2")]
    assert memory.reads == 20


def test_a_time_of_writing_that_is_yet_to_come_hides_no_change(tmp_path, memory):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    os.utime(path, (1e10, 1e10))
    assert memory.rows(path) == memory.rows(path) == [("1", "2")]
    assert memory.reads == 2


def test_what_does_not_fit_is_not_kept_and_what_was_used_longest_ago_goes_first(tmp_path, monkeypatch, memory):
    text = "a,b\n" + "1,2\n" * 100
    first, second = (written(tmp_path / f"{name}.csv", text, monkeypatch) for name in ("first", "second"))
    memory.rows(first)
    size = sum(files._size(piece) for piece in memory.pieces(first, Layout(), BOTH))
    assert memory.reads == 1
    monkeypatch.setattr(files, "MOST", size)
    memory.rows(second)
    memory.rows(second)
    assert memory.reads == 2
    memory.rows(first)
    assert memory.reads == 3
    monkeypatch.setattr(files, "MOST", size - 1)
    memory.rows(second)
    memory.rows(second)
    assert memory.reads == 5


def test_nothing_of_a_file_with_a_flaw_is_kept(tmp_path, monkeypatch, memory):
    path = written(tmp_path / "people.csv", "a,b\n1,2\n3\n", monkeypatch)
    for _ in range(2):
        with pytest.raises(BadData, match=r"people\.csv: line 3 has 1 fields"):
            memory.rows(path)
    assert memory.reads == 2


def test_who_reads_only_its_beginning_leaves_nothing_behind(tmp_path, monkeypatch, memory):
    path = written(tmp_path / "people.csv", "a,b\n1,2\n", monkeypatch)
    next(memory.pieces(path, Layout(), BOTH))
    assert memory.rows(path) == [("1", "2")]
    assert memory.reads == 2


def test_a_file_that_is_not_there_is_named(tmp_path, memory):
    with pytest.raises(BadData, match="there is no such file"):
        memory.rows(tmp_path / "none.csv")
