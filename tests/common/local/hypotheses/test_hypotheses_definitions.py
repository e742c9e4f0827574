"""What each shipped hypothesis predicts, row by row, against its definition in plain Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.rules import Parity
from common.local.records import Records
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.tiers import for_each

EXAMPLES = {
    "argmax": {
        "kind": "argmax",
        "first": 3,
        "hypotheses": [
            {"kind": "linear", "weights": [0.0], "threshold": 0.0},
            {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.25},
        ],
    },
    "constant": {"kind": "constant", "label": -1},
    "conjunction": {"kind": "conjunction", "features": [1, 3]},
    "linear": {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.25},
    "onnx": wire(linear([0.5, -1.0, 2.0], 0.25)),
    "parity": {"kind": "parity", "features": [0, 2, 3]},
    "relabelled": {
        "kind": "relabelled",
        "column": 4,
        "hypothesis": {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.25},
    },
    "regressor": {"kind": "regressor", "weights": [0.5, -1.0, 2.0], "intercept": 0.25, "response": 4},
    "stump": {"kind": "stump", "feature": 2, "threshold": 0.1, "sign": -1},
    "trees": {
        "kind": "trees",
        "roots": [0, 3],
        "feature": [1, -1, -1, -1],
        "threshold": [0.2, 1.0, -1.0, 0.5],
        "left": [1, -1, -1, -1],
        "right": [2, -1, -1, -1],
        "base": -0.4,
    },
}


def one_by_one(wire, row):
    """Predict for one row by the definition, in double precision."""
    match wire["kind"]:
        case "argmax":  # the classes are the two sides of the half-space of the other examples
            own = [column > 0.5 for column in row[3:]]
            predicted = one_by_one(EXAMPLES["linear"], row)
            return 1 if own == [predicted < 0, predicted > 0] else -1
        case "constant":
            return wire["label"]
        case "conjunction":
            return 1 if all(row[j] > 0.5 for j in wire["features"]) else -1
        case "linear" | "onnx" | "relabelled":  # the examples are the same half-space
            weights, threshold = EXAMPLES["linear"]["weights"], EXAMPLES["linear"]["threshold"]
            return 1 if sum(w * x for w, x in zip(weights, row, strict=False)) > threshold else -1
        case "regressor":
            return 1 if sum(w * x for w, x in zip(wire["weights"], row, strict=False)) + wire["intercept"] > 0.5 else -1
        case "parity":
            return 1 if sum(row[j] > 0.5 for j in wire["features"]) % 2 else -1
        case "stump":
            return wire["sign"] if row[wire["feature"]] > wire["threshold"] else -wire["sign"]
        case "trees":
            score = wire["base"]
            for node in wire["roots"]:
                while wire["feature"][node] >= 0:
                    below = row[wire["feature"][node]] <= wire["threshold"][node]
                    node = wire["left" if below else "right"][node]
                score += wire["threshold"][node]
            return 1 if score > 0 else -1


@for_each("kind", sorted(EXAMPLES))
class TestShipped:
    @for_each("dtype", [np.float32, np.uint8])
    def test_predicts_by_its_definition(self, kind, dtype):
        generator = np.random.default_rng(1)
        wide = generator.normal(size=(500, 5)) if dtype == np.float32 else generator.integers(0, 2, (500, 5))
        features = wide.astype(dtype)
        labels = parse_hypothesis(EXAMPLES[kind]).predict(features)
        assert labels.dtype == np.int8
        assert labels.tolist() == [one_by_one(EXAMPLES[kind], row.tolist()) for row in features]

    def test_counts_mistakes(self, kind):
        features = np.random.default_rng(3).normal(size=(100, 5)).astype(np.float32)
        hypothesis: Any = parse_hypothesis(EXAMPLES[kind])
        several = kind == "argmax"  # what it predicts is one of two classes, and right or wrong about the record's own
        labels = (2 * hypothesis.classes(features) - 1).astype(np.int8) if several else hypothesis.predict(features)
        labels[::4] *= -1
        features[:, 4] = labels  # where some of them look for their label, and none for anything else
        if several:
            features[:, 3] = -labels
        mistakes = hypothesis.mistakes(Records(features, labels))
        assert mistakes.dtype == np.uint8
        np.testing.assert_array_equal(np.flatnonzero(mistakes), np.arange(0, 100, 4))

    def test_refuses_unknown_fields_and_non_finite_numbers(self, kind):
        with pytest.raises(BadMessage):
            parse_hypothesis({**EXAMPLES[kind], "code": "print()"})
        for field, value in EXAMPLES[kind].items():
            for bad in (float("nan"), float("inf"), None, "x", [None], []):
                with pytest.raises(BadMessage):
                    parse_hypothesis({**EXAMPLES[kind], field: [bad] if isinstance(value, list) else bad})


def test_mistakes_are_those_of_the_definition_at_every_width():
    generator = np.random.default_rng(1)
    for width in (1, 7, 64, 65, 200):
        features = generator.integers(0, 2, (300, width)).astype(np.uint8)
        secret = np.flatnonzero(generator.integers(0, 2, width))
        labels = np.where(features[:, secret].sum(axis=1) % 2, 1, -1).astype(np.int8)
        labels[::3] *= -1
        mistakes = Parity(features=tuple(secret.tolist())).mistakes(Records(features, labels))
        np.testing.assert_array_equal(mistakes, np.arange(300) % 3 == 0)


def test_the_empty_parity_is_never_odd():
    empty = Parity(features=())
    assert empty.min_features == 0
    np.testing.assert_array_equal(empty.predict(np.ones((4, 3), dtype=np.uint8)), -1)


def test_half_of_two_hundred_features_fit_in_a_small_message():
    assert len(json.dumps(Parity(features=tuple(range(0, 200, 2))).wire())) < 600
