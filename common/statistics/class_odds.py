"""What is believed of the odds of several classes: a slope and an intercept a class, by residuals that agents tell.

What comes out is in later questions, which an audit asks again: it is rounded to a grid, so that a last bit that
differs between machines does not get there.
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
"""Points that stand for the people of a class."""
STEEP, FAR = 0.5, 0.5
"""Standard deviations, beforehand, of ln(slope) and of each intercept of the population from those of the sample."""
_MIDDLES, _DEVIATIONS, _CHANCES = np.array([0.0, -FLATTER]), np.array([STEEP, ANY]), np.array([1.0 - DOUBT, DOUBT])
"""Of ln(slope): of the usual law, and of scores that tell something else of these people than of the sample."""
APART = 0.15  # standard deviation, beforehand, of a class's share of the population from that of the sample
_GRID = 1024.0  # of slope and intercepts
_LEAST = 1e-3  # of the share of a class
_NEVER = 2.0**-1000  # the least density
_STEPS = 25
_WIDEST = 2.0  # the farthest that one step moves a coefficient


@dataclass(frozen=True, eq=False)
class ClassReport:
    """The mean of v_y, as agents reported it, its variance, and the v and p that it was asked with.

    Its expectation is that of sum_c (q_c - p_c) v_c, q the classes' true probabilities; with p = 0 it is the mean of
    v_y alone. ``chances`` and ``moved`` have shape (m, C), as
    :func:`common.local.queries.residuals.instruments` gives them.
    """

    mean: float
    variance: float
    chances: Floats
    moved: Floats


@dataclass(frozen=True, eq=False)
class ClassOdds:
    """P(class c | scores s) = softmax(slope * s + intercepts)_c on T, and what is known of it.

    Attributes:
        points, masses: Scores, shape (m, C), that stand for the people of T, and how many people each stands for.
        reports: What agents reported.
    """

    points: Floats
    masses: Floats
    slope: float
    intercepts: Floats
    reports: tuple[ClassReport, ...] = ()

    @classmethod
    def of_sample(cls, scores: ClassScores, shares: Floats) -> ClassOdds:
        """Return what is believed before anything is reported, for a population with these shares of the classes."""
        means, root = np.array(scores.means), np.array(scores.root)
        # The same points of a standard normal law for everybody, with mean 0.
        numbers = np.empty((POINTS // 2, len(means)))
        counter.fill_normals(counter.stream(0, len(means)), np.arange(POINTS // 2), numbers)
        around = np.concatenate([numbers, -numbers]) @ root
        points = (means[:, None, :] + around).reshape(-1, len(means))
        masses = np.repeat(shares / len(around), len(around))
        return cls(points, masses, 1.0, np.zeros(len(means)))

    @property
    def scores(self) -> Floats:
        """The points' scores as they are believed: the logarithms of odds."""
        return np.asarray(self.slope * self.points + self.intercepts)

    def asked(self, chosen: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return p and v of a question about the scores as they are believed."""
        return instruments(self.scores, chosen)

    def right(self, mean: float, variance: float, scores: Floats | None = None) -> ClassReport:
        """Return the report that scores name a share ``mean`` of T's classes, with this variance.

        ``scores`` are those of the points, shape (m, C), by default as they were.
        """
        named = np.zeros_like(self.points)
        named[np.arange(len(named)), (self.points if scores is None else scores).argmax(axis=1)] = 1.0
        return ClassReport(mean, variance, np.zeros_like(named), named)

    def given(self, reports: Sequence[ClassReport]) -> ClassOdds:
        """Return what is believed after agents reported more: the most likely slope and intercepts."""
        found = replace(self, reports=(*self.reports, *reports))
        place = np.concatenate([[math.log(found.slope)], found.intercepts])
        gradient, bend = found._around(place)
        for _ in range(_STEPS):
            step = np.clip(np.linalg.solve(bend, gradient), -_WIDEST, _WIDEST)
            while True:
                after = place + step
                if found._cost(after) <= found._cost(place) or float(np.abs(step).max()) < 1e-6:
                    break
                step = 0.5 * step
            place = after
            gradient, bend = found._around(place)
            if float(np.abs(step).max()) < 1e-6:
                break
        rounded = np.rint(place * _GRID) / _GRID
        return replace(found, slope=float(exp(rounded[:1])[0]), intercepts=rounded[1:] - rounded[1:].mean())

    def _cost(self, place: Floats) -> float:
        chances = softmax(self._scores(place))
        prior = -2.0 * float(log(_densities(place[0]).sum())) + float(np.square(place[1:] / FAR).sum())
        return prior + math.fsum((one.mean - self._expected(one, chances)) ** 2 / one.variance for one in self.reports)

    def _expected(self, one: ClassReport, chances: Floats) -> float:
        return float((self.masses * ordered_sum((chances - one.chances) * one.moved)).sum())

    def _scores(self, place: Floats) -> Floats:
        return np.asarray(exp(place[:1])[0] * self.points + place[1:])

    def _around(self, place: Floats) -> tuple[Floats, Floats]:
        """Return half of minus the gradient of the cost, and the bend that Gauss and Newton take."""
        scores = self._scores(place)
        chances, steep = softmax(scores), scores - place[1:]
        likely = _densities(place[0])
        precisions = likely / likely.sum() / np.square(_DEVIATIONS)
        weights = np.concatenate([[precisions.sum()], np.full(len(place) - 1, 1.0 / FAR**2)])
        gradient, bend = -weights * place, np.diag(weights)
        gradient[0] = (precisions * (_MIDDLES - place[0])).sum()
        for one in self.reports:
            apart = chances * (one.moved - ordered_sum(chances * one.moved)[:, None])
            along = np.concatenate([[self.masses @ ordered_sum(apart * steep)], self.masses @ apart])
            gradient = gradient + along * (one.mean - self._expected(one, chances)) / one.variance
            bend = bend + np.outer(along, along) / one.variance
        return gradient, bend

    def beside(self, other: ClassOdds) -> ClassOdds:
        """Return the other odds, or these, all scores times one number, where that is near enough to them.

        Those name the classes that these name. The other odds taken for true, they lose the least log loss, and
        :data:`common.statistics.calibration.NEAR` more than the others at most.
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
        """Return the share of T of whom the scores as they were name another class, as is believed."""
        chances = softmax(self.scores)
        return 1.0 - float(self.masses @ chances[np.arange(len(chances)), self.points.argmax(axis=1)])


def _densities(slope: float) -> Floats:
    """Return the density of an ln(slope) under either law, times the law's chance, but for a constant."""
    far = (slope - _MIDDLES) / _DEVIATIONS
    return np.asarray(np.maximum(_CHANCES / _DEVIATIONS * exp(-0.5 * far * far), _NEVER))


def shares_of(sample: Sequence[float], reported: Sequence[tuple[float, float]]) -> Floats:
    """Return the shares of T, shape (C,), as the sample's and what agents reported of each, mean and variance, have it.

    Beforehand each is Gaussian around the sample's, with deviation :data:`APART`; none is below a thousandth.
    """
    found = []
    for own, (mean, variance) in zip(sample, reported, strict=True):
        known, before = 1.0 / variance, 1.0 / APART**2
        found.append(max(_LEAST, (known * mean + before * own) / (known + before)))
    total = math.fsum(found)
    return np.array([share / total for share in found])


def halves(classes: int) -> list[tuple[int, ...]]:
    """Return sets of classes that are asked about together, so that any two are apart in half or more of the questions.

    With H the power of two from C on, set r holds the classes c of which r and c have an odd number of bits in common,
    r = 1 .. H - 1 (Hadamard's matrix, as Sylvester has it): any two are apart in H/2 of them.
    """
    size = 1 << (classes - 1).bit_length()
    rows = (tuple(c for c in range(classes) if (r & c).bit_count() % 2) for r in range(1, size))
    return list(dict.fromkeys(row for row in rows if row))
