"""The rules by which fields become features, for many rows and for one person's alike: arithmetic in double precision.

Only NumPy is needed, so that an individual's record is made without a library for tables, bit for bit as a table's row.
"""

from __future__ import annotations

import numpy as np

from common.core.arrays import Floats, Singles
from common.people.tables.source import Number


def scaled(numbers: Floats, feature: Number) -> Floats:
    """Return (x - low)/(high - low), clipped to [0, 1], of any shape; NaN (missing) becomes that of ``fill``, or 0."""
    span = feature.high - feature.low
    clipped = np.clip((numbers - feature.low) / span, 0.0, 1.0)
    return np.nan_to_num(clipped, nan=0.0 if feature.fill is None else (feature.fill - feature.low) / span)


def longest(norm: float) -> float:
    """Return the length to which rows are shortened: rounding to float32 can lengthen one by 2^-24 of it."""
    return norm * (1.0 - 2.0**-23)


def shortened(matrix: Floats, norm: float | None) -> Singles:
    """Return rows, shape (n, d), as float32, each of L2 norm at most ``norm`` where that is given."""
    if norm is not None:
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrix = matrix * np.minimum(1.0, longest(norm) / np.maximum(lengths, norm / 2))
    return matrix.astype(np.float32)
