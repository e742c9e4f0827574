"""Vectors of records: what a table's description makes of one person's fields."""

from __future__ import annotations

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
MEMBER: dict[str, Any] = {
    "age": 40,
    "tiny": 0.001,
    "joined": "2024-01-31",
    "member": True,
    "code": "1.5",
    "spent": 100.5,
}
FIELDS: tuple[tuple[str, dict[str, Any], dict[str, Any] | str], ...] = (
    *(
        ("plain", PERSON, change)
        for change in (
            {},
            {"visits": 0},
            {"visits": 30},
            {"visits": 31},
            {"visits": -1e300},
            {"visits": None},
            {"visits": "?"},
            {"visits": ""},
            {"visits": " 7.50 "},
            {"visits": "+7.5e0"},
            {"visits": "1e400"},
            {"visits": "seven"},
            {"visits": "0x7"},
            {"visits": "1_0"},
            {"plan": "duo"},
            {"plan": "family"},
            {"plan": " family\t"},
            {"plan": "Basic"},
            {"plan": "other"},
            {"plan": None},
            {"plan": "?"},
            {"renews": "no"},
            {"renews": "maybe"},
            {"renews": None},
            {"renews": "YES"},
            "visits",
            "renews",
        )
    ),
    *(
        ("mixed", MEMBER, change)
        for change in (
            {},
            {"age": 17},
            {"age": 90.0},
            {"age": None, "tiny": None, "code": None},
            {"tiny": 5e-324},
            {"tiny": "1e-3"},
            {"joined": "2024-01-31 00:00"},
            {"joined": "2024-01-31T00:00:00.000"},
            {"joined": "2024-02-01 12:30"},
            {"joined": "2024-02-01T12:30:00Z"},
            {"joined": "2024-02-02T00:00:00"},
            {"joined": "2024-02-30"},
            {"member": "TRUE"},
            {"member": 1},
            {"member": "0"},
            {"member": False},
            {"member": "no"},
            {"code": 1.5},
            {"code": "01.500"},
            {"code": 0},
            {"code": "-0.0"},
            {"code": "1000"},
            {"code": 1e3},
            {"code": "n/a"},
            {"code": "1,5"},
            {"spent": 100},
            {"spent": "100.00000000000001"},
            {"spent": None},
            {"spent": "many"},
        )
    ),
)
"""A table, a person's fields, and what is changed of them: fields, or one that is left out."""
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
    """Return the vectors of records."""
    cases = []
    for table, person, change in FIELDS:
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
