"""What a person reads about their record is true of it: conditions, columns and labels by the names of the table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.data.tables.record import record_of
from common.data.tables.source import TableSource
from common.local.cells import ScoreCells
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.naming import LISTED, UNNAMED, Names
from common.local.queries.code import CodeQuery
from common.local.queries.coordinate import CoordinateQuery
from common.local.queries.loss import LossQuery
from common.local.queries.moment import MomentQuery
from common.local.queries.query import Query
from common.local.queries.score import ScoreQuery
from common.local.queries.sole_error import SoleErrorQuery
from common.local.records import Records
from common.scenario.loading import target_table
from tests.tiers import for_each

TABLE = TableSource.parse(
    {
        "files": ["t.csv"],
        "label": {"column": "insured", "positive": ["yes"], "negative": ["no", "never"]},
        "features": [
            {"kind": "number", "column": "age", "low": 18.0, "high": 90.0},
            {"kind": "category", "column": "plan", "values": ["basic", ["pro", "team"]]},
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
    for age, plan in ((18, "basic"), (18.5, "pro"), (54, "team"), (55, "other"), (90, "basic")):
        record = record_of({"age": age, "plan": plan, "insured": "yes"}, TABLE)
        holds = {
            '"age" is above 18': age > 18,
            '"age" is above 54': age > 54,
            '"plan" is "basic"': plan == "basic",
            '"plan" is "pro" or "team"': plan in ("pro", "team"),
        }
        for feature, share in ((0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (2, 0.5)):
            assert holds[NAMES.true(feature, share)] == bool(record.features[0, feature] > share)


def test_where_records_are_shortened_no_share_of_a_bound_is_claimed():
    shortened = Names.of_table({**TABLE.wire(), "norm": 1.0})
    assert shortened.true(0) == '"age" is above 18'
    assert shortened.true(0, 0.5) == '"age" is above 0.5'
    assert shortened.true(1, 0.5) == '"plan" is above 0.5'


@for_each("wrong", [
    None,
    7,
    [],
    {},
    {"features": 3, "label": {"column": "a"}},
    {"features": [], "label": 1},
    {"features": [{"column": "a"}], "label": {"column": "b"}},
    {"features": [{"column": 1, "values": ["x"]}], "label": {"column": "b"}},
])  # fmt: skip
def test_what_describes_no_table_is_refused(wrong):
    with pytest.raises(BadMessage):
        Names.of_table(wrong)


def test_a_question_about_a_constant_is_one_about_the_label():
    for label, says in ((1, '"insured" is "no" or "never"'), (-1, '"insured" is "yes"')):
        query = LossQuery(hypothesis=Constant(label=label))
        assert query.asks(NAMES, 0) == f"whether {says}: the value is 1 if so, else 0"
        for insured in ("yes", "no"):
            record = record_of({"age": 30, "plan": "pro", "insured": insured}, TABLE)
            (value,) = query.evaluate(record, np.zeros(1, dtype=np.int64))
            assert value == (says == NAMES.labelled(1)) * (insured == "yes") + (says == NAMES.labelled(-1)) * (
                insured == "no"
            )


def test_what_a_default_run_asks_in_words():
    rule = Linear(weights=(0.5, -1.0, 2.0), threshold=0.1)
    words = 'a rule that predicts "insured" from "age" and "plan"'
    moment = MomentQuery(dimension=3, bound=1.0, norm=2.0)
    asked: list[tuple[Query, int, str]] = [
        (LossQuery(hypothesis=rule), 0, f"whether {words} is wrong about you: the value is 1 if so, else 0"),
        (
            ScoreQuery.example()[0],
            0,
            f"one binary digit that is made of in which of 4 ranges the score of {words} is for you, and "
            '"insured": the value is 0 or 1',
        ),
        (moment, 4, 'the product of "plan" and "insured", as a number from 0 to 1'),
        (moment, 6, 'whether "insured" is "yes": the value is 1 if so, else 0'),
        (CoordinateQuery(first=1, count=2), 5, 'whether "plan" is "pro" or "team": the value is 1 if so, else 0'),
    ]
    for query, slot, said in asked:
        assert query.asks(NAMES, slot) == said


def test_the_page_prints_what_a_person_reads():
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text("utf-8")
    names = Names.of_table(target_table(str(Path(__file__).parents[3] / "examples/own_data/scenario.yaml")).wire())
    rule, constant = Linear(weights=(1.0,) * 5, threshold=0.1), Constant(label=1)
    cells = ScoreCells(hypothesis=rule, cuts=tuple(range(7)))
    for query in (
        LossQuery(hypothesis=constant),
        LossQuery(hypothesis=rule),
        ScoreQuery(cells=cells, public=1),
        SoleErrorQuery(hypothesis=rule, other=constant),
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
