"""Calibration of the odds of several classes: one slope, and an intercept per class, from residuals that agents report.

The results are in later questions, which an audit asks again: they are rounded to a grid, so that last bits that differ
between machines have no effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.core.arrays import Floats
from common.local.queries.residuals import instruments
from common.numerics import counter
from common.numerics.elementary import exp, log, ordered_sum, softmax
from common.operations.operation import ClassScores
from common.statistics.calibration import ANY, DOUBT, FLATTER, NEAR, octave_quarter

POINTS = 48
"""Number of points that represent the people of a class."""
STEEP, FAR = 0.5, 0.5
"""Prior standard deviations of the population's ln(slope) and of each intercept from those of the sample."""
_MIDDLES, _DEVIATIONS, _CHANCES = np.array([0.0, -FLATTER]), np.array([STEEP, ANY]), np.array([1.0 - DOUBT, DOUBT])
"""Both priors of ln(slope): the usual one, and the one by which scores mean something else for these people."""
APART = 0.15  # prior standard deviation of a class's share of the population from that of the sample
_GRID = 1024.0  # of slope and intercepts
_LEAST = 1e-3  # least share of a class
_NEVER = 2.0**-1000  # the least density
_STEPS = 25
_WIDEST = 2.0  # the farthest that one step moves a coefficient


@dataclass(frozen=True, eq=False)
class ClassReport:
    """The mean of v_y, as agents reported it, its variance, and the v and p of the question.

    Its expectation is that of sum_c (q_c - p_c) v_c, q the classes' true probabilities; with p = 0 it is the mean of
    v_y alone. ``chances`` (p) and ``moved`` (v) have shape (m, C), as
    :func:`common.local.queries.residuals.instruments` gives them.
    """

    mean: float
    variance: float
    chances: Floats
    moved: Floats


@dataclass(frozen=True, eq=False)
class ClassOdds:
    """P(class c | scores s) = softmax(slope * s + intercepts)_c on T, with the reports that it was fitted to.

    Attributes:
        points, masses: Scores, shape (m, C), that represent the people of T, and the share that each represents.
        reports: What agents reported.
    """

    points: Floats
    masses: Floats
    slope: float
    intercepts: Floats
    reports: tuple[ClassReport, ...] = ()

    @classmethod
    def of_sample(cls, scores: ClassScores, shares: Floats) -> ClassOdds:
        """Return the prior for a population with these shares of the classes, before anything is reported."""
        means, root = np.array(scores.means), np.array(scores.root)
        # The same points of a standard normal distribution for every class, with mean 0.
        numbers = np.empty((POINTS // 2, len(means)))
        counter.fill_normals(counter.stream(0, len(means)), np.arange(POINTS // 2), numbers)
        offsets = np.concatenate([numbers, -numbers]) @ root
        points = (means[:, None, :] + offsets).reshape(-1, len(means))
        masses = np.repeat(shares / len(offsets), len(offsets))
        return cls(points, masses, 1.0, np.zeros(len(means)))

    @property
    def scores(self) -> Floats:
        """The points' recalibrated scores: the logarithms of odds."""
        return np.asarray(self.slope * self.points + self.intercepts)

    def asked(self, chosen: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return p and v of a question about the recalibrated scores."""
        return instruments(self.scores, chosen)

    def right(self, mean: float, variance: float, scores: Floats | None = None) -> ClassReport:
        """Return the report that scores name the right class for a share ``mean`` of T, with this variance.

        ``scores`` are those of the points, shape (m, C), by default the original ones.
        """
        named = np.zeros_like(self.points)
        named[np.arange(len(named)), (self.points if scores is None else scores).argmax(axis=1)] = 1.0
        return ClassReport(mean, variance, np.zeros_like(named), named)

    def posterior(self, reports: Sequence[ClassReport]) -> ClassOdds:
        """Return the odds after agents reported more: the slope and intercepts with the highest posterior density."""
        odds = replace(self, reports=(*self.reports, *reports))
        theta = np.concatenate([[math.log(odds.slope)], odds.intercepts])
        gradient, hessian = odds._derivatives(theta)
        for _ in range(_STEPS):
            step = np.clip(np.linalg.solve(hessian, gradient), -_WIDEST, _WIDEST)
            while True:
                candidate = theta + step
                if odds._cost(candidate) <= odds._cost(theta) or float(np.abs(step).max()) < 1e-6:
                    break
                step = 0.5 * step
            theta = candidate
            gradient, hessian = odds._derivatives(theta)
            if float(np.abs(step).max()) < 1e-6:
                break
        rounded = np.rint(theta * _GRID) / _GRID
        return replace(odds, slope=float(exp(rounded[:1])[0]), intercepts=rounded[1:] - rounded[1:].mean())

    def _cost(self, theta: Floats) -> float:
        chances = softmax(self._scores(theta))
        prior = -2.0 * float(log(_densities(theta[0]).sum())) + float(np.square(theta[1:] / FAR).sum())
        residuals = [(report.mean - self._expected(report, chances), report.variance) for report in self.reports]
        return prior + math.fsum(residual**2 / variance for residual, variance in residuals)

    def _expected(self, report: ClassReport, chances: Floats) -> float:
        return float((self.masses * ordered_sum((chances - report.chances) * report.moved)).sum())

    def _scores(self, theta: Floats) -> Floats:
        return np.asarray(exp(theta[:1])[0] * self.points + theta[1:])

    def _derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return half of minus the cost's gradient, and the Gauss-Newton approximation of half its Hessian."""
        scores = self._scores(theta)
        chances, steep = softmax(scores), scores - theta[1:]
        likely = _densities(theta[0])
        precisions = likely / likely.sum() / np.square(_DEVIATIONS)
        weights = np.concatenate([[precisions.sum()], np.full(len(theta) - 1, 1.0 / FAR**2)])
        gradient, hessian = -weights * theta, np.diag(weights)
        gradient[0] = (precisions * (_MIDDLES - theta[0])).sum()
        for report in self.reports:
            deviation = chances * (report.moved - ordered_sum(chances * report.moved)[:, None])
            direction = np.concatenate([[self.masses @ ordered_sum(deviation * steep)], self.masses @ deviation])
            gradient = gradient + direction * (report.mean - self._expected(report, chances)) / report.variance
            hessian = hessian + np.outer(direction, direction) / report.variance
        return gradient, hessian

    def beside(self, other: ClassOdds) -> ClassOdds:
        """Return these odds, all scores scaled by one number, if that is near enough to ``other``, else ``other``.

        These name the same classes for any scale. The scale has the least expected log loss if the other odds are true;
        it is accepted if that exceeds the loss of the others by :data:`common.statistics.calibration.NEAR` at most.
        """
        chances = softmax(other.scores)

        def loss(scores: Floats) -> float:
            return -float(ordered_sum(self.masses * ordered_sum(chances * log(np.maximum(softmax(scores), _NEVER)))))

        times = [octave_quarter(step) for step in range(-24, 13)]
        losses = [loss(factor * self.scores) for factor in times]
        if min(losses) > loss(other.scores) + NEAR:
            return other
        factor = times[losses.index(min(losses))]
        return replace(self, slope=factor * self.slope, intercepts=factor * self.intercepts)

    def mistakes(self) -> float:
        """Return the share of T for whom the original scores name a wrong class, by these odds."""
        chances = softmax(self.scores)
        return 1.0 - float(self.masses @ chances[np.arange(len(chances)), self.points.argmax(axis=1)])


def _densities(slope: float) -> Floats:
    """Return the density of ln(slope) under either prior, times the prior's probability, up to a constant."""
    deviation = (slope - _MIDDLES) / _DEVIATIONS
    return np.asarray(np.maximum(_CHANCES / _DEVIATIONS * exp(-0.5 * deviation * deviation), _NEVER))


def shares_of(sample: Sequence[float], reported: Sequence[tuple[float, float]]) -> Floats:
    """Return the shares of T's classes, shape (C,), from the sample's shares and what agents reported (mean, variance).

    The prior of each is Gaussian around the sample's share, with deviation :data:`APART`; none is below a thousandth.
    """
    shares = []
    for prior_mean, (mean, variance) in zip(sample, reported, strict=True):
        precision, prior_precision = 1.0 / variance, 1.0 / APART**2
        shares.append(max(_LEAST, (precision * mean + prior_precision * prior_mean) / (precision + prior_precision)))
    total = math.fsum(shares)
    return np.array([share / total for share in shares])


def halves(classes: int) -> list[tuple[int, ...]]:
    """Return sets of classes to ask about together: any two classes are separated by half or more of the questions.

    With H the power of two from C on, set r holds the classes c for which r and c have an odd number of common bits, r
    = 1 .. H - 1 (Sylvester's construction of the Hadamard matrix): H/2 of the sets separate any two classes.
    """
    size = 1 << (classes - 1).bit_length()
    rows = (tuple(c for c in range(classes) if (r & c).bit_count() % 2) for r in range(1, size))
    return list(dict.fromkeys(row for row in rows if row))
