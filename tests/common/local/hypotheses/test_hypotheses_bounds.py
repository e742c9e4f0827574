"""Hypotheses come from strangers: size, order and shape are bounded before anything is computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.trees import MAX_DEPTH
from tests.tiers import for_each


def trees(roots, feature, left, right, threshold=None):
    threshold = [0.0] * len(feature) if threshold is None else threshold
    return {"kind": "trees", "roots": roots, "feature": feature, "threshold": threshold, "left": left, "right": right}


@for_each(
    ("wire", "says"),
    [
        (trees([0], [0, -1, -1], [0, -1, -1], [2, -1, -1]), "not a later node"),
        (trees([0], [0, -1, -1], [1, -1, -1], [3, -1, -1]), "not a later node"),
        (trees([0], [0, -1, -1], [1, -1, -1], [1, -1, -1]), "two parents"),
        (trees([0], [-1, -1], [-1, -1], [-1, -1]), "no parent"),
        (trees([0], [-1, -1, -1], [1, -1, -1], [2, -1, -1]), "has children"),
        (trees([0, 1], [0, -1, -1], [1, -1, -1], [2, -1, -1]), "same tree"),
        (trees([1], [-1, -1], [-1, -1], [-1, -1]), "increasing from 0"),
        (trees([0, 0], [-1, -1], [-1, -1], [-1, -1]), "increasing from 0"),
        (trees([0, 2], [-1, -1], [-1, -1], [-1, -1]), "is not one of 2 nodes"),
        (trees([0], [-1], [-1], [-1], [0.0, 0.0]), "one entry a node"),
        (trees([0], [-1], [-1], [-1], [1e31]), "threshold"),
        ({"kind": "conjunction", "features": [3, 1]}, "strictly increasing"),
        ({"kind": "conjunction", "features": [1, 1]}, "strictly increasing"),
        ({"kind": "conjunction", "features": list(range(65))}, "at most 64"),
        ({"kind": "parity", "features": [3, 1]}, "strictly increasing"),
        ({"kind": "parity", "features": [65536]}, "less than 65536"),
        ({"kind": "parity", "features": list(range(4097))}, "at most 4096"),
        ({"kind": "stump", "feature": 65536, "threshold": 0.0, "sign": 1}, "less than 65536"),
        ({"kind": "stump", "feature": 0, "threshold": 0.0, "sign": 0}, "sign"),
        ({"kind": "linear", "weights": [0.0] * 65537, "threshold": 0.0}, "at most 65536"),
        ({"kind": "linear", "weights": [1e31], "threshold": 0.0}, "less than or equal"),
        ({"kind": "constant", "label": 0}, "label"),
    ],
)
def test_out_of_bounds_is_refused_with_its_reason(wire, says):
    with pytest.raises(BadMessage, match=says):
        parse_hypothesis(wire)


def chain(depth):
    """Return a tree in which every right child is split again."""
    feature, left, right = [], [], []
    for node in range(0, 2 * depth, 2):
        feature += [0, -1]
        left += [node + 1, -1]
        right += [node + 2, -1]
    return trees([0], [*feature, -1], [*left, -1], [*right, -1])


def test_depth_is_bounded():
    parse_hypothesis(chain(MAX_DEPTH))
    with pytest.raises(BadMessage, match="deeper than 256"):
        parse_hypothesis(chain(MAX_DEPTH + 1))


@given(st.data())
def test_any_accepted_forest_ends_every_walk(data):
    nodes = data.draw(st.integers(1, 7))
    numbers = st.lists(st.integers(-1, nodes), min_size=nodes, max_size=nodes)
    wire = trees([0], *(data.draw(numbers) for _ in range(3)))
    try:
        accepted: Any = parse_hypothesis(wire)
    except BadMessage:
        return
    below = [child for side in (accepted.left, accepted.right) for child in side if child >= 0]
    assert sorted(below) == list(range(1, nodes))
