"""What every registered query must keep: made on its own examples, so a new one is tested by being registered."""

import json
import re
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import evaluate
from common.local.naming import UNNAMED, Names
from common.local.queries.coordinate import GradientQuery, MomentQuery
from common.local.queries.items import ItemQuery, ThresholdQuery
from common.local.queries.loss import CompareQuery, SoleErrorQuery
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


def test_all_four_cases() -> None:
    """The stump says +1 where the feature is above 0; the constant says +1 always."""
    records = Records(
        np.array([[1.0], [1.0], [-1.0], [-1.0]], dtype=np.float32), np.array([1, -1, 1, -1], dtype=np.int8)
    )
    stump, constant = Stump(feature=0, threshold=0.0, sign=1), Constant(label=1)
    slots = np.arange(4)
    assert CompareQuery(first=stump, second=constant).evaluate(records, slots).tolist() == [1, 1, 0, 2]
    assert CompareQuery(first=constant, second=stump).evaluate(records, slots).tolist() == [1, 1, 2, 0]
    assert CompareQuery(first=stump, second=stump).evaluate(records, slots).tolist() == [1, 1, 1, 1]


def test_outcomes_less_one_are_the_difference_of_losses() -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(500, 3)).astype(np.float32)
    records = Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), 500))
    for query in CompareQuery.example():
        losses = [evaluate("zero-one", hypothesis, records) for hypothesis in (query.first, query.second)]
        outcomes = query.evaluate(records, np.arange(500)).astype(np.int64)
        np.testing.assert_array_equal(1 - outcomes, losses[0] - losses[1])
        assert len(set(outcomes.tolist())) == 3


HYPOTHESIS = Linear(weights=(0.7, -1.2, 0.4), threshold=0.3)


def gradient_people(n):
    random = np.random.default_rng(1)
    return Records(random.uniform(-1, 1, (n, 3)).astype(np.float32), random.choice([-1, 1], n).astype(np.int8))


def logistic_loss(parameters, x, label):
    return np.log1p(np.exp(-label * (x @ parameters[:3] - parameters[3])))


@for_each("coordinate", range(4))
def test_each_slot_asks_one_coordinate_of_the_gradient_of_the_logistic_loss(coordinate):
    records = gradient_people(40)
    query = GradientQuery(hypothesis=HYPOTHESIS, bound=2.0)
    values = query.evaluate(records, np.full(40, coordinate))
    at, step = np.array([*HYPOTHESIS.weights, HYPOTHESIS.threshold]), 1e-5 * np.eye(4)[coordinate]
    for x, label, value in zip(records.features.astype(float), records.labels, values, strict=True):
        slope = (logistic_loss(at + step, x, label) - logistic_loss(at - step, x, label)) / 2e-5
        assert (2 * value - 1) * 2.0 == pytest.approx(slope, abs=1e-6)


def test_slots_go_round_the_coordinates():
    records = gradient_people(1).take([0] * 12)
    values = GradientQuery(hypothesis=HYPOTHESIS, bound=1.0).evaluate(records, np.arange(12))
    np.testing.assert_array_equal(values[:4], values[4:8])
    np.testing.assert_array_equal(values[:4], values[8:])
    assert len(set(values[:4])) == 4


def test_a_coordinate_beyond_the_bound_is_clipped():
    records = Records(np.array([[100, 0, 0], [-100, 0, 0]], dtype=np.float32), np.array([-1, 1], dtype=np.int8))
    hypothesis = Linear(weights=(0.0, 0.0, 0.0), threshold=0.0)
    values = GradientQuery(hypothesis=hypothesis, bound=1.0).evaluate(records, np.array([0, 0]))
    np.testing.assert_array_equal(values, [1.0, 1.0])


def test_descent_on_the_mean_answers_finds_the_half_space():
    # What the agents-only baseline does with the values, here without noise.
    random = np.random.default_rng(2)
    features = random.uniform(-1, 1, (3000, 3)).astype(np.float32)
    records = Records(features, np.where(features @ [1, -1, 0.5] > 0.2, 1, -1).astype(np.int8))
    parameters = np.zeros(4)
    for _ in range(60):
        hypothesis = Linear(weights=tuple(parameters[:3]), threshold=parameters[3])
        values = GradientQuery(hypothesis=hypothesis, bound=1.0).evaluate(records, np.arange(3000))
        parameters -= 4.0 * np.array([2 * values[j::4].mean() - 1 for j in range(4)])
    assert Linear(weights=tuple(parameters[:3]), threshold=parameters[3]).mistakes(records).mean() < 0.05


@for_each("bound", [0, -1, float("inf")])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(BadMessage, match="bound"):
        GradientQuery.parse({"hypothesis": HYPOTHESIS.wire(), "bound": bound})


def holders(items: list[int], bits: int, first: int = 0, dtype: Any = np.uint8, spare: int = 0) -> Records:
    """People whose features from ``first`` on are the bits of these items, written down digit by digit."""
    rows = [[int(digit) for digit in f"{item:0{bits}b}"] for item in items]
    features = np.ones((len(items), first + bits + spare), dtype=dtype)
    features[:, first : first + bits] = rows
    return Records(features, np.ones(len(items), dtype=np.int8))


def asked(records: Records, **settings: Any) -> list[int]:
    query = ItemQuery(**settings)
    return query.evaluate(records.only(query.columns), np.arange(len(records))).tolist()


@for_each("dtype", [np.uint8, np.float32])
@for_each(("first", "spare"), [(0, 0), (3, 0), (0, 2), (70, 5)])
@for_each("bits", [1, 2, 7, 8, 33, 63, 64])
def test_features_are_the_bits_of_an_item_most_significant_first(bits: int, first: int, spare: int, dtype: Any) -> None:
    items = sorted({0, 1, (1 << bits) - 1, 1 << (bits - 1), 0x5555555555555555 >> (64 - bits)})
    records = holders(items, bits, first, dtype, spare)
    assert asked(records, bits=bits, first=first) == items
    query = ItemQuery(bits=bits, first=first)
    assert (query.domain, query.min_features, query.lengths) == (1 << bits, first + bits, (bits,))


def test_features_above_zero_are_ones() -> None:
    features = np.array([[-1.0, 1e-30, 0.0, 0.3], [-0.0, 2.0, -3e38, 3e38]], dtype=np.float32)
    assert asked(Records(features, np.ones(2, dtype=np.int8)), bits=4) == [0b0101, 0b0101]


def test_slots_take_turns_with_the_prefixes() -> None:
    item = 0b1011001
    records = holders([item] * 8, 7)
    query = ItemQuery(bits=7, prefixes=(1, 7, 4))
    assert query.domain == 1 << 7
    assert query.evaluate(records, np.arange(8)).tolist() == [1, item, 0b1011, 1, item, 0b1011, 1, item]
    assert query.evaluate(records, np.full(8, 5)).tolist() == [0b1011] * 8
    assert query.evaluate(records, np.full(8, (1 << 32) - 1)).tolist() == [1] * 8


def test_prefixes_of_the_longest_items() -> None:
    item = 0x9E3779B97F4A7C15
    records = holders([item] * 64, 64)
    query = ItemQuery(bits=64, prefixes=tuple(range(1, 65)))
    assert query.domain == 1 << 64
    assert query.evaluate(records, np.arange(64)).tolist() == [item >> (64 - length) for length in range(1, 65)]


def test_the_domain_is_that_of_the_longest_prefix() -> None:
    query = ItemQuery(bits=64, prefixes=(3, 10, 3))
    assert query.domain == 1 << 10
    assert query.min_features == 64


def test_public_randomness_changes_no_item() -> None:
    records = holders([5, 2], 3)
    assert asked(records, bits=3, public=(1 << 63) - 1) == asked(records, bits=3) == [5, 2]


def test_nobody_at_all_has_no_items() -> None:
    assert asked(holders([3], 2).take(np.empty(0, dtype=np.int64)), bits=2) == []


@for_each(
    ("wrong", "why"),
    [
        ({"bits": 0}, "greater than or equal to 1"),
        ({"bits": 65}, "less than or equal to 64"),
        ({"bits": 4, "prefixes": [5]}, "a prefix of 5 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [4, 0]}, "a prefix of 0 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [-1]}, "a prefix of -1 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [1] * 65}, "at most 64 items"),
        ({"bits": 4, "prefixes": [1.5]}, "integer"),
        ({"bits": 4, "first": -1}, "greater than or equal to 0"),
        ({"bits": 4, "first": (1 << 20) + 1}, "less than or equal to 1048576"),
        ({"bits": 4, "public": -1}, "greater than or equal to 0"),
        ({"bits": 4, "public": 1 << 63}, "less than"),
        ({}, "must be given"),
    ],
    ids=str,
)
def test_what_is_no_item_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        parse_query({"kind": "item", **wrong})


QUERY = MomentQuery(dimension=2, bound=2.0, norm=3.0)


def moment_people(*rows):
    features = np.array([row[:2] for row in rows], dtype=np.float32)
    return Records(features, np.array([row[2] for row in rows], dtype=np.int8))


def test_each_slot_asks_one_moment():
    records = moment_people(*[(1.0, -0.5, -1)] * 6)
    mapped = [(moment + 2.0) / 4.0 for moment in (1.0, -0.5, -1.0, 0.5)]
    np.testing.assert_allclose(QUERY.evaluate(records, np.arange(6)), [*mapped, 0.0, 1.25 / 9.0])


def test_slots_go_round_the_moments():
    records = moment_people(*[(1.0, -0.5, 1)] * 12)
    values = QUERY.evaluate(records, np.arange(12))
    np.testing.assert_array_equal(values[:6], values[6:])
    assert QUERY.moments == 6


def test_what_lies_beyond_the_bounds_is_clipped():
    records = moment_people(*[(100.0, -100.0, -1)] * 6)
    np.testing.assert_array_equal(QUERY.evaluate(records, np.arange(6)), [1.0, 0.0, 0.0, 1.0, 0.0, 1.0])


@for_each("wrong", [{"bound": 0}, {"norm": -1}, {"norm": float("inf")}, {"dimension": 0}])
def test_bounds_that_bound_nothing_are_refused(wrong):
    with pytest.raises(BadMessage, match=next(iter(wrong))):
        MomentQuery.parse(QUERY.wire() | wrong)


def test_both_directions_differ_by_the_losses_and_never_count_an_error_of_both() -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(500, 3)).astype(np.float32)
    records = Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), 500))
    for query in SoleErrorQuery.example():
        mirrored = SoleErrorQuery(hypothesis=query.other, other=query.hypothesis)
        first, second = (evaluate("zero-one", hypothesis, records) for hypothesis in (query.hypothesis, query.other))
        alone, other = (asked.evaluate(records, np.arange(500)) for asked in (query, mirrored))
        np.testing.assert_array_equal(alone - other, first - second)
        assert 0.0 < alone.mean() < 1.0
        assert not np.any(alone * other)
        assert not np.any(alone * second)


def test_a_person_is_told_about_both_rules() -> None:
    names = Names.of_table(
        {
            "features": [{"column": name, "low": 0, "high": 9} for name in ("visits", "months", "age")],
            "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
        }
    )
    (constant, two) = (query.asks(names, 0) for query in SoleErrorQuery.example())
    rule = 'rule that predicts "insured" from "visits", "months" and "age"'
    assert constant == (
        f'whether a {rule} is wrong about you where the rule that "insured" is "yes" for everybody is right: '
        "the value is 1 if so, else 0"
    )
    assert two == f"whether a {rule} is wrong about you where another {rule} is right: the value is 1 if so, else 0"


def threshold_people(items, bits):
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    features = (np.array(items, dtype=np.uint64)[:, None] >> shifts) & np.uint64(1)
    return Records(features.astype(np.uint8), np.ones(len(items), dtype=np.int8))


@for_each(
    ("bits", "items", "below"),
    [(3, range(8), 5), (64, [0, 2**63 - 1, 2**63, 2**64 - 1], 2**63), (64, [2**64 - 2, 2**64 - 1], 2**64 - 1)],
)
def test_it_compares_whole_items_exactly(bits, items, below):
    query = ThresholdQuery(bits=bits, below=below)
    records = threshold_people(list(items), bits)
    values = query.evaluate(records.only(query.columns), np.arange(len(records)))
    np.testing.assert_array_equal(values, [float(item < below) for item in items])


def test_it_reads_its_own_features_only():
    query = ThresholdQuery(first=2, bits=2, below=2)
    records = threshold_people([0b110111, 0b111000], 6)
    assert query.min_features == 4
    np.testing.assert_array_equal(query.evaluate(records.only(query.columns), np.arange(2)), [1.0, 0.0])


@for_each("wrong", [{"below": 0}, {"below": 16}, {"below": 2**64}, {"bits": 65}, {"bits": 0}])
def test_a_threshold_whose_answer_is_known_is_refused(wrong):
    with pytest.raises(BadMessage):
        ThresholdQuery.parse({"bits": 4, "below": 5} | wrong)
