"""The first look at records: where they lie, how far each feature varies, and how long they are.

A mechanism that clips to a ball around 0 pays for the ball. Public bounds place records far from 0 and say little of
how far they vary, so that most of the noise would be for room in which nobody is (docs/learners.md).
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
from curator.mechanisms.access import Access, as_it_is
from curator.mechanisms.sums import CoordinateMoments
from curator.sample.shard import BLOCK

_STILL = 0.1
"""A feature with less than this share of the average variance weighs less the less it varies."""
_DOUBT = 3.0  # squares of deviations of noise by which a feature is told from a constant: at so many it weighs half
_TINY = 2.0**-20  # a scale is divided by: it is never 0
_SHORT = 0.8
"""R, of the root of the mean squared length: some two thirds of people are beyond. Lengths shrink by about as much."""
_LEAST = 0.05  # of that mean square, at least so much of what shrunken variances say


@dataclass(frozen=True, repr=False, eq=False)
class Preconditioner:
    """z = s (x - m), which a learner sees clipped to the ball of radius R; all three are released, thus public.

    z is a function of one record, so neighbouring samples stay neighbours. What is learned is a half-space of the
    clipped z, which are shorter: by the factor ``shrink`` in the mean. The half-space of x that is released has no clip
    and so many times their weights. ``variances`` are those of x, shrunk to their average; None without a look.
    """

    mean: Floats
    scale: Floats
    radius: float
    shrink: float
    variances: Floats | None = None

    def of(self, records: Records) -> Records:
        """Return the records with z in the place of x, not clipped."""
        found = np.empty(records.features.shape, dtype=np.float32)
        _move(records.features, self.mean, self.scale, found)
        return Records(found, records.labels)

    def shortened(self, records: Records) -> Records:
        """Return the records with z/R, cut to length 1, in the place of x; what is no number is 0."""
        found = self.of(records).features
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", found, found))[:, None]
            found *= np.float32(1.0) / np.maximum(lengths, np.float32(self.radius))
        found[~np.isfinite(found).all(axis=1)] = 0.0
        return Records(found, records.labels)

    def about(self, weights: Floats, threshold: float) -> Linear:
        """Return the half-space of x for ``<w, z> > b`` of clipped z; weights have shape (d,)."""
        found = np.clip(self.shrink * weights * self.scale, -GREATEST, GREATEST)
        border = float(np.clip(threshold + ordered_sum(found * self.mean), -GREATEST, GREATEST))
        return Linear(weights=tuple(found.tolist()), threshold=border)


@njit
def _move(features: AnyArray, mean: Floats, scale: Floats, found: Singles) -> None:
    for i in range(len(features)):
        for j in range(features.shape[1]):
            found[i, j] = (features[i, j] - mean[j]) * scale[j]


def room(sizes: CallSizes) -> int:
    """Return an upper bound on the bytes that z takes: of one block at a time."""
    return 4 * sizes.dimension * min(sizes.people, BLOCK)


def precondition(
    access: Access,
    mu: float,
    bound: float | None,
    of: Callable[[Records], Records] = as_it_is,
    width: int | None = None,
    *,
    response: bool = False,
) -> Preconditioner:
    """Return where records lie, by one mu-GDP release; x itself where mu is 0.

    Features are within the norm ``bound``; in [0, 1] where that is None. ``of`` is what is made of records beforehand,
    one by one, and ``width`` how many features they then have, the last of them a ``response`` or not.

    m is the mean of the records, within the public norm or box; v the variances, where noise has deviation e, shrunk to
    their average by avg^2/(avg^2 + e^2). The scale is s = sqrt(v)/(v + .1 avg + e): about 1/sqrt(v), but never above
    1.6/sqrt(avg). With 1/sqrt(v) noise would decide about T where what hardly varies in S says nothing.
    In a box a feature that may be a constant at one end of it, as a category that all of S share, weighs less still
    (:func:`_varying`).

    R is ``_SHORT`` times the root of the mean of |s (x - m)|^2, as the noisy variances have it. Noise of deviation o on
    m takes o^2 from each of these, on average, and moves m by as much: x is v + 2 o^2 from m where v is noisy, and o^2
    at least. With a smaller R few people would be far beyond it, and their scores by the half-space of x enormous.
    """
    size = access.dimension if width is None else width
    if mu == 0.0:
        norm = math.sqrt(size) if bound is None else bound
        return Preconditioner(np.zeros(size), np.ones(size), norm, 1.0)
    mechanism = CoordinateMoments(bound, size, mu)
    sums, squares, ends = access.release(mechanism, of)
    middle, unit = (0.5, 1.0) if bound is None else (0.0, bound)
    off, noise, uncertain = (deviation / access.people for deviation in mechanism.deviations)
    mean = np.clip(sums / access.people, -1.0, 1.0)
    found = squares / access.people - np.square(mean)
    average = max(float(np.maximum(found, 0.0).mean()), noise / math.sqrt(size))
    known = average * average / (average * average + noise * noise)
    variances = known * np.maximum(found, 0.0) + (1.0 - known) * average
    scale = np.sqrt(variances) / (variances + _STILL * average + noise)
    if ends is not None:
        inside = 1.0 - ends / access.people
        varying = _varying(inside / uncertain, (0.5 - np.abs(mean)) / off)
        scale[: size - response] *= varying[: size - response]
    apart = np.stack([found + off * off, _LEAST * variances]) + off * off
    lengths = ordered_sum(np.square(scale) * apart)
    radius = _SHORT * math.sqrt(float(lengths.max()))
    return Preconditioner(middle + unit * mean, scale / unit, radius, _SHORT, unit * unit * variances)


def _varying(inside: Floats, away: Floats) -> Floats:
    """Return by what each feature's scale is multiplied, in (0, 1): how well it is told from a constant at an end.

    Of such a constant nobody is ``inside`` the box, and the mean is not ``away`` from the end; both are in deviations
    of their noise. With c the sum of their squares, where they are positive, the factor is c/(c + ``_DOUBT``). What is
    learned of a constant is noise, and T may have another value of it: all scores of T would move.
    """
    apart = np.square(np.maximum(inside, 0.0)) + np.square(np.maximum(away, 0.0))
    return np.maximum(apart / (apart + _DOUBT), _TINY)
