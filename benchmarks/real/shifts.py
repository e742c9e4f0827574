"""Real shifts: which people are the curator's, and which are the population."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars

from benchmarks.real.datasets import DATASETS
from common.core.arrays import AnyArray
from common.data.loading import encode
from common.data.tables import TableSource
from common.local.records import Records

Rows = Callable[[polars.DataFrame], AnyArray]
"""Returns which rows of a table belong to a side, shape (rows,), bool."""


@dataclass(frozen=True)
class Shift:
    """A shift.

    Attributes:
        name, words: Its name in tables, and its description for readers.
        data: Its data set, a folder.
        source, target: Which rows are the curator's people, and which the agents.
        people: n, the curator's people; fewer if there are not as many.
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


def _in(column: str, *numbers: int) -> Rows:
    return lambda frame: np.asarray(frame[column].is_in(list(numbers)).to_numpy())


def _months(*months: int) -> Rows:
    return _in("month", *months)


def _hours(low: int, high: int) -> Rows:
    return lambda frame: np.asarray(frame["sched_dep_time"].is_between(low, high, closed="left").to_numpy())


def _is(column: str, *values: str) -> Rows:
    return lambda frame: np.asarray(frame[column].is_in(list(values)).to_numpy())


def _not(rows: Rows) -> Rows:
    def others(frame: polars.DataFrame) -> AnyArray:
        kept: AnyArray = rows(frame)
        return np.asarray(np.logical_not(kept))

    return others


def _unasked(frame: polars.DataFrame) -> AnyArray:
    return np.asarray(np.arange(len(frame)) % 2 == 0)


def _volunteers(frame: polars.DataFrame) -> AnyArray:
    """Return which of every other row volunteer: the young, the educated and the poor with higher probability."""
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
    Shift(
        "wine-red",
        "wine, white to red: is it good",
        "wine_quality",
        _is("colour", "white"),
        _is("colour", "red"),
        4_898,
    ),
    Shift(
        "gas-later",
        "gas sensors, first two batches to later ones: is it ethanol",
        "gas_drift",
        _in("batch", 1, 2),
        _not(_in("batch", 1, 2)),
        1_689,
    ),
    Shift(
        "wind-seasons",
        "wind, winter to other months: above 15 knots at Malin Head",
        "wind",
        _months(12, 1, 2),
        _not(_months(12, 1, 2)),
        1_624,
    ),
    Shift(
        "credit-newcomers",
        "credit, long residents to newcomers: is it paid back",
        "south_german_credit",
        _in("present_residence", 3, 4),
        _not(_in("present_residence", 3, 4)),
        562,
    ),
)

OPTIONAL_SHIFTS: tuple[Shift, ...] = (
    Shift("crashes", "crashes, men to women: who dies", "crashes", _is("sex", "m"), _is("sex", "f"), 30_000),
    Shift(
        "stops",
        "police stops, men to women: who is searched",
        "stops",
        _is("gender", "Male"),
        _is("gender", "Female"),
        30_000,
    ),
)
"""Only for costs: ``nassCDS.csv`` (R package DAAG), ``MplsStops.csv`` (carData), in folders of these names."""


def by_name(name: str) -> Shift:
    """Return the shift of that name."""
    return next(shift for shift in SHIFTS if shift.name == name)


def table(shift: Shift) -> TableSource:
    """Return how a shift's columns become features."""
    return TableSource.model_validate(DATASETS[shift.data].table)


@cache
def _frame(folder: Path) -> polars.DataFrame:
    return DATASETS[folder.name].read(folder)


def rows(shift: Shift, data: Path) -> polars.DataFrame:
    """Return all rows of a shift's data set, of both sides and of neither."""
    return _frame(data / shift.data)


@cache
def load(shift: Shift, data: Path) -> Both:
    """Return the records of both sides."""
    frame, source = rows(shift, data), table(shift)
    sides = []
    for side in (shift.source, shift.target):
        kept = frame.filter(polars.Series(side(frame)))
        positive = kept[source.label.column].is_in(list(source.label.positive)).to_numpy()
        sides.append(Records(encode(kept, source), np.where(positive, np.int8(1), np.int8(-1))).check())
    return Both(*sides)
