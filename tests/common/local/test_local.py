"""Cells of scores, groups and labels: every record has one item, and a tilt is a public function of it."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadMessage
from common.data.tables import TableSource, record_of
from common.local import losses
from common.local.hypotheses.composed import Relabelled
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import HypothesisLoss, ScoreCells
from common.local.naming import LISTED, UNNAMED, Names
from common.local.packing import mask_bytes, pack_answers, pack_one, unpack_answers
from common.local.queries.features import CodeQuery, CoordinateQuery, MomentQuery, ScoreQuery
from common.local.queries.query import LossQuery
from common.local.queries.residuals import ResidualQuery
from common.local.records import Records
from common.operations.operation import Reweigh
from common.scenario.loading import described_people
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


@for_each(
    ("wrong", "words"),
    [
        ({"cuts": []}, "at least 1"),
        ({"cuts": [0.0, 0.0]}, "ascend"),
        ({"cuts": [1.0, 0.0]}, "ascend"),
        ({"groups": [1, 1]}, "two groups"),
        ({"cuts": [float(cut) for cut in range(255)], "groups": list(range(20))}, "more than 4096"),
        ({"groups": [-1]}, "greater than or equal to 0"),
        # What it is held against would be looked at twice.
        ({"hypothesis": Relabelled(column=2, hypothesis=FIRST).wire()}, "cannot be part of another"),
    ],
)
def test_cells_that_make_no_sense_are_refused(wrong, words):
    with pytest.raises(BadMessage, match=words):
        ScoreCells.parse({"hypothesis": FIRST.wire(), "cuts": [0.0], **wrong})


PLANE = Linear(weights=(1.0,), threshold=0.25)
"""Margins of the records below: 0.5, 0.5, -0.5, 4, 4, 0."""
RECORDS = Records(
    np.array([[0.75], [0.75], [-0.25], [4.25], [4.25], [0.25]], dtype=np.float32),
    np.array([1, -1, 1, 1, -1, 1], dtype=np.int8),
)
EXPECTED = {
    "zero-one": [0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
    "hinge": [0.5, 1.0, 1.0, 0.0, 1.0, 1.0],
    "perceptron": [0.0, 0.5, 0.5, 0.0, 1.0, 0.0],
    "squared": [0.0625, 0.5625, 0.5625, 0.0, 1.0, 0.25],
}
BOUNDED = {
    "hinge": (4.0, [0.125, 0.375, 0.375, 0.0, 1.0, 0.25]),
    "perceptron": (4.0, [0.0, 0.125, 0.125, 0.0, 1.0, 0.0]),
    "logistic": (2.0, [math.log1p(math.exp(-m)) / 2.0 if m > -2.0 else 1.0 for m in (0.5, -0.5, -0.5, 4, -4, 0)]),
    "squared": (0.25, [0.25, 1.0, 1.0, 0.0, 1.0, 1.0]),
}
"""Bounds, and the losses as parts of them."""


@for_each("loss", EXPECTED)
def test_losses_are_as_defined(loss):
    assert losses.evaluate(loss, PLANE, RECORDS).tolist() == EXPECTED[loss]
    assert LossQuery(hypothesis=PLANE, loss=loss).evaluate(RECORDS, np.arange(6)).tolist() == EXPECTED[loss]


@for_each("loss", BOUNDED)
def test_a_convex_loss_is_a_part_of_its_bound_for_agents_and_curator_and_of_one_its_messages_say_nothing(loss):
    bound, expected = BOUNDED[loss]
    query = LossQuery(hypothesis=PLANE, loss=loss, bound=bound)
    np.testing.assert_allclose(query.evaluate(RECORDS, np.arange(6)), expected, rtol=1e-12)
    request = Reweigh(hypothesis=PLANE, loss=loss, bound=bound)
    assert np.abs(request.reweighs_by.count(RECORDS) / 1024 - expected).max() <= 2.0**-11
    assert f"of which {bound:g} and more count as 1" in query.asks(UNNAMED, 0)
    for message in (query, request):
        assert message.wire()["bound"] == bound
        assert "bound" not in message.model_copy(update={"bound": 1.0}).wire()
    for wrong in (0.0, -1.0, 1e7, math.inf, math.nan):
        with pytest.raises(BadMessage):
            LossQuery.parse({**query.wire(), "bound": wrong})


@for_each("loss", EXPECTED)
def test_counts_are_the_nearest_parts(loss):
    random = np.random.default_rng(1)
    records = Records(
        random.normal(size=(500, 1)).astype(np.float32), np.where(random.random(500) < 0.5, 1, -1).astype(np.int8)
    )
    parts = losses.grain(loss)
    counted = HypothesisLoss(PLANE, loss).count(records)
    assert np.abs(counted / parts - losses.evaluate(loss, PLANE, records)).max() <= 0.5 / parts


@pytest.mark.parametrize("loss", ["hinge", "perceptron", "logistic"])
def test_an_overflowing_margin_without_a_value_has_loss_0(loss):
    mad = Linear(weights=(1e30, -1e30), threshold=0.0)
    records = Records(np.full((1, 2), 3e38, dtype=np.float32), np.array([1], dtype=np.int8))
    assert losses.evaluate(loss, mad, records).tolist() == [0.0]


TABLE = TableSource.parse(
    {
        "files": ["t.csv"],
        "label": {"column": "insured", "positive": ["yes"], "negative": ["no", "never"]},
        "features": [
            {"kind": "number", "column": "age", "low": 18.0, "high": 90.0},
            {"kind": "category", "column": "plan", "values": ["basic", ["pro", "team"]]},
            {"kind": "missing", "column": "age"},
        ],
    }
)
NAMES = Names.of_table(TABLE.wire())


def test_the_names_are_those_of_the_table_feature_by_feature():
    assert len(NAMES.features) == TABLE.dimension
    assert NAMES.among([1, 2, 0]) == '"plan" and "age"'
    assert NAMES.labelled(1) == '"insured" is "yes"'
    assert NAMES.labelled(-1) == '"insured" is "no" or "never"'
    assert Names.of_table({**TABLE.wire(), "label": {"column": "spent", "above": 3.5}}).labelled(-1) == (
        '"spent" is 3.5 or less'
    )
    assert UNNAMED.among([0, 1, 2]) == "numbers 1 to 3 of your record"
    assert UNNAMED.among([4]) == "number 5 of your record"
    assert UNNAMED.among([0, 2]) == "numbers 1 and 3 of your record"
    assert UNNAMED.labelled(-1) == "the label of your record is -1"
    many = UNNAMED.conditions(range(40))
    assert many.endswith(f"and {40 - LISTED + 1} others")
    assert Names.parse(NAMES.wire()) == NAMES


def test_a_condition_is_true_of_a_person_where_the_feature_is_above():
    for age, plan in ((18, "basic"), (18.5, "pro"), (54, "team"), (55, "other"), (90, "basic"), (None, "pro")):
        record = record_of({"age": age, "plan": plan, "insured": "yes"}, TABLE)
        holds = {
            '"age" is above 18': age is None or age > 18,
            '"age" is above 54': age is not None and age > 54,
            '"age" is "missing"': age is None,
            '"plan" is "basic"': plan == "basic",
            '"plan" is "pro" or "team"': plan in ("pro", "team"),
        }
        for feature, share in ((0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (2, 0.5), (3, 0.0)):
            assert holds[NAMES.true(feature, share)] == bool(record.features[0, feature] > share)


def test_where_records_are_shortened_no_share_of_a_bound_is_claimed():
    shortened = Names.of_table({**TABLE.wire(), "norm": 1.0})
    assert shortened.true(0) == '"age" is above 18'
    assert shortened.true(0, 0.5) == '"age" is above 0.5'
    assert shortened.true(1, 0.5) == '"plan" is above 0.5'


@for_each(
    "wrong",
    [
        *(None, 7, [], {}),
        *({"features": wrong, "label": {"column": "a"}} for wrong in (3, "")),
        {"features": {}, "label": {"column": "a"}},
        {"features": [{"column": "b", "values": {}}], "label": {"column": "a"}},
        {"features": [{"column": "b", "values": "yes"}], "label": {"column": "a"}},  # a text, and no list of "y", ...
        {"features": [], "label": 1},
        {"features": [{"column": "a"}], "label": {"column": "b"}},
    ],
)
def test_what_describes_no_table_is_refused(wrong):
    with pytest.raises(BadMessage, match="no table"):
        Names.of_table(wrong)
    with pytest.raises(BadMessage):
        Names.of_table({"features": [{"column": 1, "values": ["x"]}], "label": {"column": "b"}})


def test_what_a_default_run_asks_in_words():
    """What else it asks stands on a page, below."""
    moment = MomentQuery(dimension=3, bound=1.0, norm=2.0)
    for query, slot, said in (
        (LossQuery(hypothesis=Constant(label=-1)), 0, 'whether "insured" is "yes": the value is 1 if so, else 0'),
        (moment, 4, 'the product of "plan" and "insured", as a number from 0 to 1'),
        (moment, 6, 'whether "insured" is "yes": the value is 1 if so, else 0'),
        (CoordinateQuery(first=1, count=2), 5, 'whether "plan" is "pro" or "team": the value is 1 if so, else 0'),
    ):
        assert query.asks(NAMES, slot) == said


def test_the_page_prints_what_a_person_reads():
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text("utf-8")
    people = described_people(str(Path(__file__).parents[3] / "examples/own_data/scenario.yaml"))
    names = Names.of_table(people.table.wire())
    rule, constant = Linear(weights=(1.0,) * 5, threshold=0.1), Constant(label=1)
    cells = ScoreCells(hypothesis=rule, cuts=tuple(range(7)))
    for query in (
        LossQuery(hypothesis=constant),
        LossQuery(hypothesis=rule),
        ResidualQuery(hypothesis=rule, slope=1.0, intercept=0.0),
        ScoreQuery(cells=cells, public=1),
    ):
        assert f" | {query.asks(names, 0)} |\n" in page


def test_the_digit_of_a_code_is_the_parity_of_the_conditions_that_are_named():
    random = np.random.default_rng(3)
    query = CodeQuery(first=1, bits=5, sign="label", present=0, public=11)
    table = {"features": [{"column": f"c{j}", "values": ["1"]} for j in range(6)]}
    names = Names.of_table({**table, "label": {"column": "y", "positive": ["1"], "negative": ["0"]}})
    records = Records(random.integers(0, 2, (64, 6)).astype(np.uint8), random.choice([-1, 1], 64).astype(np.int8))
    slots = np.arange(64)
    values = query.evaluate(records.only(query.columns), slots)
    for i in range(64):
        said, _, present = query.asks(names, int(slots[i])).partition(", but 1/2 unless ")
        assert present == '"c0" is "1"'
        held = {f"c{j}": int(records.features[i, j]) for j in range(6)} | {"y": int(records.labels[i] > 0)}
        odd = sum(held[column] for column in re.findall(r'"(\w+)" is "1"', said)) % 2
        assert values[i] == (odd if held["c0"] else 0.5)


KINDS = st.sampled_from(["bit", "real", 3, 200, 256, 257, 1000, 65536])


@settings(max_examples=300, derandomize=True)
@given(KINDS, st.data())
def test_answers_come_back_and_there_is_one_encoding(kind, data):
    answer = st.floats(allow_nan=False, allow_infinity=False)
    if kind != "real":
        answer = st.integers(0, 1 if kind == "bit" else kind - 1)
    people = data.draw(st.lists(st.tuples(st.booleans(), answer), min_size=1, max_size=70))
    answered, given_answers = np.array([a for a, _ in people]), np.array([b for _, b in people])
    body = pack_answers(answered, given_answers, kind)
    back, answers = unpack_answers(body, len(people), kind)
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, given_answers, 0))
    assert pack_answers(back, answers, kind) == body
    assert len(body) == 2 * mask_bytes(len(people)) or kind != "bit"


@settings(max_examples=500, derandomize=True)
@given(st.binary(max_size=12), st.integers(1, 40), KINDS)
def test_any_bytes_decode_to_what_encodes_to_them_or_are_refused(body, people, kind):
    try:
        answered, answers = unpack_answers(body, people, kind)
    except BadMessage:
        return
    assert pack_answers(answered, answers, kind) == body


GOOD = pack_answers(np.ones(9, dtype=np.bool_), np.ones(9, dtype=np.uint8), "bit")


@for_each(
    ("body", "people", "kind", "why"),
    [
        (GOOD[:-1], 9, "bit", "take 4 bytes, found 3"),
        (GOOD + bytes(1), 9, "bit", "found 5"),
        (GOOD[:1] + bytes([255]) + GOOD[2:], 9, "bit", "padding"),
        (GOOD[:3] + bytes([0x81]), 9, "bit", "padding"),
        (bytes([0x7F]) + GOOD[1:], 9, "bit", "marked silent"),
        *((bytes([0x80]) + np.float64(bad).tobytes(), 1, "real", "finite") for bad in (np.nan, np.inf, -np.inf)),
        (bytes(1) + np.float64(np.nan).tobytes(), 1, "real", "finite"),
        (bytes(1) + np.float64(-0.0).tobytes(), 1, "real", "marked silent"),  # equal to zero, and another encoding
        (bytes([0xC0, 2, 3]), 2, 3, "hold 3; the symbols are 0 to 2"),
        (bytes([0xC0, 2, 255]), 2, 3, "hold 255; the symbols are 0 to 2"),
        (bytes([0xC0, 0, 0, 0xE8, 3]), 2, 1000, "hold 1000; the symbols are 0 to 999"),
        (bytes([0xC0, 0, 0, 0, 0, 0]), 2, 1000, "take 5 bytes, found 6"),
        (bytes([0xC0, 0]), 2, 3, "take 3 bytes, found 2"),
        (bytes([0x80, 2, 1]), 2, 3, "marked silent"),
        (bytes([0xE0, 2, 1]), 2, 3, "padding"),
    ],
)
def test_the_attacks_by_name(body, people, kind, why):
    with pytest.raises(BadMessage, match=why):
        unpack_answers(body, people, kind)


@for_each("kind", ["bit", 3, 256, 257, 65536])
def test_one_answer_is_one_of_the_symbols_or_is_refused(kind):
    most = 1 if kind == "bit" else kind - 1
    for answer in (0.0, 1.0, float(most)):
        answered, answers = unpack_answers(pack_one(answer, kind), 1, kind)
        assert (answered.tolist(), answers.tolist()) == ([True], [answer])
    for wrong in (0.5, -1.0, most + 1.0, most + 0.5, 1e300, np.inf, -np.inf, np.nan):
        with pytest.raises(BadMessage, match=f"answer must be one of 0 to {most} under this run's mechanism, found"):
            pack_one(wrong, kind)
    assert unpack_answers(pack_one(-0.5, "real"), 1, "real")[1].tolist() == [-0.5]
