"""Private gradient steps in one compiled loop: one draw, one clipped gradient and one Gaussian vector per step."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadInput
from common.core.machine import further_cores, processors
from common.local.records import Records
from common.numerics.kernels import WIDTH, alike, fma, greatest, least, load, nearest, njit, njit_inlined, store
from common.numerics.kernels import total as sum_of
from common.numerics.randomness import RandomSource
from curator.mechanisms.gaussian_noise import FINE_GRID, GRID, fine_normals, normals
from curator.sample.reweighing import Sampler
from curator.sample.rows import (
    GatheredRows,
    draw_total,
    feature,
    label,
    line_of,
    load_features,
    prefetch_draw,
    reload_features,
    row_of,
    vector,
)

LOSSES = ("logistic", "hinge", "perceptron", "squared")
SQUARED = 3
_POWERS = 2.0 ** np.arange(-64, 65)
_ONES = np.ones(WIDTH)
_LEAST = 2.0**-100
"""Added to a record's squared norm: exceeds what underflow takes in single precision, and is harmless otherwise."""
_LINE = 64


class Rule(NamedTuple):
    """Parameters that are the same in all steps. A feature whose parameter is None is not compiled into the loop.

    Attributes:
        loss: Index in :data:`LOSSES`.
        intercept: Value of the last feature, if the iterate has one more coordinate than the records.
        start: Every coordinate of the public start.
        unit: Unit of the grid for gradients and noise; 1, and no grid, without noise.
        clip: Greatest norm of a gradient before it is rounded, in units.
        scale: Step r is ``scale / sqrt(r)``,
        regularization: or ``1 / (regularization r)`` if this is positive.
        lasso: Soft threshold per unit of step; None for none.
        radius: Radius of the ball; None for the box [0, 1]^width.
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
    """Return zeros aligned to a cache line; a step takes a third longer with vectors that cross cache lines."""
    size = width * np.dtype(dtype).itemsize
    memory = np.zeros(size + _LINE, dtype=np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + size].view(dtype)


class _Step(NamedTuple):
    """The numbers of one step for every coordinate; ``weight`` is that of the iterate before, ``counts`` 1 or 0."""

    slope: float
    counts: float
    size: float
    length: float
    factor: float
    drift: float
    weight: float
    start: float


@njit
def descend(draws: Any, noise: AnyArray | None, offset: AnyArray, total: AnyArray, done: int, rule: Any) -> None:
    """Make one step per draw, in place, after ``done`` earlier ones.

    A step needs its margin, and so the whole step before it. The loop that moves the iterate therefore also sums the
    dot product with the next record and the distance from the start. The projection onto the ball is one factor on
    both, ``shrink``, which is applied to the coordinates in the next step's loop. Coordinates are held in buffers of
    whole vectors, padded with zeros.

    Gradient and noise are added exactly, as integers, before any other operation on them. The margin, the step and the
    intercept's coordinate are doubles. Sums over coordinates have eight lanes, so the result is the same on every
    processor.

    Args:
        draws: k :class:`~curator.sample.rows.GatheredRows` of d features. With the squared loss, the last one is the
            response and not part of the margin.
        noise: Shape (k, width), integers in units; None without noise.
        offset: Shape (width,), float64 or float32: the iterate minus the start; best made by :func:`coordinates`.
        total: Same shape and type: the sum of the iterates minus the start.
        rule: A :class:`Rule`. In single precision gradient and noise must stay below 2^24 units.
    """
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    count, dimension = draw_total(matrix, rows), matrix.shape[1] - (rule.loss == SQUARED)
    intercept, origin, last = _open_iterate(offset, dimension, rule.intercept, rule.start, rule.radius)
    last_summed, weight_sum, shrink, rank = 0.0, 0.0, 1.0, np.float64(done)
    left, line = dimension % WIDTH, line_of(matrix)
    even = dimension - left
    iterate, iterate_sums = _buffer(dimension, offset), _buffer(dimension, offset)
    iterate[:dimension], iterate_sums[:dimension] = offset[:dimension], total[:dimension]
    row, following = row_of(rows, 0), row_of(rows, 0)
    products = squares = alike(0.0, iterate)
    for j in range(0, dimension, WIDTH):
        record = alike(load_features(matrix, codes, row, 0, j, min(dimension - j, WIDTH)), iterate)
        products, squares = fma(load(iterate, j), record, products), fma(record, record, squares)
    product, square = float(sum_of(products)), float(sum_of(squares))
    for k in range(count):
        for j in range(0, dimension, line):
            prefetch_draw(matrix, labels, rows, k, j)
        row, following = following, row_of(rows, min(k + 1, count - 1))
        sign, rank = _response_of(draws, rule.loss, row), rank + 1.0
        margin = shrink * fma(intercept, last, product)
        if rule.start != origin:
            margin += rule.start * (intercept + _feature_sum(matrix, codes, row, k, dimension))
        weight = shrink if k > 0 and done + k > rule.burn else 0.0
        step = _step(rule, sign, margin, square, intercept, rank, origin, shrink, weight)
        weight_sum += step.weight
        last_summed = fma(last, step.weight, last_summed)
        zeros = alike(0.0, iterate)
        partial = (zeros, zeros, zeros)
        for j in range(0, even, WIDTH):
            position = (row, following, k, j)
            partial = _move(draws, noise, position, None, step, rule.lasso, rule.radius, iterate, iterate_sums, partial)
        if left > 0:
            position = (row, following, k, even)
            partial = _move(draws, noise, position, left, step, rule.lasso, rule.radius, iterate, iterate_sums, partial)
        last = _move_last(last, step, rule, intercept, noise, k, dimension)
        product, square = float(sum_of(partial[0])), float(sum_of(partial[1]))
        shrink = _shrink(fma(last, last, float(sum_of(partial[2]))), rule.radius)
    offset[:dimension], total[:dimension] = iterate[:dimension], iterate_sums[:dimension]
    _close(offset, total, last, last_summed, weight_sum, shrink, origin, dimension, done + count > rule.burn)


@njit_inlined
def _response_of(draws: Any, loss: int, row: int) -> float:
    if loss == SQUARED:
        return np.float64(feature(draws.matrix, draws.codes, row, draws.matrix.shape[1] - 1))
    return label(draws.matrix, draws.labels, row)


@njit_inlined
def _step(
    rule: Any, sign: float, margin: float, square: float, intercept: float, rank: float, origin: float, shrink: float,
    weight: float,
) -> Any:  # fmt: skip
    if rule.loss == SQUARED:
        # 2 |m - r| as a loss that falls towards the response, so that the clip below bounds it on either side.
        residual = margin - sign if margin == margin else 0.0
        slope, counts, sign = 2.0 * abs(residual), 1.0, -1.0 if residual > 0.0 else 1.0
    else:
        slope, counts = _slope(rule.loss, sign * margin)
    slope = -sign * min(slope / rule.unit, rule.clip / np.sqrt(fma(intercept, intercept, square + _LEAST)))
    if rule.regularization > 0.0:
        size = 1.0 / (rule.regularization * rank)
        decay = 1.0 - size * rule.regularization
        drift = (1.0 - decay) * origin
    else:
        size, decay, drift = rule.scale / np.sqrt(rank), 1.0, 0.0
    return _Step(slope, counts, size, size * rule.unit, decay * shrink, drift, weight, rule.start)


@njit_inlined
def _open_iterate(
    offset: AnyArray, dimension: int, intercept: float, start: float, radius: float | None
) -> tuple[float, float, float]:
    """Return the intercept's feature, the offset of the coordinates from now on, and the intercept's coordinate.

    Without an intercept, its feature and coordinate are 0. Coordinates in the box include the start, in the ball not.
    """
    origin = start if radius is None else 0.0
    for j in range(len(offset)):
        offset[j] += origin
    return (intercept, origin, float(offset[dimension])) if len(offset) > dimension else (0.0, origin, 0.0)


@njit_inlined
def _close(
    offset: AnyArray, total: AnyArray, last: float, last_summed: float, weight_sum: float, shrink: float, origin: float,
    dimension: int, included: bool,
) -> None:  # fmt: skip
    """Restore the representation of the iterate and of the sum that is used between blocks."""
    if len(offset) > dimension:
        offset[dimension] = last
        total[dimension] += last_summed
    for j in range(len(offset)):
        offset[j] = offset[j] * shrink - origin
        total[j] -= weight_sum * origin
        if included:
            total[j] += offset[j]


@njit_inlined
def _slope(loss: int, margin: float) -> tuple[float, float]:
    """Return minus a loss's slope at a margin, as a factor that may be rounded with the gradient, and one of 1 or 0."""
    if loss == 0:
        # In single precision, features beyond 1e19 can make the margin NaN.
        return _logistic(margin if margin == margin else 0.0), 1.0
    if loss == 1:
        return 1.0, np.float64(margin < 1.0)
    return 1.0, np.float64(margin <= 0.0)


@njit_inlined
def _logistic(margin: Any) -> Any:
    """Return 1 / (1 + e^margin) for a margin cut to [-44, 44], in double precision; can be inlined, unlike exp."""
    margin = min(max(margin, -44.0), 44.0)
    exponent = np.rint(margin * 1.4426950408889634)
    r = fma(exponent, -0.6931471805599453, margin)
    square = r * r
    low = fma(square, fma(r, 1.0 / 6.0, 0.5), 1.0 + r)
    middle = fma(square, fma(r, 1.0 / 5040.0, 1.0 / 720.0), fma(r, 1.0 / 120.0, 1.0 / 24.0))
    high = fma(square, fma(r, 1.0 / 39916800.0, 1.0 / 3628800.0), fma(r, 1.0 / 362880.0, 1.0 / 40320.0))
    fourth = square * square
    return 1.0 / fma(fma(fourth, fma(fourth, high, middle), low), _POWERS[np.int64(exponent) + 64], 1.0)


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
def _move_last(
    last: float, step: Any, rule: Any, intercept: float, noise: AnyArray | None, k: int, dimension: int
) -> Any:
    if noise is None:
        move = step.slope * intercept * step.counts
    else:
        present = np.float64(noise.shape[1] > dimension)
        noise_value = np.float64(noise[k, min(dimension, noise.shape[1] - 1)])
        move = fma(nearest(step.slope * intercept), step.counts, present * noise_value)
    return _in_box(fma(move, -step.length, fma(last, step.factor, step.drift)), rule.radius)


@njit_inlined
def _noises(noise: AnyArray | None, k: int, j: int, count: int | None, like: AnyArray) -> Any:
    if noise is None:
        return alike(0.0, like)
    return alike(vector(noise, k * noise.shape[1] + j, count), like)


@njit_inlined
def _projected(values: Any, start: float, lasso: float | None, size: float, ones: Any, radius: float | None) -> Any:
    """Soft-threshold coordinates where ``ones`` is not 0, and clip to the box; does not apply the ball's factor."""
    if lasso is not None:
        threshold = ones * (lasso * size)
        origin = 0.0 if radius is None else start
        values = values + origin
        values = values - least(greatest(values, threshold * -1.0), threshold)
        values = values - origin
    return _in_box(values, radius)


@njit_inlined
def _in_box(values: Any, radius: float | None) -> Any:
    if radius is None:
        return least(greatest(values, 0.0), 1.0)
    return values


@njit_inlined
def _buffer(size: int, like: AnyArray) -> AnyArray:
    memory = np.zeros(size + WIDTH + _LINE // like.itemsize, dtype=like.dtype)
    begin = -memory.ctypes.data % _LINE // like.itemsize
    return memory[begin : begin + size + WIDTH]


@njit_inlined
def _feature_sum(matrix: AnyArray, codes: Any, row: int, k: int, dimension: int) -> float:
    sums = alike(0.0, _ONES)
    for j in range(0, dimension, WIDTH):
        sums = sums + alike(reload_features(matrix, codes, row, k, j, min(dimension - j, WIDTH)), _ONES)
    return float(sum_of(sums))


@njit_inlined
def _move(
    draws: Any, noise: AnyArray | None, position: Any, count: int | None, step: Any, lasso: float | None,
    radius: float | None, iterate: AnyArray, iterate_sums: AnyArray, partial: Any,
) -> Any:  # fmt: skip
    """Move coordinates j, ..., j + 7, or the ``count`` that are left, and add to the three sums over all of them.

    The sums are of products with the next record, of its squares, and of squared distances. Without a branch or loop,
    the compiler omits reference counts of arrays, which take longer than the rest.
    """
    products, squares, distances = partial
    row, following, k, j = position
    values = load(iterate, j)
    store(iterate_sums, j, fma(values, step.weight, load(iterate_sums, j)))
    record = alike(reload_features(draws.matrix, draws.codes, row, k, j, count), iterate)
    noises = _noises(noise, k, j, count, iterate)
    move = _on_grid(record * step.slope, step.counts, noise, noises)
    values = fma(move, -step.length, fma(values, step.factor, step.drift))
    values = _projected(values, step.start, lasso, step.size, alike(vector(_ONES, 0, count), iterate), radius)
    store(iterate, j, values)
    upcoming = alike(load_features(draws.matrix, draws.codes, following, k + 1, j, count), iterate)
    if radius is not None:
        distances = fma(values, values, distances)
    return fma(values, upcoming, products), fma(upcoming, upcoming, squares), distances


SHRINK = 2.0**-32
"""Share by which gradients are clipped below ``clip``, so that rounding errors cannot take one beyond it."""
SINGLE_SHRINK = 2.0**-10
"""The same in single precision, whatever the order in which up to :data:`_MAX_SINGLE` squares are added."""
_MAX_SINGLE = 1 << 13
_MIN_SINGLE = 64  # number of coordinates from which on single precision is faster
_DITHER = 2.0**-20
"""Single precision requires noise that moves a coordinate by this share of its range: eight units in the last place."""
_ROOM = 8.0  # the grid is fine enough if the clip has this many cells times the square root of the width
_CELLS = 1 << 19  # coordinates in a block: draws, noise and prefetched blocks stay in the third-level cache
_MANY_CELLS = 3 << 19
"""The same in single precision: records are long then and are not copied, so a block is almost only noise."""


@dataclass(frozen=True)
class ClippedSteps:
    """Projected gradient descent with clipped gradients and Gaussian noise (Algorithm 3 of Kohen & Sheffet).

    Each step is the Gaussian mechanism on one draw: a gradient of L2 norm at most L = ``clip``, with noise of standard
    deviation ``noise`` L in every coordinate. The rest is post-processing.

    With noise, gradient and noise are whole multiples of one public unit, sigma / 2^11 (or sigma / 2^26 if the noise is
    so large that a gradient would be lost in a cell): see :mod:`curator.mechanisms.gaussian_noise`. A gradient is first
    clipped to L minus half a unit times sqrt(dim), so that rounding cannot take it beyond L. Before scaling, the move
    of a step is then a multiple of the unit.

    With many coordinates, the iterate is kept in single precision. Gradient and noise are whole numbers there, too, and
    their sum is exact. Rounding of iterates could lose small moves, so single precision is used only if the noise of
    the last step is still at least eight units in the last place of the largest possible coordinate. Rounding errors
    then have no bias, and add less than 2e-3 to the noise's variance. Attributes are those of
    :class:`common.learners.half_spaces.OpenSgd`.
    """

    loss: Literal["logistic", "hinge", "perceptron", "squared"]
    steps: int
    clip: float
    noise: float
    diameter: float
    domain: Literal["ball", "box"]
    regularization: float
    lasso: float
    intercept: float
    start: float
    output: Literal["average", "suffix", "last"]

    @property
    def ratio(self) -> Fraction:
        """U = 2 L / sigma = 2 / noise, exactly: the greatest distance of two gradients, in units of the noise.

        Raises:
            ZeroDivisionError: Without noise.
        """
        return 2 / Fraction(self.noise)

    def run(
        self, sampler: Sampler, source: RandomSource, first: Floats, convert: Callable[[Records], Records] | None = None
    ) -> Floats:
        """Run the steps from the public point ``first``; return the iterates' ``output``, shape (width,).

        ``convert`` first maps drawn records to records with as many features; None leaves them unchanged.
        """
        width = sampler.dimension - (self.loss == "squared") + (self.intercept != 0.0)
        start = np.full(width, self.start)
        rule = self.rule(width)
        offset, part = (coordinates(width, np.float32 if self.single(width) else np.float64) for _ in range(2))
        offset[:] = first - start
        total = np.zeros(width)
        done = 0
        for draws, noise in self._blocks(sampler, source, width, convert):
            descend(draws, noise, offset, part, done, rule)
            total += part
            part[:] = 0.0
            done += draws.size
            del draws, noise  # so that the next block reuses their memory, which is in the cache
        return np.asarray(start + total / (self.steps - rule.burn))

    def grid(self, width: int) -> int:
        """Return the number of grid cells per standard deviation of the noise."""
        return GRID if GRID / self.noise >= _ROOM * math.sqrt(width) else FINE_GRID

    def single(self, width: int) -> bool:
        """Return whether the iterate can be kept in single precision; see the class docstring."""
        plain = self.lasso == 0.0 and self.regularization == 0.0
        if self.noise == 0.0 or self.grid(width) != GRID or not plain or not _MIN_SINGLE <= width <= _MAX_SINGLE:
            return False
        reach = 0.5 * self.diameter if self.domain == "ball" else 1.0
        spread = self._scale(width) / math.sqrt(self.steps) * self.noise * self.clip
        return GRID / self.noise <= 1 << 22 and spread >= _DITHER * reach

    def _scale(self, width: int) -> float:
        return self.diameter / math.sqrt(self.clip**2 + (self.noise * self.clip) ** 2 * width)

    def rule(self, width: int) -> Rule:
        """Return the compiled loop's parameters; raises BadInput if the grid is too coarse for a gradient."""
        sigma = self.noise * self.clip
        unit, clip = 1.0, self.clip
        if self.noise > 0.0:
            unit = sigma / self.grid(width)
            shrink = SINGLE_SHRINK if self.single(width) else SHRINK
            clip = self.grid(width) / self.noise * (1.0 - shrink) - 0.5 * math.sqrt(width)
            if not clip > 0.0:
                raise BadInput(f"noise = {self.noise:g} leaves nothing of a gradient of {width} coordinates")
        return Rule(
            loss=LOSSES.index(self.loss),
            intercept=self.intercept,
            start=self.start,
            unit=unit,
            clip=clip,
            scale=self._scale(width),
            regularization=self.regularization,
            lasso=self.lasso or None,
            radius=None if self.domain == "box" else 0.5 * self.diameter,
            burn={"average": 0, "suffix": self.steps // 2, "last": self.steps - 1}[self.output],
        )

    def _blocks(
        self, sampler: Sampler, source: RandomSource, width: int, convert: Callable[[Records], Records] | None
    ) -> Iterator[tuple[GatheredRows, AnyArray | None]]:
        """Yield draws with their noise in blocks; each block has its own source of randomness."""
        size = max(1, (_MANY_CELLS if self.single(width) else _CELLS) // width)

        def prepare(block: int) -> tuple[GatheredRows, AnyArray | None]:
            count = min(size, self.steps - block * size)
            words = source.derive("draws", block)
            if convert is None:
                draws = sampler.gathered(count, words)
            else:
                draws = GatheredRows.from_records(convert(sampler.draws(count, words)))
            return draws, self._noise((count, width), words)

        return prefetch(prepare, -(-self.steps // size))

    def _noise(self, shape: tuple[int, int], source: RandomSource) -> AnyArray | None:
        if self.noise == 0.0:
            return None
        draw = normals if self.grid(shape[1]) == GRID else fine_normals
        return draw(math.prod(shape), source).reshape(shape)


T = TypeVar("T")
_FEW = 8  # up to this number of items no other threads are used


def prefetch(prepare: Callable[[int], T], count: int) -> Iterator[T]:
    """Yield ``prepare(0), ..., prepare(count - 1)``, prepared by all cores while the caller uses earlier ones.

    The caller itself prepares an item that no thread has started when the next one is not ready: together with the
    further threads, one fewer than cores, no core is idle. At most two items more than cores are held. On a single
    core, or for only a few items, each item is used while it is in the cache. ``prepare`` must be safe to call from
    several threads at once. It gets only its number, so no result depends on which thread is faster.
    """
    if processors() == 1 or count <= _FEW:
        yield from map(prepare, range(count))
        return
    pending: deque[Future[T]] = deque()
    try:
        for number in range(count):
            while len(pending) <= processors() and number + len(pending) < count:
                pending.append(further_cores().submit(prepare, number + len(pending)))
            while not pending[0].done():
                idle = next((place for place, item in enumerate(pending) if item.cancel()), None)
                if idle is None:
                    break
                pending[idle] = Future()
                pending[idle].set_result(prepare(number + idle))
            yield pending.popleft().result()
    finally:
        for item in pending:
            if not item.cancel():
                item.exception()  # wait for it, since it works on the caller's data
