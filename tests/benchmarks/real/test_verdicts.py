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


@pytest.mark.parametrize(("loss", "relation", "closed"), [(0.13, "better", 0.9), (0.31, "worse", -0.9)])
@pytest.mark.parametrize("gap", [0.0, 0.03, 0.5])
def test_one_rule_calls_better_and_worse_whatever_gap_is_stated(
    loss: float, gap: float, relation: str, closed: float
) -> None:
    """A loss that is .09 worse on every split is worse, although a run of few agents states a gap of .5."""
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


def test_a_gain_and_a_loss_that_may_be_chance_are_neither_better_nor_worse() -> None:
    for losses, sign in (((0.1, 0.21, 0.22), 1.0), ((0.3, 0.19, 0.18), -1.0), ((0.1,), 1.0), ((0.3,), -1.0)):
        alone = row("curator-alone", *[0.2] * len(losses))
        found = verdict(cells(alone, row("portfolio", *losses, gap=0.0)), "portfolio")
        assert found is not None
        assert found.gained * sign > 0.0
        assert found.relation == "open", losses


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
