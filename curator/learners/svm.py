"""Support vector machine by Newton's method on the rows near the boundary (Kohen & Sheffet, Appendix C); not private.

Sums of squares and the Cholesky factorization are computed by loops with the same results on every processor, unlike
those of BLAS and LAPACK.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Singles
from common.core.machine import on_all_cores, processors
from common.learners.half_spaces import SvmSettings
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.records import Records
from common.numerics.kernels import WIDTH, dot, doubles, fma, load, load_some, njit, njit_inlined, store, total
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.access import Access
from curator.sample.reweighing import Distinct
from curator.sample.rows import GatheredRows, draw_total, feature, label, line_of, prefetch_draw, row_of

_TALL = 4  # rows of a tile; it is two vectors wide, so that eight independent sums fill the pipeline
_WIDE = 2 * WIDTH
_ROWS = 32  # rows processed at a time: they stay in the first-level cache
_WORTH = 1 << 23  # number of products from which on a thread per core is worth it
_SPREAD = 1 << 20  # number of features to read from which on it is


def padded(width: int) -> int:
    """Return ``width`` rounded up to a multiple of a tile's width."""
    return -(-width // _WIDE) * _WIDE


def add_squares(matrix: Floats, rows: Floats, sign: float = 1.0) -> None:
    """Add sign * sum_i r_i r_i^T to the upper triangle of a matrix; entries below the diagonal change, too.

    The matrix has shape (w, w), w a multiple of 16, and the rows have shape (k, w). Many rows are added on all cores.
    Each core has its own tiles, so the result is the same.
    """
    parts = processors() if len(rows) * matrix.size >= _WORTH else 1
    on_all_cores(lambda part: _add_tiles(matrix, rows, sign, part, parts), range(parts))


@njit
def _add_tiles(matrix: Floats, rows: Floats, sign: float, part: int, parts: int) -> None:
    width = len(matrix)
    for first in range(0, len(rows), _ROWS):
        end = min(first + _ROWS, len(rows))
        for a in range(part * _TALL, width, parts * _TALL):
            for b in range(a // _WIDE * _WIDE, width, _WIDE):
                _tile(matrix, rows, sign, first, end, a, b)


@njit_inlined
def _tile(matrix: Floats, rows: Floats, sign: float, first: int, end: int, a: int, b: int) -> None:
    width = len(matrix)
    p0, p1, p2, p3 = a * width + b, (a + 1) * width + b, (a + 2) * width + b, (a + 3) * width + b
    s0, s1, s2, s3 = load(matrix, p0), load(matrix, p1), load(matrix, p2), load(matrix, p3)
    t0, t1, t2, t3 = (
        load(matrix, p0 + WIDTH), load(matrix, p1 + WIDTH), load(matrix, p2 + WIDTH), load(matrix, p3 + WIDTH)
    )  # fmt: skip
    for i in range(first, end):
        left, right = load(rows, i * width + b), load(rows, i * width + b + WIDTH)
        x0, x1 = doubles(sign * rows[i, a]), doubles(sign * rows[i, a + 1])
        x2, x3 = doubles(sign * rows[i, a + 2]), doubles(sign * rows[i, a + 3])
        s0, s1, s2, s3 = fma(x0, left, s0), fma(x1, left, s1), fma(x2, left, s2), fma(x3, left, s3)
        t0, t1, t2, t3 = fma(x0, right, t0), fma(x1, right, t1), fma(x2, right, t2), fma(x3, right, t3)
    store(matrix, p0, s0)
    store(matrix, p1, s1)
    store(matrix, p2, s2)
    store(matrix, p3, s3)
    store(matrix, p0 + WIDTH, t0)
    store(matrix, p1 + WIDTH, t1)
    store(matrix, p2 + WIDTH, t2)
    store(matrix, p3 + WIDTH, t3)


@njit
def factor(matrix: Floats) -> bool:
    """Replace the upper triangle of H by its factor U, H = U^T U; H has shape (w, w), w a multiple of 16.

    Returns False if H is not positive definite to its precision; the contents of the matrix are then undefined.
    """
    width = len(matrix)
    for first in range(0, width, _ROWS):
        end = min(first + _ROWS, width)
        for j in range(first, end):
            begin = j // WIDTH * WIDTH
            for i in range(first, j):
                above = doubles(-matrix[i, j])
                for b in range(begin, width, WIDTH):
                    store(matrix, j * width + b, fma(above, load(matrix, i * width + b), load(matrix, j * width + b)))
            pivot = np.sqrt(matrix[j, j])
            if not pivot > 0.0:
                return False
            for b in range(j, width):
                matrix[j, b] /= pivot
            for b in range(begin, j):
                matrix[j, b] = 0.0
        for a in range(end, width, _TALL):
            for b in range(a // _WIDE * _WIDE, width, _WIDE):
                _tile(matrix, matrix, -1.0, first, end, a, b)
    return True


@njit
def solve(factored: Floats, values: Floats) -> None:
    """Replace ``values``, shape (w,), by the solution x of U^T U x = values; U comes from :func:`factor`."""
    width = len(factored)
    for i in range(width):
        begin = i // WIDTH * WIDTH
        value = values[i] / factored[i, i]
        # Entries of the diagonal's vector that are left of the diagonal are 0.
        step = doubles(-value)
        for b in range(begin, width, WIDTH):
            store(values, b, fma(step, load(factored, i * width + b), load(values, b)))
        values[i] = value
    for i in range(width - 1, -1, -1):
        begin = i // WIDTH * WIDTH
        right = values[i]
        values[i] = 0.0
        sums = doubles(0.0)
        for b in range(begin, width, WIDTH):
            sums = fma(load(factored, i * width + b), load(values, b), sums)
        values[i] = (right - total(sums)) / factored[i, i]


_NEAR = 8  # rows to start with, in multiples of the number of weights; with fewer, rows must be added more often
_MAX_STEPS = 200
_ENOUGH = 1e-10  # no step is made whose predicted decrease of the objective is a smaller share than this


def minimize(rows: Distinct, start: Floats, penalty: float, intercept: float, *, separate: bool) -> Floats:
    """Minimize ``|w|^2 / 2 + C sum_i t_i max(0, 1 - l_i <w, y_i>)^2`` with y_i = (x_i, intercept).

    The objective is strictly convex and piecewise quadratic. A Newton step with exact line search (Chapelle,
    "Training a support vector machine in the primal", Neural Computation 19, 2007) needs only the rows with margin
    below 1; it reaches the minimum in finitely many steps (Mangasarian, "A finite Newton method for classification",
    2002). It starts with the rows of the least margins and adds every other row whose margin becomes too small. So the
    result is the minimum over all rows, while only rows that came near the boundary are held in memory.

    Args:
        rows: m distinct rows, each with its count t_i.
        start: Initial weights, shape (d + 1,), or (d,) without intercept.
        separate: Stop as soon as every margin is positive, if that happens before the minimum.
    """
    costs = 2.0 * penalty * rows.times.astype(np.float64)
    included = np.zeros(len(rows), dtype=np.bool_)
    weights = start
    added = _least(_margins(rows, weights, intercept), np.inf, _NEAR * len(start), included)
    target = 0.0 if separate else 1.0
    while len(added):
        included[added] = True
        near = np.flatnonzero(included)
        active = ActiveSet(rows.gathered(near), costs[near], intercept)
        weights, least = _newton(active, weights, target)
        if least <= 0.0:
            target = 1.0
        added = _least(_margins(rows, weights, intercept), target, len(near), included)
    return weights


def half_space(weights: Floats, dimension: int, intercept: float) -> Linear:
    """Return the hypothesis that predicts by the sign of <w, (x, intercept)>."""
    threshold = -intercept * weights[-1] if intercept > 0.0 else 0.0
    return Linear(weights=tuple(weights[:dimension].tolist()), threshold=float(threshold))


def _margins(rows: Distinct, weights: Floats, intercept: float) -> Singles:
    return rows.signed_margins(half_space(weights, rows.dimension, intercept))


def _least(margins: Singles, cut: float, most: int, included: AnyArray) -> Indices:
    """Return the indices of the at most ``most`` rows with the least margins, in no particular order.

    Only rows that are not ``included``, shape (m,), with a margin below the cut (or at most 0, if the cut is 0) count.
    """
    rows = np.flatnonzero((margins < cut if cut > 0.0 else margins <= 0.0) & ~included)
    if len(rows) <= most:
        return rows
    # Of equal margins take the first: which of them a library's partition puts in front depends on the processor.
    greatest = np.partition(margins[rows], most - 1)[most - 1]
    below, even = rows[margins[rows] < greatest], rows[margins[rows] == greatest]
    return np.concatenate([below, even[: most - len(below)]])


def _newton(rows: ActiveSet, weights: Floats, enough: float) -> tuple[Floats, float]:
    """Minimize over the given rows, with ``enough`` 0 until all margins are positive; also return the least margin."""
    margins = rows.margins(weights)
    for _ in range(_MAX_STEPS):
        if enough == 0.0 and margins.min() > 0.0:
            break
        step, falling = rows.step(weights, margins)
        if falling <= _ENOUGH * _objective(weights, margins, rows.costs):
            break
        change = rows.margins(step)
        length = _line_search(dot(weights, step), dot(step, step), margins, change, rows.costs)
        weights = weights + length * step
        margins = margins + length * change
    return weights, float(margins.min())


def _objective(weights: Floats, margins: Floats, costs: Floats) -> float:
    return float(0.5 * (dot(weights, weights) + dot(costs, np.square(np.maximum(1.0 - margins, 0.0)))))


@njit
def _line_search(slope: float, bend: float, margins: Floats, change: Floats, costs: Floats) -> float:
    """Return the length t that minimizes the objective along the step.

    Newton's iteration on its derivative, which is increasing and piecewise linear, is kept inside a bracket. ``slope``
    and ``bend`` are <w, step> and <step, step>; ``change`` is the change of the margins over the step.
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(100):
        derivative, curvature = slope + length * bend, bend
        for i in range(len(margins)):
            short = 1.0 - margins[i] - length * change[i]
            if short > 0.0:
                weighted = costs[i] * change[i]
                derivative -= short * weighted
                curvature += change[i] * weighted
        if derivative < 0.0:
            low = length
        else:
            high = length
        following = length - derivative / curvature
        if not low < following < high:
            following = 0.5 * (low + high) if np.isfinite(high) else 2.0 * length
        if abs(following - length) <= 1e-12 * length:
            break
        length = following
    return length


class ActiveSet:
    """Contiguous copies of signed rows l_i y_i = l_i (x_i, intercept), with costs c_i = 2 C t_i.

    Features are stored in single precision, which represents them exactly; sums over them are in double precision.
    """

    def __init__(self, draws: GatheredRows, costs: Floats, intercept: float) -> None:
        self.costs = costs
        self._features: Singles = np.empty((draws.size, draws.matrix.shape[1]), dtype=np.float32)
        self._last = np.empty(draws.size)
        self._bend: Floats | None = None  # H, over the rows that were near at the last step
        self._near = np.zeros(draws.size, dtype=np.bool_)
        _copy(draws, intercept, self._features, self._last)

    def margins(self, weights: Floats) -> Floats:
        """Return l_i <w, y_i>, shape (k,)."""
        margins = np.empty(len(self.costs))
        parts = processors() if self._features.size >= _SPREAD else 1
        ends = np.linspace(0, len(margins), parts + 1).astype(np.int64)
        shares = list(map(slice, ends[:-1], ends[1:]))
        on_all_cores(lambda s: _products(self._features[s], self._last[s], weights, margins[s]), shares)
        return margins

    def step(self, weights: Floats, margins: Floats) -> tuple[Floats, float]:
        """Return Newton's step for the squared hinge loss, and how fast the objective initially falls along it.

        It solves H s = -g with g = w - sum c_i (1 - m_i) l_i y_i and H = I + sum c_i y_i y_i^T, both over the rows with
        margin m_i < 1.
        """
        near = margins < 1.0
        rows = np.flatnonzero(near)
        gradient = weights.copy()
        _add(self._features, self._last, rows, self.costs[rows] * (margins[rows] - 1.0), gradient)
        factored = self._factored(near, len(weights))
        step = np.zeros(len(factored))
        step[: len(weights)] = -gradient
        solve(factored, step)
        step = step[: len(weights)]
        return step, -dot(gradient, step)

    def _factored(self, near: AnyArray, width: int) -> Floats:
        """Return U of H = U^T U; H is updated by adding the rows that came near and subtracting those that left.

        H is recomputed if more rows have changed than are near, or if too many digits were lost.
        """
        if self._bend is not None and np.count_nonzero(near != self._near) < np.count_nonzero(near):
            self._include(self._bend, near & ~self._near, 1.0)
            self._include(self._bend, self._near & ~near, -1.0)
            self._near, upper = near, self._bend.copy()
            if factor(upper):
                return upper
        self._near, self._bend = near, np.eye(padded(width))
        self._include(self._bend, near, 1.0)
        upper = self._bend.copy()
        if not factor(upper):
            raise ArithmeticError("the squared hinge's second derivative is not positive definite: a number overflowed")
        return upper

    def _include(self, bend: Floats, mask: AnyArray, sign: float) -> None:
        indices = np.flatnonzero(mask)
        rows = np.empty((len(indices), len(bend)))
        _scaled(self._features, self._last, indices, np.sqrt(self.costs[indices]), rows)
        add_squares(bend, rows, sign)


@njit
def _copy(draws: Any, intercept: float, features: Singles, last: Floats) -> None:
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    line = line_of(matrix)
    for k in range(draw_total(matrix, rows)):
        for j in range(0, features.shape[1], line):
            prefetch_draw(matrix, labels, rows, k, j)
        row = row_of(rows, k)
        sign = label(matrix, labels, row)
        for j in range(features.shape[1]):
            features[k, j] = np.float32(sign) * np.float32(feature(matrix, codes, row, j))
        last[k] = sign * intercept


@njit
def _products(features: Singles, last: Floats, vector: Floats, products: Floats) -> None:
    """Fill in <v, l_i y_i>."""
    dimension = features.shape[1]
    even = dimension // WIDTH * WIDTH
    left = dimension - even
    for i in range(len(products)):
        first, sums = i * dimension, doubles(0.0)
        for j in range(0, even, WIDTH):
            sums = fma(doubles(load(features, first + j)), load(vector, j), sums)
        if left > 0:
            sums = fma(doubles(load_some(features, first + even, left)), load_some(vector, even, left), sums)
        products[i] = fma(last[i], vector[dimension], total(sums)) if len(vector) > dimension else total(sums)


@njit
def _add(features: Singles, last: Floats, places: Indices, factors: Floats, total: Floats) -> None:
    """Add sum f_i l_i y_i over the places i."""
    dimension = features.shape[1]
    for k in range(len(places)):
        i = places[k]
        for j in range(dimension):
            total[j] = fma(factors[k], np.float64(features[i, j]), total[j])
        if len(total) > dimension:
            total[dimension] += factors[k] * last[i]


@njit
def _scaled(features: Singles, last: Floats, places: Indices, factors: Floats, rows: Floats) -> None:
    """Fill in f_i l_i y_i for the places i, each padded with zeros."""
    dimension = features.shape[1]
    for k in range(len(places)):
        i = places[k]
        rows[k, dimension:] = 0.0
        for j in range(dimension):
            rows[k, j] = factors[k] * np.float64(features[i, j])
        if rows.shape[1] > dimension:
            rows[k, dimension] = factors[k] * last[i]


@LEARNERS.register("svm")
class Svm(SvmSettings, Learner):
    """A half-space that separates m draws, if one does: the linear SVM with squared hinge loss.

    Minimizes ``|w|^2 / 2 + C sum_i max(0, 1 - l_i <w, y_i>)^2`` over m fresh draws, y = (x, intercept). It starts at
    the last released hypothesis, since a new subsample of similar records has a similar hyperplane. The objective is
    that of scikit-learn's ``LinearSVC``, which needs minutes for what takes a few Newton steps here.
    """

    examples: ClassVar = ({"draws": 2000},)

    def room(self, sizes: CallSizes) -> int:
        distinct = min(self.draws, sizes.people)
        margins = 32 * min(sizes.people, 8 * self.draws)
        return 16 * self.draws + margins + distinct * (sizes.width + 12 * sizes.dimension + 224)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        draws = access.distinct(self.draws)
        start = self._first(access.dimension, previous)
        weights = minimize(draws, start, self.penalty, self.intercept, separate=self.until == "separated")
        return half_space(weights, access.dimension, self.intercept)

    def _first(self, dimension: int, previous: Hypothesis | None) -> Floats:
        if not (isinstance(previous, Linear) and len(previous.weights) == dimension):
            return np.zeros(dimension + (self.intercept > 0.0))
        if self.intercept == 0.0:
            return np.array(previous.weights)
        return np.array([*previous.weights, -previous.threshold / self.intercept])
