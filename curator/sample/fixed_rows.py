"""Rows kept as 16-bit integers on a public grid: half the memory of float32, and exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices, Labels, Singles
from common.core.errors import BadData, BadScenario
from common.data.population import PopulationSpec
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss, Weighing
from common.local.records import Records
from common.numerics.kernels import WIDTH, fma, load, load_some, njit, njit_exact, singles, total
from curator.sample.rows import Codes, GatheredRows, ShardRows, gather

_UNROLLED = 16  # up to so many features the compiler gets a loop of its own for each number of them
_SUM_BITS = 53  # sums of integers stay below this power of 2: doubles hold them exactly, in any order of additions
_MAX_WEIGHT_BITS = 30


@dataclass(frozen=True)
class Grid:
    """A public grid: code c of feature j stands for ``low + c * step_j``, step_0 = 2 step and step_j = step beyond.

    The first code gives its lowest bit to the label. ``step`` is a power of two and ``low`` a multiple of twice the
    step: float32 holds every value exactly, and 0 is one if the bounds include it. Rounding costs no privacy: it goes
    record by record, by a public rule.
    """

    low: float
    step: float

    @classmethod
    def over(cls, low: float, high: float) -> Grid:
        """Return the finest grid that reaches from low to high, which have to be finite."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise BadScenario(
                f"fixed-point numbers need public bounds of the features, found {low} and {high}: "
                f"give the distribution a norm, or keep numbers: single"
            )
        step = 2.0 ** math.floor(math.log2((high - low) / 65535.0))
        while True:
            bottom = math.floor(low / (2.0 * step)) * 2.0 * step
            bottom -= 2.0 * step if bottom > low else 0.0  # the quotient of a tiny negative number is 0
            if bottom + 32767 * 2.0 * step >= high:
                return cls(bottom, step)
            step *= 2.0

    @classmethod
    def of(cls, people: PopulationSpec) -> Grid:
        """Return the grid over the public bounds of these people's features: [0, 1] for tables, else +-norm."""
        return cls.over(0.0, 1.0) if people.table is not None else cls.over(-people.norm, people.norm)

    def encode(self, records: Records) -> AnyArray:
        """Round float32 records to the nearest values of the grid; shape (n, d), uint16. Beyond its ends is its end."""
        if records.features.dtype != np.float32 or records.dimension == 0:
            raise BadData(
                f"fixed-point numbers are for float32 features, found {records.dimension} of {records.features.dtype}: "
                f"keep numbers: single"
            )
        codes = np.empty(records.features.shape, dtype=np.uint16)
        _encode(records.features, records.labels, self.low, self.step, codes)
        return codes


class FixedRows(ShardRows):
    """Codes on a public grid; the label is the lowest bit of the first (1 for +1). A row takes 2 d bytes.

    Codes have shape (n, d), uint16, C-contiguous, and are not copied; they may be mapped from a file, read-only.
    """

    def __init__(self, codes: AnyArray, grid: Grid) -> None:
        if codes.ndim != 2 or codes.shape[1] == 0 or codes.dtype != np.uint16 or not codes.flags.c_contiguous:
            raise BadData(f"codes must be a C-contiguous matrix of uint16, found {codes.dtype} {codes.shape}")
        super().__init__(codes, np.dtype(np.float32))
        self._codes = np.asarray(codes)
        self.grid = grid

    @classmethod
    def of(cls, records: Records, grid: Grid) -> FixedRows:
        return cls(grid.encode(records), grid)

    def block(self, begin: int, end: int) -> Records:
        return self._decoded(self._codes[begin:end])

    def take(self, rows: Indices) -> Records:
        return self._decoded(self._copies(rows))

    def _copies(self, rows: Indices) -> AnyArray:
        codes = np.empty((len(rows), self.dimension), dtype=np.uint16)
        gather(self._codes, rows, codes)
        return codes

    def located(self, rows: Indices) -> GatheredRows:
        return GatheredRows(self._codes, None, rows, self._meaning())

    def copied(self, rows: Indices) -> GatheredRows:
        return GatheredRows(self._copies(rows), None, None, self._meaning())

    def _meaning(self) -> Codes:
        bits = np.full(self.dimension, 0xFFFF, dtype=np.uint16)
        bits[0] = 0xFFFE
        room = np.zeros((2, self.dimension + WIDTH), dtype=np.float32)
        return Codes(np.float32(self.grid.low), np.float32(self.grid.step), bits, room)

    def _decoded(self, codes: AnyArray) -> Records:
        features = np.empty(codes.shape, dtype=np.float32)
        labels = np.empty(len(codes), dtype=np.int8)
        steps = _unrolled([self.grid.step] * self.dimension, np.float32)
        _decode(codes, np.float32(self.grid.low), steps, features, labels)
        return Records(features, labels)

    def check(self) -> None:
        """All codes stand for finite features and a label."""

    def losses(self, weighing: Weighing) -> Callable[[int, int], AnyArray]:
        """Return what computes the losses; the mistakes of a half-space in integers, without decoding.

        Its weights are rounded to 2^-30 of the largest's power of 2 (beyond 127 features less finely). All after
        that is exact, and so depends neither on the machine nor on the order of additions.
        """
        plane = weighing.hypothesis if isinstance(weighing, HypothesisLoss) and weighing.loss == "zero-one" else None
        if not isinstance(plane, Linear):
            return super().losses(weighing)
        integers, threshold = self._integers(plane)
        weights = _unrolled([*integers.tolist(), *[0] * (self.dimension - len(integers))], np.float64)
        compare = _mistakes_unrolled if isinstance(weights, tuple) else _mistakes

        def mistakes(begin: int, end: int) -> Bits:
            wrong = np.empty(end - begin, dtype=np.uint8)
            compare(self._codes[begin:end], weights, threshold, wrong)
            return wrong

        return mistakes

    def _integers(self, plane: Linear) -> tuple[Indices, float]:
        # Integers W and t such that <w, x> > b iff sum_j W_j c_j > t, c_0 without the label's bit.
        bits = min(_MAX_WEIGHT_BITS, _SUM_BITS - 16 - self.dimension.bit_length())
        weights = np.array(plane.weights)
        weights[:1] *= 2.0
        exponent = math.frexp(float(np.abs(weights).max()))[1] - bits
        integers = np.rint(np.ldexp(weights, -exponent)).astype(np.int64)
        # The grid's low is an even number of steps; integers and fractions of Python round nothing.
        first, *rest = integers.tolist()
        least = int(self.grid.low / self.grid.step) // 2 * (first + 2 * sum(rest))
        threshold = math.floor(Fraction(plane.threshold) / Fraction(self.grid.step) / Fraction(2) ** exponent) - least
        beyond = 1 << _SUM_BITS
        return integers, float(max(min(threshold, beyond), -beyond))


def _unrolled(values: Sequence[Any], dtype: type[Any]) -> Any:
    return tuple(dtype(value) for value in values) if len(values) <= _UNROLLED else np.array(values, dtype=dtype)


@njit
def _encode(features: Singles, labels: Labels, low: float, step: float, codes: AnyArray) -> None:
    for i in range(features.shape[0]):
        code = np.rint((np.float64(features[i, 0]) - low) / (2.0 * step))
        codes[i, 0] = np.uint16(2 * np.int64(min(max(code, 0.0), 32767.0)) + (labels[i] > 0))
        for j in range(1, features.shape[1]):
            code = np.rint((np.float64(features[i, j]) - low) / step)
            codes[i, j] = np.uint16(np.int64(min(max(code, 0.0), 65535.0)))


@njit
def _decode(codes: AnyArray, low: Any, steps: Any, features: Singles, labels: Labels) -> None:
    """Decode codes, in float32: exact on the grid. Where ``steps`` is a tuple the compiler knows how many there are."""
    width = len(steps)
    flat, decoded = codes.reshape(codes.size), features.reshape(features.size)
    for i in range(len(labels)):
        for j in range(width):
            decoded[width * i + j] = low + np.float32(flat[width * i + j]) * steps[j]
        decoded[width * i] = low + np.float32(flat[width * i] & 0xFFFE) * steps[0]
        labels[i] = np.int8(2 * np.int64(flat[width * i] & 1) - 1)


@njit
def _mistakes(codes: AnyArray, weights: Any, threshold: float, wrong: Bits) -> None:
    """Compare exact sums with the threshold: whole numbers below 2^53, whatever the order of additions.

    Sums are taken in single precision first; where they are too near to the threshold to tell, again.
    """
    width, singly = codes.shape[1], weights.astype(np.float32)
    blocks = len(weights) // (2 * WIDTH) * (2 * WIDTH)
    # Each weight, product and partial sum is rounded by 2^-24 of at most all weights times the largest code.
    slack = (1.01 * len(weights) + 8.0) * 2.0**-24 * 65536.0 * np.abs(weights).sum()
    for i in range(len(wrong)):
        even = odd = singles(0.0)
        for j in range(0, blocks, 2 * WIDTH):
            even = fma(singles(load(codes, i * width + j)), load(singly, j), even)
            odd = fma(singles(load(codes, i * width + j + WIDTH)), load(singly, j + WIDTH), odd)
        for j in range(blocks, len(weights), WIDTH):
            left = min(len(weights) - j, WIDTH)
            even = fma(singles(load_some(codes, i * width + j, left)), load_some(singly, j, left), even)
        # The first code stands for what is left of it without its lowest bit, which is the label.
        label = np.int64(codes[i, 0] & 1)
        beyond = np.float64(np.int64(codes[i, 0]) - np.int64(codes[i, 0] >> 1))
        gap = np.float64(total(even + odd)) - weights[0] * beyond - threshold
        if abs(gap) <= slack:
            gap = _sum(codes, i, weights) - threshold
        wrong[i] = np.uint8(np.int64(gap > 0.0) ^ label)


@njit_exact
def _sum(codes: AnyArray, i: int, weights: Any) -> Any:
    found = weights[0] * np.float64(np.int32(codes[i, 0] >> 1))
    for j in range(1, len(weights)):
        found += weights[j] * np.float64(np.int32(codes[i, j]))
    return found


@njit_exact
def _mistakes_unrolled(codes: AnyArray, weights: Any, threshold: float, wrong: Bits) -> None:
    """Do the same with a row length that the compiler knows, over a flat array: three times as fast for 8 features."""
    flat = codes.reshape(codes.size)
    for i in range(len(wrong)):
        code = flat[len(weights) * i]
        total = weights[0] * np.float64(np.int32(code >> 1))
        for j in range(1, len(weights)):
            total += weights[j] * np.float64(np.int32(flat[len(weights) * i + j]))
        wrong[i] = np.uint8(np.int64(total > threshold) ^ (code & 1))
