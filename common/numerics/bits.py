"""Integers and their bits as features, most significant first."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray, Bits, Words
from common.numerics.kernels import njit


def pack(features: AnyArray) -> Words:
    """Return the integers of which rows are the bits: shape (n, at most 64) to (n,). Features above 0 are ones."""
    items = np.empty(len(features), dtype=np.uint64)
    _pack(features, items)
    return items


def bits_of(words: AnyArray, count: int) -> Bits:
    """Return the ``count`` most significant bits of each 64-bit word, shape (n, count)."""
    places = np.arange(63, 63 - count, -1, dtype=np.uint64)
    return ((words[:, None] >> places) & np.uint64(1)).astype(np.uint8)


@njit
def _pack(features: AnyArray, items: Words) -> None:
    for i in range(len(items)):
        item = np.uint64(0)
        for j in range(features.shape[1]):
            item = (item << np.uint64(1)) | np.uint64(features[i, j] > 0)
        items[i] = item
