"""Wine quality (not in the paper): white wines are the source, red ones the target."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Raw, found
from benchmarks.adaptation.datasets.scaling import scaled, unit

SIZES = (400, 400, 799)
RADIUS = 1.0
BOUNDS = ((0, 20), (0, 2), (0, 2), (0, 70), (0, 1), (0, 300), (0, 500), (0.98, 1.04), (2.5, 4.5), (0, 2.5), (8, 15))
"""Public bounds of the eleven measurements in the order of the file."""
QUALITY = (0.0, 10.0)


def load(data: Path) -> Pair:
    """Read both colours."""
    source, target = (_colour(data, colour) for colour in ("white", "red"))
    return scaled("wine_quality", "regression", source, target, SIZES, RADIUS)


def _colour(data: Path, colour: str) -> Raw:
    path = found(data / "wine_quality" / f"winequality-{colour}.csv")
    rows = np.loadtxt(path, delimiter=";", skiprows=1)
    features = np.column_stack([unit(rows[:, place], *bounds) for place, bounds in enumerate(BOUNDS)])
    return Raw(features, unit(rows[:, 11], *QUALITY))
