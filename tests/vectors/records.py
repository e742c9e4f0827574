"""Vectors of records: what a table's description makes of one person's fields."""

import hashlib
from typing import Any

import numpy as np

from common.core.errors import TandemError
from common.data.tables import TableSource, record_of
from local_agent.page import public_schema
from tests.vectors.assignments import TABLE

MORE: dict[str, Any] = {
    "files": ["people.csv"],
    "label": {"column": "spent", "above": 100.0},
    "features": [
        {"kind": "number", "column": "age", "low": 18, "high": 90},
        {"kind": "number", "column": "tiny", "low": -1e-3, "high": 2e-3, "fill": 0.0},
        {"kind": "category", "column": "joined", "values": ["2024-01-31", ["2024-02-01T12:30:00", "2024-02-02"]]},
        {"kind": "category", "column": "member", "values": ["true", "false"]},
        {"kind": "category", "column": "code", "values": ["1.50", "-0", "1e3"]},
        {"kind": "missing", "column": "code"},
    ],
    "norm": 1.25,
    "layout": {"missing": ["", "?", "n/a"]},
}
PERSON: dict[str, Any] = {"visits": 12, "plan": "basic", "renews": "yes"}
MEMBER: dict[str, Any] = {"age": 40, "tiny": 0.001, "joined": "2024-01-31", "member": True, "code": "1.5"}
MEMBER |= {"spent": 100.5}
Change = dict[str, Any] | str


def each(column: str, *values: Any) -> tuple[dict[str, Any], ...]:
    """Return changes of one field, to each of the values."""
    return tuple({column: value} for value in values)


CHANGES: tuple[tuple[str, dict[str, Any], tuple[Change, ...]], ...] = (
    (
        "plain",
        PERSON,
        (
            *(
                {},
                *each("visits", 0, 30, 31, -1e300, None, "?", "", " 7.50 ", "+7.5e0", "1e400", "seven", "0x7", "1_0"),
            ),
            *each("plan", "duo", "family", " family\t", "Basic", "other", None, "?"),
            *(*each("renews", "no", "maybe", None, "YES"), "visits", "renews"),
        ),
    ),
    (
        "mixed",
        MEMBER,
        (
            *({}, *each("age", 17, 90.0), {"age": None, "tiny": None, "code": None}, *each("tiny", 5e-324, "1e-3")),
            *each("joined", "2024-01-31 00:00", "2024-01-31T00:00:00.000", "2024-02-01 12:30", "2024-02-01T12:30:00Z"),
            *each("joined", "2024-02-02T00:00:00", "2024-02-30"),
            *each("member", "TRUE", 1, "0", False, "no"),
            *each("code", 1.5, "01.500", 0, "-0.0", "1000", 1e3, "n/a", "1,5"),
            *each("spent", 100, "100.00000000000001", None, "many"),
        ),
    ),
)
"""A table, a person's fields, and what is changed of them in turn: fields, or one that is left out."""
TABLES = {"plain": TABLE, "mixed": MORE}


def encoded(table: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return one person's record, or the problem of their fields."""
    try:
        record = record_of(fields, TableSource.parse(table))
    except TandemError as error:
        return {"refused": error.problem}
    features = record.features[0].astype("<f4")
    return {
        "features": [float(each) for each in features],
        "bytes": features.tobytes().hex(),
        "label": int(record.labels[0]),
        "fingerprint": record.fingerprint(),
    }


def records_file() -> dict[str, Any]:
    cases = []
    for table, person, change in ((table, person, each) for table, person, changes in CHANGES for each in changes):
        fields = {k: v for k, v in person.items() if k != change} if isinstance(change, str) else {**person, **change}
        cases.append({"table": table, "fields": fields, **encoded(TABLES[table], fields)})
    bits = np.array([[0, 1, 1]], dtype=np.uint8).tobytes()
    about = "tables, their schemas as a page has them; what fields become: float32 numbers, bytes, label, fingerprint"
    other = hashlib.sha256(bits + b"\xff").hexdigest()
    return {
        "about": about,
        "tables": TABLES,
        "schemas": {name: public_schema(TableSource.parse(table)) for name, table in TABLES.items()},
        "cases": cases,
        "bits": {"features": [0, 1, 1], "label": -1, "fingerprint": other},
    }
