"""Teachers on disjoint chunks of the records, their votes on public points, and the votes counted."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.learners.model_agnostic import Identity
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Trainable

NEGATIVE, POSITIVE = 0, 1
"""Classes of the labels -1 and +1."""


def votes(
    classifier: Trainable,
    records: Records,
    chunk: Indices,
    chunks: int,
    points: AnyArray,
    source: RandomSource,
    *,
    classes: Indices | None = None,
) -> Bits:
    """Return the class that each of k teachers gives to each of m points, shape (k, m), uint8.

    A teacher is a function of its own chunk, the points and a seed of its own: a record changes the votes of its chunk
    only. Nothing that a chunk holds makes the others fail: a teacher without records, or one that cannot be trained,
    votes for class 0; one that sees a single class votes for that.

    Args:
        records: The private records.
        chunk: Of each record, shape (n,), in [0, k).
        points: Features of public points, shape (m, d).
        classes: Of each record, shape (n,), in [0, 256); records with a negative one teach nobody. None: 0 and 1 for
            the labels -1 and +1.
    """
    known = (records.labels > 0).astype(np.int64) if classes is None else classes
    order = np.argsort(chunk, kind="stable")
    ends = np.cumsum(np.bincount(chunk, minlength=chunks))
    seeds = source.derive("teachers").integers(1 << 32, chunks)
    cast = np.empty((chunks, len(points)), dtype=np.uint8)
    from sklearn import config_context  # only who uses it waits for it

    # Records were checked, and parameters tried on random ones: checking them k times takes as long as learning.
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore")  # not converged, collinear, ...: the votes decide what teachers are worth
        for teacher in range(chunks):
            rows = order[(ends[teacher - 1] if teacher else 0) : ends[teacher]]
            rows = rows[known[rows] >= 0]
            cast[teacher] = _vote(classifier, records.features[rows], known[rows], points, int(seeds[teacher]))
    return cast


def _vote(classifier: Trainable, features: AnyArray, classes: Indices, points: AnyArray, seed: int) -> Bits | int:
    if len(classes) == 0:
        return NEGATIVE
    if classes.min() == classes.max():
        return int(classes[0])
    try:
        model: Any = classifier.build(seed)
        return np.asarray(model.fit(features, classes).predict(points), dtype=np.uint8)
    except Exception:  # noqa: BLE001 - whatever it is, a failure would say something about this chunk
        return NEGATIVE


def chunk_of(records: Records, chunks: int, by: Identity, first: int = 0) -> Indices:
    """Return the chunk of every record, shape (n,), int64 in [0, k).

    ``slot``: the record in slot i is in chunk i mod k. Slots are fixed places, so replacing a record changes one chunk.
    ``content``: chunk SHA-256(record) mod k, for people without fixed places. Replacing a record changes two chunks:
    one loses it, one gains its successor; adding or removing one changes a single chunk.

    Splitting *arbitrarily* (for example into k pieces one after the other), as Algorithm 2 of Bassily, Thakkar and
    Thakurta allows, is unsound where records may be added or removed: a single one shifts all others, and can turn
    every vote.

    Args:
        chunks: k, public.
        first: Slot of the first of these records.
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


def count_votes(votes: AnyArray, classes: int) -> Indices:
    """Return how many of k teachers vote for each class, shape (m, classes), int64, for votes of shape (k, m)."""
    counts = np.zeros((votes.shape[1], classes), dtype=np.int64)
    for label in range(classes):
        counts[:, label] = np.count_nonzero(votes == label, axis=0)
    return counts


def winners(counts: Indices) -> Indices:
    """Return the class with most votes, shape (m,), the lowest of several."""
    return np.asarray(counts.argmax(axis=1), dtype=np.int64)


def distances(counts: Indices, touched: int = 1) -> Indices:
    """Return the distance to instability of each winner, shape (m,), int64, in records.

    ::

        dist = floor(max(0, ceil((c1 - c2)/2) - 1) / touched)

    with c1 and c2 the greatest and the second greatest count, any number of classes. A teacher that changes its vote
    moves c1 - c2 by at most 2, so dist has sensitivity 1 for one record, which changes at most ``touched`` teachers;
    and with dist >= 1 no record changes the winner, whatever ties are broken by: dist is the number of records that can
    be replaced without changing it. The printed c1 - c2 - 1 (Algorithm 2) has sensitivity 2.

    Args:
        counts: Shape (m, classes), at least two classes.
        touched: Teachers that one record may change, 1 or 2.
    """
    top = np.sort(counts, axis=1)[:, -2:]
    changes = np.maximum(0, (top[:, 1] - top[:, 0] + 1) // 2 - 1)
    return np.asarray(changes // touched, dtype=np.int64)
