"""How often each hosted person has answered, a byte for each: looked at, and counted, in one pass over who is asked."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.local.packing import Mask
from common.numerics.kernels import njit

Counts = Bits  # shape (size,)
People = Indices | Mask
"""Who is asked: numbers, int64, shape (n,), or a bit for each person, uint8, shape (ceil(size / 8),)."""


def count_spent(asked: People, most: int, in_all: Counts, here: Counts) -> int:
    """Return how many of the people asked may not answer again: ``most`` times in one run, and in no other."""
    look = _masked_spent if asked.dtype == np.uint8 else _listed_spent
    return int(look(asked, most, in_all, here))


def count_asked(asked: People, in_all: Counts, here: Counts) -> None:
    """Add one for each person asked."""
    add = _masked_added if asked.dtype == np.uint8 else _listed_added
    add(asked, in_all, here)


@njit
def _listed_spent(asked: AnyArray, most: int, in_all: Counts, here: Counts) -> int:
    found = 0
    for k in range(len(asked)):
        before = in_all[asked[k]]
        found += (before >= most) | (before != here[asked[k]])
    return found


@njit
def _masked_spent(asked: AnyArray, most: int, in_all: Counts, here: Counts) -> int:
    found = 0
    for person in range(len(in_all)):
        before = in_all[person]
        found += ((before >= most) | (before != here[person])) & (asked[person >> 3] >> (7 - (person & 7)))
    return found


@njit
def _listed_added(asked: AnyArray, in_all: Counts, here: Counts) -> None:
    for k in range(len(asked)):
        in_all[asked[k]] += 1
        here[asked[k]] += 1


@njit
def _masked_added(asked: AnyArray, in_all: Counts, here: Counts) -> None:
    for person in range(len(in_all)):
        one = (asked[person >> 3] >> (7 - (person & 7))) & 1
        in_all[person] += one
        here[person] += one
