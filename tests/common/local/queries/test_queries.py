"""What every registered query must keep: made on its own examples, so a new one is tested by being registered."""

import json
import re
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.hypothesis import HYPOTHESES, Linear
from common.local.naming import UNNAMED, Names
from common.local.queries.features import ExpressionQuery, GradientQuery, ItemQuery, MomentQuery, ThresholdQuery
from common.local.queries.query import QUERIES, parse_query
from common.local.queries.residuals import ResidualQuery
from common.local.records import Records
from common.numerics.elementary import logistic
from common.numerics.kernels import interpreted
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each


def people(n, d, dtype=np.float32):
    random = np.random.default_rng(0)
    features = random.integers(0, 2, (n, d)) if dtype == np.uint8 else random.uniform(-1, 1, (n, d))
    return Records(features.astype(dtype), random.choice([-1, 1], n).astype(np.int8))


def ask(query, records, slots):
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

    def test_slots_of_one_part_are_asked_the_same_and_records_stay_as_they_are(self, query):
        records, slots = people(1, query.min_features).take([0] * 40), np.arange(40)
        before = records.features.copy()
        values, parts = ask(query, records, slots), query.parts(slots)
        for part in set(parts.tolist()):
            assert len(set(values[parts == part].tolist())) == 1
        assert query.alike == (len(set(parts.tolist())) == 1)
        np.testing.assert_array_equal(records.features, before)
        if query.columns is not None:
            assert query.columns.min() >= 0
            assert query.columns.max() < query.min_features

    @for_each("dtype", [np.float32, np.uint8])
    def test_is_the_same_to_the_bit_where_an_agent_asks_it_of_itself_without_a_compiler(self, query, dtype):
        records, slots = people(40, query.min_features, dtype), np.arange(40) + 3
        for i in range(40):
            record, slot = records.take([i]), slots[i : i + 1]
            compiled = ask(query, record, slot)
            with interpreted():
                plain = ask(query, record, slot)
            assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)

    def test_survives_the_wire_and_refuses_what_it_does_not_know(self, query):
        wire, records = query.wire(), people(3, query.min_features)
        one, other = (parse_query(json.loads(json.dumps(wire))) for _ in range(2))
        assert one == query
        np.testing.assert_array_equal(*(ask(used, records, np.arange(3)) for used in (one, other)))
        assert (one == other, hash(one) == hash(other)) == (True, True)  # after use, too
        hostile = (wire | {"surprise": 1}, wire | {"hypothesis": {"kind": "oracle"}})
        for broken in (*hostile, *with_a_number_that_is_none(wire)):
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


@for_each(
    ("wrong", "why"),
    [
        *((wrong, "no query has the kind") for wrong in ("item", 7, None, {"kind": "record"})),
        ([], "no query has the kind"),
        ({}, "no query has the kind"),
        ({"kind": "item"}, "must be given"),
        ({"kind": "item", "bits": 0}, "greater than or equal to 1"),
        ({"kind": "item", "bits": 65}, "less than or equal to 64"),
        *(
            ({"kind": "item", "bits": 4, "prefixes": [4, wrong]}, f"a prefix of {wrong} bits is none of an item of 4")
            for wrong in (5, 0, -1)
        ),
        ({"kind": "item", "bits": 4, "prefixes": [1] * 65}, "at most 64 items"),
        ({"kind": "item", "bits": 4, "prefixes": [1.5]}, "integer"),
        ({"kind": "item", "bits": 4, "first": -1}, "greater than or equal to 0"),
        ({"kind": "item", "bits": 4, "first": (1 << 20) + 1}, "less than or equal to 1048576"),
        ({"kind": "item", "bits": 4, "public": -1}, "greater than or equal to 0"),
        ({"kind": "item", "bits": 4, "public": 1 << 63}, "less than"),
        *(({"kind": "threshold", "bits": 4, "below": below}, "below|above") for below in (0, 16, 2**64)),
        *(({"kind": "listed", "bits": 4, "items": [1, wrong]}, "items") for wrong in (-1, 2**64)),
        *(({"kind": "code", "first": 0, "bits": 4, "sign": sign, "public": 1}, "sign") for sign in (-1, 1 << 20, "l")),
        *((GradientQuery.example()[0].wire() | {"bound": bound}, "bound") for bound in (0, -1, float("inf"))),
        *(
            ({"kind": "moment", "dimension": 2, "bound": 2.0, "norm": 3.0, name: wrong}, name)
            for name, wrong in (("bound", 0), ("norm", -1), ("norm", float("inf")), ("dimension", 0))
        ),
        *(
            ({"kind": "expression", "terms": terms, **more}, why)
            for terms, more, why in (
                ([], {}, "at least 1 item"),
                ([{"features": [0]}] * 65, {}, "at most 64 items"),
                ([{"features": [0] * 9}], {}, "at most 8 items"),
                ([{"features": [-1]}], {}, "greater than or equal to 0"),
                ([{"features": [1 << 20]}], {}, "less than"),
                ([{"weight": 2.0}], {}, "a constant is the offset"),
                ([{"weight": 1e7, "label": True}], {}, "less than or equal to"),
                ([{"features": [0], "code": "x"}], {}, "code"),
                ([{"features": [0]}], {"offset": float("nan")}, "offset"),
            )
        ),
    ],
)
def test_what_is_no_query_is_refused_with_its_reason(wrong, why):
    with pytest.raises(BadMessage, match=why):
        parse_query(wrong)


@for_each("query", ResidualQuery.example())
def test_residuals_are_slopes_of_the_logistic_loss_in_the_largest_units_that_answers_leave(query):
    """By a difference quotient: of the intercept, or of the modulus of what turns the sign."""
    generator, slots = np.random.default_rng(1), np.arange(500)
    features, labels = generator.normal(size=(500, 3)).astype(np.float32), generator.choice([-1, 1], 500)
    records = Records(features, labels.astype(np.int8))
    scores = query.hypothesis.scores(features)
    along = scores if query.direction is None else features.astype(np.float64) @ np.array(query.direction)
    sign = 1.0 if query.center is None else np.where(along > query.center, 1.0, -1.0)
    chance = logistic(query.slope * scores + query.intercept)

    def loss(step: float) -> np.ndarray:
        return np.logaddexp(0.0, -labels * (query.slope * scores + query.intercept + step * sign))

    slopes = -(loss(1e-6) - loss(-1e-6)) / 2e-6
    values = 2.0 * query.evaluate(records, slots) - 1.0
    np.testing.assert_allclose(values * np.maximum(chance, 1.0 - chance), slopes, atol=1e-6)
    other = 2.0 * query.evaluate(Records(features, -records.labels), slots) - 1.0
    np.testing.assert_allclose(np.maximum(np.abs(values), np.abs(other)), 1.0)  # one of both labels is the farthest
    np.testing.assert_allclose(
        chance * np.where(labels > 0, values, other), -(1 - chance) * np.where(labels > 0, other, values)
    )


@for_each("center", [None, 0.1])
def test_no_other_residual_of_mean_zero_tells_more_of_a_change_of_the_odds(center):
    """Theorem: a bit of fixed noise tells most by f/max(p, 1 - p); others are drawn within what answers leave."""
    generator, slots = np.random.default_rng(2), np.arange(4000)
    features = generator.normal(size=(4000, 3)).astype(np.float32)
    query = ResidualQuery(
        hypothesis=Linear(weights=(0.5, -1.0, 2.0), threshold=0.1), slope=1.5, intercept=-0.4, center=center
    )
    scores = query.hypothesis.scores(features)
    chance = logistic(1.5 * scores - 0.4)
    along = np.ones(4000) if center is None else scores - center
    moved = logistic(1.5 * scores - 0.4 + 1e-6 * along) - chance

    def told(values: dict[int, np.ndarray]) -> float:
        """Return how far the mean of a value moves with the odds, by the value that either label has."""
        return float((moved * (values[1] - values[-1])).mean() / 1e-6)

    labelled = {y: Records(features, np.full(4000, y, dtype=np.int8)) for y in (-1, 1)}
    own = told({y: 2.0 * query.evaluate(people, slots) - 1.0 for y, people in labelled.items()})
    most = 1.0 / np.maximum(chance, 1.0 - chance)
    others = [most * generator.uniform(-1.0, 1.0, 4000) for _ in range(20)]
    others += [np.clip(along, -1.0, 1.0), most * np.clip(along, -1.0, 1.0), np.sign(along)]
    assert all(told({1: g * (1.0 - chance), -1: -g * chance}) <= own * (1.0 + 1e-9) for g in others)
    plain = along if center is None else np.clip(along, -1.0, 1.0)  # the slopes of the logistic loss itself
    assert told({1: plain * (1.0 - chance), -1: -plain * chance}) < 0.8 * own


HYPOTHESIS = Linear(weights=(0.7, -1.2, 0.4), threshold=0.3)


def logistic_loss(parameters, x, label):
    return np.log1p(np.exp(-label * (x @ parameters[:3] - parameters[3])))


@for_each("coordinate", range(4))
def test_each_slot_asks_one_coordinate_of_the_gradient_of_the_logistic_loss(coordinate):
    records = people(40, 3)
    query = GradientQuery(hypothesis=HYPOTHESIS, bound=2.0)
    values = query.evaluate(records, np.full(40, coordinate))
    at, step = np.array([*HYPOTHESIS.weights, HYPOTHESIS.threshold]), 1e-5 * np.eye(4)[coordinate]
    for x, label, value in zip(records.features.astype(float), records.labels, values, strict=True):
        slope = (logistic_loss(at + step, x, label) - logistic_loss(at - step, x, label)) / 2e-5
        assert (2 * value - 1) * 2.0 == pytest.approx(slope, abs=1e-6)


def test_a_coordinate_beyond_the_bound_is_clipped():
    records = Records(np.array([[100, 0, 0], [-100, 0, 0]], dtype=np.float32), np.array([-1, 1], dtype=np.int8))
    hypothesis = Linear(weights=(0.0, 0.0, 0.0), threshold=0.0)
    values = GradientQuery(hypothesis=hypothesis, bound=1.0).evaluate(records, np.array([0, 0]))
    np.testing.assert_array_equal(values, [1.0, 1.0])


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
    half, most = 1 << (bits - 1), (1 << bits) - 1
    items = sorted({0, 1, half - 1, half, most - 1, most, 0x5555555555555555 >> (64 - bits)})
    records = holders(items, bits, first, dtype, spare)
    assert asked(records, bits=bits, first=first) == items
    query = ItemQuery(bits=bits, first=first)
    assert (query.domain, query.min_features, query.lengths) == (1 << bits, first + bits, (bits,))
    assert asked(records, bits=bits, first=first, public=(1 << 63) - 1) == items
    for below in (half, most):
        compared = ThresholdQuery(bits=bits, first=first, below=below)
        expected = [float(item < below) for item in items]
        assert compared.evaluate(records.only(compared.columns), np.arange(len(records))).tolist() == expected


def test_slots_take_turns_with_the_prefixes() -> None:
    item = 0b1011001
    records = holders([item] * 8, 7)
    query = ItemQuery(bits=7, prefixes=(1, 7, 4))
    assert query.domain == 1 << 7
    assert query.evaluate(records, np.arange(8)).tolist() == [1, item, 0b1011, 1, item, 0b1011, 1, item]
    assert query.evaluate(records, np.full(8, 5)).tolist() == [0b1011] * 8
    assert query.evaluate(records, np.full(8, (1 << 32) - 1)).tolist() == [1] * 8
    longest, longer = 0x9E3779B97F4A7C15, ItemQuery(bits=64, prefixes=tuple(range(1, 65)))
    prefixes = longer.evaluate(holders([longest] * 64, 64), np.arange(64)).tolist()
    assert prefixes == [longest >> (64 - length) for length in range(1, 65)]
    assert ItemQuery(bits=64, prefixes=(3, 10, 3)).domain == 1 << 10


def test_features_above_zero_are_ones() -> None:
    features = np.array([[-1.0, 1e-30, 0.0, 0.3], [-0.0, 2.0, -3e38, 3e38]], dtype=np.float32)
    assert asked(Records(features, np.ones(2, dtype=np.int8)), bits=4) == [0b0101, 0b0101]


def expressed(features: Any, labels: Any, **query: Any) -> list[float]:
    records = Records(np.array(features, dtype=np.float32), np.array(labels, dtype=np.int8))
    asked = ExpressionQuery(**query)
    return asked.evaluate(records.only(asked.columns), np.arange(len(records))).tolist()


def test_an_expression_is_its_sum_of_products_clipped() -> None:
    rows, labels = [[0.5, 9.0, 0.25], [1.0, 9.0, -0.5]], [1, -1]
    assert expressed(rows, labels, terms=[{"features": [0, 2]}]) == [0.125, 0.0]
    assert expressed(rows, labels, terms=[{"weight": 4.0, "features": [0, 2, 2], "label": True}]) == [0.125, 0.0]
    assert expressed(rows, labels, offset=0.5, terms=[{"weight": -0.5, "label": True}]) == [0.0, 1.0]
    assert expressed(rows, labels, offset=1.0, terms=[{"features": [2]}, {"features": [0]}]) == [1.0, 1.0]
    huge = [[3e38, 0.0, 3e38], [-3e38, 0.0, 3e38]]
    assert expressed(huge, labels, terms=[{"features": [0] * 7 + [2]}]) == [1.0, 0.0]
    both = [{"features": [0] * 8}, {"weight": -1.0, "features": [2] * 8}]
    assert expressed(huge, labels, terms=both) == [0.0, 0.0], "infinite less infinite is nobody's answer"


def test_any_function_of_five_bits_and_the_label_is_an_expression() -> None:
    """By its coefficients in the basis of products of signs: 64 of them, of which one is the offset."""
    generator = np.random.default_rng(5)
    values = generator.random(64)
    rows = np.array([[i >> j & 1 for j in range(6)] for i in range(64)])
    # Products of bits for the features, and 1 or the label beside them: solve for the 64 weights.
    subsets = [[j for j in range(5) if s >> j & 1] for s in range(32)]
    products = np.array([[row[list(subset)].prod() * factor for subset in subsets for factor in (1, 2 * row[5] - 1)]
                         for row in rows])  # fmt: skip
    weights = np.linalg.solve(products, values)
    terms = [
        {"weight": float(weights[2 * i + label]), "features": tuple(subset), "label": bool(label)}
        for i, subset in enumerate(subsets)
        for label in (0, 1)
        if subset or label
    ]
    found = expressed(rows[:, :5], 2 * rows[:, 5] - 1, offset=float(weights[0]), terms=terms)
    np.testing.assert_allclose(found, values, atol=1e-9)


def test_an_expression_is_said_with_the_names_of_its_columns() -> None:
    query = ExpressionQuery.parse(
        {
            "kind": "expression",
            "offset": 0.5,
            "terms": [{"weight": -0.25, "features": [0, 1], "label": True}, {"features": [3]}],
        }
    )
    assert query.asks(NAMED, 0) == (
        'a number from 0 to 1: 0.5 - 0.25 x "visits" x (1 if "plan" is "basic", else 0) x (+1 if "insured" is "yes", '
        'else -1) + "c0"; less counts as 0, and more as 1'
    )
    many = query.model_copy(update={"terms": query.terms * 2})
    assert many.asks(NAMED, 0) == (
        'a number from 0 to 1, a sum of 4 products of "visits", "plan" and "c0", and "insured"'
    )


@for_each(
    ("row", "norm", "moments"),
    [
        pytest.param((1.0, -0.5), 3.0, [0.75, 0.375, 0.25, 0.625, 0.0, 1.25 / 9.0], id="one a slot"),
        pytest.param((1.0, -0.5), 1e200, [0.75, 0.375, 0.25, 0.625, 0.0, 0.0], id="a norm whose square is no double"),
        pytest.param((100.0, -100.0), 3.0, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0], id="clipped beyond the bounds"),
    ],
)
def test_each_slot_asks_one_moment(row, norm, moments):
    records = Records(np.array([row] * 6, dtype=np.float32), np.full(6, -1, dtype=np.int8))
    query = MomentQuery(dimension=2, bound=2.0, norm=norm)
    np.testing.assert_allclose(query.evaluate(records, np.arange(6)), moments, rtol=1e-15)


def test_squares_are_added_up_from_the_first_on():
    row = [1e8, *[1.0] * 300]
    records = Records(np.array([row], dtype=np.float32), np.array([1], dtype=np.int8))
    query = MomentQuery(dimension=301, bound=1.0, norm=1e8)
    total = 0.0
    for value in row:
        total += value * value
    assert query.evaluate(records, np.array([603])).tolist() == [min(total / 1e16, 1.0)]
