"""Teachers: any classifier, trained on each of k disjoint chunks of the records; their votes on public points."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Classifier

NEGATIVE, POSITIVE = 0, 1
"""Classes of the labels -1 and +1."""


def votes(
    classifier: Classifier,
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

    Parameters
    ----------
    records
        The private records.
    chunk
        Of each record, shape (n,), in [0, k).
    points
        Features of public points, shape (m, d).
    classes
        Of each record, shape (n,), in [0, 256); records with a negative one teach nobody. None: 0 and 1 for the labels
        -1 and +1.
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


def _vote(classifier: Classifier, features: AnyArray, classes: Indices, points: AnyArray, seed: int) -> Bits | int:
    if len(classes) == 0:
        return NEGATIVE
    if classes.min() == classes.max():
        return int(classes[0])
    try:
        model: Any = classifier.build(seed)
        return np.asarray(model.fit(features, classes).predict(points), dtype=np.uint8)
    except Exception:  # noqa: BLE001 - whatever it is, a failure would say something about this chunk
        return NEGATIVE
