"""The form's record is Python's, to the bit: generated schemas and fields, and what neither takes."""

import random
import shutil
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadData, BadMessage
from common.data.tables import TableSource, record_of
from local_agent.page import public_schema
from tests.local_agent.web.node import in_node

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")]

TABLE = {
    "files": ["people.csv"],
    "label": {"column": "renews", "positive": ["yes", "1"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": -3, "high": 30.5, "fill": 3},
        {"kind": "number", "column": "months", "low": 0.1, "high": 0.7},
        {"kind": "missing", "column": "months"},
        {"kind": "category", "column": "plan", "values": ["basic", ["family", "Home"], "true", "007", "2024-01-31"]},
    ],
    "where": {"country": ["DE", "2"]},
    "norm": 1.25,
}
WIDE = {
    **TABLE,
    "label": {"column": "visits", "above": 2.5},
    "features": [{"kind": "number", "column": f"n{at}", "low": 0, "high": at % 7 + 0.3} for at in range(300)],
    "norm": 3.1,
}
LOCAL = {**TABLE, "layout": {"decimal": ",", "missing": ["n/a"]}, "where": {}}
GROUPED = {**TABLE, "layout": {"thousands": "'", "missing": ["", "-"]}, "where": {}, "norm": None}
TABLES = [TABLE, WIDE, LOCAL, GROUPED]
SPELLED = [
    *("", " ", "?", "n/a", "-", "yes", " yes\u3000", "no", "1", "1.0", "+1e0", "0"),
    *("true", "TRUE", "basic", "Home", "7"),
    *("007", "DE", "2", "2.00", "2024-01-31", "2024-01-31 00:00", "2024-01-31T01:00:00+01:00", "2024-02-30 10:00"),
    *("12:30:00.500", "0001-01-01 00:00+05", "2024-01-31T00:00:00Z", "1,5", "1.234,5", "1\u202f234", "1'234", "1'23"),
    *(".5", "5.", "1e400", "1e-30", "123456789012345678901234567890", "-0", "1e99999", "1e999999", "nan", "inf"),
    *("\ufeff1", "0x10", "\u0661"),
]


def field(draw: random.Random) -> Any:
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice([None, True, False, 1, 0, 2, -7, 1e21, 1e-7, 0.1, [1], {}])
    return draw.uniform(-5, 40) if kind < 4 else draw.choice(SPELLED)


def case(draw: random.Random, table: TableSource) -> dict[str, Any]:
    columns = {each.column for each in (*table.features, table.label)} | table.where.keys()
    wide = len(columns) > 10  # where one bad field of many would hide all others
    fields = {
        column: draw.uniform(-1, 8) if wide else field(draw) for column in sorted(columns) if draw.random() > 1e-4
    }
    if draw.random() < 0.9:
        fields["renews"] = draw.choice(["yes", "no", 1])
        fields["country"] = draw.choice(["DE", "2", 2.0])
    return fields


def expected(fields: dict[str, Any], table: TableSource) -> list[Any]:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            record = record_of(fields, table)
    except BadData:
        return ["bad-data"]
    return [record.features.tobytes().hex(), int(record.labels[0])]


RECORDS = """
import { recordOf } from "WEB/record.js";
const [schemas, cases] = given;
console.log(JSON.stringify(cases.map(([number, fields]) => {
  try {
    const { features, label } = recordOf(fields, schemas[number]);
    return [Buffer.from(features.buffer).toString("hex"), label];
  } catch (error) {
    return [error.problem ?? String(error)];
  }
})));
"""


def made(tables: list[TableSource], cases: list[Any]) -> list[Any]:
    """Return what record.js makes of each case, which names its table by a number."""
    return list(in_node(RECORDS, [[public_schema(table) for table in tables], cases]))


def test_a_record_is_the_one_that_python_makes_to_the_bit():
    draw = random.Random(1)
    tables = [TableSource.parse(tree) for tree in TABLES]
    chosen = [draw.choice([0, 0, 0, 1, 2, 3]) for _ in range(4000)]
    cases = [(number, case(draw, tables[number])) for number in chosen]
    found = made(tables, cases)
    wanted = [expected(fields, tables[number]) for number, fields in cases]
    wrong = [(cases[at], found[at], wanted[at]) for at in range(len(cases)) if found[at] != wanted[at]]
    assert wrong == []
    for number in range(len(tables)):
        refused = [each == ["bad-data"] for each, of in zip(wanted, chosen, strict=True) if of == number]
        assert 0 < sum(refused) < len(refused) - 100, number


def test_every_spelling_of_a_field_means_the_same():
    """Each spelling as the one value of a category, beside each as the field, and each as a number."""
    tables: list[TableSource] = []
    cases: list[tuple[int, dict[str, Any]]] = []
    for layout in ({}, LOCAL["layout"], GROUPED["layout"]):
        number = {"kind": "number", "column": "b", "low": -1e30, "high": 1e30}
        listed = [{"kind": "category", "column": "b", "values": [text]} for text in SPELLED]
        for feature in (number, *listed):
            try:
                tree = {**TABLE, "features": [feature], "where": {}, "norm": None, "layout": layout}
                tables.append(TableSource.parse(tree))
            except BadMessage:  # the value is a missing one in another spelling
                continue
            cases += [(len(tables) - 1, {"b": text, "renews": "no"}) for text in SPELLED]
    found = made(tables, cases)
    wanted = [expected(fields, tables[number]) for number, fields in cases]
    assert [pair for pair in zip(cases, found, wanted, strict=True) if pair[1] != pair[2]] == []
    assert len(cases) > 5_000
    assert sum(each != ["bad-data"] and each[0] != "00000000" for each in wanted) > 200


def test_bounds_that_are_far_apart_make_the_same_record():
    """Their difference is nearly no double, and what is a little below the lower one may become -0."""
    far = [
        {"kind": "number", "column": "visits", **each}
        for each in ({"low": -8e307, "high": 8e307, "fill": 3}, {"low": 0, "high": 1e300})
    ]
    table = TableSource.parse({**TABLE, "features": far, "where": {}})
    fields = [{"visits": visits, "renews": "yes"} for visits in (1.2e308, -1e308, -1e-300, 1e300, None)]
    assert made([table], [(0, each) for each in fields]) == [expected(each, table) for each in fields]


def test_a_text_that_is_nearly_all_spaces_is_read_as_soon_as_any_other():
    """A search that begins anew at each of a million spaces would take hours."""
    table = TableSource.parse({**TABLE, "where": {}})
    fields = {"visits": 1, "months": 0.5, "plan": f"a{' ' * 1_000_000}b ", "renews": "yes"}
    assert made([table], [(0, fields)]) == [expected(fields, table)]
