"""The surest of several hypotheses: the lowest of ties, held against one-hot columns, blind to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.argmax import Argmax, column_classes
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.losses import evaluate
from common.local.records import Records
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.tiers import for_each


def plane(*weights: float, threshold: float = 0.0) -> dict[str, Any]:
    return {"kind": "linear", "weights": list(weights), "threshold": threshold}


def argmax(first: int, *hypotheses: Any) -> Argmax:
    found = parse_hypothesis({"kind": "argmax", "first": first, "hypotheses": list(hypotheses)})
    assert isinstance(found, Argmax)
    return found


THREE = argmax(2, plane(1.0, 0.0), plane(0.0, 1.0), plane(-1.0, -1.0))


def records(points: list[list[float]], classes: list[list[float]]) -> Records:
    features = np.column_stack([points, classes]).astype(np.float32)
    return Records(features, -np.ones(len(features), dtype=np.int8))


def test_it_predicts_the_class_with_the_greatest_margin_and_the_lowest_of_several():
    points = np.array([[2.0, 1.0], [1.0, 2.0], [-1.0, -2.0], [1.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    assert THREE.classes(np.column_stack([points, np.zeros((5, 3), dtype=np.float32)])).tolist() == [0, 1, 2, 0, 0]


def test_trees_compare_by_their_sums_and_not_by_their_signs():
    def stump(low: float, high: float) -> dict[str, Any]:
        nodes = {"feature": [0, -1, -1], "threshold": [0.5, low, high], "left": [1, -1, -1], "right": [2, -1, -1]}
        return {"kind": "trees", "roots": [0], **nodes}

    chosen = argmax(1, stump(0.1, 3.0), stump(2.0, 1.0))
    assert chosen.classes(np.array([[0.0, 0, 0], [1.0, 0, 0]], dtype=np.float32)).tolist() == [1, 0]


def test_scores_that_are_no_numbers_are_below_all_others():
    overflowing = argmax(2, plane(1e30, -1e30), plane(0.0, threshold=1e30))
    features = np.array([[3e38, 3e38, 0, 0]], dtype=np.float32)
    assert overflowing.classes(features).tolist() == [1]


@for_each("loss", ["zero-one", "hinge", "perceptron", "squared"])
def test_the_loss_is_whether_the_class_is_another(loss):
    right, other = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    several, none = [1.0, 1.0, 0.0], [0.5, 0.0, 0.0]
    held = records([[2.0, 1.0]] * 4, [right, other, several, none])
    assert evaluate(loss, THREE, held).tolist() == [0, 1, 1, 1]
    assert THREE.labels(held).tolist() == [1] * 4


def test_columns_tell_a_class_only_where_exactly_one_is_above_a_half():
    features = np.array([[9, 0, 1, 0], [9, 1, 0, 1], [9, 0, 0, 0], [9, 0, 0, 1]], dtype=np.uint8)
    assert column_classes(features, 1, 3).tolist() == [1, -1, -1, 2]


def test_it_needs_the_columns_of_its_classes():
    assert THREE.min_features == 5


def test_a_hypothesis_that_sees_the_classes_is_refused():
    with pytest.raises(BadMessage, match="features before them only, one needs 3"):
        argmax(2, plane(1.0), plane(1.0, 1.0, 1.0))


@for_each("count", [0, 1, 65])
def test_there_are_two_classes_to_sixty_four(count):
    with pytest.raises(BadMessage, match="hypotheses"):
        argmax(2, *[plane(1.0)] * count)


@pytest.mark.slow
def test_all_trees_together_have_no_more_nodes_than_one_hypothesis():
    count = 150_000
    leaves = {"feature": [-1] * count, "threshold": [1.0] * count, "left": [-1] * count, "right": [-1] * count}
    trees = {"kind": "trees", "roots": list(range(count)), **leaves}
    assert len(argmax(2, trees, plane(1.0)).hypotheses) == 2
    with pytest.raises(BadMessage, match="at most 262144 nodes, found 300000"):
        argmax(2, trees, trees)


RELABELLED = {"kind": "relabelled", "column": 1, "hypothesis": plane(1.0)}


@for_each("inner", [THREE.wire(), RELABELLED, wire(linear([1.0], 0.25)), {"kind": "pickle"}, {}, None])
def test_what_a_party_accepts_by_choice_only_does_not_come_in_through_it(inner):
    with pytest.raises(BadMessage, match="cannot be part of another"):
        argmax(9, plane(1.0), inner)


def test_it_is_no_part_of_a_hypothesis_about_another_label():
    with pytest.raises(BadMessage, match="cannot be part of another"):
        parse_hypothesis({"kind": "relabelled", "column": 9, "hypothesis": THREE.wire()})
