"""The real shifts: nobody is on two sides, and features are what public bounds make of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars
import pytest

from benchmarks.real.shifts import SHIFTS, Shift, load, rows, table

SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[3].parent / "shared" / "data"))
SIZES = {
    "wine-red": (4_898, 1_599),
    "gas-later": (1_689, 5_008),
    "wind-seasons": (1_624, 4_950),
    "credit-newcomers": (562, 438),
}


@pytest.mark.parametrize("shift", SHIFTS, ids=lambda shift: shift.name)
def test_both_sides_of_a_shift(shift: Shift) -> None:
    if not (SHELF / shift.data).is_dir():
        pytest.skip(f"there is no folder {SHELF / shift.data}: set TANDEM_DATA to that of the public data sets")
    frame = rows(shift, SHELF)
    assert isinstance(frame, polars.DataFrame)
    assert not np.any(shift.source(frame) & shift.target(frame))
    people = load(shift, SHELF)
    for side in (people.source, people.target):
        assert side.dimension == table(shift).dimension
        assert 0.0 <= side.features.min() <= side.features.max() <= 1.0
        assert np.linalg.norm(side.features.astype(np.float64), axis=1).max() <= 2.0 + 1e-6
        assert 0.0 < np.mean(side.labels > 0) < 1.0
    if shift.name in SIZES:
        assert (len(people.source), len(people.target)) == SIZES[shift.name]
    # Public bounds that most people lie beyond would make all of them alike.
    assert np.mean(np.ptp(np.concatenate([people.source.features, people.target.features]), axis=0) > 0.05) > 0.9
