"""Votes, counted: how many teachers say which class, and how many would have to change for another winner."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray, Indices


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

    Parameters
    ----------
    counts
        Shape (m, classes), at least two classes.
    touched
        Teachers that one record may change, 1 or 2.
    """
    top = np.sort(counts, axis=1)[:, -2:]
    changes = np.maximum(0, (top[:, 1] - top[:, 0] + 1) // 2 - 1)
    return np.asarray(changes // touched, dtype=np.int64)
