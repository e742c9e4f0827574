"""Flights from New York in 2013 (not in the paper): two airports are the source, the third the target.

The delay at arrival is predicted from what is known before departure. Every :data:`STEP`-th flight in the file's order
is taken, so that the target has as many people as other sets do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars

from benchmarks.adaptation.datasets.base import Pair, Raw, found
from benchmarks.adaptation.datasets.scaling import scaled, unit

SIZES = (1000, 500, 2000)
RADIUS = 1.0
TARGET = "LGA"
STEP = 20
BOUNDS = {
    "month": (1, 12),
    "sched_dep_time": (0, 2400),
    "distance": (0, 5000),
    "temp": (0, 110),
    "wind_speed": (0, 50),
    "precip": (0, 1),
    "visib": (0, 10),
}
"""Public bounds of the inputs; a missing one counts as the middle."""
CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
DELAY = (-60.0, 180.0)
"""Public bounds in minutes."""


def load(data: Path) -> Pair:
    """Read the flights that arrived, and split them by their airport."""
    table = polars.read_parquet(found(data / "nyc_flights" / "flights.parquet"))
    table = table.filter(polars.col("arr_delay").is_not_null()).gather_every(STEP)
    numbers = [
        unit(table[name].fill_null(0.5 * (low + high)).to_numpy(), low, high) for name, (low, high) in BOUNDS.items()
    ]
    carriers = [(table["carrier"] == name).to_numpy().astype(np.float64) for name in CARRIERS]
    features, responses = np.column_stack([*numbers, *carriers]), unit(table["arr_delay"].to_numpy(), *DELAY)
    here = (table["origin"] == TARGET).to_numpy()
    source, target = (Raw(features[who], responses[who]) for who in (~here, here))
    return scaled("flights", "regression", source, target, SIZES, RADIUS)
