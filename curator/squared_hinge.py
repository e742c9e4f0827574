"""Newton's method for the squared hinge loss, on the rows near the boundary only."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from threadpoolctl import ThreadpoolController

from common.arrays import AnyArray, Floats, Indices
from common.kernels import njit, njit_reordered
from curator.sample.draws import Draws, ask_ahead, feature, how_many, label, row_of
from curator.sampling import Distinct

_BLOCK = 1 << 9
"""Rows looked at in one go where they must be copied: they stay in the second-level cache for their margins."""
_NEAR = 8
"""Rows to start with, in multiples of the number of weights: with fewer, others must be added more often."""
_MOST_STEPS = 200
_ENOUGH = 1e-10
"""A step that promises to lower the objective by a smaller share than this is not made."""


def minimize(rows: Distinct, start: Floats, penalty: float, intercept: float, *, separate: bool) -> Floats:
    """Minimize ``|w|^2 / 2 + C sum_i t_i max(0, 1 - l_i <w, y_i>)^2`` with y_i = (x_i, intercept).

    The objective is strictly convex and piecewise quadratic. A Newton step with exact line search (Chapelle,
    "Training a support vector machine in the primal", Neural Computation 19, 2007) needs only the rows with margin
    below 1: H = I + 2 C sum t_i y_i y_i^T over them; it ends at the minimum after finitely many steps (Mangasarian, "A
    finite Newton method for classification", 2002). It is run on the rows with the least margins. Any other row that
    turns out to be too near is added, and so the result is the minimum over all rows, of which no more are held at
    once than come near; of the others their margins are. From a good start two looks are enough.

    Parameters
    ----------
    rows
        m distinct rows, each with how often it counts, t_i.
    start
        Where to begin, shape (d + 1,), or (d,) without intercept. Near the minimum, few steps are left.
    penalty
        C, positive.
    intercept
        Value of the feature appended to every row; 0 for none.
    separate
        Stop as soon as every margin is positive: at a hyperplane without a mistake. Where the steps end at the
        minimum before there is one, the result is the minimum.

    Returns
    -------
    The weights, of the shape of ``start``.
    """
    # One thread: the same sums on every machine, and products too small to gain much from two.
    with _libraries().limit(limits=1, user_api="blas"):
        costs = 2.0 * penalty * rows.times.astype(np.float64)
        known = np.zeros(len(rows), dtype=np.bool_)
        weights = start
        more = _least(_all_margins(rows, weights, intercept), np.inf, _NEAR * len(start), known)
        enough = 0.0 if separate else 1.0
        while len(more):
            known[more] = True
            near = np.flatnonzero(known)
            weights, least = _newton(rows.located(near), costs[near], weights, intercept, enough)
            if least <= 0.0:
                enough = 1.0
            more = _least(_all_margins(rows, weights, intercept), enough, len(near), known)
        return weights


@cache
def _libraries() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes longer than a Newton step."""
    return ThreadpoolController()


def _all_margins(rows: Distinct, weights: Floats, intercept: float) -> Floats:
    """Return l_i <w, y_i> of all rows, shape (m,), to single precision."""
    margins = [_margins(draws, weights, intercept, np.float32) for draws in rows.parts(_BLOCK)]
    return np.concatenate(margins)


def _margins(draws: Draws, weights: Floats, intercept: float, precision: type[Any] = np.float64) -> Floats:
    """Return l_i <w, y_i> of all draws, each of the row alone."""
    dimension = draws.matrix.shape[1]
    margins = np.empty(draws.size)
    _signed_products(draws, weights[:dimension].astype(precision), _shift(weights, intercept), margins)
    return margins


def _shift(weights: Floats, intercept: float) -> float:
    return intercept * float(weights[-1]) if intercept > 0.0 else 0.0


def _least(margins: Floats, cut: float, most: int, known: AnyArray) -> Indices:
    """Return the places of at most ``most`` rows, in no order: those with the least margins.

    Only of rows with a margin below the cut (at most 0, if that is the cut) that are not ``known``, shape (m,).
    """
    places = np.flatnonzero((margins < cut if cut > 0.0 else margins <= 0.0) & ~known)
    return places[np.argpartition(margins[places], most)[:most]] if len(places) > most else places


def _newton(draws: Draws, costs: Floats, weights: Floats, intercept: float, enough: float) -> tuple[Floats, float]:
    """Minimize over the given rows, at costs 2 C t_i; with ``enough`` 0 stop once every margin is positive.

    Returns
    -------
    The weights, and their least margin.
    """
    margins = _margins(draws, weights, intercept)
    hessian = _Hessian(draws, np.sqrt(costs), intercept, len(weights))
    for _ in range(_MOST_STEPS):
        if enough == 0.0 and margins.min() > 0.0:
            break
        held = margins < 1.0
        factor = cho_factor(hessian.over(held), lower=True, check_finite=False)
        gradient = weights.copy()
        _add(draws, np.flatnonzero(held), costs * (margins - 1.0), intercept, gradient)
        step = -cho_solve(factor, gradient, check_finite=False)
        if -float(gradient @ step) <= _ENOUGH * _objective(weights, margins, costs):
            break
        change = _margins(draws, step, intercept)
        length = _line_search(float(weights @ step), float(step @ step), margins, change, costs)
        weights = weights + length * step
        margins = margins + length * change
    return weights, float(margins.min())


class _Hessian:
    """I + sum_i c_i y_i y_i^T over the rows that are held: from one step to the next only few come and go."""

    def __init__(self, draws: Draws, roots: Floats, intercept: float, width: int) -> None:
        self._draws, self._roots, self._intercept = draws, roots, intercept
        self._held = np.zeros(draws.size, dtype=np.bool_)
        self._matrix: Floats = np.eye(width, order="F")

    def over(self, held: AnyArray) -> Floats:
        """Return the matrix over the rows with held_i true, its lower triangle; not to be changed."""
        come, gone = held & ~self._held, self._held & ~held
        if np.count_nonzero(come) + np.count_nonzero(gone) > np.count_nonzero(held):
            self._matrix = np.eye(len(self._matrix), order="F")
            come, gone = held, np.zeros_like(held)
        for sign, moved in ((1.0, come), (-1.0, gone)):
            places = np.flatnonzero(moved)
            rows = np.empty((len(places), len(self._matrix)))
            _copy(self._draws, places, self._roots, self._intercept, rows)
            self._matrix = dsyrk(sign, rows.T, beta=1.0, c=self._matrix, lower=True, overwrite_c=True)
        self._held = held
        return self._matrix


def _objective(weights: Floats, margins: Floats, costs: Floats) -> float:
    return float(0.5 * (weights @ weights) + 0.5 * (costs @ np.square(np.maximum(1.0 - margins, 0.0))))


@njit
def _line_search(slope: float, bend: float, margins: Floats, change: Floats, costs: Floats) -> float:
    """Return the length t that minimizes the objective along the step.

    Its derivative is increasing and piecewise linear: Newton's iteration on it, kept inside a bracket, ends at
    the root.

    Parameters
    ----------
    slope, bend
        <w, step> and <step, step>.
    margins, change
        The margins at w, and how they change over a step of length 1.
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(100):
        derivative, curvature = slope + length * bend, bend
        for i in range(len(margins)):
            short = 1.0 - margins[i] - length * change[i]
            if short > 0.0:
                weighed = costs[i] * change[i]
                derivative -= short * weighed
                curvature += change[i] * weighed
        if derivative < 0.0:
            low = length
        else:
            high = length
        moved = length - derivative / curvature
        if not low < moved < high:
            moved = 0.5 * (low + high) if np.isfinite(high) else 2.0 * length
        if abs(moved - length) <= 1e-12 * length:
            break
        length = moved
    return length


@njit_reordered
def _signed_products(draws: Any, vector: AnyArray, shift: float, products: Floats) -> None:
    """Fill in l_i (<v, x_i> + shift), summed in the vector's precision."""
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    for k in range(how_many(matrix, rows)):
        ask_ahead(matrix, labels, rows, k)
        row = row_of(rows, k)
        total = vector.dtype.type(0.0)
        for j in range(len(vector)):
            total += vector[j] * vector.dtype.type(feature(matrix, codes, row, k, j))
        products[k] = label(matrix, labels, row) * (np.float64(total) + shift)


@njit_reordered
def _add(draws: Any, places: Indices, factors: Floats, intercept: float, total: Floats) -> None:
    """Add f_i l_i y_i of the draws at some places."""
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    dimension = matrix.shape[1]
    for k in places:
        row = row_of(rows, k)
        factor = factors[k] * label(matrix, labels, row)
        for j in range(dimension):
            total[j] += factor * np.float64(feature(matrix, codes, row, k, j))
        if len(total) > dimension:
            total[dimension] += factor * intercept


@njit_reordered
def _copy(draws: Any, places: Indices, factors: Floats, intercept: float, copies: Floats) -> None:
    """Copy f_i y_i of the draws at some places."""
    matrix, rows, codes = draws.matrix, draws.rows, draws.codes
    dimension = matrix.shape[1]
    for i in range(len(places)):
        k = places[i]
        row = row_of(rows, k)
        for j in range(dimension):
            copies[i, j] = factors[k] * np.float64(feature(matrix, codes, row, k, j))
        if copies.shape[1] > dimension:
            copies[i, dimension] = factors[k] * intercept
