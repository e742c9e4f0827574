"""How labels go with a model's scores, from noisy shares of people: a logistic curve with an intercept a group.

Everything is computed by sums and functions that are the same on every machine: what comes out is in later questions,
which an audit asks again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp, log

_QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
"""2^(k/4): a library's powers may differ between machines."""


def octave_quarter(step: int) -> float:
    """Return 2^(step/4), the same on every machine."""
    return math.ldexp(_QUARTERS[step % 4], step // 4)


FINE_CUTS: tuple[float, ...] = tuple(
    sorted({0.0, *(sign * octave_quarter(step) for step in range(-12, 17, 2) for sign in (-1.0, 1.0))})
)
"""Halves of octaves from 1/8 to 16 on both sides of 0: whatever the scale of a score is, some of them divide it."""


def middles(cuts: tuple[float, ...]) -> Floats:
    """Return a number inside each bin: the middle, and for the outer ones as far from their cut as the next is wide."""
    inner = [(low + high) / 2.0 for low, high in itertools.pairwise(cuts)]
    if not inner:
        return np.array([cuts[0] - 1.0, cuts[0] + 1.0])
    first, last = cuts[0] - (cuts[1] - cuts[0]) / 2.0, cuts[-1] + (cuts[-1] - cuts[-2]) / 2.0
    return np.array([first, *inner, last])


def coarser(people: Floats, most: int) -> list[int]:
    """Return after which fine bins to cut, ascending, so that at most ``most`` >= 2 bins have about the same people.

    ``people`` are noisy numbers in the fine bins, of which negative ones count as 0. There is at least one cut b,
    between the fine bins b and b + 1.
    """
    held = np.cumsum(np.maximum(people, 0.0))
    if held[-1] <= 0.0:
        return [len(people) // 2 - 1]
    wanted = [held[-1] * part / most for part in range(1, most)]
    cuts = {min(int(np.searchsorted(held, level)), len(people) - 2) for level in wanted}
    return sorted(cuts)


def project_to_simplex(people: Floats, total: float) -> Floats:
    """Return the nearest numbers of people that are not negative and have the given positive sum, shape (k,).

    The projection takes the same number from each count and cuts at 0, so it clears empty bins of noise (Duchi,
    Shalev-Shwartz, Singer and Chandra 2008).
    """
    falling = sorted(people.tolist(), reverse=True)
    held, level = 0.0, 0.0
    for place, count in enumerate(falling, 1):
        held += count
        if count - (held - total) / place <= 0.0:
            break
        level = (held - total) / place
    cleaned: Floats = np.maximum(people - level, 0.0)
    return cleaned


@dataclass(frozen=True, eq=False)
class Within:
    """How people are assumed to lie inside coarse bins: those of a sample, by its fine ones.

    Attributes:
        starts: The first fine bin of each coarse one, ascending, the first 0.
        scores, weights: Shape (fine bins,): a score that stands for each, and its part of its coarse bin's people.
    """

    starts: tuple[int, ...]
    scores: Floats
    weights: Floats

    @classmethod
    def of(cls, people: Floats, cuts: list[int], values: Floats) -> Within:
        """Return them from noisy people and a score in each fine bin; without people all bins count alike."""
        starts = (0, *(cut + 1 for cut in cuts))
        weights = np.maximum(people, 0.0)
        for begin, end in itertools.pairwise((*starts, len(people))):
            total = math.fsum(weights[begin:end].tolist())
            weights[begin:end] = weights[begin:end] / total if total > 0.0 else 1.0 / (end - begin)
        return cls(starts, values, weights)

    @property
    def middles(self) -> Floats:
        """The mean score of each coarse bin, shape (bins,)."""
        middles: Floats = self._means(self.scores[None, :])[0]
        return middles

    def means(self, slope: float, intercepts: Floats) -> Floats:
        """Return the mean of 1/(1 + e^-(slope * score + intercept)) over each coarse bin, shape (intercepts, bins)."""
        return self._means(logistic(slope * self.scores[None, :] + intercepts[:, None]))

    def losses(self, slope: float, intercepts: Floats, masses: Floats, cut: float) -> Floats:
        """Return the 0/1 loss of "+1 above a score" under the logistic curve, shape (intercepts,)."""
        chance = logistic(slope * self.scores[None, :] + intercepts[:, None])
        wrong = np.where(self.scores[None, :] > cut, 1.0 - chance, chance)
        return ordered_sum(masses[None, :] * self._means(wrong))

    def _means(self, values: Floats) -> Floats:
        found = np.zeros((len(values), len(self.starts)))
        ends = (*self.starts[1:], len(self.scores))
        for place, (begin, end) in enumerate(zip(self.starts, ends, strict=True)):
            for fine in range(begin, end):
                found[:, place] = found[:, place] + self.weights[fine] * values[:, fine]
        return found


_FAR = 40.0  # odds beyond e^40 are those of certainty


def logistic(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise; scores count as at most 40 from 0."""
    return np.asarray(1.0 / (1.0 + exp(-np.clip(scores, -_FAR, _FAR))))


def ordered_sum(terms: Floats) -> Floats:
    """Return the sums over the last axis, one term after the other."""
    total = np.zeros(terms.shape[:-1])
    for place in range(terms.shape[-1]):
        total = total + terms[..., place]
    return total


_STEPS = np.arange(-24, 25)
"""Slopes are quarters of octaves apart: errors of a few percent in the slope move no threshold."""
_OCTAVE = 0.6931471805599453
_NEAR = 0.5  # standard deviation of the prior of a group's intercept around the common one
_MOST = 16
_FINE = 16  # intercepts are searched among sixteenths, then among 1024ths
_KEPT = 0.05  # standard deviation, beforehand, of the population's share of a bin from the sample's


@dataclass(frozen=True)
class Calibration:
    """The odds of label +1: ln(odds) = slope * score + intercepts[group]."""

    slope: float
    intercepts: tuple[float, ...]


@dataclass(frozen=True)
class Prior:
    """The prior of a calibration: ln(slope) and the common intercept are Gaussian.

    Attributes:
        step, steep: Mean, in quarters of octaves, and standard deviation of ln(slope).
        intercept, far: Mean and standard deviation of the common intercept.
    """

    step: float = 0.0
    intercept: float = 0.0
    steep: float = 1.5
    far: float = 4.0

    def shifted(self, by: float, steep: float, far: float) -> Prior:
        """Return the prior for other people: the intercept moves ``by``, and independent Gaussians are added."""
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
        """Return each bin's share by these and a sample's, from which the population's deviates by .05."""
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
    what the bin says of p is how far they are from that line, whatever m is: (share_+ (1 - p) - share_- p)^2 / (p^2 +
    (1 - p)^2). Slope and intercepts minimize half of its sum over bins, times the precision, and half of the squared
    distance, in standard errors, of the people's mean p from what they report of their label; less the logarithm of the
    prior. The first term is the least-squares line through the origin when both coordinates are noisy. A group's
    intercept has a standard deviation of 1/2 around the common one.

    Args:
        reported, masses: What people report of their label alone, and the share of each bin.

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

    The common intercept is the best of all groups together; what the pooled shares add to the prior is counted once, by
    the groups.
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
    """Return mean and standard deviation of the posterior of the 0/1 loss of each threshold: +1 is predicted above."""
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


_LEAST = 0.1  # A bin of the population is not taken to be rarer than so many times the sample's


def label_ratios(target: float, error: float, sample: float, noise: float = 0.0) -> tuple[float, float]:
    """Return the factors for labels -1 and +1 that give a sample the population's share of +1, as far as it is known.

    The difference of the logarithms of the odds is shrunk by max(0, 1 - (its standard error)^2/(difference)^2), so that
    what noise explains moves nothing. ``error`` and ``noise`` are the standard errors of the population's share and the
    sample's.
    """
    known, held = (min(max(share, 0.005), 0.995) for share in (target, sample))
    apart = float(log(np.array(known / (1.0 - known))) - log(np.array(held / (1.0 - held))))
    variance = (error / (known * (1.0 - known))) ** 2 + (noise / (held * (1.0 - held))) ** 2
    kept = max(0.0, 1.0 - variance / (apart * apart)) if apart else 0.0
    factor = float(exp(np.array(kept * apart)))
    share = held * factor / (held * factor + 1.0 - held)
    return (1.0 - share) / (1.0 - held), share / held


def smoothed(shares: Floats, sample: Floats, scores: Floats, calibration: Calibration, precision: float) -> Floats:
    """Return estimated shares, shrunk towards the calibration as far as their noise explains the difference.

    The calibrated curve splits every bin's total into labels. What the shares say beyond that is kept in the proportion
    max(0, 1 - (k - 2)/(precision * sum of squared differences)) (James and Stein 1961, positive part), k the number of
    shares. Shares, the sample's and the result have the shape (groups, bins, 2); the result is positive and adds up to
    1.
    """
    least = _LEAST * np.maximum(sample, 0.0)
    totals = np.maximum(shares[:, :, 0] + shares[:, :, 1], least[:, :, 0] + least[:, :, 1])
    odds = calibration.slope * scores[None, :] + np.array(calibration.intercepts)[:, None]
    chance = logistic(odds)
    curve = np.stack([totals * (1.0 - chance), totals * chance], axis=2)
    apart = shares - curve
    distance = math.fsum((apart * apart).ravel().tolist())
    kept = max(0.0, 1.0 - (shares.size - 2) / (precision * distance)) if distance > 0.0 else 0.0
    found = np.maximum(curve + kept * apart, np.maximum(least, 2.0**-40))
    return np.asarray(found / math.fsum(found.ravel().tolist()))


def rake(wanted: Floats, sample: Floats, eta: float, parts: int) -> list[int]:
    """Return the tilt of every item in whole parts, 0..parts, that takes a sample's shares to the wanted ones.

    A weight is multiplied by exp(-eta (1 - tilt)), eta > 0. The largest factor gets tilt 1; factors that are smaller
    than the largest by more than e^eta get 0. The sample's shares may be noisy, and count as half a person in 10,000 at
    least.
    """
    ratios = log(np.asarray(wanted / np.maximum(sample, 0.5e-4)))
    values = np.clip(1.0 + (ratios - ratios.max()) / eta, 0.0, 1.0)
    return [int(part) for part in np.rint(values * parts)]
