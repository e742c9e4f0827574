"""Rows of whole numbers, none longer than a norm: what exact sums and their sensitivity rest on."""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import AnyArray, Floats

_SHRINK = 1.0 - 2.0**-32
"""Rows are clipped to this share of the norm, so that rounding errors cannot take one beyond it."""
_FAR = 1e150
"""Coordinates beyond so many norms count as this many: the row is clipped anyway."""


def longest(cells: float, width: int) -> float:
    """Return how long a row may be before it is rounded, in cells: rounding adds sqrt(width)/2 to it at most."""
    return cells * _SHRINK - 0.5 * math.sqrt(width)


def clipped(rows: AnyArray, norm: float, cells: float) -> Floats:
    """Return rows on the grid: whole numbers, in double precision, of Euclidean norm ``cells`` at most.

    Parameters
    ----------
    rows
        Shape (k, width). Those that are not finite count as 0, longer ones than ``norm`` are clipped to it.
    norm
        Positive.
    cells
        How many make the norm; :func:`longest` must be positive.
    """
    rows = np.asarray(rows, dtype=np.float64)
    finite = np.asarray(np.isfinite(rows).all(axis=1))
    with np.errstate(over="ignore"):
        rows = np.clip(np.where(finite[:, None], rows, 0.0) / norm, -_FAR, _FAR)
    largest = np.maximum(np.abs(rows).max(axis=1, initial=1.0), 1.0)[:, None]  # of no square that overflows
    length = largest * np.linalg.norm(rows / largest, axis=1, keepdims=True)
    bound = longest(cells, rows.shape[1])
    return np.asarray(np.rint(rows * np.minimum(cells * _SHRINK, bound / np.maximum(length, 2.0**-60))))
