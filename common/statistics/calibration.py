"""How labels go with a model's scores, from noisy shares of people: a logistic curve with an intercept a group.

Everything is computed by sums and functions that are the same on every machine: what comes out is in later questions,
which an audit asks again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp
from common.statistics.bins import Within, octave_quarter, ordered_sum

_STEPS = np.arange(-24, 25)
"""Slopes are quarters of octaves apart: errors of a few percent in the slope move no threshold."""
_OCTAVE = 0.6931471805599453
_NEAR = 0.5
"""Standard deviation of the prior of a group's intercept around the common one."""
_MOST = 16
_FINE = 16
"""Intercepts are searched among sixteenths, then among 1024ths."""
_KEPT = 0.05
"""Standard deviation, beforehand, of the population's share of a bin from the sample's."""


@dataclass(frozen=True)
class Calibration:
    """The odds of label +1: ln(odds) = slope * score + intercepts[group]."""

    slope: float
    intercepts: tuple[float, ...]


@dataclass(frozen=True)
class Prior:
    """The prior of a calibration: ln(slope) and the common intercept are Gaussian.

    Attributes:
        step: The mean of ln(slope), in quarters of octaves.
        intercept: The mean of the common intercept.
        steep, far: Standard deviations, of ln(slope) and of the intercept.
    """

    step: float = 0.0
    intercept: float = 0.0
    steep: float = 1.5
    far: float = 4.0

    def shifted(self, by: float, steep: float, far: float) -> Prior:
        """Return the prior for other people, whose curve differs by independent Gaussians and whose intercept by more.

        Args:
            by: Is added to the intercept.
            steep, far: Standard deviations of the differences.
        """
        return Prior(self.step, self.intercept + by, math.hypot(self.steep, steep), math.hypot(self.far, far))


VAGUE = Prior()


@dataclass(frozen=True)
class ReportedShare:
    """What people report of their label alone: the share of +1, with its standard error."""

    share: float
    error: float


@dataclass(frozen=True, eq=False)
class Masses:
    """The share of each bin, positive, sum 1, and 1 over the variance of each; both of shape (bins,)."""

    shares: Floats
    precision: Floats


@dataclass(frozen=True, eq=False)
class CellShares:
    """Estimated shares of people by group, bin of the score and label.

    Attributes:
        items: Shape (groups, bins, 2): of labels -1, then +1. They may be negative.
        precision: Shape (bins,): 1 over the variance of a share.
        within: How people are assumed to lie inside the bins.
    """

    items: Floats
    precision: Floats
    within: Within

    @property
    def together(self) -> Floats:
        """All groups as one, shape (bins, 2)."""
        return ordered_sum(np.moveaxis(self.items, 0, -1))

    def masses(self, sample: Floats) -> Masses:
        """Return each bin's share, as these shares say it and a sample's.

        Args:
            sample: Shape (bins,): the sample's, from which the population's has a standard deviation of .05.
        """
        groups = float(len(self.items))
        observed, expected = self.precision / (2.0 * groups), 1.0 / (_KEPT * _KEPT)
        both = self.together
        mixed = np.maximum((observed * (both[:, 0] + both[:, 1]) + expected * sample) / (observed + expected), 2.0**-20)
        return Masses(np.asarray(mixed / math.fsum(mixed.tolist())), observed + expected)


def calibrate(
    shares: CellShares, prior: Prior = VAGUE, reported: ReportedShare | None = None, masses: Masses | None = None
) -> Calibration:
    """Fit a logistic curve to estimated shares of people, whose noise has the same variance in rare and in full bins.

    With p the curve's chance of +1 in a bin, both shares of the bin are (m (1 - p), m p) and noise of one variance, so
    what the bin says of p is how far they are from that line, whatever m is::

        (share_+ (1 - p) - share_- p)^2 / (p^2 + (1 - p)^2)

    Slope and intercepts minimize half of its sum over bins, times the precision, and half of the squared distance, in
    standard errors, of the people's mean p from what they report of their label; less the logarithm of the prior. The
    first term is the least-squares line through the origin when both coordinates are noisy; the logarithm of the
    shares' likelihood, as if they were counts of people, would trust each of them by as much as bins are rare. A
    group's intercept has a standard deviation of 1/2 around the common one.

    Args:
        reported, masses: What people report of their label alone, and the share of each bin, shape (bins,).

    Returns:
        The slope is one of a grid from 1/64 to 64, a quarter of an octave apart; intercepts are in [-16, 16].
    """
    values, wide = _surface(shares, prior, reported, masses)
    if len(shares.items) == 1:
        step, place = divmod(int(np.argmax(values)), len(wide))
        slope = octave_quarter(int(_STEPS[step]))
        fine = wide[place] + np.arange(-64, 65) / (64.0 * _FINE)
        local = _value(shares.together, shares.precision, shares.within.means(slope, fine), reported, masses)
        apart = (fine - prior.intercept) / prior.far
        return Calibration(slope, (float(fine[int(np.argmax(local - 0.5 * apart * apart))]),))
    found = [_apart(shares, octave_quarter(step), row, wide) for step, row in zip(_STEPS.tolist(), values, strict=True)]
    best = int(np.argmax([value for value, _ in found]))
    return Calibration(octave_quarter(int(_STEPS[best])), found[best][1])


def _apart(shares: CellShares, slope: float, together: Floats, wide: Floats) -> tuple[float, tuple[float, ...]]:
    """Return each group's best intercept at a slope, and the logarithm of what is to be maximized over slopes.

    The common intercept is the best of all groups together; what the pooled shares add to the prior is counted once,
    by the groups.
    """
    place = int(np.argmax(together))
    common = float(wide[place])
    pooled = _value(shares.together, shares.precision / len(shares.items), shares.within.means(slope, wide[[place]]))
    near = common + np.arange(-_MOST * _FINE, _MOST * _FINE + 1) / (8.0 * _FINE)
    chance, pulled = shares.within.means(slope, near), (near - common) / _NEAR
    each = [_value(group, shares.precision, chance) - 0.5 * pulled * pulled for group in shares.items]
    value = float(together[place] - pooled[0]) + math.fsum(float(values.max()) for values in each)
    return value, tuple(float(near[int(np.argmax(values))]) for values in each)


def posterior(shares: CellShares, prior: Prior = VAGUE) -> Prior:
    """Return means and standard deviations of ln(slope) and the intercept, given shares: a prior for other people."""
    values, wide = _surface(shares, prior, None, None)
    weights = exp(values - values.max())
    total = math.fsum(weights.ravel().tolist())
    slopes = [math.fsum(row) / total for row in weights.tolist()]
    intercepts = [math.fsum(column) / total for column in weights.T.tolist()]
    step, steep = _moments(slopes, _STEPS.astype(np.float64))
    intercept, far = _moments(intercepts, wide)
    return Prior(step, intercept, steep * (_OCTAVE / 4.0), far)


def forecast(
    shares: CellShares, prior: Prior, reported: ReportedShare | None, masses: Masses, cuts: Sequence[float]
) -> list[tuple[float, float]]:
    """Return the posterior of the 0/1 loss of thresholds: mean and standard deviation of each.

    Args:
        cuts: Thresholds of the score: +1 is predicted above.
    """
    values, wide = _surface(shares, prior, reported, masses)
    weights = exp(values - values.max())
    total = math.fsum(weights.ravel().tolist())
    first, second = np.zeros(len(cuts)), np.zeros(len(cuts))
    for step, row in zip(_STEPS.tolist(), weights, strict=True):
        if float(row.max()) < 2.0**-40:
            continue
        for place, cut in enumerate(cuts):
            losses = shares.within.losses(octave_quarter(step), wide, masses.shares, cut)
            first[place] += math.fsum((row * losses).tolist())
            second[place] += math.fsum((row * losses * losses).tolist())
    means = first / total
    spreads = np.sqrt(np.maximum(second / total - means * means, 0.0))
    return list(zip(means.tolist(), spreads.tolist(), strict=True))


def _moments(weights: list[float], places: Floats) -> tuple[float, float]:
    mean = math.fsum(weight * place for weight, place in zip(weights, places.tolist(), strict=True))
    square = math.fsum(weight * (place - mean) ** 2 for weight, place in zip(weights, places.tolist(), strict=True))
    return mean, math.sqrt(max(square, 0.0))


def _surface(
    shares: CellShares, prior: Prior, reported: ReportedShare | None, masses: Masses | None
) -> tuple[Floats, Floats]:
    """Return the logarithm of the posterior for all slopes and intercepts of the grid, and these intercepts."""
    wide = np.arange(-_MOST * _FINE, _MOST * _FINE + 1) / float(_FINE)
    found = []
    for step in _STEPS.tolist():
        steep = (step - prior.step) * (_OCTAVE / 4.0) / prior.steep
        far = (wide - prior.intercept) / prior.far
        chance = shares.within.means(octave_quarter(step), wide)
        value = _value(shares.together, shares.precision / len(shares.items), chance, reported, masses)
        found.append(value - 0.5 * (steep * steep + far * far))
    return np.array(found), wide


def _value(
    both: Floats, precision: Floats, chance: Floats, reported: ReportedShare | None = None, masses: Masses | None = None
) -> Floats:
    """Return the logarithm of the likelihood for each row of chances, shape (intercepts, bins)."""
    other = 1.0 - chance
    off = both[:, 1] * other - both[:, 0] * chance
    value = -0.5 * ordered_sum(precision * (off * off) / (chance * chance + other * other))
    if reported is not None and masses is not None:
        apart = ordered_sum(masses.shares * chance) - reported.share
        value = value - 0.5 * apart * apart / (
            reported.error * reported.error + ordered_sum(chance * chance / masses.precision)
        )
    return np.asarray(value)
