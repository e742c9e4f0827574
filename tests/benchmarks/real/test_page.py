"""The page is computed from the rows: what it states moves with them."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.real.page import largest, text, write
from tests.benchmarks.real.rows import row

ROWS = [
    row("constant", 0.3, 0.3),
    row("curator-alone", 0.2, 0.24),
    row("agents-alone", refused="too few agents"),
    row("private-optimum", 0.1, 0.14, n=3_000),
    row("portfolio", 0.15, 0.15, gap=0.07, chosen={"model": 2}),
    row("portfolio-raking", 0.25, 0.25, gap=0.01, chosen={"model": 1, "constant -1": 1}),
]


def test_tables_verdicts_and_winners_are_those_of_the_rows() -> None:
    page = text(ROWS, "pictures")
    assert "| `wine-red` | `curator-alone` | 22.0 | 15.0 | +7.0 (-18.4 to +32.4) | 7.0 | not told apart |" in page
    assert "| +10.0 | 70% |" in page
    assert "Of 1 shifts it is better in 0, worse in 0, and these splits do not tell in 1." in page
    assert "by no more than the mean stated gap in 1 of 1." in page
    assert "It is longer in 1, and in 1 of these so much is closed." in page
    worse = [{**one, "losses": [0.27, 0.31]} if one["method"] == "portfolio" else one for one in ROWS]
    assert "Of 1 shifts it is better in 0, worse in 1, and these splits do not tell in 0." in text(worse, "pictures")
    assert "over all shifts and splits: model 2 times." in page
    assert "* `agents-alone` is refused: too few agents" in page
    assert re.search(r"\| refused \|", page)
    assert "| 12.0* (" in page  # drawn with replacement: n is above N


def test_other_rows_give_another_page() -> None:
    moved = [{**one, "mean": 0.19} if one["method"] == "portfolio" else one for one in ROWS]
    assert "| 19.0 | +3.0" in text(moved, "pictures")


def test_a_gap_that_is_wider_than_the_loss_is_said_to_guarantee_nothing() -> None:
    wide = [{**one, "gap": 0.5} if one["method"] == "portfolio" else one for one in ROWS]
    assert "In 1 the stated gap is wider" in text(wide, "pictures")
    assert "In 0 the stated gap is wider" in text(ROWS, "pictures")


def test_the_main_tables_are_about_all_agents_and_fewer_have_a_table_of_their_own() -> None:
    fewer = row("portfolio", 0.29, 0.29, gap=0.4, agents=100)
    assert {one["agents"] for one in largest([*ROWS, fewer])} == {2_000}
    page = text([*ROWS, fewer], "pictures")
    assert "| `wine-red` | 100 | 29.0 (29.0 to 29.0) |  | 40.0 |" in page
    assert "Fewer agents" not in text(ROWS, "pictures")


def test_pictures_are_written_beside_the_page_and_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    write(ROWS, tmp_path / "docs" / "real.md", tmp_path / "docs" / "pictures" / "real")
    picture = tmp_path / "docs" / "pictures" / "real" / "wine-red.svg"
    first = picture.read_bytes()
    assert b"curator-alone" in first
    assert b"agents-alone" not in first  # refused: there is no line
    assert "(pictures/real/wine-red.svg)" in (tmp_path / "docs" / "real.md").read_text()
    write(ROWS, tmp_path / "docs" / "real.md", tmp_path / "docs" / "pictures" / "real")
    assert picture.read_bytes() == first
