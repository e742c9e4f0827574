"""What every way to keep the records of a shard can do, and drawn records as a compiled loop reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices, Labels, Singles
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss, Weighing
from common.local.records import Records
from common.numerics.kernels import WIDTH, load, load_some, njit, njit_inlined, prefetch, prefetch_near, singles, store

_AHEAD = 96  # how many cache lines ahead memory is asked for one, so that it is there when its turn comes
_LINE = 64  # bytes in a cache line
_LONG = 128  # bytes from which on a row is better read where it lies than copied


class ShardRows(ABC):
    """Records in a fixed order, in memory or mapped from a file, never copied as a whole.

    What a method returns of a row depends on that row alone, bit for bit: not on the block it is read in, nor on where
    a shard begins.

    Attributes:
        dimension: Number of features d.
        dtype: Type of the features as learners see them, float32 or uint8.
        near: Whether loops had better read single rows where they lie: long ones, in memory and not mapped from a file.
    """

    def __init__(self, matrix: AnyArray, dtype: np.dtype[Any]) -> None:
        self._count = len(matrix)
        self.dimension = int(matrix.shape[1])
        self.dtype = dtype
        self.near = not isinstance(matrix, np.memmap) and self.dimension * matrix.itemsize >= _LONG

    def __len__(self) -> int:
        return self._count

    @abstractmethod
    def block(self, begin: int, end: int) -> Records:
        """Return the records begin, ..., end - 1 (a view where the rows are kept as records)."""

    @abstractmethod
    def take(self, rows: Indices) -> Records:
        """Return the given rows in the given order (a copy); the numbers must be in 0..n-1."""

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
        """Refuse what no computation should see, as :meth:`common.local.records.Records.check`."""

    def losses(self, weighing: Weighing) -> Callable[[int, int], AnyArray]:
        """Return what computes the losses of records begin, ..., end - 1: :meth:`Weighing.count`."""
        return lambda begin, end: weighing.count(self.block(begin, end))


@njit
def gather(matrix: AnyArray, rows: Indices, out: AnyArray) -> None:
    """Copy rows of a C-contiguous matrix; of eight features in a loop of known length, in a third less time."""
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


_ONES = np.ones(WIDTH, dtype=np.float32)
_ROWS_AHEAD = 8  # records ahead that memory is asked for one where it lies


class Codes(NamedTuple):
    """What 16-bit codes stand for: feature j is ``low + (code & bits_j) * step``, exactly.

    Bits have shape (d,), uint16: all but for the first code's lowest bit, which is the label (1 for +1). In ``room``
    are two decoded rows of the loop that reads these draws: shape (2, d + 7) or larger, float32.
    """

    low: Any
    step: Any
    bits: AnyArray
    room: AnyArray


class GatheredRows(NamedTuple):
    """Records for the functions below. What is None is left out when a loop is compiled.

    Attributes:
        matrix: Shape (n, d), C-contiguous: features, or codes.
        labels: Shape (n,); None where codes hold them.
        rows: Which rows are the draws, in order; None: all of them.
        codes: What the codes stand for; None for features.
    """

    matrix: AnyArray
    labels: Labels | None
    rows: Indices | None
    codes: Codes | None

    @classmethod
    def of(cls, records: Records) -> GatheredRows:
        return cls(np.asarray(records.features), np.asarray(records.labels), None, None)

    @property
    def size(self) -> int:
        return len(self.matrix) if self.rows is None else len(self.rows)


@njit_inlined
def how_many(matrix: AnyArray, rows: Indices | None) -> int:
    """Return the number of draws."""
    return len(matrix) if rows is None else len(rows)


@njit_inlined
def row_of(rows: Indices | None, k: int) -> Any:
    """Return the row of draw k."""
    return k if rows is None else rows[k]


@njit_inlined
def label(matrix: AnyArray, labels: Labels | None, row: int) -> float:
    """Return the label of a row."""
    if labels is None:
        return 2.0 * np.float64(np.int64(matrix[row, 0]) & 1) - 1.0
    return np.float64(labels[row])


@njit_inlined
def feature(matrix: AnyArray, codes: Any, row: int, j: int) -> Any:
    """Return feature j of a row."""
    if codes is None:
        return np.float32(matrix[row, j])
    return codes.low + np.float32(np.uint16(matrix[row, j] & codes.bits[j])) * codes.step


@njit_inlined
def _vector(matrix: AnyArray, place: int, count: int | None) -> Any:
    return load(matrix, place) if count is None else load_some(matrix, place, count)


@njit_inlined
def some_features(matrix: AnyArray, codes: Any, row: int, k: int, j: int, count: int | None) -> Any:
    """Return features j, ..., j + 7 of a row, draw k, as a vector of float32; only ``count`` of them, if not None.

    They are then at hand for :func:`some_features_again` until draw k + 2 is read.
    """
    found = _vector(matrix, row * matrix.shape[1] + j, count)
    if codes is None:
        return singles(found)
    values = singles(found & _vector(codes.bits, j, count)) * codes.step + _vector(_ONES, 0, count) * codes.low
    store(codes.room, (k & 1) * codes.room.shape[1] + j, values)
    return values


@njit_inlined
def some_features_again(matrix: AnyArray, codes: Any, row: int, k: int, j: int, count: int | None) -> Any:
    """Return features of a row, draw k, that were read before."""
    if codes is None:
        return singles(_vector(matrix, row * matrix.shape[1] + j, count))
    return _vector(codes.room, (k & 1) * codes.room.shape[1] + j, count)


@njit_inlined
def line_of(matrix: AnyArray) -> int:
    """Return how many features of a row a cache line holds."""
    return max(1, _LINE // matrix.itemsize)


@njit_inlined
def ask_ahead(matrix: AnyArray, labels: Labels | None, rows: Indices | None, k: int, j: int) -> None:
    """While draw k is worked on, ask memory for one that comes soon: for feature j, and the label.

    To be called for every :func:`line_of` features. Without a branch or loop, so that the compiler counts no reference
    to an array, which would take longer than the rest.
    """
    if rows is not None:
        row = rows[min(k + _ROWS_AHEAD, len(rows) - 1)]
        prefetch_near(matrix, row * matrix.shape[1] + j)
        if labels is not None:
            prefetch_near(labels, row)


_MANY = 4  # rows for each one asked for, up to which a sweep over all of them, later reweigh included, costs less


class SingleRows(ShardRows):
    """Records as they are, not copied; features and labels may be mapped from files, read-only."""

    def __init__(self, records: Records) -> None:
        super().__init__(records.features, records.features.dtype)
        # numba wants plain arrays; these are views of what may be memory maps.
        self._features = np.asarray(records.features)
        self._labels = np.asarray(records.labels)
        self._last: tuple[Linear, Singles] | None = None

    def block(self, begin: int, end: int) -> Records:
        return Records(self._features[begin:end], self._labels[begin:end])

    def take(self, rows: Indices) -> Records:
        features = np.empty((len(rows), self.dimension), dtype=self.dtype)
        labels = np.empty((len(rows), 1), dtype=np.int8)
        gather(self._features, rows, features)
        gather(self._labels.reshape(-1, 1), rows, labels)
        return Records(features, labels[:, 0])

    def located(self, rows: Indices) -> GatheredRows:
        return GatheredRows(self._features, self._labels, rows, None)

    def signed_margins(self, plane: Linear, rows: Indices) -> Singles:
        """Return l_i (<w, x_i> - b) of the given rows, read where they lie.

        If many are asked for, those of all rows are computed and kept until the next half-space comes: a learner asks
        for them twice, and in between the weights are updated by the same half-space.
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
    """Return l_i (<w, x_i> - b) of the given rows."""
    return plane.gaps(records.features, rows) * records.labels[rows]


def wrong(margins: Singles, labels: Labels) -> Bits:
    """Return the 0/1 losses: on the boundary, and where the margin is no number, the prediction is -1."""
    return np.where(labels > 0, ~(margins > 0.0), margins < 0.0).astype(np.uint8)
