"""What every registered hypothesis must do: travel as JSON, refuse what is not one, and label anything.

Made on its own examples, so a new one is tested by being registered; what the shipped ones predict is compared with
their definitions in ``test_hypotheses_definitions.py``.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES, parse_hypothesis
from common.local.records import Records
from common.numerics.kernels import interpreted
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each


def rows(hypothesis, n, dtype=np.float32, seed=1):
    """Return features, two more than the hypothesis needs."""
    shape, generator = (n, hypothesis.min_features + 2), np.random.default_rng(seed)
    return (generator.normal(size=shape) if dtype == np.float32 else generator.integers(0, 2, shape)).astype(dtype)


def awkward(hypothesis, dtype):
    """Single records: ordinary ones, some of both signs of zero, and some on which sums overflow."""
    several = rows(hypothesis, 30, dtype, seed=4)
    if dtype == np.float32:
        width = several.shape[1]
        huge = 3.4e38 * np.random.default_rng(5).choice([-1, 1], (8, width))
        several = np.concatenate([several, np.zeros((1, width)), np.full((1, width), -0.0), huge])
    return [Records(row[None].astype(dtype), np.array([sign], dtype=np.int8)) for row in several for sign in (-1, 1)]


@for_each("hypothesis", examples(HYPOTHESES))
class TestContract:
    def test_travels_as_json(self, hypothesis):
        wire = json.loads(json.dumps(hypothesis.wire()))
        again = parse_hypothesis(wire)
        assert again == hypothesis
        assert type(again) is HYPOTHESES[wire["kind"]] is type(hypothesis)

    def test_equality_is_by_content_also_after_use(self, hypothesis):
        used, fresh = (parse_hypothesis(hypothesis.wire()) for _ in range(2))
        used.predict(rows(used, 1))
        assert used == fresh
        assert hash(used) == hash(fresh)
        others = [example for _, kind in HYPOTHESES.items() for example in kind.example()]
        assert sum(used == other for other in others) == 1

    @for_each("dtype", [np.float32, np.uint8])
    def test_labels_each_record_as_if_it_were_alone(self, hypothesis, dtype):
        features = rows(hypothesis, 200, dtype)
        labels = hypothesis.predict(features)
        assert labels.dtype == np.int8
        assert set(labels) <= {-1, 1}
        assert labels.tolist() == [int(hypothesis.predict(row[None])[0]) for row in features]

    def test_ignores_features_beyond_its_own(self, hypothesis):
        features = rows(hypothesis, 200)
        own = np.ascontiguousarray(features[:, : hypothesis.min_features])
        np.testing.assert_array_equal(hypothesis.predict(features), hypothesis.predict(own))

    def test_blocks_leave_no_seam(self, hypothesis, monkeypatch):
        features = rows(hypothesis, 1000, seed=2)
        whole = hypothesis.predict(features)
        monkeypatch.setattr("common.local.hypotheses.hypothesis._CELLS", 35)
        np.testing.assert_array_equal(hypothesis.predict(features), whole)

    def test_labels_extreme_and_no_records(self, hypothesis):
        extreme = rows(hypothesis, 3)
        extreme[:] = np.array([[3.4e38], [-3.4e38], [0.0]], dtype=np.float32)
        assert set(hypothesis.predict(extreme)) <= {-1, 1}
        assert hypothesis.predict(extreme[:0]).shape == (0,)

    @for_each("dtype", [np.float32, np.uint8])
    @for_each("method", ["mistakes", "margins", "scores", "values", "responses", "labels"])
    def test_one_record_is_judged_alike_to_the_bit_without_a_compiler(self, hypothesis, dtype, method):
        for record in awkward(hypothesis, dtype):
            given = record if method in ("mistakes", "responses", "labels") else record.features
            compiled = getattr(hypothesis, method)(given)
            with interpreted():
                plain = getattr(hypothesis, method)(given)
            assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)

    def test_values_and_responses_lie_in_the_unit_interval(self, hypothesis):
        features = rows(hypothesis, 100)
        records = Records(features, np.where(features.sum(axis=1) > 0, 1, -1).astype(np.int8))
        for numbers in (hypothesis.values(features), hypothesis.responses(records)):
            assert numbers.shape == (100,)
            assert np.all((numbers >= 0.0) & (numbers <= 1.0))
        assert hypothesis.margins(features).dtype == np.float32
        assert hypothesis.scores(features).dtype == np.float64

    def test_counts_a_mistake_where_prediction_and_label_differ(self, hypothesis):
        features = rows(hypothesis, 100, seed=3)
        records = Records(features, np.where(features.sum(axis=1) > 0, 1, -1).astype(np.int8))
        mistakes = hypothesis.mistakes(records)
        assert mistakes.dtype == np.uint8
        np.testing.assert_array_equal(mistakes, hypothesis.predict(features) != hypothesis.labels(records))

    def test_refuses_unknown_fields_and_non_finite_numbers(self, hypothesis):
        for broken in ({**hypothesis.wire(), "code": "print()"}, *with_a_number_that_is_none(hypothesis.wire())):
            with pytest.raises(BadMessage):
                parse_hypothesis(broken)


@for_each("wire", [None, [], "linear", {}, {"kind": "pickle"}, {"kind": ["linear"]}])
def test_what_is_no_hypothesis_is_refused(wire):
    with pytest.raises(BadMessage, match="no hypothesis has the kind"):
        parse_hypothesis(wire)
