"""How labels go with a model's scores, from noisy shares of people: a logistic curve with an intercept a group.

Everything is computed by sums and functions that are the same on every machine: what comes out is in later questions,
which an audit asks again.
"""

from __future__ import annotations

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
    step, _, each = _fit(shares, scores, precision, prior)
    return Calibration(octave_quarter(step), each)


def believed(shares: Floats, scores: Floats, precision: float, steep: float, far: float) -> Prior:
    """Return the prior that a fit of other shares gives, of people who may differ from those that are asked about."""
    step, common, _ = _fit(shares, scores, precision, VAGUE)
    return Prior(step, common, steep, far)


def _fit(shares: Floats, scores: Floats, precision: float, prior: Prior) -> tuple[int, float, tuple[float, ...]]:
    """Return the best slope, in quarters of octaves, with the common intercept and each group's."""
    steps = np.array(_STEPS)
    odds = np.array([octave_quarter(step) for step in _STEPS])[:, None] * scores
    common = _intercepts(
        _ordered(np.moveaxis(shares, 0, -1)), odds, precision, np.full(len(steps), prior.intercept), prior.far
    )
    each = [common] if len(shares) == 1 else [_intercepts(group, odds, precision, common, _NEAR) for group in shares]
    steep, far = (steps - prior.step) * (_OCTAVE / 4.0) / prior.steep, (common - prior.intercept) / prior.far
    value = -0.5 * (steep * steep + far * far)
    for group, intercepts in zip(shares, each, strict=True):
        near = (intercepts - common) / _NEAR
        value = value + precision * _likelihoods(group, odds + intercepts[:, None]) - 0.5 * near * near
    best = int(np.argmax(value))
    return int(steps[best]), float(common[best]), tuple(float(intercepts[best]) for intercepts in each)


def chances(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise."""
    return np.asarray(1.0 / (1.0 + exp(-scores)))


def _ordered(terms: Floats) -> Floats:
    """Return the sums over the last axis, one term after the other: the same on every machine."""
    total = np.zeros(terms.shape[:-1])
    for place in range(terms.shape[-1]):
        total = total + terms[..., place]
    return total


def _intercepts(shares: Floats, odds: Floats, precision: float, middles: Floats, spread: float) -> Floats:
    """Return, for each slope, the intercept at which the curve has as many +1 as the shares say.

    It is pulled towards ``middles``, shape (slopes,), as the prior's spread says; ``odds`` is of shape (slopes, bins).
    """
    positive, both = shares[:, 1], shares[:, 0] + shares[:, 1]
    low, high = np.full(len(odds), -_MOST), np.full(len(odds), _MOST)
    for _ in range(48):
        between = 0.5 * (low + high)
        wanted = positive - both * chances(odds + between[:, None])
        more = precision * _ordered(wanted) - (between - middles) / (spread * spread) > 0.0
        low, high = np.where(more, between, low), np.where(more, high, between)
    return np.asarray(0.5 * (low + high))


def _likelihoods(shares: Floats, odds: Floats) -> Floats:
    """Return the mean logarithm of the chance of what the shares say, for each slope."""
    chance = np.clip(chances(odds), 2.0**-60, 1.0 - 2.0**-53)
    return _ordered(shares[:, 1] * log(chance) + shares[:, 0] * log(1.0 - chance))
