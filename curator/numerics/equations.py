"""Linear equations over F_2: bit-packed, kept in echelon form, with a uniform point of their solutions."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Bits, Indices, Words
from common.core.errors import BadInput
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource

_ROWS = 1 << 10
"""Equations taken in at a time: with the echelon form they fit in the cache."""
_ONE = np.uint64(1)
_NONE = np.uint64(0)


class Equations:
    """A growing system <x, a> = y over F_2 in a = (a_1, ..., a_d).

    Only an echelon form is kept, at most d + 1 equations, so any number can be added in bounded memory. Which
    equations were added says all: neither their order nor how they came in pieces changes the solutions.

    Args:
        unknowns: d, at least 1.
    """

    def __init__(self, unknowns: int) -> None:
        if unknowns < 1:
            raise BadInput(f"a system needs at least one unknown, found {unknowns}")
        self._unknowns = unknowns
        self._matrix: Words = np.empty((unknowns // 64 + 1, 0), dtype=np.uint64)
        self._pivots: Indices = np.empty(0, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Equations(unknowns={self._unknowns})"

    def add(self, coefficients: Bits, values: Bits) -> None:
        """Add k equations.

        Args:
            coefficients: Shape (k, d), 0 or 1.
            values: Shape (k,), 0 or 1.

        Raises:
            BadInput: If the shapes do not fit. Nothing changes then.
        """
        if coefficients.shape != (len(values), self._unknowns):
            raise BadInput(
                f"{len(values)} equations in {self._unknowns} unknowns have other coefficients than "
                f"{coefficients.shape}"
            )
        for start in range(0, len(values), _ROWS):
            some = slice(start, start + _ROWS)
            known = self._matrix.shape[1]
            matrix = np.zeros((len(self._matrix), known + len(values[some])), dtype=np.uint64)
            matrix[:, :known] = self._matrix
            pack(coefficients[some], values[some], matrix[:, known:])
            self._pivots = eliminate(matrix, self._unknowns + 1)
            self._matrix = matrix[:, : len(self._pivots)].copy()

    @property
    def rank(self) -> int:
        """Rank of the coefficients, at most d."""
        return len(self._pivots) - (not self.consistent)

    @property
    def consistent(self) -> bool:
        """Whether there is a solution: the equation 0 = 1 does not follow."""
        return len(self._pivots) == 0 or int(self._pivots[-1]) < self._unknowns

    def point(self, source: RandomSource) -> Bits:
        """Draw a uniform point of the affine space of solutions, shape (d,), uint8.

        The variables without a pivot are fair coins, and each choice of them has exactly one solution.

        Raises:
            BadInput: If the system is inconsistent.
        """
        if not self.consistent:
            raise BadInput("an inconsistent system has no solution to draw")
        point = source.words(len(self._matrix))
        substitute(self._matrix, self._pivots, self._unknowns, point)
        return np.unpackbits(point.view(np.uint8), bitorder="little")[: self._unknowns]


@njit
def pack(coefficients: Bits, values: Bits, matrix: Words) -> None:
    """Pack equations into the columns of ``matrix``, shape (words, k): 64 coefficients a word, then the value."""
    width = coefficients.shape[1]
    for r in range(len(values)):
        for w in range(len(matrix)):
            word = _NONE
            for j in range(min(64, width - 64 * w)):
                word |= np.uint64(coefficients[r, 64 * w + j] & 1) << np.uint64(j)
            matrix[w, r] = word
        matrix[width >> 6, r] |= np.uint64(values[r] & 1) << np.uint64(width & 63)


@njit
def eliminate(matrix: Words, columns: int) -> Indices:
    """Bring packed rows to echelon form, in place.

    Word-major, so that one pivot clears its column from 64-bit words of many rows at once, without a branch:
    O(rows * rank * words) word operations.

    Args:
        matrix: Shape (words, rows): bit b of ``matrix[w, r]`` is column 64 w + b of row r.
        columns: Number of columns, at most 64 words.

    Returns:
        The pivot columns, increasing, one for each of the first ``rank`` rows; all other rows are zero.
    """
    words, rows = matrix.shape
    pivots = np.empty(min(rows, columns), dtype=np.int64)
    clear = np.empty(rows, dtype=np.uint64)
    rank = 0
    for column in range(columns):
        if rank == rows:
            break
        word, bit = column >> 6, np.uint64(column & 63)
        row = rank
        while row < rows and not (matrix[word, row] >> bit) & _ONE:
            row += 1
        if row == rows:
            continue
        for w in range(word, words):
            matrix[w, rank], matrix[w, row] = matrix[w, row], matrix[w, rank]
        below = clear[rank + 1 :]
        for r, packed in enumerate(matrix[word, rank + 1 :]):
            below[r] = _NONE - ((packed >> bit) & _ONE)
        for w in range(word, words):
            _subtract(matrix[w, rank + 1 :], below, matrix[w, rank])
        pivots[rank] = column
        rank += 1
    return pivots[:rank]


@njit
def _subtract(packed: Words, where: Words, pivot: np.uint64) -> None:
    for r in range(len(packed)):
        packed[r] ^= where[r] & pivot


@njit
def substitute(matrix: Words, pivots: Indices, unknowns: int, point: Words) -> None:
    """Solve an echelon form for its pivots, from the last to the first; the other bits of ``point`` are given."""
    point[unknowns >> 6] |= _ONE << np.uint64(unknowns & 63)  # what the values are multiplied with
    for i in range(len(pivots) - 1, -1, -1):
        word, bit = pivots[i] >> 6, np.uint64(pivots[i] & 63)
        point[word] &= ~(_ONE << bit)
        parity = _NONE
        for w in range(word, len(matrix)):
            parity ^= matrix[w, i] & point[w]
        for shift in (32, 16, 8, 4, 2, 1):
            parity ^= parity >> np.uint64(shift)
        point[word] |= (parity & _ONE) << bit
