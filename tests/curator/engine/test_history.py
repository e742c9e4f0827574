"""Which history an operation's randomness belongs to."""

from __future__ import annotations

from itertools import pairwise

import pytest

from curator.engine.engine import History, extended
from tests.tiers import for_each


def reweigh(number: int) -> dict[str, object]:
    return {"kind": "reweigh", "h": number}


LEARN = {"kind": "learn"}


def test_it_counts_by_kind_and_keeps_each_lineage():
    history = History()
    entered = [history.enter(str(n), operation) for n, operation in enumerate([LEARN, reweigh(0), LEARN])]
    assert (history.count("learn"), history.count("reweigh"), history.count("other")) == (2, 1, 0)
    assert [history.lineage(str(n)) for n in range(3)] == entered
    expected = [""]
    for n, operation in enumerate([LEARN, reweigh(0), LEARN]):
        expected.append(extended(expected[-1], str(n), operation))
    assert entered == expected[1:]
    assert all(a != b for a, b in pairwise(entered))


def test_the_same_operation_after_another_history_has_another_lineage():
    lineages = set()
    for past in ([], [reweigh(1)], [reweigh(2)]):
        history = History()
        for number, operation in enumerate(past):
            history.enter(str(number), operation)
        lineages.add(history.enter("9", LEARN))
    assert len(lineages) == 3


def test_the_last_operation_may_be_entered_again_and_counts_once():
    history = History()
    history.enter("0", LEARN)
    first = history.enter("1", reweigh(0))
    assert history.enter("1", reweigh(0)) == first
    assert history.count("reweigh") == 1
    assert history.enter("2", LEARN) == extended(first, "2", LEARN)


@for_each(("number", "operation"), [("1", reweigh(1)), ("0", LEARN), ("0", reweigh(0))])
def test_no_number_gets_the_randomness_of_another_operation(number, operation):
    history = History()
    history.enter("0", LEARN)
    history.enter("1", reweigh(0))
    with pytest.raises(ValueError, match="entered already"):
        history.enter(number, operation)
    assert (history.count("learn"), history.count("reweigh")) == (1, 1)
