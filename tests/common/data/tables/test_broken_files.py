"""A broken file is refused with its line, with what is wrong there, and with what to do."""

from __future__ import annotations

import datetime

import numpy as np
import polars
import pytest

from common.core.errors import BadData
from common.data.tables import TableSource, load
from common.data.tables.examining import examine
from tests.tiers import for_each

HEADER = "age,renews"
ROWS = [f"{20 + i},{'yes' if i % 2 else 'no'}" for i in range(9)]
SOURCE = {
    "files": ["people.csv"],
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [{"kind": "number", "column": "age", "low": 0, "high": 90}],
    "norm": 1.0,
}


def refused(tmp_path, content: bytes) -> str:
    (tmp_path / "people.csv").write_bytes(content)
    with pytest.raises(BadData) as caught:
        load(tmp_path, TableSource.parse(SOURCE))
    return caught.value.detail


def lines(**changed: str) -> bytes:
    """Return the file with other lines in the place of some, by ``lineN``."""
    every = [HEADER, *ROWS]
    for name, text in changed.items():
        every[int(name.removeprefix("line")) - 1] = text
    return ("\n".join(every) + "\n").encode()


BROKEN = {
    "a quote without an end": (lines(line4='22,"no'), ["line 4", "goes on to line 10", "written twice"]),
    "text behind a quote": (lines(line4='"22"x,no'), ["line 4", "text behind one", "written twice"]),
    "a byte that is 0": (lines(line5="2\x003,yes"), ["line 5", "a byte that is 0", "save the file as CSV in UTF-8"]),
    "UTF-16 without a mark": (lines().decode().encode("utf-16-le"), ["line 1", "UTF-16", "save the file"]),
    "UTF-16": (lines().decode().encode("utf-16"), ["line 1", "UTF-16", "save the file"]),
    "Latin-1": (lines(line3="21,j\u00e4").decode().encode("latin-1"), ["line 3", "not UTF-8", "save the file"]),
    "a field too few": (lines(line6="24"), ["line 6", "1 fields", "needs quotes"]),
    "a field too many": (lines(line6="24,yes,no"), ["line 6", "3 fields", "needs quotes"]),
    "no number": (lines(line6="ancient,yes"), ["line 6", "column 'age'", "layout.missing"]),
    "another label": (lines(line6="24,maybe"), ["line 6", "column 'renews'", "leave such rows out with where"]),
    "an empty file": (b"", ["the file is empty", "name the columns"]),
    "another separator": (lines().replace(b",", b";"), ["line 1", "';'", "layout.separator"]),
    "carriage returns alone": (lines().replace(b"\n", b"\r"), ["line 1", "carriage return", "save it with line feeds"]),
    "a field without an end": (b'age,renews\n"' + b"x" * 17_000_000, ["line 2", "16,777,216 characters", "a quote"]),
    "Parquet": (b"PAR1\xff\xfe", ["a Parquet file by its first bytes", "ends in .parquet"]),
    "a spreadsheet": (b"PK\x03\x04\xff", ["a spreadsheet or an archive", "save the table as CSV"]),
    "tabs": (lines().replace(b",", b"\t"), ["line 1", "layout.separator"]),
}  # fmt: skip


@for_each("name", BROKEN)
def test_a_broken_file_says_what_where_and_what_to_do(tmp_path, name):
    content, expected = BROKEN[name]
    said = refused(tmp_path, content)
    for words in ("people.csv", *expected):
        assert words in said
    assert "\n" not in said
    for private in ("22", "ancient", "maybe"):
        assert private not in said


def test_the_sound_file_is_read(tmp_path):
    (tmp_path / "people.csv").write_bytes(lines())
    assert len(load(tmp_path, TableSource.parse(SOURCE))) == 9


def test_one_class_is_read_like_any_other_file(tmp_path):
    """Whether all labels are alike is private: a run that stopped there would tell it. ``referee check`` says it."""
    (tmp_path / "people.csv").write_bytes(lines().replace(b",no", b",yes"))
    assert (load(tmp_path, TableSource.parse(SOURCE)).labels == 1).all()


PEOPLE = polars.DataFrame({"age": [20.0, 30.0], "renews": ["yes", "no"]})
ODD = {
    "lists": [[1], [2]],
    "structs": [{"a": 1}, {"a": 2}],
    "durations": [datetime.timedelta(1), None],
    "bytes that are no UTF-8 text": [b"\xff", b"a"],
}


@for_each("what", ODD)
def test_what_has_no_text_is_refused_if_it_is_used_and_not_looked_at_if_it_is_not(tmp_path, what):
    source = TableSource.parse(SOURCE | {"files": ["people.PARQUET"]})
    PEOPLE.with_columns(spare=polars.Series(ODD[what])).write_parquet(tmp_path / "people.PARQUET")
    assert len(load(tmp_path, source)) == 2
    assert examine(tmp_path, source, people=2).sound
    PEOPLE.with_columns(age=polars.Series(ODD[what])).write_parquet(tmp_path / "people.PARQUET")
    with pytest.raises(BadData, match=f"people.PARQUET: column 'age' holds {what}: .*, or leave the column out"):
        load(tmp_path, source)
    (finding,) = examine(tmp_path, source, people=2).findings
    assert (finding.kind, finding.severity) == ("unreadable", "stops")
    assert f"column 'age' holds {what}" in finding.what


def test_odd_columns_of_archives_are_not_looked_at(tmp_path):
    arrays = {"age": np.array([20, 30]), "renews": np.array(["yes", "no"])}
    for odd in (np.array([object(), None]), np.ones((2, 2)), np.array([1j, 2j]), np.zeros(7)):
        np.savez(tmp_path / "people.npz", odd=odd, **arrays)
        assert len(load(tmp_path, TableSource.parse(SOURCE | {"files": ["people.npz"]}))) == 2


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "people.parquet").mkdir()
    PEOPLE.write_parquet(tmp_path / "people.parquet" / "a.parquet")
    source = TableSource.parse(SOURCE | {"files": ["people.parquet"]})
    with pytest.raises(BadData, match=r"people\.parquet: is a folder: name the files in it"):
        load(tmp_path, source)
    (finding,) = examine(tmp_path, source, people=2).findings
    assert "is a folder" in finding.what


def test_a_long_field_is_a_field(tmp_path):
    (tmp_path / "people.csv").write_text(f"age,notes,renews\n20,{'a' * 1_000_000},yes\n30,,no\n")
    assert len(load(tmp_path, TableSource.parse(SOURCE))) == 2
