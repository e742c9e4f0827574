"""The data sets of the real shifts: their files as frames, and how public bounds map columns to features."""

from __future__ import annotations

import csv
import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from benchmarks.adaptation.datasets import credit, gas, wind, wine
from benchmarks.adaptation.datasets.base import found

SHELF = Path(os.environ.get("TANDEM_DATA", "../shared/data"))
"""Default folder of the data sets."""


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


WINE: dict[str, Any] = {
    "files": ["winequality-white.csv", "winequality-red.csv"],
    "label": {"column": "good", "positive": ["1"], "negative": ["0"]},
    "norm": 2.0,
    "features": [
        _number(column, low, high)
        for column, (low, high) in zip(
            (
                "fixed acidity",
                "volatile acidity",
                "citric acid",
                "residual sugar",
                "chlorides",
                "free sulfur dioxide",
                "total sulfur dioxide",
                "density",
                "pH",
                "sulphates",
                "alcohol",
            ),
            wine.BOUNDS,
            strict=True,
        )
    ],
}
GOOD_WINE = 6
"""Experts' median mark, out of 10, from which a wine counts as good."""

_RESPONSES, _RATIOS = (0, 250_000), (0, 40)
"""Public bounds of a sensor's steady response, in ohms, and of its ratio to the resistance in clean air."""
_SENSORS = range(16)
GAS: dict[str, Any] = {
    "files": [f"batch{number}.csv" for number in gas.BATCHES],
    "label": {"column": "gas", "positive": ["Ethanol"], "negative": [name for name in gas.GASES if name != "Ethanol"]},
    "norm": 2.0,
    "features": [
        *(_number(f"response {sensor}", *_RESPONSES) for sensor in _SENSORS),
        *(_number(f"ratio {sensor}", *_RATIOS) for sensor in _SENSORS),
    ],
}

_STATIONS = ("RPT", "VAL", "ROS", "KIL", "SHA", "BIR", "DUB", "CLA", "MUL", "CLO", "BEL")
WIND: dict[str, Any] = {
    "files": ["wind.csv"],
    "label": {"column": "windy", "positive": ["1"], "negative": ["0"]},
    "norm": 2.0,
    "features": [_number(station, *wind.KNOTS) for station in _STATIONS],
}
FRESH_WIND = 15.0
"""Knots at Malin Head, the twelfth station: a public round number near the usual value there."""

CREDIT: dict[str, Any] = {
    "files": ["SouthGermanCredit.asc"],
    "label": {"column": "credit_risk", "positive": ["1"], "negative": ["0"]},
    "norm": 2.0,
    "features": [
        _number("status", 1, 4),
        *(
            _number(name, *bounds)
            for name, bounds in credit.BOUNDS.items()
            if name not in ("present_residence", "credit_risk")
        ),
    ],
}

CRASHES: dict[str, Any] = {
    "files": ["nassCDS.csv"],
    "label": {"column": "dead", "positive": ["dead"], "negative": ["alive"]},
    "features": [
        _category("dvcat", "1-9km/h 10-24 25-39 40-54 55+"),
        _category("airbag", "airbag"),
        _category("seatbelt", "belted"),
        _number("frontal", 0, 1),
        _category("sex", "m"),
        _number("ageOFocc", 16, 97),
        _number("yearacc", 1997, 2002),
        _number("yearVeh", 1950, 2003, 1990),
        _category("occRole", "driver"),
    ],
}
STOPS: dict[str, Any] = {
    "files": ["MplsStops.csv"],
    "label": {"column": "personSearch", "positive": ["YES"], "negative": ["NO"]},
    "features": [
        _category("problem", "suspicious"),
        {
            "kind": "category",
            "column": "race",
            "values": ["Black", "White", "East African", "Latino", "Native American"],
        },
        _category("gender", "Male"),
        _number("lat", 44.89, 45.06),
        _number("long", -93.34, -93.19),
        _category("policePrecinct", "1 2 3 4 5"),
    ],
}


def _adult(folder: Path) -> polars.DataFrame:
    rows = []
    for file in ("adult.data.xz", "adult.test.xz"):
        with lzma.open(folder / file, "rt") as lines:
            fields = ([field.strip() for field in line.rstrip(".\n").split(",")] for line in lines)
            rows += [row for row in fields if len(row) == len(_ADULT_COLUMNS) and "?" not in row]
    frame = polars.DataFrame(rows, schema=_ADULT_COLUMNS, orient="row")
    numbers = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")
    return frame.with_columns(polars.col(name).cast(polars.Float64) for name in numbers)


def _flights(folder: Path) -> polars.DataFrame:
    known = polars.read_parquet(folder / "flights.parquet").filter(polars.col("delayed").is_not_null())
    return known.with_columns(polars.col("delayed").cast(polars.Utf8))


def _wine(folder: Path) -> polars.DataFrame:
    colours = []
    for colour in ("white", "red"):
        path = found(folder / f"winequality-{colour}.csv")
        rows = polars.read_csv(
            path, separator=";", infer_schema_length=None, schema_overrides={"quality": polars.Int64}
        )
        rows = rows.with_columns(polars.exclude("quality").cast(polars.Float64), polars.lit(colour).alias("colour"))
        colours.append(rows)
    return polars.concat(colours).with_columns(_text(polars.col("quality") >= GOOD_WINE).alias("good"))


def _gas(folder: Path) -> polars.DataFrame:
    batches = []
    for number in gas.BATCHES:
        with lzma.open(found(folder / f"batch{number}.csv.xz"), "rt") as lines:
            rows = [row for row in csv.reader(lines) if row]
        # A gas, its concentration, then eight numbers per sensor, of which the first two are its steady response.
        values = np.array([row[2:] for row in rows], dtype=np.float64)
        columns: dict[str, Any] = {"batch": np.full(len(rows), number), "gas": [row[0] for row in rows]}
        for sensor in _SENSORS:
            columns[f"response {sensor}"] = values[:, 8 * sensor]
            columns[f"ratio {sensor}"] = values[:, 8 * sensor + 1]
        batches.append(polars.DataFrame(columns))
    return polars.concat(batches)


def _wind(folder: Path) -> polars.DataFrame:
    days = polars.read_csv(found(folder / "wind.csv"), infer_schema_length=None)
    return days.with_columns(_text(polars.col("MAL") > FRESH_WIND).alias("windy"))


def _credit(folder: Path) -> polars.DataFrame:
    debtors = polars.read_csv(found(folder / "SouthGermanCredit.asc"), separator=" ")
    return debtors.with_columns(polars.col("credit_risk").cast(polars.Utf8))


def _crashes(folder: Path) -> polars.DataFrame:
    return polars.read_csv(found(folder / "nassCDS.csv"), infer_schema_length=None, null_values="NA")


def _stops(folder: Path) -> polars.DataFrame:
    stops = polars.read_csv(found(folder / "MplsStops.csv"), infer_schema_length=None, null_values="NA")
    precincts = polars.col("policePrecinct").cast(polars.Utf8)
    return stops.filter(polars.col("personSearch").is_not_null() & polars.col("gender").is_not_null()).with_columns(
        precincts
    )


def _text(condition: polars.Expr) -> polars.Expr:
    return condition.cast(polars.Int8).cast(polars.Utf8)


@dataclass(frozen=True)
class DataSet:
    """A folder of files.

    Attributes:
        table: How its columns become features and a label, as in a scenario.
        read: Reads its rows, in the order of the files, from a folder.
    """

    table: dict[str, Any]
    read: Callable[[Path], polars.DataFrame]


DATASETS: dict[str, DataSet] = {
    "adult": DataSet(ADULT, _adult),
    "nyc_flights": DataSet(FLIGHTS, _flights),
    "wine_quality": DataSet(WINE, _wine),
    "gas_drift": DataSet(GAS, _gas),
    "wind": DataSet(WIND, _wind),
    "south_german_credit": DataSet(CREDIT, _credit),
    "crashes": DataSet(CRASHES, _crashes),
    "stops": DataSet(STOPS, _stops),
}
