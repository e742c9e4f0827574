"""What every way to keep the records of a shard can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices, Singles
from common.local.hypotheses.linear import Linear
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.kernels import njit, njit_inlined, prefetch
from curator.sample.rows.gathered_rows import GatheredRows

_AHEAD = 96
"""How many cache lines ahead memory is asked for one, so that it is there when its turn comes."""
_LINE = 64
"""Bytes in a cache line."""
_LONG = 128
"""Bytes from which on a row is better read where it lies than copied: shorter ones must be asked for many at a time."""


class Rows(ABC):
    """Records in a fixed order, in memory or mapped from a file, never copied as a whole.

    What a method returns of a row depends on that row alone, bit for bit: not on the block it is read in, nor on where
    a shard begins.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features d."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the features as learners see them, float32 or uint8."""

    @abstractmethod
    def block(self, begin: int, end: int) -> Records:
        """Return the records begin, ..., end - 1 (a view where the rows are kept as records)."""

    @abstractmethod
    def take(self, rows: Indices) -> Records:
        """Return the given rows in the given order (a copy); the numbers must be in 0..n-1."""

    @property
    @abstractmethod
    def long(self) -> bool:
        """Whether loops had better read single rows where they lie, if these are in memory."""

    @property
    @abstractmethod
    def mapped(self) -> bool:
        """Whether they are mapped from a file: a loop that reads single rows would wait for the disk."""

    @abstractmethod
    def located(self, rows: Indices) -> GatheredRows:
        """Return the given rows in the given order, for a loop that reads them where they lie."""

    def copied(self, rows: Indices) -> GatheredRows:
        """Return copies of the given rows in the given order, for a loop."""
        return GatheredRows.of(self.take(rows))

    def signed_margins(self, plane: Linear, rows: Indices) -> Singles | None:
        """Return l_i (<w, x_i> - b) of the given rows as :meth:`Linear.gaps`; None if they must be copied for that."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Refuse what no computation should see.

        Raises
        ------
        BadData
            As :meth:`common.local.records.Records.check`.
        """

    def losses(self, weighing: Weighing) -> Callable[[int, int], AnyArray]:
        """Return what computes the losses of records begin, ..., end - 1: :meth:`Weighing.count`."""
        return lambda begin, end: weighing.count(self.block(begin, end))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)}, d={self.dimension})"


def is_long(width: int, dtype: np.dtype[Any]) -> bool:
    """Return whether rows of so many columns are long."""
    return width * dtype.itemsize >= _LONG


@njit
def gather(matrix: AnyArray, rows: Indices, out: AnyArray) -> None:
    """Copy rows of a C-contiguous matrix, asking memory for each a little ahead.

    Eight features have a loop of known length: a third less time.
    """
    if matrix.shape[1] == 8:
        _gather(matrix, rows, 8, out)
    else:
        _gather(matrix, rows, matrix.shape[1], out)


@njit_inlined
def _gather(matrix: AnyArray, rows: Indices, width: int, out: AnyArray) -> None:
    line = max(1, _LINE // matrix.itemsize)
    ahead = max(4, _AHEAD // -(-width // line))
    for k in range(len(rows)):
        if k + ahead < len(rows):
            for j in range(0, width, line):
                prefetch(matrix, rows[k + ahead] * width + j)
        row = rows[k]
        for j in range(width):
            out[k, j] = matrix[row, j]
