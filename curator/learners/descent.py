"""The steps of projected SGD over a block of draws: one compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.arrays import AnyArray, Floats, Labels
from common.kernels import njit_fused, njit_reordered

LOSSES = ("logistic", "hinge", "perceptron")
_POWERS = 2.0 ** np.arange(-64, 65)


class Rule(NamedTuple):
    """What stays the same from step to step.

    Attributes
    ----------
    loss
        Place in :data:`LOSSES`.
    intercept
        Value of the last feature, where the iterate has one more coordinate than the records.
    start
        Every coordinate of the public start.
    unit
        Of the grid on which gradients and noise lie; 1, and no grid, without noise.
    clip
        Greatest norm of a gradient before it is rounded, in units.
    scale
        Step r is ``scale / sqrt(r)``,
    regularization
        or ``1 / (regularization r)`` where this is positive.
    lasso
        Soft threshold a unit of step.
    radius
        Of the ball; infinite for the box [0, 1]^width.
    noisy
        Whether there is noise.
    burn
        Iterates before this one are not summed up.
    """

    loss: int
    intercept: float
    start: float
    unit: float
    clip: float
    scale: float
    regularization: float
    lasso: float
    radius: float
    noisy: bool
    burn: int


@njit_reordered
def descend(
    features: AnyArray, labels: Labels, noise: AnyArray, away: Floats, total: Floats, done: int, rule: Rule
) -> None:
    """Make one step a record, in place, after ``done`` earlier ones.

    A step waits for its margin, and so for the whole step before it: that chain decides the speed. The dot product
    with the next record is therefore summed up in the loop that moves the iterate, together with the distance from
    the start; the projection onto the ball is one factor on both, ``shrink``, which reaches the coordinates in the
    next step's loop. Eight features have a loop of known length, which the compiler keeps in registers.

    Parameters
    ----------
    features
        Shape (k, d), float32 or uint8.
    labels
        Shape (k,).
    noise
        Shape (k, width), integers in units; empty without noise.
    away
        Shape (width,): the iterate less the start.
    total
        Shape (width,): sum of the iterates less the start.
    """
    count, dimension = features.shape
    intercepted = len(away) > dimension
    intercept = rule.intercept if intercepted else 0.0
    inverse = 1.0 / rule.unit
    proximal = rule.lasso > 0.0 or rule.radius == np.inf
    last = float(away[dimension]) if intercepted else 0.0
    last_total = 0.0
    product, square = _products(features, 0, away)
    shrink = 1.0
    for k in range(count):
        rank = done + k + 1
        following = min(k + 1, count - 1)
        margin = shrink * (product + intercept * last)
        if rule.start != 0.0:
            margin += rule.start * (_sum(features, k) + intercept)
        label = np.float64(labels[k])
        if rule.loss == 0:
            share = _logistic(label * margin)
        elif rule.loss == 1:
            share = np.float64(label * margin < 1.0)
        else:
            share = np.float64(label * margin <= 0.0)
        bound = rule.clip / np.sqrt(square + intercept * intercept)
        slope = max(min(-label * inverse * share, bound), -bound)
        step = rule.scale / np.sqrt(np.float64(rank))
        decay = 1.0
        if rule.regularization > 0.0:
            step = 1.0 / (rule.regularization * rank)
            decay = 1.0 - step * rule.regularization
        length = step * rule.unit
        kept = rank - 1 > rule.burn
        product, distance, square = _move(
            features, noise, k, following, away, total, slope, length, decay, shrink, rule.noisy, kept
        )
        if intercepted:
            last *= shrink
            if kept:
                last_total += last
            last = decay * last - length * _on_grid(slope * intercept, noise, k, dimension, rule.noisy)
            if rule.radius == np.inf:
                last = min(max(last + rule.start, 0.0), 1.0) - rule.start
            distance += last * last
        if proximal:
            _soften(away, dimension, step * rule.lasso, rule.start, rule.radius == np.inf)
            product, _ = _products(features, following, away)
            distance = _squared(away, dimension) + last * last
        shrink = 1.0
        if distance > rule.radius * rule.radius:
            shrink = rule.radius / np.sqrt(distance)
    if intercepted:
        away[dimension] = last
        total[dimension] += last_total
    kept = done + count > rule.burn
    for j in range(len(away)):
        away[j] *= shrink
        total[j] += away[j] if kept else 0.0


@njit_fused
def _logistic(margin: Any) -> Any:
    """Return 1 / (1 + e^margin) for a margin cut to [-44, 44], to double precision; inlined, as exp would not be."""
    margin = min(max(margin, -44.0), 44.0)
    whole = np.rint(margin * 1.4426950408889634)
    r = margin - whole * 0.6931471805599453
    square = r * r
    low = (1.0 + r) + square * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + square * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + square * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    fourth = square * square
    return 1.0 / (1.0 + (low + fourth * (middle + fourth * high)) * _POWERS[np.int64(whole) + 64])


@njit_reordered
def _on_grid(gradient: Any, noise: AnyArray, k: int, j: int, noisy: bool) -> Any:
    return np.rint(gradient) + np.float64(noise[k, j]) if noisy else gradient


@njit_reordered
def _sum(features: AnyArray, k: int) -> float:
    total = 0.0
    for j in range(features.shape[1]):
        total += np.float64(features[k, j])
    return total


@njit_reordered
def _products(features: AnyArray, k: int, away: Floats) -> tuple[float, float]:
    """Return <away, record> and <record, record> over the features' coordinates."""
    product = square = 0.0
    for j in range(features.shape[1]):
        feature = np.float64(features[k, j])
        product += away[j] * feature
        square += feature * feature
    return product, square


@njit_reordered
def _move(
    features: AnyArray,
    noise: AnyArray,
    k: int,
    following: int,
    away: Floats,
    total: Floats,
    slope: float,
    length: float,
    decay: float,
    shrink: float,
    noisy: bool,
    kept: bool,
) -> tuple[float, float, float]:
    """Move the features' coordinates: one loop, twice; see :func:`_move_some`."""
    dimension = features.shape[1]
    if dimension == 8:
        return _move_some(features, noise, k, following, 8, away, total, slope, length, decay, shrink, noisy, kept)
    return _move_some(features, noise, k, following, dimension, away, total, slope, length, decay, shrink, noisy, kept)


@njit_reordered
def _move_some(
    features: AnyArray,
    noise: AnyArray,
    k: int,
    following: int,
    dimension: int,
    away: Floats,
    total: Floats,
    slope: float,
    length: float,
    decay: float,
    shrink: float,
    noisy: bool,
    kept: bool,
) -> tuple[float, float, float]:
    product = distance = square = 0.0
    for j in range(dimension):
        move = _on_grid(slope * np.float64(features[k, j]), noise, k, j, noisy)
        place = shrink * away[j]
        if kept:
            total[j] += place
        place = decay * place - length * move
        away[j] = place
        feature = np.float64(features[following, j])
        product += place * feature
        distance += place * place
        square += feature * feature
    return product, distance, square


@njit_reordered
def _soften(away: Floats, dimension: int, threshold: float, start: float, box: bool) -> None:
    """Soft-threshold the features' coordinates, and put them into the box."""
    for j in range(dimension):
        place = away[j] + start
        place -= min(max(place, -threshold), threshold)
        if box:
            place = min(max(place, 0.0), 1.0)
        away[j] = place - start


@njit_reordered
def _squared(away: Floats, dimension: int) -> float:
    total = 0.0
    for j in range(dimension):
        total += away[j] * away[j]
    return total
