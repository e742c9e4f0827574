"""Who the people of a data set are, for a ledger that must know them again and should not hold their records."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.core.arrays import Words
from common.people.spec import RecordSource
from common.people.tables.input.compressed import found, plain

_BLOCK = 1 << 16


@dataclass(frozen=True, repr=False, eq=False)
class Digests:
    """The people of a data set under a secret key.

    Attributes
    ----------
    rows
        Sorted, without repetitions: 64 bits of the keyed BLAKE2b of each person's features. The label is left out: the
        same people with another label are the same people. Two different rows agree with probability 2^-64, and then
        count as one person, which is the private side.
    files
        Keyed digests of the files that they come from, whatever is read of these, and however they are compressed.
    """

    rows: Words
    files: tuple[str, ...]


def digests(people: RecordSource, files: Sequence[Path], key: bytes) -> Digests:
    """Return the digests of people and their files under a key of 32 bytes."""
    rows = np.empty(len(people), dtype=np.uint64)
    for begin in range(0, len(people), _BLOCK):
        end = min(begin + _BLOCK, len(people))
        features = np.ascontiguousarray(people.records(np.arange(begin, end)).features)
        features = features + features.dtype.type(0)  # -0.0 is 0.0
        for at, row in enumerate(features):
            digest = hashlib.blake2b(row.tobytes(), digest_size=8, key=key, person=b"tandem person").digest()
            rows[begin + at] = int.from_bytes(digest, "little")
    return Digests(np.unique(rows), tuple(_file(path, key) for path in files))


def _file(path: Path, key: bytes) -> str:
    state = hashlib.blake2b(digest_size=16, key=key, person=b"tandem file")
    with plain(found(path)) as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()
