"""Rows kept as records: float32 or uint8 features, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.arrays import AnyArray, Indices, Labels
from common.kernels import njit, prefetch
from common.records import Records
from curator.sample.rows import Rows

_AHEAD = 32
"""How many rows ahead memory is asked for one, so that it is there when its turn comes."""


class SingleRows(Rows):
    """Records as they are; features and labels may be mapped from files, read-only.

    Parameters
    ----------
    records
        The records, not copied.
    """

    def __init__(self, records: Records) -> None:
        # numba wants plain arrays; these are views of what may be memory maps.
        self._features = np.asarray(records.features)
        self._labels = np.asarray(records.labels)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self._features.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return self._features.dtype

    def block(self, begin: int, end: int) -> Records:
        """Return a view."""
        return Records(self._features[begin:end], self._labels[begin:end])

    def take(self, rows: Indices) -> Records:
        """Gather rows, asking memory for each a little ahead."""
        features = np.empty((len(rows), self.dimension), dtype=self.dtype)
        labels = np.empty(len(rows), dtype=np.int8)
        _gather(self._features, self._labels, rows, features, labels)
        return Records(features, labels)

    def check(self) -> None:
        """Check all records, block by block."""
        self.block(0, len(self)).check()


@njit
def _gather(features: AnyArray, labels: Labels, rows: Indices, some_features: AnyArray, some_labels: Labels) -> None:
    width = features.shape[1]
    line = max(1, 64 // features.itemsize)
    for k in range(len(rows)):
        if k + _AHEAD < len(rows):
            ahead = rows[k + _AHEAD]
            prefetch(labels, ahead)
            for j in range(0, width, line):
                prefetch(features, ahead * width + j)
        row = rows[k]
        some_labels[k] = labels[row]
        for j in range(width):
            some_features[k, j] = features[row, j]
