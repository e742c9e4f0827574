"""Cells of scores, groups and labels: every record has one item, and a tilt is a public function of it."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.cells import TILT_PARTS, ScoreCells, Tilt
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.relabelled import Relabelled
from common.local.hypotheses.rules import Stump
from common.local.records import Records
from tests.tiers import for_each

FIRST = Linear(weights=(1.0,), threshold=0.0)
ROWS = np.array([[-2.0, 0, 0], [-1.0, 1, 0], [0.5, 0, 1], [3.0, 1, 1]], dtype=np.float32)
PEOPLE = Records(ROWS, np.array([1, -1, 1, -1], dtype=np.int8))


def test_bins_are_half_open_and_items_hold_the_label():
    cells = ScoreCells(hypothesis=FIRST, cuts=(-1.0, 0.5))
    assert (cells.bins, cells.count, cells.items, cells.min_features) == (3, 3, 6, 1)
    assert cells.of(PEOPLE).tolist() == [0, 0, 1, 2]  # a score at a cut is below it
    assert cells.items_of(PEOPLE).tolist() == [1, 0, 3, 4]


def test_a_group_is_the_first_feature_that_is_held_and_the_last_is_of_those_without():
    cells = ScoreCells(hypothesis=FIRST, cuts=(0.0,), groups=(1, 2))
    assert (cells.count, cells.min_features) == (6, 3)
    assert cells.of(PEOPLE).tolist() == [4, 0, 3, 1]


def test_a_score_that_is_no_number_is_in_the_lowest_bin():
    huge = Linear(weights=(1e30, -1e30), threshold=0.0)
    wild = Records(np.full((1, 2), 3e38, dtype=np.float32), np.array([1], dtype=np.int8))
    assert ScoreCells(hypothesis=huge, cuts=(0.0,)).of(wild).tolist() == [0]


def test_labels_are_those_that_the_hypothesis_is_held_against():
    # Relabelled nests another hypothesis, so it is no part of cells: whatever they are made of is looked at once.
    with pytest.raises(BadMessage, match="cannot be part of another"):
        ScoreCells.parse({"hypothesis": Relabelled(column=2, hypothesis=FIRST).wire(), "cuts": [0.0]})


@for_each(
    ("wrong", "words"),
    [
        ({"cuts": []}, "at least 1"),
        ({"cuts": [0.0, 0.0]}, "ascend"),
        ({"cuts": [1.0, 0.0]}, "ascend"),
        ({"groups": [1, 1]}, "two groups"),
        ({"cuts": [float(cut) for cut in range(255)], "groups": list(range(20))}, "more than 4096"),
        ({"groups": [-1]}, "greater than or equal to 0"),
    ],
)
def test_cells_that_make_no_sense_are_refused(wrong, words):
    with pytest.raises(BadMessage, match=words):
        ScoreCells.parse({"hypothesis": FIRST.wire(), "cuts": [0.0], **wrong})


def test_a_tilt_looks_its_item_up():
    cells = ScoreCells(hypothesis=Stump(feature=0, threshold=0.0, sign=1), cuts=(0.0,))
    tilt = Tilt(cells=cells, parts=(0, 100, 1024, 7))
    assert tilt.grain == TILT_PARTS
    assert tilt.count(PEOPLE).tolist() == [100, 0, 7, 1024]
    assert tilt.count(PEOPLE).dtype == np.uint16


@for_each("parts", [(0, 1, 2), (0, 1, 2, 1025), (0, 1, 2, -1), (0, 1, 2, 3, 4)])
def test_a_tilt_has_one_number_in_range_for_each_item(parts):
    with pytest.raises(BadMessage):
        Tilt.parse({"cells": {"hypothesis": FIRST.wire(), "cuts": [0.0]}, "parts": list(parts)})
