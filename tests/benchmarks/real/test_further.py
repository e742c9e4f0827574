"""Further shifts, on an invented table in the place of a public one."""

from pathlib import Path

import numpy as np
import polars
import pytest

from benchmarks.real import further

WELLS = next(shift for shift in further.SHIFTS if shift.name == "wells")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table like that of wells: who is far away is of S, and who is near switches where arsenic is high."""
    folder = tmp_path_factory.mktemp("tables") / "carData"
    folder.mkdir()
    generator = np.random.default_rng(1)
    n = 6000
    arsenic, distance = generator.uniform(0.5, 4.0, n).round(2), generator.uniform(0.0, 100.0, n).round(1)
    switch = np.where(arsenic + generator.normal(0.0, 0.3, n) > np.where(distance > 50, 2.0, 2.3), "yes", "no")
    rows = polars.DataFrame(
        {
            "rownames": np.arange(n),
            "switch": switch,
            "arsenic": arsenic,
            "distance": distance,
            "education": generator.integers(0, 18, n),
            "association": np.where(generator.random(n) > 0.5, "yes", "no"),
        }
    ).with_columns(switch=polars.when(polars.arange(0, n) < 10).then(None).otherwise(polars.col("switch")))
    rows.write_csv(folder / "Wells.csv", null_value="NA")
    return folder.parent


def test_sides_are_who_is_meant_and_what_says_the_label_or_the_side_is_no_feature(tables: Path) -> None:
    both = further.load(WELLS, tables)
    assert len(both.source) + len(both.target) == 6000 - 10, "rows without a label are of neither side"
    assert 2800 < len(both.source) < 3200
    names = [feature["column"] for feature in both.table["features"]]
    assert names == ["arsenic", "education", "association"]
    (arsenic, *_) = both.table["features"]
    assert (arsenic["low"], arsenic["high"]) == (0.0, 4.0)


def test_the_page_says_what_was_measured(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "further.md"
    further.main(["--data", str(tables), "--shift", "wells", "--splits", "2", "--output", str(page)])
    text = page.read_text()
    assert text.strip() == capsys.readouterr().out.strip()
    (row,) = [line for line in text.splitlines() if line.startswith("| wells |")]
    constant, source, answer, target, auc = (float(cell) for cell in row.split("|")[3:8])
    assert target < source < constant
    assert answer < constant - 20.0, "the score is easy to learn"
    assert auc > 90.0
    assert "All, 1 shifts" in text
    assert "in 0 of them, by 0.0 points at most" in text


def test_odds_lie_apart_as_the_table_was_made(tables: Path) -> None:
    """T switches at 2.3 in the place of 2.0: odds are lower at the same score, and as steep."""
    shift, slope = further.odds_apart(further.load(WELLS, tables))
    assert -3.0 < shift < -0.8
    assert abs(slope) < 0.4


def test_the_scale_of_a_sample_is_found() -> None:
    generator = np.random.default_rng(0)
    assert further.scale_of((0.5 * generator.standard_t(3.0, 4000)).tolist()) == pytest.approx(0.5, abs=0.03)
