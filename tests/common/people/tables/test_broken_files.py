"""A broken file is refused with its line, with what is wrong there, and with what to do."""

import pytest

from common.core.errors import BadData
from common.people.tables import TableSource, load

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
    "tabs": (lines().replace(b",", b"\t"), ["line 1", "layout.separator"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
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
