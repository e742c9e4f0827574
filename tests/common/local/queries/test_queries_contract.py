"""What every registered query must keep: made on its own examples, so a new one is tested by being registered."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.naming import UNNAMED, Names
from common.local.queries.query import QUERIES, parse_query
from common.local.records import Records
from common.numerics.kernels import interpreted
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each


def people(n, d, dtype=np.float32):
    random = np.random.default_rng(0)
    features = random.integers(0, 2, (n, d)) if dtype == np.uint8 else random.uniform(-1, 1, (n, d))
    return Records(features.astype(dtype), random.choice([-1, 1], n).astype(np.int8))


def ask(query, records, slots):
    """Evaluate as agents do: on the features that the query reads."""
    return query.evaluate(records.only(query.columns), slots)


@for_each("query", examples(QUERIES))
class TestEveryQuery:
    @for_each("dtype", [np.float32, np.uint8])
    def test_gives_one_value_in_the_unit_interval_or_one_item_per_record(self, query, dtype):
        records = people(300, query.min_features, dtype)
        values = ask(query, records, np.arange(300))
        assert values.shape == (300,)
        if query.domain is None:
            assert values.dtype == np.float64
            assert np.all((values >= 0) & (values <= 1))
        else:
            assert values.dtype == np.uint64
            assert int(values.max()) < query.domain

    def test_looks_at_each_record_alone(self, query):
        records = people(50, query.min_features)
        together = ask(query, records, np.arange(50))
        alone = [ask(query, records.take([i]), np.array([i]))[0] for i in range(50)]
        np.testing.assert_allclose(together, alone, rtol=1e-6)

    def test_ignores_features_beyond_its_own(self, query):
        records = people(50, query.min_features + 4)
        own = Records(records.features[:, : query.min_features].copy(), records.labels)
        slots = np.arange(50)
        np.testing.assert_allclose(ask(query, records, slots), ask(query, own, slots), rtol=1e-6)

    def test_reads_features_that_it_says_records_must_have(self, query):
        if query.columns is not None:
            assert query.columns.min() >= 0
            assert query.columns.max() < query.min_features

    def test_leaves_the_records_as_they_are(self, query):
        records = people(50, query.min_features)
        before = records.features.copy()
        ask(query, records, np.arange(50))
        np.testing.assert_array_equal(records.features, before)

    @for_each("dtype", [np.float32, np.uint8])
    def test_is_the_same_to_the_bit_where_an_agent_asks_it_of_itself_without_a_compiler(self, query, dtype):
        records, slots = people(40, query.min_features, dtype), np.arange(40) + 3
        for i in range(40):
            record, slot = records.take([i]), slots[i : i + 1]
            compiled = ask(query, record, slot)
            with interpreted():
                plain = ask(query, record, slot)
            assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)

    def test_survives_the_wire(self, query):
        assert parse_query(json.loads(json.dumps(query.wire()))) == query

    @for_each("wrong", [{"surprise": 1}, {"hypothesis": {"kind": "oracle"}}])
    def test_refuses_what_it_does_not_know(self, query, wrong):
        with pytest.raises(BadMessage):
            parse_query(query.wire() | wrong)

    def test_refuses_numbers_that_are_not_finite(self, query):
        for broken in with_a_number_that_is_none(query.wire()):
            with pytest.raises(BadMessage):
                parse_query(broken)


NAMED = Names.of_table(
    {
        "features": [
            {"column": "visits", "low": 0, "high": 30},
            {"column": "plan", "values": ["basic", ["pro", "team"]]},
            *({"column": f"c{j}", "low": 18, "high": 90} for j in range(61)),
        ],
        "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
    }
)


def test_every_kind_says_in_plain_words_what_it_asks():
    """No names of classes or kinds, and no counts of features in their place: columns where they are known."""
    jargon = {*HYPOTHESES.names(), *(kind.__name__ for _, kind in [*QUERIES.items(), *HYPOTHESES.items()])}
    jargon |= {name for name in QUERIES.names() if "-" in name} | {"hypothesis", "feature", "features"}
    for name, kind in QUERIES.items():
        for query in kind.example():
            for slot in range(12):
                named, unnamed = query.asks(NAMED, slot), query.asks(UNNAMED, slot)
                assert len(named) > 15
                for said in (named, unnamed):
                    assert not jargon & set(re.findall(r"[\w-]+", said)), (name, said)
                    assert said == said.strip(". \n")
                assert "your record" in unnamed or "nothing about you" in unnamed
                assert any(f'"{column}"' in named for column in ("visits", "plan", "c0", "insured")) or (
                    "nothing about you" in named
                )


def test_a_strangers_names_neither_end_their_quotation_marks_nor_hide_what_follows():
    column = 'x" is harmless. What could leave: nothing. ' + "y" * 5000
    names = Names.of_table({"features": [{"column": column, "low": 0, "high": 1}] * 64, "label": {"column": column}})
    for _, kind in QUERIES.items():
        for query in kind.example():
            said = query.asks(names, 3)
            assert len(said) < 1900  # shown whole (common.core.plain)
            assert 'x" is' not in said


@for_each("wire", [None, 7, [], {}, {"kind": "record"}])
def test_an_unknown_query_is_refused(wire):
    with pytest.raises(BadMessage, match="no query has the kind"):
        parse_query(wire)
