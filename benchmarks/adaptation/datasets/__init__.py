"""The data sets of the tables: each a public source and a private target, by name."""

from __future__ import annotations

from functools import partial

from benchmarks.adaptation.datasets import adult, credit, flights, gas, wind, wine
from benchmarks.adaptation.datasets.base import Loader

DATASETS: dict[str, Loader] = {
    "wind": wind.load,
    "gas_drift": gas.load,
    "gas_drift, batch 5": partial(gas.load, target=5),
    "wine_quality": wine.load,
    "flights": flights.load,
    "adult": adult.load,
    "south_german_credit": credit.load,
    **{f"wind, month {month}": partial(wind.load, month=month) for month in wind.LONG_MONTHS if month != wind.MONTH},
}
"""How each is read from the data directory."""
