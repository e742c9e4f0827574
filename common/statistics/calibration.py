"""How labels go with a model's scores: a logistic curve, from a sample's noisy shares and residuals of agents.

Everything is computed by sums and functions that are the same on every machine: what comes out is in later questions,
which an audit asks again.
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


def denoised(shares: Floats, variance: float) -> Floats:
    """Return how people lie among bins, from noisy shares of this variance, shape (k,); they sum to 1.

    The projection, mixed with equal shares by the cube of the part that noise alone has, on average, in the sum of
    squares. Where noise is all there is, the projection's few bins are nobody's, and might be near each other: odds by
    so small a spread would be far too steep.
    """
    squares = math.fsum((shares * shares).tolist())
    part = min(1.0, len(shares) * variance / squares) if squares > 0.0 else 1.0
    unknown = part * part * part  # a library's powers may differ between machines
    mixed: Floats = (1.0 - unknown) * project_to_simplex(shares, 1.0) + unknown / len(shares)
    return mixed


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
        middles: Floats = self.averages(self.scores[None, :])[0]
        return middles

    @cached_property
    def curves(self) -> list[Floats]:
        """Chances of +1 at the scores by the grid's curves: of each slope, shape (intercepts, fine bins)."""
        slopes = map(octave_quarter, _STEPS.tolist())
        return [logistic(slope * self.scores[None, :] + _WIDE[:, None]) for slope in slopes]

    def means(self, slope: float, intercepts: Floats) -> Floats:
        """Return the mean of 1/(1 + e^-(slope * score + intercept)) over each coarse bin, shape (intercepts, bins)."""
        return self.averages(logistic(slope * self.scores[None, :] + intercepts[:, None]))

    def losses(self, chance: Floats, cut: float, weights: tuple[float, float] = (1.0, 1.0)) -> Floats:
        """Return the loss of "+1 above a score" in each bin, shape (rows, bins), by chances of +1, (rows, fine bins).

        ``weights`` are what a miss and a false alarm count.
        """
        wrong = np.where(self.scores[None, :] > cut, weights[1] * (1.0 - chance), weights[0] * chance)
        return self.averages(wrong)

    def spread(self, masses: Floats) -> Floats:
        """Return the part of each fine bin in all people, shape (fine bins,), from that of each coarse one."""
        sizes = np.diff([*self.starts, len(self.scores)])
        return np.asarray(np.repeat(masses, sizes) * self.weights)

    def averages(self, values: Floats) -> Floats:
        """Return the mean over each coarse bin of values at the fine ones, shape (rows, fine bins) to (rows, bins)."""
        found = np.zeros((len(values), len(self.starts)))
        ends = np.array([*self.starts[1:], len(self.scores)])
        _average(self.weights, ends, np.ascontiguousarray(values), found)
        return found


@njit
def _average(weights: Floats, ends: Indices, values: Floats, found: Floats) -> None:
    for row in range(len(values)):
        fine = 0
        for place in range(len(ends)):
            for j in range(fine, ends[place]):
                found[row, place] += weights[j] * values[row, j]
            fine = ends[place]


_STEPS = np.arange(-24, 25)
"""Slopes are quarters of octaves apart: errors of a few percent in the slope move no threshold."""
QUARTER = 0.6931471805599453 / 4.0
"""The logarithm of one step from slope to slope."""
_MOST = 16
_FINE = 16  # intercepts are searched among sixteenths, then among 1024ths
_WIDE = np.arange(-_MOST * _FINE, _MOST * _FINE + 1) / float(_FINE)
DOUBT, FLATTER, ANY = 0.05, 1.0, 1.0
"""The chance that scores tell something else of other people; by how much ln(slope) is then less, and its deviation."""
FREEDOM = 3.0
"""Of the t distribution of how far the ln(odds) of other people are from the sample's."""
NEAR = 0.005
"""So much more log loss is accepted for probabilities on the side of the threshold on which the labels are."""
_LEAST = 2.0**-1000  # of a density whose logarithm is taken
_TILTS, _TILTED = np.arange(-8, 9) / 4.0, 0.5
"""How many standard deviations higher the population's scores may be than the sample's, and the deviation of that."""
_FARTHEST = 4.0  # standard deviations of the score, from which on a tilt counts no more
_KEPT, _OTHER = 0.15, 0.01
"""Of a bin with the share m of people, another share of the population's differs by a deviation of .15 sqrt(m). Of any
mean a deviation of .01 is left: answers, however many, tell no line that nobody's odds follow exactly."""


@dataclass(frozen=True)
class Prior:
    """What is believed of a calibration ln(odds) = slope * score + intercept.

    ln(slope) and the ln(odds) at a middle score are independent and Gaussian. At a score that nobody has they would
    depend on each other: a steeper line through the middle of the people has another intercept.

    Attributes:
        step, steep: Mean, in quarters of octaves, and standard deviation of ln(slope).
        odds, far: Mean and standard deviation of the ln(odds) at the score ``middle``.
        heavy: Whether the tails of the latter are heavy: ``far`` is then the scale of Student's t distribution with
            :data:`FREEDOM` degrees of freedom.
    """

    step: float = 0.0
    odds: float = 0.0
    steep: float = 1.5
    far: float = 4.0
    middle: float = 0.0
    heavy: bool = False

    def transferred(self, flatter: float, steep: float, far: float) -> Prior:
        """Return the prior for other people, whose ln(slope) is less by ``flatter`` on average.

        An independent Gaussian of this standard deviation is added to it. The ln(odds) have heavy tails, of the scale
        of both together: most populations are near the sample, and some are far from it. Where a label is rare, few
        answers tell its share by less than that share, and a Gaussian that allows for the far ones believes all noise.
        """
        moved, scale = self.step - flatter / QUARTER, math.hypot(self.far, far)
        return replace(self, step=moved, steep=math.hypot(self.steep, steep), far=scale, heavy=True)

    def logarithm(self) -> Floats:
        """Return the logarithm of the density at all slopes and intercepts of the grid, but for a constant."""
        steep = (_STEPS - self.step) * QUARTER / self.steep
        far = (_odds(self.middle) - self.odds) / self.far
        square = far * far
        odds = -0.5 * (FREEDOM + 1.0) * logs(1.0 + square / FREEDOM) if self.heavy else -0.5 * square
        return np.asarray(-0.5 * (steep * steep)[:, None] + odds)

    def doubted(self) -> Floats:
        """Return the same where, with the chance :data:`DOUBT`, nobody knows what the scores tell of these people.

        Where agents tell the slope, a Gaussian alone would believe the sample against all that they tell.
        """
        other = replace(self, step=self.step - FLATTER / QUARTER, steep=ANY)
        usual, unusual = (Belief(prior.logarithm()[None]).chances for prior in (self, other))
        return logs(np.maximum((1.0 - DOUBT) * usual + DOUBT * unusual, _LEAST))

    @property
    def intercept(self) -> float:
        """The ln(odds) at the score 0, by the slope of the nearest quarter of an octave."""
        return self.odds - octave_quarter(round(self.step)) * self.middle


def _odds(middle: float) -> Floats:
    """Return the ln(odds) at a score by all slopes and intercepts of the grid, shape (slopes, intercepts)."""
    slopes = np.array([octave_quarter(step) for step in _STEPS.tolist()])
    return np.asarray(slopes[:, None] * middle + _WIDE[None, :])


@dataclass(frozen=True, eq=False)
class CellShares:
    """Estimated shares of a sample's people by bin of the score and label.

    Attributes:
        items: Shape (bins, 2): of labels -1, then +1. They may be negative.
        noise: Shape (bins,): the variance of the noise on a share.
        people: How many the sample has.
        within: How people are assumed to lie inside the bins.
    """

    items: Floats
    noise: Floats
    people: int
    within: Within

    @property
    def masses(self) -> Floats:
        """Each bin's share, positive, sum 1, shape (bins,)."""
        cleaned = np.maximum(self.items[:, 0] + self.items[:, 1], 2.0**-20)
        return np.asarray(cleaned / math.fsum(cleaned.tolist()))


def of_sample(shares: CellShares, prior: Prior) -> Prior:
    """Return means and standard deviations of ln(slope) and the intercept on a sample, from its noisy shares.

    With p the curve's chance of +1 in a bin whose share of people is m, both shares are (m (1 - p), m p) and noise, so
    what the bin tells of p is how far share_+ (1 - p) - share_- p is from 0. Its variance is m p (1 - p)/people, of
    people's labels, and (p^2 + (1 - p)^2) times that of the noise. Squares divided by the variances under the curve are
    Pearson's chi-squared, which tells as much as the likelihood where people are many. A variance that is the same for
    all curves would take rare labels for less certain than they are, and the slope for flatter.
    """
    found = []
    masses = np.maximum(shares.items[:, 0] + shares.items[:, 1], 1.0 / shares.people)
    for curve in shares.within.curves:
        chance = shares.within.averages(curve)
        other = 1.0 - chance
        off = shares.items[:, 1] * other - shares.items[:, 0] * chance
        sampled = masses * chance * other / shares.people
        variances = sampled + shares.noise * (chance * chance + other * other)
        found.append(-0.5 * ordered_sum(off * off / np.maximum(variances, _LEAST)))
    return Belief((prior.logarithm() + np.array(found))[None]).moments(prior.middle)


@dataclass(frozen=True)
class Reported:
    """What agents reported: the mean of f(x) (y - p(x))/max(p(x), 1 - p(x)), with the variance of the estimate.

    Attributes:
        slope, intercept: Of p(x) = 1/(1 + e^-(slope * score + intercept)); None, None: p is 0, y is reported.
        center: f is 1 where the score is above it, else -1; None: f is 1.
    """

    mean: float
    variance: float
    slope: float | None = None
    intercept: float | None = None
    center: float | None = None


@dataclass(frozen=True, eq=False)
class Belief:
    """The logarithm of a density over tilts, slopes and intercepts of the grid, shape (tilts, slopes, intercepts).

    A population's scores may lie higher or lower than the sample's: its people's shares of the bins are taken to be m
    e^(t z), but for a constant, with m those of the sample, z the standardised score, and t the tilt.
    """

    logarithm: Floats

    @classmethod
    def of_others(cls, logarithm: Floats) -> Belief:
        """Return what is believed of a population, whose tilt nobody knows, by a density of slopes and intercepts."""
        tilted = _TILTS / _TILTED
        return cls(logarithm - 0.5 * (tilted * tilted)[:, None, None])

    def given(self, within: Within, masses: Floats, reported: Reported) -> Belief:
        """Return the belief after what agents reported.

        If the odds on T have the slope a and the intercept b, the mean of f (y - p)/m is that of f (p_ab - p)/m over
        T's scores.
        """
        scores = within.scores
        asked = np.zeros_like(scores)
        if reported.slope is not None and reported.intercept is not None:
            asked = logistic(reported.slope * scores + reported.intercept)
        signs = np.ones_like(scores) if reported.center is None else np.where(scores > reported.center, 1.0, -1.0)
        tables = [within.averages(signs * apart_from(asked, chance)) for chance in within.curves]
        return self._after(within, masses, tables, (reported.mean, reported.variance))

    def _after(self, within: Within, masses: Floats, tables: list[Floats], mean: tuple[float, float]) -> Belief:
        """Return the belief after a mean, with its variance, that has these expectations in the bins, by the slope."""
        people, found = self._people(within, masses), []
        for bins in tables:
            expected, uncertain = _over(people, bins)
            off, variances = mean[0] - expected, mean[1] + uncertain
            found.append(-0.5 * (off * off / variances + logs(variances)))
        return Belief(self.logarithm + np.stack(found, axis=1))

    def _people(self, within: Within, masses: Floats) -> Floats:
        """Return the shares of the bins by the tilt, shape (tilts, bins), of a sample with the shares ``masses``."""
        apart = within.middles - math.fsum((masses * within.middles).tolist())
        spread = math.sqrt(math.fsum((masses * apart * apart).tolist()))
        if len(self.logarithm) == 1 or spread == 0.0:
            return np.repeat(masses[None, :], len(self.logarithm), axis=0)
        shares = masses * exps(_TILTS[:, None] * np.clip(apart / spread, -_FARTHEST, _FARTHEST))
        return np.asarray(shares / ordered_sum(shares)[:, None])

    def judged(
        self,
        within: Within,
        masses: Floats,
        cut: float,
        loss: tuple[float, float],
        missed: tuple[float, float] = (1.0, 1.0),
    ) -> Belief:
        """Return the belief after agents told the mean loss of "+1 above the score ``cut``", and its variance.

        How often a threshold errs tells how steep the odds are on either side of it, which residuals that are not
        turned by the score do not tell. How T's people lie is as uncertain as in :meth:`given`.
        """
        return self._after(within, masses, [within.losses(chance, cut, missed) for chance in within.curves], loss)

    def best(self) -> tuple[float, float]:
        """Return the most likely slope, and the intercept that is most likely beside it.

        Slopes are those of the grid, from 1/64 to 64, a quarter of an octave apart; intercepts are in [-16, 16].
        """
        return _highest(logs(np.maximum(self.chances, _LEAST)))

    def expected(
        self, within: Within, masses: Floats, through: tuple[float, float] | None = None
    ) -> tuple[float, float]:
        """Return slope and intercept of the least log loss that is expected, within the grid of :meth:`best`.

        The expected log loss of a chance c is that of the mean chance of +1 at the score. Where little is known the
        mean is flatter than the most likely line, and so is the line that is nearest to it.

        A line through the point ``through``, a score and its ln(odds), is preferred where it is expected to lose
        :data:`NEAR` more at most: whoever is labelled by that point keeps their side.
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
        return _highest(free)

    def moments(self, middle: float = 0.0) -> Prior:
        """Return means and standard deviations of ln(slope) and of the ln(odds) at a score."""
        weights = self.chances
        step, steep = _moments([math.fsum(row) for row in weights.tolist()], _STEPS.astype(np.float64))
        odds, far = _moments(weights.ravel().tolist(), _odds(middle).ravel())
        return Prior(step, odds, steep * QUARTER, far, middle)

    def losses(
        self, within: Within, masses: Floats, cuts: Sequence[float], missed: tuple[float, float] = (1.0, 1.0)
    ) -> list[tuple[float, float]]:
        """Return mean and standard deviation of the loss of each threshold: +1 is predicted above it.

        How T's people lie is as uncertain as in :meth:`given`. ``missed`` are what a miss and a false alarm count.
        """
        weights, people = self._all_chances, self._people(within, masses)
        first, second = np.zeros(len(cuts)), np.zeros(len(cuts))
        for place, chance in enumerate(within.curves):
            row = weights[:, place]
            if float(row.max()) < 2.0**-40:
                continue
            for number, cut in enumerate(cuts):
                found, uncertain = _over(people, within.losses(chance, cut, missed))
                first[number] += math.fsum(ordered_sum((row * found).T).tolist())
                second[number] += math.fsum(ordered_sum((row * (found * found + uncertain)).T).tolist())
        spreads = np.sqrt(np.maximum(second - first * first, 0.0))
        return list(zip(first.tolist(), spreads.tolist(), strict=True))

    @property
    def chances(self) -> Floats:
        """The density of slopes and intercepts, which sums to 1 over the grid."""
        return ordered_sum(np.moveaxis(self._all_chances, 0, -1))

    @cached_property
    def _all_chances(self) -> Floats:
        weights = exps(self.logarithm - self.logarithm.max())
        return np.asarray(weights / math.fsum(ordered_sum(np.moveaxis(weights, 0, -1)).ravel().tolist()))


def _over(people: Floats, bins: Floats) -> tuple[Floats, Floats]:
    """Return means over all people of what is in each bin, shape (intercepts, bins), and how uncertain they are.

    ``people`` has shape (tilts, bins); both means and variances (tilts, intercepts).
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


def _highest(heights: Floats) -> tuple[float, float]:
    """Return slope and intercept where the grid is highest, of the latter the vertex of the parabola through it."""
    step, place = divmod(int(np.argmax(heights)), len(_WIDE))
    slope, best = octave_quarter(int(_STEPS[step])), float(_WIDE[place])
    if not 0 < place < len(_WIDE) - 1:
        return slope, best
    left, middle, right = heights[step, place - 1 : place + 2].tolist()
    bend = left - 2.0 * middle + right
    return slope, best if bend == 0.0 else best + 0.5 * (left - right) / bend / _FINE


def _moments(weights: list[float], places: Floats) -> tuple[float, float]:
    mean = math.fsum(weight * place for weight, place in zip(weights, places.tolist(), strict=True))
    apart = (places - mean).tolist()
    square = math.fsum(weight * far * far for weight, far in zip(weights, apart, strict=True))
    return mean, math.sqrt(max(square, 0.0))
