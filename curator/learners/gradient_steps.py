"""The steps of projected SGD over a block of draws: one compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import njit_fused, njit_reordered
from curator.sample.rows.gathered_rows import ask_ahead, feature, feature_again, how_many, label, row_of

LOSSES = ("logistic", "hinge", "perceptron")
_POWERS = 2.0 ** np.arange(-64, 65)
_FEW = 8
_LEAST = 2.0**-100
"""Added to a record's squared norm: above what single precision loses of it by underflow, and harmless otherwise."""
_LINE = 64


class Rule(NamedTuple):
    """What stays the same from step to step. What is None is left out when the loop is compiled.

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
        Soft threshold a unit of step; None for none.
    radius
        Of the ball; None for the box [0, 1]^width.
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
    lasso: float | None
    radius: float | None
    burn: int


def coordinates(width: int, dtype: type[Any]) -> AnyArray:
    """Return zeros that begin with a cache line: vectors across two of them take a third longer a step."""
    size = width * np.dtype(dtype).itemsize
    memory = np.zeros(size + _LINE, dtype=np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + size].view(dtype)


@njit_reordered
def descend(draws: Any, noise: AnyArray | None, away: AnyArray, total: AnyArray, done: int, rule: Any) -> None:
    """Make one step a draw, in place, after ``done`` earlier ones.

    A step waits for its margin, and so for the whole step before it: that chain decides the speed. The dot product
    with the next record is therefore summed up in the loop that moves the iterate, together with the distance from
    the start; the projection onto the ball is one factor on both, ``shrink``, which reaches the coordinates in the
    next step's loop. For losses of two slopes the gradient is rounded before it is known whether it counts.

    Gradient and noise are added as integers, exactly, before anything else is done with either. ``away`` decides in
    which precision coordinates are computed; the margin, the step and the intercept's coordinate are doubles.

    Parameters
    ----------
    draws
        k :class:`~curator.sample.rows.gathered_rows.GatheredRows` of d features.
    noise
        Shape (k, width), integers in units; None without noise.
    away
        Shape (width,), float64 or float32: the iterate less the start; best made by :func:`coordinates`.
    total
        Shape (width,), the same: sum of the iterates less the start.
    rule
        A :class:`Rule`. In single precision gradient and noise must stay below 2^24 units.
    """
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    count, dimension = how_many(matrix, rows), matrix.shape[1]
    intercepted = len(away) > dimension
    intercept = rule.intercept if intercepted else 0.0
    inverse = 1.0 / rule.unit
    last = float(away[dimension]) if intercepted else 0.0
    last_total = 0.0
    following = row_of(rows, 0)
    product, square = _products(matrix, codes, following, away, _origin(rule.start, rule.radius))
    shrink = 1.0
    for k in range(count):
        rank = done + k + 1
        ask_ahead(matrix, labels, rows, k)
        row, following = following, row_of(rows, min(k + 1, count - 1))
        margin = shrink * (product + intercept * last)
        if rule.start != 0.0:
            margin += rule.start * intercept
            if rule.radius is not None:
                margin += rule.start * _sum(matrix, codes, row, k)
        sign = label(matrix, labels, row)
        slope, counts = _slope(rule.loss, sign * margin)
        bound = rule.clip / np.sqrt(square + intercept * intercept + _LEAST)
        slope = -sign * min(inverse * slope, bound)
        step = rule.scale / np.sqrt(np.float64(rank))
        decay = 1.0
        if rule.regularization > 0.0:
            step = 1.0 / (rule.regularization * rank)
            decay = 1.0 - step * rule.regularization
        length = step * rule.unit
        kept = shrink if rank - 1 > rule.burn else 0.0
        product, distance, square = _move(
            matrix, codes, row, following, noise, k, away, total, slope, counts, length, decay * shrink, kept,
            rule.start, _threshold(rule.lasso, step), rule.radius,
        )  # fmt: skip
        if intercepted:
            last_total += kept * last
            move = _on_grid(slope * intercept, counts, noise, k, dimension, 1.0)
            last = decay * shrink * last - length * move
            last = _projected(last, rule.start, None, rule.radius) - _origin(rule.start, rule.radius)
            distance += last * last
        shrink = _shrink(distance, rule.radius)
    if intercepted:
        away[dimension] = last
        total[dimension] += last_total
    kept = 1.0 if done + count > rule.burn else 0.0
    for j in range(len(away)):
        away[j] *= shrink
        total[j] += kept * away[j]


@njit_fused
def _slope(loss: int, margin: float) -> tuple[float, float]:
    """Return how steeply a loss falls at a margin, as a factor that may be rounded with the gradient, and 1 or 0."""
    if loss == 0:
        # In single precision, features beyond 1e19 can make it no number.
        return _logistic(margin if margin == margin else 0.0), 1.0
    if loss == 1:
        return 1.0, np.float64(margin < 1.0)
    return 1.0, np.float64(margin <= 0.0)


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
def _on_grid(gradient: Any, counts: Any, noise: AnyArray | None, k: int, j: int, one: Any) -> Any:
    """Return the gradient, rounded, with its noise; without noise as it is. ``one`` has the type of the result."""
    if noise is None:
        return counts * gradient
    return counts * np.rint(gradient) + type(one)(noise[k, j])


@njit_reordered
def _origin(start: float, radius: float | None) -> float:
    """Return what is added to a coordinate before its product with a feature: the start where no factor follows."""
    return start if radius is None else 0.0


@njit_reordered
def _threshold(lasso: float | None, step: float) -> float | None:
    return None if lasso is None else lasso * step


@njit_reordered
def _shrink(distance: float, radius: float | None) -> float:
    """Return the factor that takes an iterate at this squared distance from the start onto the ball."""
    if radius is None:
        return 1.0
    return radius / np.sqrt(distance) if distance > radius * radius else 1.0


@njit_reordered
def _sum(matrix: AnyArray, codes: Any, row: int, k: int) -> float:
    total = 0.0
    for j in range(matrix.shape[1]):
        total += np.float64(feature_again(matrix, codes, row, k, j))
    return total


@njit_reordered
def _products(matrix: AnyArray, codes: Any, row: int, away: AnyArray, origin: float) -> tuple[float, float]:
    """Return <away + origin, record> and <record, record> over the features' coordinates."""
    product = square = 0.0
    for j in range(matrix.shape[1]):
        value = np.float64(feature(matrix, codes, row, 0, j))
        product += (away[j] + origin) * value
        square += value * value
    return product, square


@njit_reordered
def _move(
    matrix: AnyArray, codes: Any, row: int, following: int, noise: AnyArray | None, k: int, away: AnyArray,
    total: AnyArray, slope: float, counts: float, length: float, decay: float, kept: float, start: float,
    threshold: float | None, radius: float | None,
) -> tuple[float, float, float]:  # fmt: skip
    """Move the features' coordinates: one loop, twice, so that up to eight features have vectors of their length."""
    dimension = matrix.shape[1]
    if dimension <= _FEW:
        return _move_some(
            matrix, codes, row, following, min(dimension, _FEW), noise, k, away, total, slope, counts, length, decay,
            kept, start, threshold, radius,
        )  # fmt: skip
    return _move_some(
        matrix, codes, row, following, dimension, noise, k, away, total, slope, counts, length, decay, kept,
        start, threshold, radius,
    )  # fmt: skip


@njit_reordered
def _move_some(
    matrix: AnyArray, codes: Any, row: int, following: int, dimension: int, noise: AnyArray | None, k: int,
    away: AnyArray, total: AnyArray, slope: float, counts: float, length: float, decay: float, kept: float,
    start: float, threshold: float | None, radius: float | None,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the product with the next record, the squared distance from the start, and that record's square."""
    real = away.dtype.type
    one, origin, start = real(1.0), real(_origin(start, radius)), real(start)
    slope, counts, length, decay, kept = real(slope), real(counts), real(length), real(decay), real(kept)
    product = distance = square = real(0.0)
    for j in range(dimension):
        move = _on_grid(slope * real(feature_again(matrix, codes, row, k, j)), counts, noise, k, j, one)
        place = away[j]
        total[j] += kept * place
        place = _projected(decay * place - length * move, start, threshold, radius)
        away[j] = place - origin
        value = real(feature(matrix, codes, following, k + 1, j))
        product += place * value
        square += value * value
        if radius is not None:
            distance += place * place
    return product, distance, square


@njit_reordered
def _projected(place: Any, start: Any, threshold: Any, radius: float | None) -> Any:
    """Soft-threshold a coordinate, given less the start; in the box, put it there, and return it whole."""
    if threshold is not None:
        place += start
        place -= min(max(place, -threshold), threshold)
        place -= start
    if radius is None:
        place += start
        place = min(max(place, type(place)(0.0)), type(place)(1.0))
    return place
