"""Linear scores of several classes, from one noisy release of their means and a covariance: Fisher's discriminant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from common.core.arrays import Floats
from common.learners.half_spaces import DiscriminantSettings
from common.learners.model_agnostic import ClassColumns
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import GREATEST, Linear
from common.local.records import Records
from common.operations.operation import ClassScores, Learned
from curator.learners.preconditioning import precondition
from curator.mechanisms.access import Access
from curator.mechanisms.sums import ClassMoments, Moments


@dataclass(frozen=True, eq=False)
class Discriminants:
    """Scores <w_c, z> - b_c of C classes, and how they lie: normal in each class, with one covariance.

    Attributes:
        weights, thresholds: Shapes (C, d) and (C,), in the units of the moments.
        shares, means, covariance: Of people; of scores, by class, shape (C, C); within classes, shape (C, C).
    """

    weights: Floats
    thresholds: Floats
    shares: Floats
    means: Floats
    covariance: Floats


def learned_classes(access: Access, settings: DiscriminantSettings, columns: ClassColumns) -> Learned:
    """Return the argmax of the classes' scores, by the first look and one release of :class:`ClassMoments`.

    *Privacy.* The class of a record is a function of that record alone, as is what is looked at, so the release is that
    of :class:`ClassMoments`, mu-GDP for any number of classes; all else is post-processing. A record of no class, or
    several, counts as one of the first.
    """
    before = partial(_before, columns)
    seen = precondition(access, settings, before, columns.first)
    mechanism = ClassMoments(seen.radius, columns.first, settings.shares[1], columns.count)
    moments = access.release(mechanism, lambda records: seen.of(before(records)))
    found = discriminants(moments, access.people, mechanism.deviations, settings.ridge)
    scored = (
        seen.about(weights / seen.radius, float(threshold))
        for weights, threshold in zip(found.weights, found.thresholds, strict=True)
    )
    return Learned(
        hypothesis=Argmax(first=columns.first, hypotheses=tuple(_centred(list(scored)))),
        scores=ClassScores(
            shares=tuple(found.shares.tolist()), means=_rows(found.means), root=_rows(_root(found.covariance))
        ),
    )


def discriminants(moments: Moments, people: int, deviations: tuple[float, float, float], ridge: float) -> Discriminants:
    """Return the scores of all classes, for n ``people``, in the units of the moments.

    ``deviations`` are those of the noise on a number of people, on a sum of features and on one of squares. The mean of
    a class is moved towards that of everybody by what noise adds to their distance (James and Stein 1961), at most the
    whole way: a class of few people has a share and no direction. Then one factor for all classes makes scores log
    odds, as for two.
    """
    count, plain, square = deviations
    classes, size = moments.first.shape
    sizes = np.clip(moments.counts, min(math.sqrt(2.0) * count, people / (2.0 * classes)), people)
    sizes *= people / sizes.sum()
    shares, means = sizes / people, moments.first / sizes[:, None]
    scatter = moments.second / people - np.einsum("c,ci,cj->ij", shares, means, means)
    noise = 2.0 * (square / math.sqrt(2.0)) * math.sqrt(size) / people
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values, 0.0)
    damped = values + ridge * noise
    center = shares @ means
    apart = (means - center) @ vectors
    distances = np.maximum((apart * apart / damped).sum(axis=1), 1e-12)
    false = (plain / sizes) ** 2 * float((1.0 / damped).sum())
    apart *= np.clip(1.0 - false / distances, 0.0, 1.0)[:, None]
    turned = apart / damped
    between = float(shares @ (turned * apart).sum(axis=1))
    within = float(shares @ (turned * turned * values).sum(axis=1))
    turned *= between / max(within, 0.05 * between, 1e-12)
    own = turned @ apart.T  # row c: the score of class c, of the means of all classes
    constants = np.log(shares) - 0.5 * np.diagonal(own)
    weights = turned @ vectors.T
    return Discriminants(weights, weights @ center - constants, shares, own.T + constants, (turned * values) @ turned.T)


def _before(columns: ClassColumns, records: Records) -> Records:
    """Return the records as the learner sees them: what stands before the classes, and the class as the label."""
    own = column_classes(records.features, columns.first, columns.count)
    return Records(np.ascontiguousarray(records.features[:, : columns.first]), np.maximum(own, 0).astype(np.int8))


def _centred(scored: list[Linear]) -> list[Linear]:
    """Return the scores less their mean: it is the same for all classes, and means nothing."""
    weights = np.array([one.weights for one in scored])
    thresholds = np.array([one.threshold for one in scored])
    weights, thresholds = weights - weights.mean(axis=0), thresholds - thresholds.mean()
    return [
        Linear(weights=tuple(row.tolist()), threshold=float(threshold))
        for row, threshold in zip(weights, thresholds, strict=True)
    ]


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.clip(matrix, -GREATEST, GREATEST).tolist())
