"""Real shifts: who the curator's people are, who the population is, and how their columns become features."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.people.tables.loading import encode
from common.people.tables.source import TableSource
from common.vocabulary.records import Records

Rows = Callable[[polars.DataFrame], AnyArray]
"""Say which rows of a table are meant, shape (rows,), bool."""


@dataclass(frozen=True)
class Shift:
    """A shift.

    Attributes
    ----------
    name, words
        For a table and for people.
    data
        Which data set, a folder.
    source, target
        Whose records the curator has, and who the agents are.
    people
        n, the curator's people; fewer where there are not as many.
    """

    name: str
    words: str
    data: str
    source: Rows
    target: Rows
    people: int


@dataclass(frozen=True, repr=False, eq=False)
class Both:
    """Records of both sides of a shift, in the order of the file."""

    source: Records
    target: Records


def _number(column: str, low: float, high: float, fill: float | None = None) -> dict[str, Any]:
    return {"kind": "number", "column": column, "low": low, "high": high, "fill": fill}


def _category(column: str, values: str) -> dict[str, Any]:
    return {"kind": "category", "column": column, "values": values.split()}


ADULT: dict[str, Any] = {
    "files": ["adult.data", "adult.test"],
    "label": {"column": "income", "positive": [">50K"], "negative": ["<=50K"]},
    "norm": 2.0,
    "features": [
        _number("age", 17, 90),
        _number("education-num", 1, 16),
        _number("hours-per-week", 0, 80),
        _number("capital-gain", 0, 20000),
        _number("capital-loss", 0, 2500),
        _category("marital-status", "Married-civ-spouse Married-AF-spouse Never-married Divorced Separated Widowed"),
        _category(
            "occupation",
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
            "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv",
        ),
    ],
}
FLIGHTS: dict[str, Any] = {
    "files": ["flights.parquet"],
    "label": {"column": "delayed", "positive": ["1"], "negative": ["0"]},
    "norm": 2.0,
    "features": [
        _number("sched_dep_time", 500, 2359),
        _number("distance", 0, 2600),
        _number("temp", 10, 100, 55),
        _number("wind_speed", 0, 40, 10),
        _number("precip", 0, 0.1, 0),
        _number("visib", 0, 10, 10),
        _number("pressure", 990, 1040, 1018),
        _category("origin", "EWR LGA JFK"),
        _category("carrier", "UA B6 EV DL AA MQ US 9E WN VX FL AS F9"),
        _category("dest", "ORD ATL LAX BOS MCO CLT SFO FLL MIA DCA DTW DFW RDU TPA DEN IAH MSP PBI BNA LAS"),
    ],
}
_ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]


def _months(*months: int) -> Rows:
    return lambda frame: np.asarray(frame["month"].is_in(list(months)).to_numpy())


def _hours(low: int, high: int) -> Rows:
    return lambda frame: np.asarray(frame["sched_dep_time"].is_between(low, high, closed="left").to_numpy())


def _is(column: str, *values: str) -> Rows:
    return lambda frame: np.asarray(frame[column].is_in(list(values)).to_numpy())


def _not(rows: Rows) -> Rows:
    return lambda frame: np.asarray(np.logical_not(rows(frame)))


def _unasked(frame: polars.DataFrame) -> AnyArray:
    return np.arange(len(frame)) % 2 == 0


def _volunteers(frame: polars.DataFrame) -> AnyArray:
    """Return who volunteers of every other row: the young, the educated and the poor more readily."""
    chance = np.where(frame["age"].to_numpy() < 35, 1.0, 0.2) * np.where(
        frame["education-num"].to_numpy() >= 11, 1, 0.2
    )
    chance = chance * np.where((frame["income"] == ">50K").to_numpy(), 0.15, 1.0)
    return ~_unasked(frame) & (np.random.default_rng(1994).random(len(frame)) < chance)


SHIFTS: tuple[Shift, ...] = (
    Shift("adult-volunteers", "Adult, volunteers: young, educated, poor", "adult", _volunteers, _unasked, 4_900),
    Shift("adult-women", "Adult, men to women", "adult", _is("sex", "Male"), _is("sex", "Female"), 30_000),
    Shift("flights-autumn", "flights, June-July to autumn", "nyc_flights", _months(6, 7), _months(9, 10, 11), 20_000),
    Shift("flights-summer", "flights, autumn to June-July", "nyc_flights", _months(9, 10, 11), _months(6, 7), 20_000),
    Shift("flights-winter", "flights, winter to June-July", "nyc_flights", _months(12, 1, 2), _months(6, 7), 20_000),
    Shift("flights-day", "flights, evening to day", "nyc_flights", _hours(1700, 2400), _hours(0, 1700), 20_000),
    Shift(
        "flights-lga", "flights, Newark to LaGuardia", "nyc_flights", _is("origin", "EWR"), _is("origin", "LGA"), 20_000
    ),
    Shift(
        "flights-carriers",
        "flights, one carrier to all others",
        "nyc_flights",
        _is("carrier", "UA"),
        _not(_is("carrier", "UA")),
        20_000,
    ),
)


def table(shift: Shift) -> TableSource:
    """Return how a shift's columns become features."""
    return TableSource.model_validate({"adult": ADULT, "nyc_flights": FLIGHTS}[shift.data])


@cache
def _frame(folder: Path) -> polars.DataFrame:
    if folder.name == "adult":
        return _adult(folder)
    known = polars.read_parquet(folder / "flights.parquet").filter(polars.col("delayed").is_not_null())
    return known.with_columns(polars.col("delayed").cast(polars.Utf8))


def _adult(folder: Path) -> polars.DataFrame:
    rows = []
    for file in ("adult.data.xz", "adult.test.xz"):
        with lzma.open(folder / file, "rt") as lines:
            fields = ([field.strip() for field in line.rstrip(".\n").split(",")] for line in lines)
            rows += [row for row in fields if len(row) == len(_ADULT_COLUMNS) and "?" not in row]
    frame = polars.DataFrame(rows, schema=_ADULT_COLUMNS, orient="row")
    numbers = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")
    return frame.with_columns(polars.col(name).cast(polars.Float64) for name in numbers)


def load(shift: Shift, data: Path) -> Both:
    """Return the records of both sides."""
    frame, source = _frame(data / shift.data), table(shift)
    sides = []
    for rows in (shift.source, shift.target):
        kept = frame.filter(polars.Series(rows(frame)))
        positive = kept[source.label.column].is_in(list(source.label.positive)).to_numpy()
        sides.append(Records(encode(kept, source), np.where(positive, np.int8(1), np.int8(-1))).check())
    return Both(*sides)
