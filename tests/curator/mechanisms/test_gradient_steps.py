"""The loop of private descent reads nothing beyond its arrays: behind each of them lies memory that nobody may read."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from common.core.arrays import AnyArray
from curator.learners.sgd import Sgd
from curator.mechanisms.gradient_steps import coordinates, descend
from curator.sample.rows import GatheredRows
from tests.tiers import for_each

NO_ACCESS, READ_AND_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


@contextmanager
def guarded(array: AnyArray) -> Iterator[AnyArray]:
    """Yield a copy of an array that ends where a page ends; to read the next page ends the process."""
    pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages)
    assert protect(behind, mmap.PAGESIZE, NO_ACCESS) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, pages - array.nbytes).reshape(array.shape)
    copy[...] = array
    try:
        yield copy
    finally:
        assert protect(behind, mmap.PAGESIZE, READ_AND_WRITE) == 0


@for_each("d", [5, 12])
@for_each("intercept", [0.0, 1.0])
def test_descent_reads_its_arrays_and_nothing_behind_them(d: int, intercept: float) -> None:
    """Draws by their rows, with noise: with and without an intercept, up to eight features and more."""
    random, count = np.random.default_rng(3), 6
    width = d + (intercept != 0.0)
    rule = Sgd(steps=10**6, diameter=6.0, noise=2.0, intercept=intercept).descent.rule(width)
    plain = (
        random.normal(size=(9, d)).astype(np.float32),
        np.where(random.random(9) < 0.5, 1, -1).astype(np.int8),
        np.array([8, 0, 8, 3, 1, 8]),
        random.integers(-9, 9, (count, width)).astype(np.int16),
    )
    found = []
    with ExitStack() as held:
        for arrays in (plain, tuple(held.enter_context(guarded(array)) for array in plain)):
            features, labels, rows, noise = arrays
            away, total = coordinates(width, np.float64), coordinates(width, np.float64)
            descend(GatheredRows(features, labels, rows, None), noise, away, total, 0, rule)
            found.append((away, total))
        del arrays, features, labels, rows, noise
    np.testing.assert_array_equal(*[np.concatenate(parts) for parts in found])
