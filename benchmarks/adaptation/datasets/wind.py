"""Irish wind: one month is the target, the other eleven the source; eleven stations predict the twelfth.

The paper's 158 + 200 + 200 target rows are one month of 31 days in 18 years, and 6016 the rest. It does not say which
of the seven such months: :data:`MONTH` is taken, and the table's note has the range over all seven.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Raw, found
from benchmarks.adaptation.datasets.scaling import scaled, unit

SIZES = (158, 200, 200)
RADIUS = 1.0
LONG_MONTHS = (1, 3, 5, 7, 8, 10, 12)
MONTH = 1
KNOTS = (0.0, 50.0)
"""Public bounds of a daily mean."""


def load(data: Path, month: int = MONTH) -> Pair:
    """Read all days; those of ``month`` are the target."""
    rows = np.loadtxt(found(data / "wind" / "wind.csv"), delimiter=",", skiprows=1)
    speeds = unit(rows[:, 3:], *KNOTS)
    chosen = rows[:, 1] == month
    source, target = (Raw(speeds[days, :11], speeds[days, 11]) for days in (~chosen, chosen))
    return scaled("wind" if month == MONTH else f"wind, month {month}", "regression", source, target, SIZES, RADIUS)
