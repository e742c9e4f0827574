"""Rows kept as records: float32 or uint8 features, and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices, Labels, Singles
from common.local.hypotheses.linear import Linear
from common.local.losses import HypothesisLoss, Weighing
from common.local.records import Records
from curator.sample.rows import GatheredRows, ShardRows, gather, is_long

_MANY = 4
"""Rows for each one asked for, up to which a sweep over all of them, later reweigh included, costs less."""


class SingleRows(ShardRows):
    """Records as they are; features and labels may be mapped from files, read-only.

    Args:
        records: The records, not copied.
    """

    def __init__(self, records: Records) -> None:
        # numba wants plain arrays; these are views of what may be memory maps.
        self._features = np.asarray(records.features)
        self._labels = np.asarray(records.labels)
        self._mapped = isinstance(records.features, np.memmap)
        self._last: tuple[Linear, Singles] | None = None

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def dimension(self) -> int:
        return int(self._features.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._features.dtype

    def block(self, begin: int, end: int) -> Records:
        return Records(self._features[begin:end], self._labels[begin:end])

    def take(self, rows: Indices) -> Records:
        features = np.empty((len(rows), self.dimension), dtype=self.dtype)
        labels = np.empty((len(rows), 1), dtype=np.int8)
        gather(self._features, rows, features)
        gather(self._labels.reshape(-1, 1), rows, labels)
        return Records(features, labels[:, 0])

    @property
    def long(self) -> bool:
        return is_long(self.dimension, self._features.dtype)

    @property
    def mapped(self) -> bool:
        return self._mapped

    def located(self, rows: Indices) -> GatheredRows:
        return GatheredRows(self._features, self._labels, rows, None)

    def signed_margins(self, plane: Linear, rows: Indices) -> Singles:
        """Return l_i (<w, x_i> - b) of the given rows, read where they lie.

        If many are asked for, those of all rows are computed, in one sweep, and kept until the next half-space comes:
        a learner asks for them twice, and between that the weights are updated by the same half-space.
        """
        if self._last is not None and self._last[0] == plane:
            return self._last[1][rows]
        if len(self) > _MANY * len(rows):
            return signed(plane, Records(self._features, self._labels), rows)
        self._last = plane, signed(plane, Records(self._features, self._labels), np.arange(len(self)))
        return self._last[1][rows]

    def losses(self, weighing: Weighing) -> Callable[[int, int], AnyArray]:
        if self._last is None or weighing != HypothesisLoss(self._last[0]):
            return super().losses(weighing)
        margins, labels = self._last[1], self._labels
        return lambda begin, end: wrong(margins[begin:end], labels[begin:end])

    def check(self) -> None:
        self.block(0, len(self)).check()


def signed(plane: Linear, records: Records, rows: Indices) -> Singles:
    """Return l_i (<w, x_i> - b) of the given rows of some records."""
    return plane.gaps(records.features, rows) * records.labels[rows]


def wrong(margins: Singles, labels: Labels) -> Bits:
    """Return the 0/1 losses: on the boundary, and where the margin is no number, the prediction is -1."""
    return np.where(labels > 0, ~(margins > 0.0), margins < 0.0).astype(np.uint8)
