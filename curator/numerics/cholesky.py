"""Sums of squares, Cholesky's factor and its solutions, by loops whose results are the same on every processor.

Those of BLAS and LAPACK are not: each processor has kernels of its own there, which add in orders of their own, and
some of them share a sum among threads. For a few hundred unknowns these loops take about as long.
"""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import WIDTH, alike, fma, load, njit, njit_inlined, store, total

_TALL = 4
"""Rows of a tile; it is two vectors wide, so that eight sums wait for nothing but their own terms."""
_WIDE = 2 * WIDTH
_ROWS = 32
"""Rows that are gone through at a time: they stay in the first-level cache."""


def padded(width: int) -> int:
    """Return the least multiple of a tile's width that is not less."""
    return -(-width // _WIDE) * _WIDE


@njit
def add_squares(matrix: AnyArray, rows: AnyArray, sign: float) -> None:
    """Add the sign times sum_i r_i r_i^T to the upper triangle of a matrix.

    Args:
        matrix: Shape (w, w), w a multiple of 16, float32 or float64; in its precision. Changed, also below the
            diagonal.
        rows: r_i, shape (k, w), of the same type; zeros where there is nothing.
        sign: 1 or -1.
    """
    width = len(matrix)
    for first in range(0, len(rows), _ROWS):
        end = min(first + _ROWS, len(rows))
        for a in range(0, width, _TALL):
            for b in range(a // _WIDE * _WIDE, width, _WIDE):
                _tile(matrix, rows, sign, first, end, a, b)


@njit_inlined
def _tile(matrix: AnyArray, rows: AnyArray, sign: float, first: int, end: int, a: int, b: int) -> None:
    width = len(matrix)
    p0, p1, p2, p3 = a * width + b, (a + 1) * width + b, (a + 2) * width + b, (a + 3) * width + b
    s0, s1, s2, s3 = load(matrix, p0), load(matrix, p1), load(matrix, p2), load(matrix, p3)
    t0, t1, t2, t3 = (
        load(matrix, p0 + WIDTH), load(matrix, p1 + WIDTH), load(matrix, p2 + WIDTH), load(matrix, p3 + WIDTH)
    )  # fmt: skip
    for i in range(first, end):
        left, right = load(rows, i * width + b), load(rows, i * width + b + WIDTH)
        x0, x1 = alike(sign * rows[i, a], rows), alike(sign * rows[i, a + 1], rows)
        x2, x3 = alike(sign * rows[i, a + 2], rows), alike(sign * rows[i, a + 3], rows)
        s0, s1, s2, s3 = fma(x0, left, s0), fma(x1, left, s1), fma(x2, left, s2), fma(x3, left, s3)
        t0, t1, t2, t3 = fma(x0, right, t0), fma(x1, right, t1), fma(x2, right, t2), fma(x3, right, t3)
    store(matrix, p0, s0)
    store(matrix, p1, s1)
    store(matrix, p2, s2)
    store(matrix, p3, s3)
    store(matrix, p0 + WIDTH, t0)
    store(matrix, p1 + WIDTH, t1)
    store(matrix, p2 + WIDTH, t2)
    store(matrix, p3 + WIDTH, t3)


@njit
def factor(matrix: AnyArray) -> bool:
    """Put the factor U, H = U^T U, in the place of the upper triangle of H, shape (w, w) with w a multiple of 8.

    Returns:
        False if H is not positive definite, so far as its precision shows; then nothing may be done with what is there.
    """
    width = len(matrix)
    for j in range(width):
        begin = j // WIDTH * WIDTH
        for i in range(0, j - j % _TALL, _TALL):
            x0, x1 = alike(-matrix[i, j], matrix), alike(-matrix[i + 1, j], matrix)
            x2, x3 = alike(-matrix[i + 2, j], matrix), alike(-matrix[i + 3, j], matrix)
            for b in range(begin, width, WIDTH):
                sums = fma(x0, load(matrix, i * width + b), load(matrix, j * width + b))
                sums = fma(x1, load(matrix, (i + 1) * width + b), sums)
                sums = fma(x2, load(matrix, (i + 2) * width + b), sums)
                store(matrix, j * width + b, fma(x3, load(matrix, (i + 3) * width + b), sums))
        for i in range(j - j % _TALL, j):
            x0 = alike(-matrix[i, j], matrix)
            for b in range(begin, width, WIDTH):
                store(matrix, j * width + b, fma(x0, load(matrix, i * width + b), load(matrix, j * width + b)))
        pivot = np.sqrt(matrix[j, j])
        if not pivot > 0.0:
            return False
        for b in range(j, width):
            matrix[j, b] /= pivot
        for b in range(begin, j):
            matrix[j, b] = 0.0
    return True


@njit
def solve(factored: AnyArray, values: AnyArray) -> None:
    """Put the solution x of U^T U x = values in their place.

    Args:
        factored: What :func:`factor` left.
        values: Shape (w,), C-contiguous, of the same type.
    """
    width = len(factored)
    for i in range(width):
        begin = i // WIDTH * WIDTH
        found = values[i] / factored[i, i]
        # Left of the diagonal, what is in its vector is 0.
        step = alike(-found, values)
        for b in range(begin, width, WIDTH):
            store(values, b, fma(step, load(factored, i * width + b), load(values, b)))
        values[i] = found
    for i in range(width - 1, -1, -1):
        begin = i // WIDTH * WIDTH
        mine = values[i]
        values[i] = type(mine)(0.0)
        sums = alike(0.0, values)
        for b in range(begin, width, WIDTH):
            sums = fma(load(factored, i * width + b), load(values, b), sums)
        values[i] = (mine - total(sums)) / factored[i, i]
