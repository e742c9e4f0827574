"""docs/real.md is what the stored rows say."""

from benchmarks.figures.store import JsonLines
from benchmarks.real.__main__ import RESULTS, latest
from benchmarks.real.page import text
from tests.documents.reading import ROOT

PAGE = ROOT / "docs" / "real.md"


def test_the_page_of_real_shifts_is_that_of_the_stored_rows() -> None:
    rows = latest(JsonLines(RESULTS).values())
    assert rows
    assert PAGE.read_text() == text(rows, "pictures/real"), (
        "write it again: python -m benchmarks.real --page docs/real.md --pictures docs/pictures/real"
    )


def test_every_shift_that_was_measured_has_its_picture() -> None:
    measured = {row["shift"] for row in JsonLines(RESULTS).values()}
    assert {path.stem for path in (PAGE.parent / "pictures" / "real").glob("*.svg")} == measured
