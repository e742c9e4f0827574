"""How labels go with a model's scores, from noisy shares of people: a logistic curve with an intercept a group.

Everything is computed by sums and functions that are the same on every machine: what comes out is in later questions,
which an audit asks again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp, log
from common.statistics.bins import octave_quarter

_STEPS = range(-24, 25)
"""Slopes are quarters of octaves apart: errors of a few percent in the slope move no threshold."""
_OCTAVE = 0.6931471805599453
_NEAR = 0.5
"""Standard deviation of the prior of a group's intercept around the common one."""
_MOST = 16.0


@dataclass(frozen=True)
class Calibration:
    """The odds of label +1: ln(odds) = slope * score + intercepts[group]."""

    slope: float
    intercepts: tuple[float, ...]


@dataclass(frozen=True)
class Prior:
    """What is believed of a calibration beforehand: ln(slope) and the common intercept are Gaussian.

    Attributes
    ----------
    step
        The mean of ln(slope), in quarters of octaves.
    intercept
        The mean of the common intercept.
    steep, far
        Standard deviations.
    """

    step: int = 0
    intercept: float = 0.0
    steep: float = 1.5
    far: float = 4.0


VAGUE = Prior()


def calibrate(shares: Floats, scores: Floats, precision: float, prior: Prior = VAGUE) -> Calibration:
    """Fit a logistic curve to estimated shares of people.

    The slope and the intercepts maximize::

        precision * sum_items share * ln P(label | score, group) + ln prior

    which is linear in the shares: noise of mean 0 in them is noise of mean 0 in what is maximized, also where a share
    comes out negative, so they are taken as they are. The prior decides where the shares say
    little; a group's intercept has a standard deviation of 1/2 around the common one.

    Parameters
    ----------
    shares
        Shape (groups, bins, 2): of people by group, bin of the score and label (-1, then +1). They may be negative.
    scores
        Shape (bins,): a score that stands for each bin.
    precision
        1 over the variance of a share.

    Returns
    -------
    The slope is one of a grid from 1/64 to 64, a quarter of an octave apart; intercepts are in [-16, 16].
    """
    step, common = _together(_sums(shares), scores, precision, prior)
    slope = octave_quarter(step)
    if len(shares) == 1:
        return Calibration(slope, (common,))
    each = tuple(_intercept(group, slope * scores, precision, common, _NEAR) for group in shares)
    return Calibration(slope, each)


def believed(shares: Floats, scores: Floats, precision: float, steep: float, far: float) -> Prior:
    """Return the prior that a fit of other shares gives, of people who may differ from those that are asked about."""
    step, intercept = _together(_sums(shares), scores, precision, VAGUE)
    return Prior(step, intercept, steep, far)


def _together(shares: Floats, scores: Floats, precision: float, prior: Prior) -> tuple[int, float]:
    """Return the best slope, in quarters of octaves, and intercept for all groups together."""
    best, found = -math.inf, (0, 0.0)
    for step in _STEPS:
        odds = octave_quarter(step) * scores
        intercept = _intercept(shares, odds, precision, prior.intercept, prior.far)
        steep = (step - prior.step) * (_OCTAVE / 4.0) / prior.steep
        far = (intercept - prior.intercept) / prior.far
        value = precision * _likelihood(shares, odds + intercept) - 0.5 * (steep * steep + far * far)
        if value > best:
            best, found = value, (step, intercept)
    return found


def chances(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise."""
    return np.asarray(1.0 / (1.0 + exp(-scores)))


def _sums(shares: Floats) -> Floats:
    """Return the sums over groups, shape (bins, 2), exact but for one rounding."""
    return np.array([[math.fsum(shares[:, b, label]) for label in (0, 1)] for b in range(shares.shape[1])])


def _intercept(shares: Floats, scores: Floats, precision: float, middle: float, spread: float) -> float:
    """Return the intercept at which the curve has as many +1 as the shares say, pulled towards ``middle``."""

    def excess(intercept: float) -> float:
        wanted = shares[:, 1] - (shares[:, 0] + shares[:, 1]) * chances(scores + intercept)
        return precision * math.fsum(wanted) - (intercept - middle) / (spread * spread)

    low, high = -_MOST, _MOST
    for _ in range(48):
        between = 0.5 * (low + high)
        low, high = (between, high) if excess(between) > 0.0 else (low, between)
    return 0.5 * (low + high)


def _likelihood(shares: Floats, odds: Floats) -> float:
    chance = np.clip(chances(odds), 2.0**-60, 1.0 - 2.0**-53)
    return math.fsum((shares[:, 1] * log(chance) + shares[:, 0] * log(1.0 - chance)).tolist())
