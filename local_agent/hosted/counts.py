"""How often each hosted person has answered: looked at, and counted, in one pass over who is asked.

Both counts of a person lie beside each other, where one look into memory finds them: of very many people most looks are
into memory that no cache has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.local.packing import Mask
from common.numerics.kernels import njit, njit_inlined

Counts = Bits  # shape (size, 2): in all runs, and in this one
People = Indices | Mask
"""Who is asked: numbers, int64, shape (n,), or a bit for each person, uint8, shape (ceil(size / 8),)."""


def count_spent(asked: People, most: int, counts: Counts) -> int:
    """Return how many of the people asked may not answer again: ``most`` times in one run, and in no other."""
    look = _masked_spent if asked.dtype == np.uint8 else _listed_spent
    return int(look(asked, most, _together(counts)))


def count_asked(asked: People, counts: Counts) -> None:
    """Add one for each person asked."""
    if asked.dtype == np.uint8:
        _masked_added(asked, counts)
    else:
        _listed_added(asked, _together(counts))


_ONE = np.uint16(0x0101)


def _together(counts: Counts) -> AnyArray:
    """Return both counts of each person as one number, in which neither grows beyond its byte."""
    return counts.view(np.uint16).reshape(-1)


@njit_inlined
def _spent(both: Any, most: int) -> Any:
    """Tell whether two counts differ, or are equal and at least ``most``: the order of the bytes does not matter."""
    lower = both & np.uint16(0xFF)
    return (lower >= most) | (both != lower * _ONE)


@njit
def _listed_spent(asked: AnyArray, most: int, counts: AnyArray) -> int:
    found = 0
    for k in range(len(asked)):
        found += _spent(counts[np.uint64(asked[k])], most)
    return found


@njit
def _masked_spent(asked: AnyArray, most: int, counts: AnyArray) -> int:
    found = 0
    for person in range(len(counts)):
        found += _spent(counts[person], most) & (asked[person >> 3] >> (7 - (person & 7)))
    return found


@njit
def _listed_added(asked: AnyArray, counts: AnyArray) -> None:
    for k in range(len(asked)):
        counts[np.uint64(asked[k])] += _ONE


@njit
def _masked_added(asked: AnyArray, counts: Counts) -> None:
    for person in range(len(counts)):  # byte by byte, which the compiler does for many together
        one = (asked[person >> 3] >> (7 - (person & 7))) & 1
        counts[person, 0] += one
        counts[person, 1] += one
