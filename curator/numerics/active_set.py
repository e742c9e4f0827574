"""The few rows that decide a squared hinge's minimum, and the equations of Newton's method over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk, ssyrk

from common.core.arrays import AnyArray, Floats, Singles
from common.numerics.kernels import njit_reordered
from curator.sample.rows.gathered_rows import GatheredRows, ask_ahead, feature, how_many, label, row_of

_MAX_REFINEMENTS = 16
_EXACT = 1e-16
"""Share of the squared error, in the norm of the matrix, that a solution may keep: 1e-8 of its length."""


class ActiveSet:
    """Signed rows l_i y_i = l_i (x_i, intercept), copied together, with the cost c_i of each.

    Features are kept in single precision, which holds them exactly; sums over them are in double.

    Parameters
    ----------
    draws
        k rows of d features.
    costs
        c_i = 2 C t_i, shape (k,), positive.
    intercept
        Value of the last feature, where ``width`` is d + 1.
    width
        Number of weights: d, or d + 1.
    """

    def __init__(self, draws: GatheredRows, costs: Floats, intercept: float, width: int) -> None:
        self.costs = costs
        self._features: Singles = np.empty((draws.size, draws.matrix.shape[1]), dtype=np.float32)
        self._last = np.empty(draws.size)
        _copy(draws, intercept, self._features, self._last)
        self._width = width
        self._held = np.zeros(draws.size, dtype=np.bool_)
        self._rough = np.eye(width, dtype=np.float32, order="F")

    def margins(self, weights: Floats) -> Floats:
        """Return l_i <w, y_i>, shape (k,)."""
        margins = np.empty(len(self.costs))
        _products(self._features, self._last, weights, margins)
        return margins

    def step(self, weights: Floats, margins: Floats) -> tuple[Floats, float]:
        """Return Newton's step for the squared hinge loss, and how fast the objective falls along it, at first.

        It solves H s = -g with g = w - sum c_i (1 - m_i) l_i y_i and H = I + sum c_i y_i y_i^T, both over the rows with
        margin m_i < 1. H is added up and factored in single precision, in half the time, from the last step's by the
        rows that come and go; conjugate gradients with H itself, conditioned by that factor, make the solution exact
        in a few iterations. Where H is too ill-conditioned for this, all is done in double precision.
        """
        held = margins < 1.0
        places = np.flatnonzero(held)
        features, last, costs = self._features[places], self._last[places], self.costs[places]
        gradient = weights.copy()
        _add(features, last, costs * (margins[places] - 1.0), gradient)
        self._move(held)
        step = _refined(self._rough, features, last, costs, -gradient)
        if step is None:
            matrix = np.eye(self._width, order="F")
            matrix = _with(matrix, dsyrk, 1.0, features, last, np.sqrt(costs))
            step = cho_solve(cho_factor(matrix, lower=True, check_finite=False), -gradient, check_finite=False)
        return step, -float(gradient @ step)

    def _move(self, held: AnyArray) -> None:
        """Bring the rough matrix (its lower triangle) to the rows that are held now."""
        come, gone = held & ~self._held, self._held & ~held
        if np.count_nonzero(come) + np.count_nonzero(gone) > np.count_nonzero(held):
            self._rough = np.eye(self._width, dtype=np.float32, order="F")
            come, gone = held, np.zeros_like(held)
        for sign, moved in ((1.0, come), (-1.0, gone)):
            places = np.flatnonzero(moved)
            roots = np.sqrt(self.costs[places])
            self._rough = _with(self._rough, ssyrk, sign, self._features[places], self._last[places], roots)
        self._held = held


def _with(matrix: AnyArray, update: Any, sign: float, features: Singles, last: Floats, roots: Floats) -> AnyArray:
    """Add the sign times sum_i r_i^2 y_i y_i^T to the lower triangle of a matrix, in its precision and in place."""
    rows = np.empty((len(features), len(matrix)), dtype=matrix.dtype)
    _scale(features, last, roots, rows)
    return np.asarray(update(sign, rows.T, beta=1.0, c=matrix, lower=True, overwrite_c=True))


def _refined(rough: Singles, features: Singles, last: Floats, costs: Floats, target: Floats) -> Floats | None:
    """Solve H s = target by conjugate gradients, conditioned by a rough H; None if that does not succeed soon."""
    try:
        factor = cho_factor(rough, lower=True, check_finite=False)
    except LinAlgError:
        return None
    rest, found = target.copy(), np.zeros_like(target)
    away = _conditioned(factor, rest)
    direction, first = away, float(rest @ away)
    error = first
    for _ in range(_MAX_REFINEMENTS):
        if not error > _EXACT * first:
            break
        image = direction.copy()
        _apply(features, last, costs, direction, image)
        length = error / float(direction @ image)
        found += length * direction
        rest -= length * image
        away = _conditioned(factor, rest)
        error, before = float(rest @ away), error
        direction = away + (error / before) * direction
    return found if 0.0 <= error <= _EXACT * first else None


def _conditioned(factor: Any, rest: Floats) -> Floats:
    """Solve with the rough factor; scaled, since single precision ends at 1e38."""
    scale = float(np.abs(rest).max()) or 1.0
    solved = cho_solve(factor, (rest / scale).astype(np.float32), check_finite=False)
    return np.asarray(solved, dtype=np.float64) * scale


@njit_reordered
def _copy(draws: Any, intercept: float, features: Singles, last: Floats) -> None:
    """Copy l_i y_i of all draws."""
    matrix, labels, rows, codes = draws.matrix, draws.labels, draws.rows, draws.codes
    for k in range(how_many(matrix, rows)):
        ask_ahead(matrix, labels, rows, k)
        row = row_of(rows, k)
        sign = label(matrix, labels, row)
        for j in range(features.shape[1]):
            features[k, j] = np.float32(sign) * np.float32(feature(matrix, codes, row, k, j))
        last[k] = sign * intercept


@njit_reordered
def _product(features: Singles, last: Floats, i: int, vector: Floats) -> float:
    """Return <v, l_i y_i>."""
    dimension = features.shape[1]
    total = last[i] * vector[dimension] if len(vector) > dimension else 0.0
    for j in range(dimension):
        total += vector[j] * np.float64(features[i, j])
    return total


@njit_reordered
def _add_row(features: Singles, last: Floats, i: int, factor: float, total: Floats) -> None:
    """Add f l_i y_i."""
    dimension = features.shape[1]
    for j in range(dimension):
        total[j] += factor * np.float64(features[i, j])
    if len(total) > dimension:
        total[dimension] += factor * last[i]


@njit_reordered
def _products(features: Singles, last: Floats, vector: Floats, products: Floats) -> None:
    for i in range(len(products)):
        products[i] = _product(features, last, i, vector)


@njit_reordered
def _add(features: Singles, last: Floats, factors: Floats, total: Floats) -> None:
    """Add sum_i f_i l_i y_i."""
    for i in range(len(factors)):
        _add_row(features, last, i, factors[i], total)


@njit_reordered
def _apply(features: Singles, last: Floats, costs: Floats, vector: Floats, image: Floats) -> None:
    """Add sum_i c_i y_i <y_i, v>."""
    for i in range(len(costs)):
        _add_row(features, last, i, costs[i] * _product(features, last, i, vector), image)


@njit_reordered
def _scale(features: Singles, last: Floats, factors: Floats, rows: AnyArray) -> None:
    """Fill in f_i l_i y_i."""
    dimension = features.shape[1]
    for i in range(len(factors)):
        for j in range(dimension):
            rows[i, j] = factors[i] * np.float64(features[i, j])
        if rows.shape[1] > dimension:
            rows[i, dimension] = factors[i] * last[i]
