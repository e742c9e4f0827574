"""The steps of projected SGD over a block of draws: one compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import (
    WIDTH,
    alike,
    fma,
    greatest,
    least,
    load,
    load_some,
    nearest,
    njit,
    njit_inlined,
    store,
    store_some,
)
from common.numerics.kernels import total as sum_of
from curator.sample.rows import (
    GatheredRows,
    ask_ahead,
    how_many,
    label,
    line_of,
    row_of,
    some_features,
    some_features_again,
)

LOSSES = ("logistic", "hinge", "perceptron")
_POWERS = 2.0 ** np.arange(-64, 65)
_ONES = np.ones(WIDTH)
_LEAST = 2.0**-100
"""Added to a record's squared norm: above what single precision loses of it by underflow, and harmless otherwise."""
_LINE = 64


class Rule(NamedTuple):
    """What stays the same from step to step. What is None is left out when the loop is compiled.

    Attributes:
        loss: Place in :data:`LOSSES`.
        intercept: Value of the last feature, where the iterate has one more coordinate than the records.
        start: Every coordinate of the public start.
        unit: Of the grid on which gradients and noise lie; 1, and no grid, without noise.
        clip: Greatest norm of a gradient before it is rounded, in units.
        scale: Step r is ``scale / sqrt(r)``,
        regularization: or ``1 / (regularization r)`` where this is positive.
        lasso: Soft threshold a unit of step; None for none.
        radius: Of the ball; None for the box [0, 1]^width.
        burn: Iterates before this one are not summed up.
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


def descend(
    draws: GatheredRows, noise: AnyArray | None, away: AnyArray, total: AnyArray, done: int, rule: Rule
) -> None:
    """Make one step a draw, in place, after ``done`` earlier ones.

    A step waits for its margin, and so for the whole step before it: that chain decides the speed. The dot product
    with the next record is therefore summed up in the loop that moves the iterate, together with the distance from
    the start; the projection onto the ball is one factor on both, ``shrink``, which reaches the coordinates in the
    next step's loop. For losses of two slopes the gradient is rounded before it is known whether it counts. Up to eight
    coordinates, and the intercept's, stay in registers from step to step.

    Gradient and noise are added as integers, exactly, before anything else is done with either. ``away`` decides in
    which precision coordinates are computed; the margin, the step and the intercept's coordinate are doubles. Sums over
    coordinates have eight lanes (:mod:`common.numerics.vectors`): the result is the same on every processor.

    Args:
        draws: k :class:`~curator.sample.rows.GatheredRows` of d features.
        noise: Shape (k, width), integers in units; None without noise.
        away: Shape (width,), float64 or float32: the iterate less the start; best made by :func:`coordinates`.
        total: Shape (width,), the same: sum of the iterates less the start.
        rule: A :class:`Rule`. In single precision gradient and noise must stay below 2^24 units.
    """
    dimension = draws.matrix.shape[1]
    if dimension <= WIDTH:
        _few(draws, noise, away, total, done, rule, None if dimension == WIDTH else dimension)
    else:
        _many(draws, noise, away, total, done, rule)


class _Step(NamedTuple):
    """What one step does to every coordinate; ``kept`` weighs the iterate before it, ``counts`` is 1 or 0."""

    slope: float
    counts: float
    size: float
    length: float
    factor: float
    drift: float
    kept: float
    start: float


@njit
def _few(
    draws: Any, noise: AnyArray | None, away: AnyArray, total: AnyArray, done: int, rule: Any, some: int | None
) -> None:
    """Do it for ``some`` features, fewer than eight; None: for eight, whose loads are whole vectors."""
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    count, dimension = how_many(matrix, rows), matrix.shape[1]
    intercept, origin, last = _opened(away, dimension, rule.intercept, rule.start, rule.radius)
    place = _load(away, some)
    summed, last_summed, many, shrink, rank = alike(0.0, away), 0.0, 0.0, 1.0, np.float64(done)
    row = row_of(rows, 0)
    record = alike(some_features(matrix, codes, row, 0, 0, some), away)
    square, product = float(sum_of(record * record)), float(sum_of(place * record))
    for k in range(count):
        sign, rank = label(matrix, labels, row), rank + 1.0
        margin = shrink * fma(intercept, last, product)
        if rule.start != origin:
            margin += rule.start * (intercept + float(sum_of(record)))
        step = _step(rule, sign, margin, square, intercept, rank, origin, shrink, _kept(k, done + k, rule.burn, shrink))
        many += step.kept
        summed = fma(place, step.kept, summed)
        last_summed = fma(last, step.kept, last_summed)
        move = _on_grid(record * step.slope, step.counts, noise, _noises(noise, k, 0, some, away))
        place = fma(move, -step.length, fma(place, step.factor, step.drift))
        place = _projected(place, rule.start, rule.lasso, step.size, _ones(some, away), rule.radius)
        last = _moved_last(last, step, rule, intercept, noise, k, dimension)
        row = row_of(rows, min(k + 1, count - 1))
        record = alike(some_features(matrix, codes, row, 0, 0, some), away)
        square, product = float(sum_of(record * record)), float(sum_of(place * record))
        shrink = _shrink(fma(last, last, float(sum_of(place * place))), rule.radius)
    store_some(away, 0, dimension, place)
    store_some(total, 0, dimension, load_some(total, 0, dimension) + summed)
    _close(away, total, last, last_summed, many, shrink, origin, dimension, done + count > rule.burn)


@njit
def _many(draws: Any, noise: AnyArray | None, away: AnyArray, total: AnyArray, done: int, rule: Any) -> None:
    """Do it for more, in buffers of whole vectors with zeros at their ends."""
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    count, dimension = how_many(matrix, rows), matrix.shape[1]
    intercept, origin, last = _opened(away, dimension, rule.intercept, rule.start, rule.radius)
    last_summed, many, shrink, rank = 0.0, 0.0, 1.0, np.float64(done)
    left, line = dimension % WIDTH, line_of(matrix)
    whole = dimension - left
    places, sums = _buffer(dimension, away), _buffer(dimension, away)
    places[:dimension], sums[:dimension] = away[:dimension], total[:dimension]
    row, following = row_of(rows, 0), row_of(rows, 0)
    products = squares = alike(0.0, places)
    for j in range(0, dimension, WIDTH):
        record = alike(some_features(matrix, codes, row, 0, j, min(dimension - j, WIDTH)), places)
        products, squares = fma(load(places, j), record, products), fma(record, record, squares)
    product, square = float(sum_of(products)), float(sum_of(squares))
    for k in range(count):
        for j in range(0, dimension, line):
            ask_ahead(matrix, labels, rows, k, j)
        row, following = following, row_of(rows, min(k + 1, count - 1))
        sign, rank = label(matrix, labels, row), rank + 1.0
        margin = shrink * fma(intercept, last, product)
        if rule.start != origin:
            margin += rule.start * (intercept + _entire(matrix, codes, row, k))
        step = _step(rule, sign, margin, square, intercept, rank, origin, shrink, _kept(k, done + k, rule.burn, shrink))
        many += step.kept
        last_summed = fma(last, step.kept, last_summed)
        nothing = alike(0.0, places)
        found = (nothing, nothing, nothing)
        for j in range(0, whole, WIDTH):
            at = (row, following, k, j)
            found = _move(draws, noise, at, None, step, rule.lasso, rule.radius, places, sums, found)
        if left > 0:
            at = (row, following, k, whole)
            found = _move(draws, noise, at, left, step, rule.lasso, rule.radius, places, sums, found)
        last = _moved_last(last, step, rule, intercept, noise, k, dimension)
        product, square = float(sum_of(found[0])), float(sum_of(found[1]))
        shrink = _shrink(fma(last, last, float(sum_of(found[2]))), rule.radius)
    away[:dimension], total[:dimension] = places[:dimension], sums[:dimension]
    _close(away, total, last, last_summed, many, shrink, origin, dimension, done + count > rule.burn)


@njit_inlined
def _step(
    rule: Any, sign: float, margin: float, square: float, intercept: float, rank: float, origin: float, shrink: float,
    kept: float,
) -> Any:  # fmt: skip
    slope, counts = _slope(rule.loss, sign * margin)
    slope = -sign * min(slope / rule.unit, rule.clip / np.sqrt(fma(intercept, intercept, square + _LEAST)))
    if rule.regularization > 0.0:
        size = 1.0 / (rule.regularization * rank)
        decay = 1.0 - size * rule.regularization
        drift = (1.0 - decay) * origin
    else:
        size, decay, drift = rule.scale / np.sqrt(rank), 1.0, 0.0
    return _Step(slope, counts, size, size * rule.unit, decay * shrink, drift, kept, rule.start)


@njit_inlined
def _opened(
    away: AnyArray, dimension: int, intercept: float, start: float, radius: float | None
) -> tuple[float, float, float]:
    """Return the intercept's feature, what coordinates are held less of from here on, and the intercept's coordinate.

    The latter two are 0 if there is none. In the box coordinates are held whole, in the ball less the start.
    """
    origin = start if radius is None else 0.0
    for j in range(len(away)):
        away[j] += origin
    return (intercept, origin, float(away[dimension])) if len(away) > dimension else (0.0, origin, 0.0)


@njit_inlined
def _close(
    away: AnyArray, total: AnyArray, last: float, last_summed: float, many: float, shrink: float, origin: float,
    dimension: int, kept: bool,
) -> None:  # fmt: skip
    """Put the iterate, and the sum with it, back to what they are between blocks."""
    if len(away) > dimension:
        away[dimension] = last
        total[dimension] += last_summed
    for j in range(len(away)):
        away[j] = away[j] * shrink - origin
        total[j] -= many * origin
        if kept:
            total[j] += away[j]


@njit_inlined
def _slope(loss: int, margin: float) -> tuple[float, float]:
    """Return how steeply a loss falls at a margin, as a factor that may be rounded with the gradient, and 1 or 0."""
    if loss == 0:
        # In single precision, features beyond 1e19 can make it no number.
        return _logistic(margin if margin == margin else 0.0), 1.0
    if loss == 1:
        return 1.0, np.float64(margin < 1.0)
    return 1.0, np.float64(margin <= 0.0)


@njit_inlined
def _logistic(margin: Any) -> Any:
    """Return 1 / (1 + e^margin) for a margin cut to [-44, 44], to double precision; inlined, as exp would not be."""
    margin = min(max(margin, -44.0), 44.0)
    whole = np.rint(margin * 1.4426950408889634)
    r = fma(whole, -0.6931471805599453, margin)
    square = r * r
    low = fma(square, fma(r, 1.0 / 6.0, 0.5), 1.0 + r)
    middle = fma(square, fma(r, 1.0 / 5040.0, 1.0 / 720.0), fma(r, 1.0 / 120.0, 1.0 / 24.0))
    high = fma(square, fma(r, 1.0 / 39916800.0, 1.0 / 3628800.0), fma(r, 1.0 / 362880.0, 1.0 / 40320.0))
    fourth = square * square
    return 1.0 / fma(fma(fourth, fma(fourth, high, middle), low), _POWERS[np.int64(whole) + 64], 1.0)


@njit_inlined
def _kept(k: int, made: int, burn: int, shrink: float) -> float:
    return shrink if k > 0 and made > burn else 0.0


@njit_inlined
def _shrink(distance: float, radius: float | None) -> float:
    if radius is None:
        return 1.0
    return radius / np.sqrt(distance) if distance > radius * radius else 1.0


@njit_inlined
def _on_grid(gradient: Any, counts: float, noise: AnyArray | None, noises: Any) -> Any:
    if noise is None:
        return gradient * counts
    return fma(nearest(gradient), counts, noises)


@njit_inlined
def _moved_last(
    last: float, step: Any, rule: Any, intercept: float, noise: AnyArray | None, k: int, dimension: int
) -> Any:
    """Move the intercept's coordinate."""
    if noise is None:
        move = step.slope * intercept * step.counts
    else:
        present = np.float64(noise.shape[1] > dimension)
        drawn = np.float64(noise[k, min(dimension, noise.shape[1] - 1)])
        move = fma(nearest(step.slope * intercept), step.counts, present * drawn)
    return _in_box(fma(move, -step.length, fma(last, step.factor, step.drift)), rule.radius)


@njit_inlined
def _load(array: AnyArray, some: int | None) -> Any:
    return load(array, 0) if some is None else load_some(array, 0, some)


@njit_inlined
def _noises(noise: AnyArray | None, k: int, j: int, count: int | None, places: AnyArray) -> Any:
    if noise is None:
        return alike(0.0, places)
    place = k * noise.shape[1] + j
    return alike(load(noise, place) if count is None else load_some(noise, place, count), places)


@njit_inlined
def _ones(count: int | None, places: AnyArray) -> Any:
    return alike(_load(_ONES, count), places)


@njit_inlined
def _projected(place: Any, start: float, lasso: float | None, size: float, ones: Any, radius: float | None) -> Any:
    """Soft-threshold coordinates, where ``ones`` is not 0, and put them in the box: all but the ball's factor."""
    if lasso is not None:
        threshold = ones * (lasso * size)
        origin = 0.0 if radius is None else start
        place = place + origin
        place = place - least(greatest(place, threshold * -1.0), threshold)
        place = place - origin
    return _in_box(place, radius)


@njit_inlined
def _in_box(place: Any, radius: float | None) -> Any:
    if radius is None:
        return least(greatest(place, 0.0), 1.0)
    return place


@njit_inlined
def _buffer(size: int, away: AnyArray) -> AnyArray:
    memory = np.zeros(size + WIDTH + _LINE // away.itemsize, dtype=away.dtype)
    begin = -memory.ctypes.data % _LINE // away.itemsize
    return memory[begin : begin + size + WIDTH]


@njit_inlined
def _entire(matrix: AnyArray, codes: Any, row: int, k: int) -> float:
    sums = alike(0.0, _ONES)
    for j in range(0, matrix.shape[1], WIDTH):
        sums = sums + alike(some_features_again(matrix, codes, row, k, j, min(matrix.shape[1] - j, WIDTH)), _ONES)
    return float(sum_of(sums))


@njit_inlined
def _move(
    draws: Any, noise: AnyArray | None, at: Any, count: int | None, step: Any, lasso: float | None,
    radius: float | None, places: AnyArray, sums: AnyArray, found: Any,
) -> Any:  # fmt: skip
    """Move coordinates j, ..., j + 7, or the ``count`` that are left, and add to the three sums over all of them.

    They are of products with the coming record, of its squares, and of squared distances. Without a branch or loop, as
    everything that is called for each draw: then the compiler sees that no reference to an array need be counted, which
    takes longer than the rest.
    """
    products, squares, distances = found
    row, following, k, j = at
    place = load(places, j)
    store(sums, j, fma(place, step.kept, load(sums, j)))
    record = alike(some_features_again(draws.matrix, draws.codes, row, k, j, count), places)
    noises = _noises(noise, k, j, count, places)
    move = _on_grid(record * step.slope, step.counts, noise, noises)
    place = fma(move, -step.length, fma(place, step.factor, step.drift))
    place = _projected(place, step.start, lasso, step.size, _ones(count, places), radius)
    store(places, j, place)
    coming = alike(some_features(draws.matrix, draws.codes, following, k + 1, j, count), places)
    if radius is not None:
        distances = fma(place, place, distances)
    return fma(place, coming, products), fma(coming, coming, squares), distances
