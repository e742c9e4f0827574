"""Which chunk a record belongs to: a public function of its place, or of its content; never of other records."""

from __future__ import annotations

import hashlib

import numpy as np

from common.core.arrays import Indices
from common.local.records import Records
from common.vocabulary.learners.model_agnostic import Identity


def chunk_of(records: Records, chunks: int, by: Identity, first: int = 0) -> Indices:
    """Return the chunk of every record, shape (n,), int64 in [0, k).

    ``slot``: the record in slot i is in chunk i mod k. Slots are fixed places, so replacing a record changes one chunk.
    ``content``: chunk SHA-256(record) mod k, for people without fixed places. Replacing a record changes two chunks:
    one loses it, one gains its successor; adding or removing one changes a single chunk.

    Splitting *arbitrarily* (for example into k pieces one after the other), as Algorithm 2 of Bassily, Thakkar and
    Thakurta allows, is unsound where records may be added or removed: a single one shifts all others, and can turn
    every vote.

    Parameters
    ----------
    chunks
        k, public.
    first
        Slot of the first of these records.
    """
    if by == "slot":
        return np.arange(first, first + len(records), dtype=np.int64) % chunks
    rows = np.ascontiguousarray(records.features)
    labels = records.labels
    found = (
        int.from_bytes(hashlib.sha256(rows[i].tobytes() + labels[i].tobytes()).digest()[:8], "little") % chunks
        for i in range(len(records))
    )
    return np.fromiter(found, dtype=np.int64, count=len(records))
