"""The first look at records: a private release of their mean, the variance of each feature, and their lengths.

The noise of a mechanism that clips to a ball around 0 grows with the ball. Public bounds may be far wider than the
records vary, and not centred on them, so most of the noise would be for a region without records (docs/learners.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.local.hypotheses.hypothesis import GREATEST, Linear
from common.local.records import Records
from common.numerics.elementary import ordered_sum
from common.numerics.kernels import njit
from curator.learners.base import CallSizes
from curator.mechanisms.access import Access, unchanged
from curator.mechanisms.sums import CoordinateMoments
from curator.sample.shard import BLOCK

_STILL = 0.1
"""Share of the average variance: a feature that varies less than this gets a lower weight the less it varies."""
_DOUBT = 3.0  # squared standard scores by which a feature differs from a constant; at this value its weight is half
_TINY = 2.0**-20  # least scale: it is a divisor and must not be 0
_SHORT = 0.8
"""R as a share of the root mean square length: some two thirds of people exceed it. Lengths shrink by about as much."""
_LEAST = 0.05  # least mean square, as a share of what the shrunken variances give


@dataclass(frozen=True, repr=False, eq=False)
class Preconditioner:
    """z = s (x - m), which a learner sees clipped to the ball of radius R; s, m and R are released, thus public.

    z is a function of one record, so neighbouring samples stay neighbours. The learner learns a half-space of the
    clipped z, which are shorter, on average by the factor ``shrink``. The released half-space of x has no clip and
    ``shrink`` times the weights. ``variances`` are those of x, shrunk to their average; None without a look.
    """

    mean: Floats
    scale: Floats
    radius: float
    shrink: float
    variances: Floats | None = None

    def transform(self, records: Records) -> Records:
        """Return the records with x replaced by z, not clipped."""
        rows = np.empty(records.features.shape, dtype=np.float32)
        _move(records.features, self.mean, self.scale, rows)
        return Records(rows, records.labels)

    def clip(self, records: Records) -> Records:
        """Return the records with x replaced by z/R, cut to length 1; rows that are not finite become 0."""
        rows = self.transform(records).features
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
            rows *= np.float32(1.0) / np.maximum(lengths, np.float32(self.radius))
        rows[~np.isfinite(rows).all(axis=1)] = 0.0
        return Records(rows, records.labels)

    def half_space(self, weights: Floats, threshold: float) -> Linear:
        """Return the half-space of x for the half-space ``<w, z> > b`` of clipped z; weights have shape (d,)."""
        scaled = np.clip(self.shrink * weights * self.scale, -GREATEST, GREATEST)
        border = float(np.clip(threshold + ordered_sum(scaled * self.mean), -GREATEST, GREATEST))
        return Linear(weights=tuple(scaled.tolist()), threshold=border)


@njit
def _move(features: AnyArray, mean: Floats, scale: Floats, rows: Singles) -> None:
    for i in range(len(features)):
        for j in range(features.shape[1]):
            rows[i, j] = (features[i, j] - mean[j]) * scale[j]


def room(sizes: CallSizes) -> int:
    """Return an upper bound on the bytes of z, which is held for one block at a time."""
    return 4 * sizes.dimension * min(sizes.people, BLOCK)


def precondition(
    access: Access,
    mu: float,
    bound: float | None,
    convert: Callable[[Records], Records] = unchanged,
    width: int | None = None,
    *,
    response: bool = False,
) -> Preconditioner:
    """Return the preconditioner from one mu-GDP release; if mu is 0, one that leaves x unchanged.

    Features are within the norm ``bound``, or in [0, 1] if that is None. ``convert`` maps records
    beforehand, one by one. They then have ``width`` features, the last of which may be a ``response``.

    m is the mean of the records, within the public norm or box. v are the variances, whose noise has standard deviation
    e, shrunk to their average by avg^2/(avg^2 + e^2). The scale is s = sqrt(v)/(v + .1 avg + e): about 1/sqrt(v), but
    never above 1.6/sqrt(avg). With 1/sqrt(v), features that hardly vary in S would get large scales, and noise would
    decide about T. In a box, a feature that may be constant at one end, such as a category that all of S share, gets an
    even lower scale (:func:`_varying`).

    R is ``_SHORT`` times the root of the mean of |s (x - m)|^2 according to the noisy variances. Noise of deviation o
    on m lowers each variance by o^2 on average and moves m by as much, so the mean square distance of x from m is
    v + 2 o^2 for a noisy v, and at least o^2. With a smaller R a few people would be far beyond it, with huge scores.
    """
    size = access.dimension if width is None else width
    if mu == 0.0:
        norm = math.sqrt(size) if bound is None else bound
        return Preconditioner(np.zeros(size), np.ones(size), norm, 1.0)
    mechanism = CoordinateMoments(bound, size, mu)
    sums, squares, ends = access.release(mechanism, convert)
    middle, unit = (0.5, 1.0) if bound is None else (0.0, bound)
    off, noise, uncertain = (deviation / access.people for deviation in mechanism.deviations)
    mean = np.clip(sums / access.people, -1.0, 1.0)
    raw = squares / access.people - np.square(mean)
    average = max(float(np.maximum(raw, 0.0).mean()), noise / math.sqrt(size))
    shrinkage = average * average / (average * average + noise * noise)
    variances = shrinkage * np.maximum(raw, 0.0) + (1.0 - shrinkage) * average
    scale = np.sqrt(variances) / (variances + _STILL * average + noise)
    if ends is not None:
        inside = 1.0 - ends / access.people
        varying = _varying(inside / uncertain, (0.5 - np.abs(mean)) / off)
        scale[: size - response] *= varying[: size - response]
    squared = np.stack([raw + off * off, _LEAST * variances]) + off * off
    lengths = ordered_sum(np.square(scale) * squared)
    radius = _SHORT * math.sqrt(float(lengths.max()))
    return Preconditioner(middle + unit * mean, scale / unit, radius, _SHORT, unit * unit * variances)


def _varying(inside: Floats, distance: Floats) -> Floats:
    """Return the factor of each feature's scale, in (0, 1): near 0 if it may be a constant at an end of the box.

    For such a constant, no record is ``inside`` the box and the mean is at no ``distance`` from the end; both are in
    standard deviations of their noise. With c the sum of the squares of those that are positive, the factor is c/(c +
    ``_DOUBT``). The learned weight of a constant is noise, and all scores of T would move if T has another value of it.
    """
    score = np.square(np.maximum(inside, 0.0)) + np.square(np.maximum(distance, 0.0))
    return np.maximum(score / (score + _DOUBT), _TINY)
