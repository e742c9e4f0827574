"""Rows kept as records: float32 or uint8 features, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.arrays import Indices
from common.records import Records
from curator.sample.draws import Draws
from curator.sample.rows import Rows, gather, is_long


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
        self._mapped = isinstance(records.features, np.memmap)

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
        labels = np.empty((len(rows), 1), dtype=np.int8)
        gather(self._features, rows, features)
        gather(self._labels.reshape(-1, 1), rows, labels)
        return Records(features, labels[:, 0])

    @property
    def long(self) -> bool:
        """Whether a row takes several cache lines."""
        return is_long(self.dimension, self._features.dtype)

    @property
    def mapped(self) -> bool:
        """Whether they are mapped from a file."""
        return self._mapped

    def located(self, rows: Indices) -> Draws:
        """Return the features where they lie."""
        return Draws(self._features, self._labels, rows, None)

    def check(self) -> None:
        """Check all records, block by block."""
        self.block(0, len(self)).check()
