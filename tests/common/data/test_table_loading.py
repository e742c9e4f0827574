"""Tables: what a row becomes, and what each flaw of a file is called. Private values appear in no message."""

from __future__ import annotations

import datetime
import gzip
import lzma
import os
import runpy
import time
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from common.core.errors import BadData, BadMessage
from common.data import files
from common.data import files as reading
from common.data.examining import examine
from common.data.files import SETTLED, cached_pieces, pieces
from common.data.loading import load
from common.data.loading import load as load_table
from common.data.tables import Layout, TableSource
from common.scenario.fitting import advice_of
from common.scenario.loading import load as load_scenario
from tests.tiers import for_each

DESCRIPTION = {
    "files": ["people.csv"],
    "label": {"column": "income", "positive": [">50K", ">50K."], "negative": ["<=50K"]},
    "features": [
        {"kind": "number", "column": "age", "low": 20, "high": 70},
        {"kind": "category", "column": "job", "values": ["clerk", ["nurse", "doctor"]]},
    ],
}
HEADER = "age,job,income,secret\n"
GOOD = HEADER + "20,clerk,>50K,a\n45,doctor,<=50K,b\n70,nurse,>50K.,c\n"


def source(**changes):
    return TableSource.parse(DESCRIPTION | changes)


def read(folder, text, **changes):
    (folder / "people.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(folder, source(**changes))


def flaw(folder, text, **changes):
    with pytest.raises(BadData) as caught:
        read(folder, text, **changes)
    message = caught.value.detail
    assert "\n" not in message
    return message


class TestEncoding:
    def test_numbers_are_scaled_by_public_bounds_and_values_become_bits(self, tmp_path):
        records = read(tmp_path, GOOD)
        assert records.features.dtype == np.float32
        np.testing.assert_array_equal(records.features, [[0, 1, 0], [0.5, 0, 1], [1, 0, 1]])
        np.testing.assert_array_equal(records.labels, [1, -1, 1])

    @given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 2))
    def test_no_feature_vector_is_longer_than_the_norm(self, tmp_path_factory, ages, norm):
        rows = "".join(f"{age},clerk,>50K,a\n" for age in ages)
        features = read(tmp_path_factory.mktemp("norm"), HEADER + rows, norm=norm).features
        lengths = np.linalg.norm(features.astype(np.float64), axis=1)
        assert lengths.max() <= norm
        free = np.hypot(np.clip((np.array(ages) - 20) / 50, 0, 1), 1)
        np.testing.assert_allclose(lengths, np.minimum(free, norm), rtol=1e-6)

    def test_where_keeps_the_rows_with_the_listed_values(self, tmp_path):
        records = read(tmp_path, GOOD, where={"secret": ["a", "c"], "job": ["nurse"]})
        np.testing.assert_array_equal(records.features, [[1, 0, 1]])


class TestLayout:
    def test_spaces_comments_blank_lines_and_names_from_the_scenario(self, tmp_path):
        text = "junk\n| a comment\n\n 20, clerk , >50K, a\n\n| more\n45, doctor, <=50K, b\n"
        layout = {"columns": ["age", "job", "income", "secret"], "skip_lines": 1, "comment": "|"}
        np.testing.assert_array_equal(read(tmp_path, text, layout=layout).features, [[0, 1, 0], [0.5, 0, 1]])

    def test_another_separator_quotes_and_a_byte_order_mark(self, tmp_path):
        text = f'\ufeff"age";"job";"income";"notes"\r\n20;"clerk";">50K";{"a" * 1_000_000}\r\n'
        assert len(read(tmp_path, text, layout={"separator": ";"})) == 1

    def test_several_files_follow_each_other(self, tmp_path):
        (tmp_path / "more.csv").write_text(HEADER + "30,clerk,<=50K,d\n")
        assert read(tmp_path, GOOD, files=["people.csv", "more.csv"]).labels.tolist() == [1, -1, 1, -1]

    def test_the_size_of_the_pieces_does_not_show(self, tmp_path, monkeypatch):
        whole = read(tmp_path, GOOD)
        monkeypatch.setattr(reading, "PIECE", 2)
        np.testing.assert_array_equal(read(tmp_path, GOOD).features, whole.features)


class TestFlaws:
    def test_nothing_that_is_left_or_there(self, tmp_path):
        for text in ("", "\n\n", HEADER):
            assert "no" in flaw(tmp_path, text)
        assert "no row is left" in flaw(tmp_path, GOOD, where={"job": ["astronaut"]})
        assert "has no column 'weight'" in flaw(tmp_path, GOOD, where={"weight": ["1"]})
        # Line numbers are those of the file.
        message = flaw(tmp_path, "# one\n" + HEADER + "\n# four\n20,clerk,?,a\n", layout={"comment": "#"})
        assert "line 5," in message

    @for_each(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
    @for_each("damage", ["cut", "overwrite", "replace"])
    def test_cut_off_or_corrupt_compressed_files(self, tmp_path, suffix, compress, damage):
        whole = compress((HEADER + "20,clerk,>50K,a\n" * 500).encode())
        middle = len(whole) // 2
        damaged = {
            "cut": whole[:middle],
            "overwrite": whole[:middle] + bytes(8) + whole[middle + 8 :],
            "replace": b"not compressed",
        }
        (tmp_path / f"people.csv{suffix}").write_bytes(damaged[damage])
        with pytest.raises(BadData, match="the compressed file is cut off or corrupt"):
            load(tmp_path, source(files=[f"people.csv{suffix}"]))

    @for_each("number", ["nan", "NaN", "inf", "-inf", "1e999", "old", "0x10"])
    def test_numbers_that_are_no_finite_numbers(self, tmp_path, number):
        message = flaw(tmp_path, GOOD + f"{number},clerk,>50K,a\n" * 2)
        assert message == "people.csv: line 5, column 'age': must be a finite number (and 1 more such rows); " + (
            "a text that stands for a missing one is listed in layout.missing"
        )

    @given(st.binary(max_size=400))
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory, noise):
        folder = tmp_path_factory.mktemp("noise")
        # Blank lines, of spaces or an empty quotation too, leave the three good rows; nothing else is a row here.
        if noise.decode("latin-1").strip(' \r\n"'):
            flaw(folder, GOOD.encode() + noise)
            return
        try:
            assert len(read(folder, GOOD.encode() + noise)) == 3
        except BadData:
            assert b'"' in noise

    @for_each("row", ["hunter2,clerk,>50K,hunter2", "20,clerk,hunter2,hunter2", "hunter2", '20,"hunter2'])
    def test_no_message_shows_what_a_field_holds(self, tmp_path, row):
        assert "hunter2" not in flaw(tmp_path, GOOD + row + "\n")


class TestDescription:
    @for_each(
        ("wrong", "says"),
        [
            ({"files": []}, "files"),
            ({"features": []}, "features"),
            ({"norm": 0}, "norm"),
            ({"layout": {"columns": ["a", "a"]}}, "differ"),
            ({"features": [{"kind": "number", "column": "age", "low": 1, "high": 1}]}, "below high"),
            ({"features": [{"kind": "category", "column": "job", "values": ["a", ["b", "a"]]}]}, "listed twice"),
            ({"label": {"column": "x", "positive": ["a"], "negative": ["a"]}}, "both positive and negative"),
            ({"surprise": 1}, "surprise"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong, says):
        with pytest.raises(BadMessage, match=says):
            source(**wrong)


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_file_that_is_named_plain_is_found_compressed(tmp_path, suffix, compress):
    plain = read(tmp_path, GOOD).features
    (tmp_path / "people.csv").unlink()
    (tmp_path / f"people.csv{suffix}").write_bytes(compress(GOOD.encode()))
    for named in ("people.csv", f"people.csv{suffix}"):
        np.testing.assert_array_equal(load(tmp_path, source(files=[named])).features, plain)


FILES_HEADER = "age,renews"
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
    every = [FILES_HEADER, *ROWS]
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


def test_a_folder_or_another_file_is_no_file(tmp_path):
    with pytest.raises(BadData, match=r"people\.csv: there is no such file"):
        load(tmp_path, TableSource.parse(SOURCE))
    (tmp_path / "people.csv").mkdir()
    with pytest.raises(BadData, match="cannot be read"):
        load(tmp_path, TableSource.parse(SOURCE))
    (tmp_path / "text.parquet").write_bytes(lines())
    with pytest.raises(BadData, match="not a readable Parquet file"):
        load(tmp_path, TableSource.parse(SOURCE | {"files": ["text.parquet"]}))
    (tmp_path / "people.parquet").mkdir()
    PEOPLE.write_parquet(tmp_path / "people.parquet" / "a.parquet")
    source = TableSource.parse(SOURCE | {"files": ["people.parquet"]})
    with pytest.raises(BadData, match=r"people\.parquet: is a folder: name the files in it"):
        load(tmp_path, source)
    (finding,) = examine(tmp_path, source, people=2).findings
    assert "is a folder" in finding.what


BOTH = frozenset({"a", "b"})


@pytest.fixture
def reads(monkeypatch):
    """Return the list of the files that are read from here on, and let time stand."""
    seen, real, now = [], files.pieces, time.time()
    monkeypatch.setattr(files, "pieces", lambda path, *given: (seen.append(path.name), real(path, *given))[1])
    monkeypatch.setattr(time, "time", lambda: now)
    files._kept.cache_clear()
    return seen


def rows(path, columns=BOTH):
    return [row for piece in cached_pieces(path, Layout(), columns) for row in piece.frame.rows()]


def later(monkeypatch):
    now = time.time() + 2.0 * SETTLED
    monkeypatch.setattr(time, "time", lambda: now)


def test_a_file_is_read_once_for_the_same_columns_and_again_if_it_was_changed(tmp_path, monkeypatch, reads):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    later(monkeypatch)
    assert rows(path) == rows(path) == [("1", "2"), ("3", "4")]
    assert len(reads) == 1
    assert rows(path, frozenset({"b"})) == [("2",), ("4",)]
    assert len(reads) == 2
    before = path.stat()
    time.sleep(0.02)  # a tick of the file system's clock: only the time of the change tells that something happened
    path.write_text("a,b\n5,6\n7,8\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rows(path) == [("5", "6"), ("7", "8")]


def test_what_was_changed_just_now_is_read_each_time(tmp_path, reads):
    path = tmp_path / "people.csv"
    for value in range(20):
        path.write_text(f"a,b\n{value % 10},2\n")
        assert rows(path) == [(str(value % 10), "2")]
    os.utime(path, (1e10, 1e10))  # a time of writing that is yet to come hides no change
    assert rows(path) == [("9", "2")]
    assert len(reads) == 21


def test_neither_what_does_not_fit_nor_what_has_a_flaw_is_kept(tmp_path, monkeypatch, reads):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n" + "1,2\n" * 100)
    later(monkeypatch)
    size = sum(piece.frame.estimated_size() + piece.lines.nbytes for piece in pieces(path, Layout(), BOTH))
    monkeypatch.setattr(files, "MOST", size - 1)
    assert rows(path) == rows(path) == [("1", "2")] * 100
    assert len(reads) == 3  # it is not tried a second time
    path.write_text("a,b\n1,2\n3\n")
    later(monkeypatch)
    for _ in range(2):
        with pytest.raises(BadData, match=r"people\.csv: line 3 has 1 fields"):
            rows(path)
    assert len(reads) == 5


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "own_data"


@pytest.mark.slow
def test_the_invented_people_fit_the_scenario(tmp_path):
    runpy.run_path(str(EXAMPLE / "make_people.py"))["main"](tmp_path)
    scenario = load_scenario(str(EXAMPLE / "scenario.yaml"))
    testers, customers = (load_table(tmp_path, side.table) for side in (scenario.source, scenario.target))
    assert (len(testers), len(customers)) == (scenario.curator.n, scenario.agents.count)
    found = advice_of(scenario)
    assert found is not None
    assert (found.protocol, found.rounds, found.warnings) == (scenario.protocol, 1, ())
    assert np.mean(testers.labels == 1) > 1.5 * np.mean(customers.labels == 1)
    model = LogisticRegression(max_iter=1000).fit(customers.features, customers.labels)
    assert model.score(customers.features, customers.labels) > 1 - 2.5 * scenario.alpha
