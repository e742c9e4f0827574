"""What every registered query must keep; a new one needs an example here, and nothing else."""

import json

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.numerics.kernels import interpreted
from common.vocabulary.queries.base import QUERIES, parse_query
from common.vocabulary.records import Records

LINEAR = {"kind": "linear", "weights": [0.5, -1.0, 2.0], "threshold": 0.1}
EXAMPLES = {
    "code": {"first": 1, "bits": 5, "sign": 7, "present": 0, "public": 11},
    "coordinate": {"first": 1, "count": 2},
    "gradient": {"hypothesis": LINEAR, "bound": 1.0},
    "item": {"bits": 5, "prefixes": [2, 5]},
    "listed": {"first": 1, "bits": 3, "items": [6, 0, 3]},
    "loss": {"hypothesis": LINEAR},
    "moment": {"dimension": 3, "bound": 1.0, "norm": 2.0},
    "threshold": {"first": 1, "bits": 4, "below": 6},
}


def example(kind):
    return parse_query({"kind": kind, **EXAMPLES[kind]})


def people(n, d, dtype=np.float32):
    random = np.random.default_rng(0)
    features = random.integers(0, 2, (n, d)) if dtype == np.uint8 else random.uniform(-1, 1, (n, d))
    return Records(features.astype(dtype), random.choice([-1, 1], n).astype(np.int8))


def ask(query, records, slots):
    """Evaluate as agents do: on the features that the query reads."""
    return query.evaluate(records.only(query.columns), slots)


def test_every_registered_query_is_covered():
    assert sorted(EXAMPLES) == QUERIES.names()


@pytest.mark.parametrize("kind", list(EXAMPLES))
class TestEveryQuery:
    @pytest.mark.parametrize("dtype", [np.float32, np.uint8])
    def test_gives_one_value_in_the_unit_interval_or_one_item_per_record(self, kind, dtype):
        query = example(kind)
        records = people(300, query.min_features, dtype)
        values = ask(query, records, np.arange(300))
        assert values.shape == (300,)
        if query.domain is None:
            assert values.dtype == np.float64
            assert np.all((values >= 0) & (values <= 1))
        else:
            assert values.dtype == np.uint64
            assert int(values.max()) < query.domain

    def test_looks_at_each_record_alone(self, kind):
        query = example(kind)
        records = people(50, query.min_features)
        together = ask(query, records, np.arange(50))
        alone = [ask(query, records.take([i]), np.array([i]))[0] for i in range(50)]
        np.testing.assert_allclose(together, alone, rtol=1e-6)

    def test_ignores_features_beyond_its_own(self, kind):
        query = example(kind)
        records = people(50, query.min_features + 4)
        own = Records(records.features[:, : query.min_features].copy(), records.labels)
        slots = np.arange(50)
        np.testing.assert_allclose(ask(query, records, slots), ask(query, own, slots), rtol=1e-6)

    def test_reads_features_that_it_says_records_must_have(self, kind):
        query = example(kind)
        if query.columns is not None:
            assert query.columns.min() >= 0
            assert query.columns.max() < query.min_features

    def test_leaves_the_records_as_they_are(self, kind):
        query = example(kind)
        records = people(50, query.min_features)
        before = records.features.copy()
        ask(query, records, np.arange(50))
        np.testing.assert_array_equal(records.features, before)

    @pytest.mark.parametrize("dtype", [np.float32, np.uint8])
    def test_is_the_same_to_the_bit_where_an_agent_asks_it_of_itself_without_a_compiler(self, kind, dtype):
        query = example(kind)
        records, slots = people(40, query.min_features, dtype), np.arange(40) + 3
        for i in range(40):
            record, slot = records.take([i]), slots[i : i + 1]
            compiled = ask(query, record, slot)
            with interpreted():
                plain = ask(query, record, slot)
            assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)

    def test_survives_the_wire(self, kind):
        query = example(kind)
        assert parse_query(json.loads(json.dumps(query.wire()))) == query

    @pytest.mark.parametrize("wrong", [{"surprise": 1}, {"hypothesis": {"kind": "oracle"}}])
    def test_refuses_what_it_does_not_know(self, kind, wrong):
        with pytest.raises(BadMessage):
            parse_query(example(kind).wire() | wrong)

    @pytest.mark.parametrize("number", [float("nan"), float("inf")])
    def test_refuses_numbers_that_are_not_finite(self, kind, number):
        with pytest.raises(BadMessage):
            parse_query(example(kind).wire() | {"hypothesis": LINEAR | {"threshold": number}})


@pytest.mark.parametrize("wire", [None, 7, [], {}, {"kind": "record"}])
def test_an_unknown_query_is_refused(wire):
    with pytest.raises(BadMessage, match="no query has the kind"):
        parse_query(wire)
