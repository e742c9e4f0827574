"""The two demands, on rows made by hand."""

from __future__ import annotations

import pytest

from benchmarks.real.verdicts import verdict
from tests.benchmarks.real.rows import cells, row

CONSTANT, SOURCE, OPTIMUM = (
    row("constant", 0.3, 0.3),
    row("curator-alone", 0.2, 0.24),
    row("private-optimum", 0.1, 0.14),
)


@pytest.mark.parametrize(
    ("loss", "gap", "relation", "closed"),
    [(0.13, 0.0, "better", 0.9), (0.24, 0.03, "equal", -0.2), (0.24, 0.01, "worse", -0.2)],
)
def test_a_hybrid_is_beside_the_best_without_it(loss: float, gap: float, relation: str, closed: float) -> None:
    found = verdict(cells(CONSTANT, SOURCE, OPTIMUM, row("portfolio", loss - 0.02, loss + 0.02, gap=gap)), "portfolio")
    assert found is not None
    assert found.best == "curator-alone"
    assert found.relation == relation
    assert found.closed == pytest.approx(closed)


def test_differences_are_taken_split_by_split() -> None:
    """Losses vary much from split to split, their difference does not: its interval must not hold 0."""
    found = verdict(
        cells(row("curator-alone", 0.1, 0.3, 0.5), row("portfolio", 0.09, 0.29, 0.49, gap=0.0)), "portfolio"
    )
    assert found is not None
    assert found.low == pytest.approx(0.01)
    assert found.high == pytest.approx(0.01)


def test_a_gain_that_may_be_chance_is_no_better_answer() -> None:
    found = verdict(cells(row("curator-alone", 0.2, 0.2, 0.2), row("portfolio", 0.1, 0.21, 0.22, gap=0.0)), "portfolio")
    assert found is not None
    assert found.gained > 0.0
    assert found.relation == "equal"


def test_where_there_is_next_to_nothing_to_close_no_share_of_it_is_stated() -> None:
    near = row("private-optimum", 0.21, 0.2)
    found = verdict(cells(CONSTANT, SOURCE, near, row("portfolio", 0.2, 0.2, gap=0.1)), "portfolio")
    assert found is not None
    assert found.distance == pytest.approx(0.015)
    assert found.closed is None


def test_what_was_refused_is_no_verdict_and_no_best() -> None:
    refused = row("portfolio", refused="too few")
    assert verdict(cells(CONSTANT, refused), "portfolio") is None
    found = verdict(
        cells(row("curator-alone", refused="n"), CONSTANT, row("portfolio", 0.2, 0.2, gap=0.1)), "portfolio"
    )
    assert found is not None
    assert (found.best, found.distance, found.closed) == ("constant", None, None)
