"""Calibration of a model's scores: a logistic curve, fitted to a sample's noisy shares and to residuals from agents.

All sums and functions give the same bits on every machine: the results are in later questions, which an audit asks
again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from common.core.arrays import Floats, Indices
from common.local.queries.residuals import apart_from
from common.numerics.elementary import logistic, ordered_sum
from common.numerics.kernels import njit
from common.numerics.loops import exps, logs

_QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
"""2^(k/4) as constants: a library's powers may differ between machines."""


def octave_quarter(step: int) -> float:
    """Return 2^(step/4), the same on every machine."""
    return math.ldexp(_QUARTERS[step % 4], step // 4)


FINE_CUTS: tuple[float, ...] = tuple(
    sorted({0.0, *(sign * octave_quarter(step) for step in range(-12, 17, 2) for sign in (-1.0, 1.0))})
)
"""Half octaves from 1/8 to 16 on both sides of 0: some of these cuts divide a score, whatever its scale is."""


def middles(cuts: tuple[float, ...]) -> Floats:
    """Return a score inside each bin: its middle; for an outer bin, half the width of the next bin beyond the cut."""
    inner = [(low + high) / 2.0 for low, high in itertools.pairwise(cuts)]
    if not inner:
        return np.array([cuts[0] - 1.0, cuts[0] + 1.0])
    first, last = cuts[0] - (cuts[1] - cuts[0]) / 2.0, cuts[-1] + (cuts[-1] - cuts[-2]) / 2.0
    return np.array([first, *inner, last])


def coarser(people: Floats, most: int) -> list[int]:
    """Return the fine bins after which to cut, ascending, for at most ``most`` >= 2 bins of about equally many people.

    ``people`` are the noisy numbers of people in the fine bins; negative ones count as 0. There is at least one cut b,
    between the fine bins b and b + 1.
    """
    cumulative = np.cumsum(np.maximum(people, 0.0))
    if cumulative[-1] <= 0.0:
        return [len(people) // 2 - 1]
    levels = [cumulative[-1] * part / most for part in range(1, most)]
    cuts = {min(int(np.searchsorted(cumulative, level)), len(people) - 2) for level in levels}
    return sorted(cuts)


def project_to_simplex(people: Floats, total: float) -> Floats:
    """Return the nearest numbers of people that are not negative and have the given positive sum, shape (k,).

    The projection subtracts the same number from each count and clips at 0, which removes noise from empty bins (Duchi,
    Shalev-Shwartz, Singer and Chandra 2008).
    """
    falling = sorted(people.tolist(), reverse=True)
    cumulative, level = 0.0, 0.0
    for place, count in enumerate(falling, 1):
        cumulative += count
        if count - (cumulative - total) / place <= 0.0:
            break
        level = (cumulative - total) / place
    projection: Floats = np.maximum(people - level, 0.0)
    return projection


def denoised(shares: Floats, variance: float) -> Floats:
    """Return the distribution of people over bins, from noisy shares of this variance, shape (k,); it sums to 1.

    It is the projection, mixed with equal shares; the weight of these is the cube of the fraction of the sum of squares
    that noise alone explains on average. If noise explains all of it, the few bins of the projection are random and may
    be close to each other: a calibration on so small a spread of scores would be far too steep.
    """
    squares = math.fsum((shares * shares).tolist())
    part = min(1.0, len(shares) * variance / squares) if squares > 0.0 else 1.0
    weight = part * part * part  # a library's powers may differ between machines
    mixture: Floats = (1.0 - weight) * project_to_simplex(shares, 1.0) + weight / len(shares)
    return mixture


@dataclass(frozen=True, eq=False)
class WithinBins:
    """How people are assumed to be distributed inside coarse bins: as a sample is over the fine ones.

    Attributes:
        starts: The first fine bin of each coarse one, ascending, the first 0.
        scores, weights: Shape (fine bins,): a representative score, and the bin's fraction of its coarse bin.
    """

    starts: tuple[int, ...]
    scores: Floats
    weights: Floats

    @classmethod
    def of(cls, people: Floats, cuts: list[int], values: Floats) -> WithinBins:
        """Build it from noisy people and a score in each fine bin; without people, fine bins count alike."""
        starts = (0, *(cut + 1 for cut in cuts))
        weights = np.maximum(people, 0.0)
        for begin, end in itertools.pairwise((*starts, len(people))):
            total = math.fsum(weights[begin:end].tolist())
            weights[begin:end] = weights[begin:end] / total if total > 0.0 else 1.0 / (end - begin)
        return cls(starts, values, weights)

    @property
    def middles(self) -> Floats:
        """The mean score of each coarse bin, shape (bins,)."""
        middles: Floats = self.averages(self.scores[None, :])[0]
        return middles

    @cached_property
    def curves(self) -> list[Floats]:
        """The probability of +1 at each score by the grid's curves: for each slope, shape (intercepts, fine bins)."""
        slopes = map(octave_quarter, _STEPS.tolist())
        return [logistic(slope * self.scores[None, :] + _WIDE[:, None]) for slope in slopes]

    def means(self, slope: float, intercepts: Floats) -> Floats:
        """Return the mean of 1/(1 + e^-(slope * score + intercept)) over each coarse bin, shape (intercepts, bins)."""
        return self.averages(logistic(slope * self.scores[None, :] + intercepts[:, None]))

    def losses(self, chance: Floats, cut: float, weights: tuple[float, float] = (1.0, 1.0)) -> Floats:
        """Return the loss in each bin, shape (rows, bins), of predicting +1 above a score.

        ``chance``: of +1, shape (rows, fine bins); ``weights``: what a miss and a false alarm count.
        """
        losses = np.where(self.scores[None, :] > cut, weights[1] * (1.0 - chance), weights[0] * chance)
        return self.averages(losses)

    def spread(self, masses: Floats) -> Floats:
        """Return each fine bin's share of all people, shape (fine bins,), from the shares of the coarse bins."""
        sizes = np.diff([*self.starts, len(self.scores)])
        return np.asarray(np.repeat(masses, sizes) * self.weights)

    def averages(self, values: Floats) -> Floats:
        """Return the mean over each coarse bin of values at the fine ones, shape (rows, fine bins) to (rows, bins)."""
        means = np.zeros((len(values), len(self.starts)))
        ends = np.array([*self.starts[1:], len(self.scores)])
        _average(self.weights, ends, np.ascontiguousarray(values), means)
        return means


@njit
def _average(weights: Floats, ends: Indices, values: Floats, means: Floats) -> None:
    for row in range(len(values)):
        fine = 0
        for place in range(len(ends)):
            for j in range(fine, ends[place]):
                means[row, place] += weights[j] * values[row, j]
            fine = ends[place]


_STEPS = np.arange(-24, 25)
"""Slopes are quarters of octaves apart: an error of a few percent in the slope moves no threshold."""
QUARTER = 0.6931471805599453 / 4.0
"""The logarithm of one step from slope to slope."""
_MOST = 16
_FINE = 16  # intercepts are searched among sixteenths, then among 1024ths
_WIDE = np.arange(-_MOST * _FINE, _MOST * _FINE + 1) / float(_FINE)
DOUBT, FLATTER, ANY = 0.05, 1.0, 1.0
"""The prior chance that scores mean something else for other people; how much less ln(slope) then is, its deviation."""
FREEDOM = 3.0
"""Degrees of freedom of the t distribution of the distance of other people's ln(odds) from the sample's."""
NEAR = 0.005
"""The excess log loss that is accepted to keep probabilities on the side of the threshold where the labels are."""
_LEAST = 2.0**-1000  # least density whose logarithm is taken
_TILTS, _TILTED = np.arange(-8, 9) / 4.0, 0.5
"""By how many standard deviations the population's scores may exceed the sample's, and the prior deviation of that."""
_FARTHEST = 4.0  # standard deviations of the score beyond which a tilt has no further effect
_KEPT, _OTHER = 0.15, 0.01
"""The population's share of a bin deviates from the expected share m by .15 sqrt(m). Any mean keeps a deviation of .01,
however many answers there are, because no population's odds follow a line exactly."""


@dataclass(frozen=True)
class Prior:
    """A prior of a calibration ln(odds) = slope * score + intercept.

    ln(slope) and the ln(odds) at a middle score are independent and Gaussian. At a score that nobody has they would be
    dependent: a steeper line through the middle of the people has another intercept.

    Attributes:
        step, steep: Mean, in quarters of octaves, and standard deviation of ln(slope).
        odds, far: Mean and standard deviation of the ln(odds) at the score ``middle``.
        heavy: Whether the ln(odds) have heavy tails: ``far`` is then the scale of Student's t distribution with
            :data:`FREEDOM` degrees of freedom.
    """

    step: float = 0.0
    odds: float = 0.0
    steep: float = 1.5
    far: float = 4.0
    middle: float = 0.0
    heavy: bool = False

    def transferred(self, flatter: float, steep: float, far: float) -> Prior:
        """Return the prior for other people, whose ln(slope) is smaller by ``flatter`` on average.

        An independent Gaussian with standard deviation ``steep`` is added to ln(slope). The ln(odds) get heavy tails,
        of the scale of both together: most populations are near the sample, and some are far from it. The error of few
        answers exceeds the share of a rare label, and a Gaussian wide enough for far populations would fit that noise.
        """
        step, scale = self.step - flatter / QUARTER, math.hypot(self.far, far)
        return replace(self, step=step, steep=math.hypot(self.steep, steep), far=scale, heavy=True)

    def logarithm(self) -> Floats:
        """Return the log density at all slopes and intercepts of the grid, up to a constant."""
        steep = (_STEPS - self.step) * QUARTER / self.steep
        far = (_odds(self.middle) - self.odds) / self.far
        square = far * far
        odds = -0.5 * (FREEDOM + 1.0) * logs(1.0 + square / FREEDOM) if self.heavy else -0.5 * square
        return np.asarray(-0.5 * (steep * steep)[:, None] + odds)

    def doubted(self) -> Floats:
        """Return the log density that allows, with chance :data:`DOUBT`, that scores mean something else for others.

        Where agents teach the slope, a Gaussian alone would keep to the sample against all their answers.
        """
        other = replace(self, step=self.step - FLATTER / QUARTER, steep=ANY)
        usual, unusual = (Belief(prior.logarithm()[None]).chances for prior in (self, other))
        return logs(np.maximum((1.0 - DOUBT) * usual + DOUBT * unusual, _LEAST))

    @property
    def intercept(self) -> float:
        """The ln(odds) at the score 0, for the grid slope nearest to the mean."""
        return self.odds - octave_quarter(round(self.step)) * self.middle


def _odds(middle: float) -> Floats:
    """Return the ln(odds) at a score for all slopes and intercepts of the grid, shape (slopes, intercepts)."""
    slopes = np.array([octave_quarter(step) for step in _STEPS.tolist()])
    return np.asarray(slopes[:, None] * middle + _WIDE[None, :])


@dataclass(frozen=True, eq=False)
class CellShares:
    """Estimated shares of a sample's people by bin of the score and label.

    Attributes:
        items: Shape (bins, 2): of labels -1, then +1. They may be negative.
        noise: Shape (bins,): the variance of the noise on a share.
        people: The size of the sample.
        within: How people are assumed to be distributed inside the bins.
    """

    items: Floats
    noise: Floats
    people: int
    within: WithinBins

    @property
    def masses(self) -> Floats:
        """Each bin's share of the people, positive, sum 1, shape (bins,)."""
        positive = np.maximum(self.items[:, 0] + self.items[:, 1], 2.0**-20)
        return np.asarray(positive / math.fsum(positive.tolist()))


def of_sample(shares: CellShares, prior: Prior) -> Prior:
    """Return the posterior means and deviations of ln(slope) and the ln(odds) on a sample, from its noisy shares.

    If p is the curve's probability of +1 in a bin with share m of the people, both shares are (m (1 - p), m p) plus
    noise, so the statistic for p is share_+ (1 - p) - share_- p, which has mean 0. Its variance is m p (1 - p)/people
    from sampling labels, plus (p^2 + (1 - p)^2) times that of the noise. The squares divided by the variances under the
    curve are Pearson's chi-squared, which is as informative as the likelihood where people are many. One variance for
    all curves would treat rare labels as less certain than they are, and the slope as flatter.
    """
    log_likelihoods = []
    masses = np.maximum(shares.items[:, 0] + shares.items[:, 1], 1.0 / shares.people)
    for curve in shares.within.curves:
        chance = shares.within.averages(curve)
        other = 1.0 - chance
        residual = shares.items[:, 1] * other - shares.items[:, 0] * chance
        sampled = masses * chance * other / shares.people
        variances = sampled + shares.noise * (chance * chance + other * other)
        log_likelihoods.append(-0.5 * ordered_sum(residual * residual / np.maximum(variances, _LEAST)))
    return Belief((prior.logarithm() + np.array(log_likelihoods))[None]).moments(prior.middle)


@dataclass(frozen=True)
class Reported:
    """What agents reported: an estimate of the mean of f(x) (y - p(x))/max(p(x), 1 - p(x)), and its variance.

    Attributes:
        slope, intercept: Of p(x) = 1/(1 + e^-(slope * score + intercept)); None, None: p is 0, and y is reported.
        center: f is 1 where the score is above it, else -1; None: f is 1.
    """

    mean: float
    variance: float
    slope: float | None = None
    intercept: float | None = None
    center: float | None = None


@dataclass(frozen=True, eq=False)
class Belief:
    """The log posterior over tilts, slopes and intercepts of the grid, shape (tilts, slopes, intercepts).

    A population's scores may be higher or lower than the sample's: its shares of the bins are modelled as proportional
    to m e^(t z), with m the sample's shares, z the standardised score, and t the tilt.
    """

    logarithm: Floats

    @classmethod
    def of_others(cls, logarithm: Floats) -> Belief:
        """Return the prior for a population of unknown tilt, from a log density of slopes and intercepts."""
        tilted = _TILTS / _TILTED
        return cls(logarithm - 0.5 * (tilted * tilted)[:, None, None])

    def posterior(self, within: WithinBins, masses: Floats, reported: Reported) -> Belief:
        """Return the posterior after what agents reported.

        If the odds on T have slope a and intercept b, the mean of f (y - p)/m is that of f (p_ab - p)/m over T's
        scores.
        """
        scores = within.scores
        predicted = np.zeros_like(scores)
        if reported.slope is not None and reported.intercept is not None:
            predicted = logistic(reported.slope * scores + reported.intercept)
        signs = np.ones_like(scores) if reported.center is None else np.where(scores > reported.center, 1.0, -1.0)
        tables = [within.averages(signs * apart_from(predicted, chance)) for chance in within.curves]
        return self._updated(within, masses, tables, (reported.mean, reported.variance))

    def _updated(self, within: WithinBins, masses: Floats, tables: list[Floats], mean: tuple[float, float]) -> Belief:
        """Return the posterior after a mean with its variance; ``tables``: its expectation by bin for each slope."""
        people, log_likelihoods = self._people(within, masses), []
        for bins in tables:
            expected, variance = _population_means(people, bins)
            residual, variances = mean[0] - expected, mean[1] + variance
            log_likelihoods.append(-0.5 * (residual * residual / variances + logs(variances)))
        return Belief(self.logarithm + np.stack(log_likelihoods, axis=1))

    def _people(self, within: WithinBins, masses: Floats) -> Floats:
        """Return the bins' shares for each tilt, shape (tilts, bins), of a sample with the shares ``masses``."""
        deviation = within.middles - math.fsum((masses * within.middles).tolist())
        spread = math.sqrt(math.fsum((masses * deviation * deviation).tolist()))
        if len(self.logarithm) == 1 or spread == 0.0:
            return np.repeat(masses[None, :], len(self.logarithm), axis=0)
        shares = masses * exps(_TILTS[:, None] * np.clip(deviation / spread, -_FARTHEST, _FARTHEST))
        return np.asarray(shares / ordered_sum(shares)[:, None])

    def judged(
        self,
        within: WithinBins,
        masses: Floats,
        cut: float,
        loss: tuple[float, float],
        missed: tuple[float, float] = (1.0, 1.0),
    ) -> Belief:
        """Return the posterior after agents reported the mean loss, with its variance, of "+1 above the score ``cut``".

        How often a threshold errs shows how steep the odds are on either side of it, which residuals without a sign by
        the score do not show. The distribution of T's scores is as uncertain as in :meth:`given`.
        """
        return self._updated(within, masses, [within.losses(chance, cut, missed) for chance in within.curves], loss)

    def best(self) -> tuple[float, float]:
        """Return the most likely slope, and the most likely intercept given that slope.

        Slopes are those of the grid, from 1/64 to 64, a quarter of an octave apart; intercepts are in [-16, 16].
        """
        return _grid_maximum(logs(np.maximum(self.chances, _LEAST)))

    def expected(
        self, within: WithinBins, masses: Floats, through: tuple[float, float] | None = None
    ) -> tuple[float, float]:
        """Return the slope and intercept of the least expected log loss, within the grid of :meth:`best`.

        The expected log loss of a probability depends only on the posterior mean probability of +1 at the score. Where
        the data say little, this mean is flatter than the most likely line, and so is the line closest to it.

        A line through the point ``through``, a score and its ln(odds), is preferred if its expected loss is at most
        :data:`NEAR` higher: then everyone who is labelled by that point keeps their side.
        """
        weights, scores = self.chances, within.scores
        tilts = ordered_sum(ordered_sum(self._all_chances))
        people = within.spread(ordered_sum(tilts * self._people(within, masses).T))
        mean = np.zeros_like(scores)
        for chance, row in zip(within.curves, weights, strict=True):
            mean = mean + ordered_sum((row[:, None] * chance).T)

        def heights(chances: Floats) -> Floats:
            chance = np.clip(chances, 2.0**-40, 1.0 - 2.0**-40)
            return ordered_sum(people * (mean * logs(chance) + (1.0 - mean) * logs(1.0 - chance)))

        free = np.array(list(map(heights, within.curves)))
        if through is not None:
            slopes = np.array([octave_quarter(step) for step in _STEPS.tolist()])
            bound = heights(logistic(slopes[:, None] * (scores[None, :] - through[0]) + through[1]))
            best = int(np.argmax(bound))
            if float(bound[best]) >= float(free.max()) - NEAR:
                return float(slopes[best]), through[1] - float(slopes[best]) * through[0]
        return _grid_maximum(free)

    def moments(self, middle: float = 0.0) -> Prior:
        """Return posterior means and standard deviations of ln(slope) and of the ln(odds) at a score."""
        weights = self.chances
        step, steep = _moments([math.fsum(row) for row in weights.tolist()], _STEPS.astype(np.float64))
        odds, far = _moments(weights.ravel().tolist(), _odds(middle).ravel())
        return Prior(step, odds, steep * QUARTER, far, middle)

    def losses(
        self, within: WithinBins, masses: Floats, cuts: Sequence[float], missed: tuple[float, float] = (1.0, 1.0)
    ) -> list[tuple[float, float]]:
        """Return the posterior mean and standard deviation of each threshold's loss: +1 is predicted above it.

        T's scores are as uncertain as in :meth:`given`. ``missed`` are what a miss and a false alarm count.
        """
        weights, people = self._all_chances, self._people(within, masses)
        first, second = np.zeros(len(cuts)), np.zeros(len(cuts))
        for place, chance in enumerate(within.curves):
            row = weights[:, place]
            if float(row.max()) < 2.0**-40:
                continue
            for number, cut in enumerate(cuts):
                mean, variance = _population_means(people, within.losses(chance, cut, missed))
                first[number] += math.fsum(ordered_sum((row * mean).T).tolist())
                second[number] += math.fsum(ordered_sum((row * (mean * mean + variance)).T).tolist())
        spreads = np.sqrt(np.maximum(second - first * first, 0.0))
        return list(zip(first.tolist(), spreads.tolist(), strict=True))

    @property
    def chances(self) -> Floats:
        """The posterior of slopes and intercepts, which sums to 1 over the grid."""
        return ordered_sum(np.moveaxis(self._all_chances, 0, -1))

    @cached_property
    def _all_chances(self) -> Floats:
        weights = exps(self.logarithm - self.logarithm.max())
        return np.asarray(weights / math.fsum(ordered_sum(np.moveaxis(weights, 0, -1)).ravel().tolist()))


def _population_means(people: Floats, bins: Floats) -> tuple[Floats, Floats]:
    """Return means over all people of the values in the bins, shape (intercepts, bins), and variances of these means.

    ``people`` has shape (tilts, bins); means and variances have shape (tilts, intercepts).
    """
    means, squares = np.zeros((len(people), len(bins))), np.zeros((len(people), len(bins)))
    _add_bins(people, np.ascontiguousarray(bins.T), means, squares)
    return means, _KEPT * _KEPT * squares + _OTHER * _OTHER


@njit
def _add_bins(people: Floats, bins: Floats, means: Floats, squares: Floats) -> None:
    for tilt in range(people.shape[0]):
        for place in range(people.shape[1]):
            for i in range(bins.shape[1]):
                means[tilt, i] += people[tilt, place] * bins[place, i]
                squares[tilt, i] += people[tilt, place] * (bins[place, i] * bins[place, i])


def _grid_maximum(heights: Floats) -> tuple[float, float]:
    """Return slope and intercept at the grid's maximum; the intercept is the vertex of the parabola through it."""
    step, place = divmod(int(np.argmax(heights)), len(_WIDE))
    slope, best = octave_quarter(int(_STEPS[step])), float(_WIDE[place])
    if not 0 < place < len(_WIDE) - 1:
        return slope, best
    left, middle, right = heights[step, place - 1 : place + 2].tolist()
    curvature = left - 2.0 * middle + right
    return slope, best if curvature == 0.0 else best + 0.5 * (left - right) / curvature / _FINE


def _moments(weights: list[float], places: Floats) -> tuple[float, float]:
    mean = math.fsum(weight * place for weight, place in zip(weights, places.tolist(), strict=True))
    deviations = (places - mean).tolist()
    square = math.fsum(weight * deviation * deviation for weight, deviation in zip(weights, deviations, strict=True))
    return mean, math.sqrt(max(square, 0.0))
