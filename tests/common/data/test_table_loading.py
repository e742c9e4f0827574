"""Tables: what a row becomes, and what each flaw of a file is called. Private values appear in no message."""

from __future__ import annotations

import gzip
import lzma
import os
import time

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadData
from common.data import files
from common.data.examining import examine
from common.data.files import SETTLED, cached_pieces, pieces
from common.data.loading import load
from common.data.tables import Layout, TableSource
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
FEATURES = [[0, 1, 0], [0.5, 0, 1], [1, 0, 1]]


def source(**changes):
    return TableSource.parse(DESCRIPTION | changes)


def read(folder, content, file="people.csv", **changes):
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(folder, source(files=[file], **changes))


def flaw(folder, content=None, file="people.csv", **changes):
    """Return how a file is refused: in one line, which names it, and not what its fields hold."""
    with pytest.raises(BadData) as caught:
        load(folder, source(files=[file], **changes)) if content is None else read(folder, content, file, **changes)
    message = caught.value.detail
    assert file in message
    assert "\n" not in message
    assert not any(private in message for private in ("hunter2", "maybe"))
    return message


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 2))
def test_no_feature_vector_is_longer_than_the_norm(tmp_path_factory, ages, norm):
    rows = "".join(f"{age},clerk,>50K,a\n" for age in ages)
    features = read(tmp_path_factory.mktemp("norm"), HEADER + rows, norm=norm).features
    lengths = np.linalg.norm(features.astype(np.float64), axis=1)
    assert lengths.max() <= norm
    free = np.hypot(np.clip((np.array(ages) - 20) / 50, 0, 1), 1)
    np.testing.assert_allclose(lengths, np.minimum(free, norm), rtol=1e-6)


def test_files_may_be_written_in_many_ways_and_are_read_in_pieces(tmp_path, monkeypatch):
    for piece in (files.PIECE, 2):
        monkeypatch.setattr(files, "PIECE", piece)
        assert read(tmp_path, GOOD).features.tolist() == FEATURES
    text = "junk\n| a comment\n\n 20, clerk , >50K, a\n\n| more\n45, doctor, <=50K, b\n"
    layout = {"columns": ["age", "job", "income", "secret"], "skip_lines": 1, "comment": "|"}
    assert read(tmp_path, text, layout=layout).features.tolist() == FEATURES[:2]
    text = f'\ufeff"age";"job";"income";"notes"\r\n20;"clerk";">50K";{"a" * 1_000_000}\r\n'
    assert len(read(tmp_path, text, layout={"separator": ";"})) == 1
    half = "\n".join(GOOD.splitlines()[:2])
    rest = GOOD.removeprefix(half + "\n")  # behind another file, with the mark with which it began
    for encoding in ("utf-8", "utf-16"):
        marked = f"\ufeff{half}\n\ufeff{rest}".encode(encoding)
        assert read(tmp_path, marked, layout={"encoding": encoding}).features.tolist() == FEATURES
    for encoding in ("utf-16", "latin-1", "windows-1251", "gb18030"):
        written = GOOD.replace("clerk", " clerk ").encode(encoding)
        assert read(tmp_path, written, layout={"encoding": encoding}).features.tolist() == FEATURES
    assert "not utf-16 text: give another layout.encoding" in flaw(tmp_path, b"a", layout={"encoding": "utf-16"})
    read(tmp_path, HEADER + "30,clerk,<=50K,d\n", "more.csv")
    read(tmp_path, GOOD)
    both = source(files=["people.csv", "more.csv"])
    assert load(tmp_path, both).labels.tolist() == [1, -1, 1, -1]
    kept = source(where={"secret": ["a", "c"], "job": ["nurse"]})
    assert load(tmp_path, kept).features.tolist() == FEATURES[2:]


@for_each(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_file_may_be_compressed_and_its_damage_is_named(tmp_path, suffix, compress):
    whole = compress((GOOD + "20,clerk,>50K,a\n" * 500).encode())
    (tmp_path / f"people.csv{suffix}").write_bytes(whole)
    for named in ("people.csv", f"people.csv{suffix}"):
        assert load(tmp_path, source(files=[named])).features[:3].tolist() == FEATURES
    middle = len(whole) // 2
    for damaged in (whole[:middle], whole[:middle] + bytes(8) + whole[middle + 8 :], b"not compressed"):
        assert "the compressed file is cut off or corrupt" in flaw(tmp_path, damaged, f"people.csv{suffix}")


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(tmp_path_factory, noise):
    folder = tmp_path_factory.mktemp("noise")
    # Blank lines, of spaces or an empty quotation too, leave the three good rows; nothing else is a row here.
    if noise.decode("latin-1").strip(' \r\n"'):
        flaw(folder, GOOD.encode() + noise)
        return
    try:
        assert len(read(folder, GOOD.encode() + noise)) == 3
    except BadData:
        assert b'"' in noise


def lines(**changed: str) -> bytes:
    """Return a file of nine rows with other lines in the place of some, by ``lineN``."""
    every = [HEADER.strip(), *(f"{20 + i},clerk,{'>50K' if i % 2 else '<=50K'},hunter2" for i in range(9))]
    for name, text in changed.items():
        every[int(name.removeprefix("line")) - 1] = text
    return ("\n".join(every) + "\n").encode()


BROKEN = {
    "a quote without an end": (lines(line4='22,"hunter2'), ["line 4", "goes on to line 10", "written twice"]),
    "text behind a quote": (lines(line4='"22"x,hunter2'), ["line 4", "text behind one", "written twice"]),
    "a byte that is 0": (lines(line5="2\x003,clerk"), ["line 5", "a byte that is 0", "save the file as CSV in UTF-8"]),
    "UTF-16 without a mark": (lines().decode().encode("utf-16-le"), ["line 1", "UTF-16", "save the file"]),
    "UTF-16": (lines().decode().encode("utf-16"), ["line 1", "UTF-16", "save the file"]),
    "Latin-1": (lines(line3="21,j\u00e4").decode().encode("latin-1"), ["line 3", "not UTF-8", "save the file"]),
    "a field too few": (lines(line6="hunter2"), ["line 6", "1 fields", "needs quotes"]),
    "a field too many": (lines(line6="24,clerk,>50K,a,hunter2"), ["line 6", "5 fields", "needs quotes"]),
    "another label": (lines(line6="24,clerk,maybe,a"), ["line 6", "column 'income'", "leave such rows out with where"]),
    "no label": (b"# one\n" + HEADER.encode() + b"\n# four\n20,clerk,?,a\n", ["line 5, column 'income'"]),
    "an empty file": (b"", ["the file is empty", "name the columns"]),
    "blank lines": (b"\n\n", ["the file is empty"]),
    "no rows": (HEADER.encode(), ["no row is left"]),
    "another separator": (lines().replace(b",", b";"), ["line 1", 'layout.separator: ";"']),
    "tabs": (lines().replace(b",", b"\t"), ["line 1", r'layout.separator: "\t"']),
    "carriage returns alone": (lines().replace(b"\n", b"\r"), ["line 1", "carriage return", "save it with line feeds"]),
    "a field without an end": (lines(line2='"' + "x" * 17_000_000), ["line 2", "16,777,216 characters", "a quote"]),
    "a column twice": (HEADER.encode().replace(b"secret", b"job"), ["column 'job' is there 2 times"]),
    "Parquet": (b"PAR1\xff\xfe", ["a Parquet file by its first bytes", "ends in .parquet"]),
    "a spreadsheet": (b"PK\x03\x04\xff", ["a spreadsheet or an archive", "save the table as CSV"]),
}  # fmt: skip


@for_each("name", BROKEN)
def test_a_broken_file_says_what_where_and_what_to_do(tmp_path, name):
    content, expected = BROKEN[name]
    said = flaw(tmp_path, content, layout={"comment": "#"})
    assert [words for words in expected if words not in said] == []


def test_a_number_that_is_none_and_a_column_that_is_not_there_are_named(tmp_path):
    for number in ("nan", "NaN", "inf", "-inf", "1e999", "hunter2", "0x10"):
        assert flaw(tmp_path, GOOD + f"{number},clerk,>50K,a\n" * 2) == (
            "people.csv: line 5, column 'age': must be a finite number (and 1 more such rows); a text that stands for "
            "a missing one is listed in layout.missing, a decimal comma is layout.decimal"
        )
    # Whether all labels are alike is private: a run that stopped there would tell it. ``referee check`` says it.
    assert (read(tmp_path, lines().replace(b"<=50K", b">50K")).labels == 1).all()
    assert "no row is left" in flaw(tmp_path, GOOD, where={"job": ["astronaut"]})
    assert "has no column 'weight'" in flaw(tmp_path, GOOD, where={"weight": ["1"]})


PEOPLE = polars.DataFrame({"age": [20.0, 30.0], "job": ["clerk", None], "income": [">50K", "<=50K"]})


def test_what_has_no_text_is_refused_if_it_is_used_and_not_looked_at_if_it_is_not(tmp_path):
    people, odd = source(files=["people.PARQUET"]), polars.Series([[1], [2]])
    PEOPLE.with_columns(spare=odd).write_parquet(tmp_path / "people.PARQUET")
    assert len(load(tmp_path, people)) == 2
    assert examine(tmp_path, people, people=2).sound
    PEOPLE.with_columns(age=odd).write_parquet(tmp_path / "people.PARQUET")
    assert "column 'age' holds lists" in flaw(tmp_path, file="people.PARQUET")
    (finding,) = examine(tmp_path, people, people=2).findings
    assert (finding.kind, finding.severity) == ("unreadable", "stops")
    assert "column 'age' holds lists" in finding.what


def test_the_column_that_says_who_is_who_is_no_spare_one_and_is_found_as_a_run_finds_it(tmp_path):
    for header, kinds in (("Id", []), ("I D", ["no-column", "unused-column"])):
        (tmp_path / "people.csv").write_text(f"age,job,income, {header}\n20,clerk,>50K,1\n30,nurse,<=50K,2\n")
        assert [finding.kind for finding in examine(tmp_path, source(id="id")).findings] == kinds


def test_a_missing_value_that_has_a_feature_of_its_own_wants_no_other(tmp_path):
    (tmp_path / "people.csv").write_text("age,job,income\n20,clerk,>50K\n,clerk,<=50K\n")
    age = {"kind": "number", "column": "age", "low": 0, "high": 100}
    for features, remedy in (([age], "{kind: missing,"), ([age, {"kind": "missing", "column": "age"}], "nothing: ")):
        examined = examine(tmp_path, source(features=features)).findings
        assert [remedy in one.remedy for one in examined if one.kind == "missing"] == [True]


def test_a_number_on_which_volunteering_depends_is_checked_in_every_row(tmp_path):
    text = HEADER + "20,clerk,>50K,7\nold,clerk,>50K,8\n30,nurse,<=50K,9\nyoung,nurse,>50K,hunter2\n"
    for column, lines in (("age", [3, 5]), ("secret", [5])):
        unless = [{"column": column, "above": over, "factor": 0.5} for over in (8, 9)]
        people = {"where": {"job": ["nurse"]}, "selection": {"keep": "volunteers", "seed": 1, "unless": unless}}
        assert f"column '{column}': must be a finite number" in flaw(tmp_path, text, **people)
        (finding,) = (one for one in examine(tmp_path, source(**people)).findings if one.column == column)
        assert (finding.kind, finding.severity, sorted(finding.lines)) == ("no-number", "stops", lines)
        assert finding.count == len(lines)
        assert examine(tmp_path, source(**people), people=3).findings[-1].kind == "too-few"  # of whom none was asked
        text = text.replace("old", "40").replace("young", "30")


def test_a_folder_or_another_file_is_no_file(tmp_path):
    assert "there is no such file" in flaw(tmp_path)
    (tmp_path / "people.csv").mkdir()
    assert "cannot be read" in flaw(tmp_path)
    assert "not a readable Parquet file" in flaw(tmp_path, lines(), "text.parquet")
    (tmp_path / "people.parquet").mkdir()
    PEOPLE.write_parquet(tmp_path / "people.parquet" / "a.parquet")
    assert "is a folder: name the files in it" in flaw(tmp_path, file="people.parquet")
    (finding,) = examine(tmp_path, source(files=["people.parquet"]), people=2).findings
    assert "is a folder" in finding.what


# Files of NumPy -------------------------------------------------------------------------------------------------------

COLUMNS = {
    "age": np.array([20.0, 45.0, np.nan, 90.0]),
    "job": np.array(["clerk", "lawyer", "", "nurse"]),
    "income": np.array([51, 50, 10, 99]),
}
ABOVE = {"column": "income", "above": 50}
OF_ARRAYS = [[0, 1, 0], [0.5, 0, 0], [0.5, 0, 0], [1, 0, 1]]


def archived(folder, **changed):
    np.savez(folder / "people.npz", **COLUMNS | changed)
    return folder, None, "people.npz"


def test_arrays_are_columns_and_those_that_nobody_names_are_not_looked_at(tmp_path):
    for odd in (np.array([object(), None]), np.ones((2, 2)), np.array([1j, 2j]), np.zeros(7)):
        archived(tmp_path, odd=odd)
        assert load(tmp_path, source(files=["people.npz"], label=ABOVE)).features.tolist() == OF_ARRAYS
    np.savez_compressed(tmp_path / "people.npz", **COLUMNS)
    assert load(tmp_path, source(files=["people.npz"], label=ABOVE)).features.tolist() == OF_ARRAYS
    people = np.empty(4, dtype=[("age", ">f4"), ("job", "S8"), ("income", "<i2")])
    for name, column in COLUMNS.items():
        people[name] = column
    np.save(tmp_path / "people.npy", people)
    assert load(tmp_path, source(files=["people.npy"], label=ABOVE)).features.tolist() == OF_ARRAYS


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_gets_its_names_from_the_layout(tmp_path, order):
    np.save(tmp_path / "people.npy", np.array([[20, 1, 60], [45, 0, 40]], dtype=np.float16, order=order))
    features = [DESCRIPTION["features"][0], {"kind": "number", "column": "retired", "low": 0, "high": 1}]
    named = {"files": ["people.npy"], "layout": {"columns": ["age", "retired", "income"]}}
    found = load(tmp_path, source(**named, features=features, label=ABOVE))
    assert (found.features.tolist(), found.labels.tolist()) == ([[0, 1], [0.5, 0]], [1, -1])
    assert "matrix of 3 columns" in flaw(tmp_path, file="people.npy", label=ABOVE)


@for_each(
    ("changed", "says"),
    [
        ({"age": np.arange(3.0)}, "same length"),
        ({"age": np.ones((4, 2))}, "same length"),
        ({"age": np.ones(4, dtype=complex)}, "neither numbers"),
        ({"age": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")}, "neither numbers"),
        ({"age": np.array([1, np.inf, 2, 3])}, "line 2, column 'age': must be a finite number"),
        ({"job": np.array([b"\xff"] * 4)}, "not UTF-8"),
        ({"job": np.array([object()] * 4)}, "not a readable NumPy file"),  # pickled objects are never loaded
        ({"income": np.array([1.0, np.nan, 2, 3])}, "line 2, column 'income': the label is missing"),
    ],
)
def test_columns_that_are_none_are_refused(tmp_path, changed, says):
    assert says in flaw(*archived(tmp_path, **changed), label=ABOVE)


def test_damaged_files_are_refused(tmp_path):
    for file in ("people.npy", "people.npz"):
        for content in (b"", b"not an array", b"\x93NUMPY\x01\x00", b"PK\x03\x04 cut off"):
            assert "not a readable NumPy file" in flaw(tmp_path, content, file)
    np.save(tmp_path / "people.npy", np.array([{"age": 1}]), allow_pickle=True)
    assert "not a readable NumPy file" in flaw(tmp_path, file="people.npy")


# What is kept of a file -----------------------------------------------------------------------------------------------

BOTH = frozenset({"a", "b"})


@pytest.fixture
def reads(monkeypatch):
    """Return the list of the files that are read from here on, and let time stand."""
    seen, real, now = [], files.pieces, time.time()
    monkeypatch.setattr(files, "pieces", lambda path, *given: (seen.append(path.name), real(path, *given))[1])
    monkeypatch.setattr(time, "time", lambda: now)
    files._cached_pieces.cache_clear()
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
    assert rows(path, frozenset({"b"})) == [("2",), ("4",)]
    assert len(reads) == 2
    before = path.stat()
    time.sleep(0.02)  # a tick of the file system's clock: only the time of the change tells that something happened
    path.write_text("a,b\n5,6\n7,8\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rows(path) == [("5", "6"), ("7", "8")]


def test_neither_what_was_changed_just_now_nor_what_does_not_fit_nor_what_has_a_flaw_is_kept(
    tmp_path, monkeypatch, reads
):
    path = tmp_path / "people.csv"
    for value in range(20):
        path.write_text(f"a,b\n{value % 10},2\n")
        assert rows(path) == [(str(value % 10), "2")]
    os.utime(path, (1e10, 1e10))  # a time of writing that is yet to come hides no change
    assert (rows(path), len(reads)) == ([("9", "2")], 21)
    path.write_text("a,b\n" + "1,2\n" * 100)
    later(monkeypatch)
    size = sum(piece.frame.estimated_size() + piece.lines.nbytes for piece in pieces(path, Layout(), BOTH))
    monkeypatch.setattr(files, "MOST", size - 1)
    assert rows(path) == rows(path) == [("1", "2")] * 100
    assert len(reads) == 24  # it is not tried a second time
    path.write_text("a,b\n1,2\n3\n")
    later(monkeypatch)
    for read in (25, 26):
        with pytest.raises(BadData, match=r"people\.csv: line 3 has 1 fields"):
            rows(path)
        assert len(reads) == read
