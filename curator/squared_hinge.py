"""Newton's method for the squared hinge loss, on the rows near the boundary only."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from common.arrays import AnyArray, Floats, Indices, Labels

_BLOCK = 1 << 18
"""Features multiplied in one go: one megabyte of float32 stays in the cache."""
_NEAR = 8
"""Rows to start with, in multiples of the number of weights: with fewer, others must be added more often."""
_MOST_STEPS = 200
_ENOUGH = 1e-10
"""A step that promises to lower the objective by a smaller share than this is the last one."""


def minimize(
    features: AnyArray, labels: Labels, start: Floats, penalty: float, intercept: float, *, separate: bool
) -> Floats:
    """Minimize ``|w|^2 / 2 + C sum_i max(0, 1 - l_i <w, y_i>)^2`` with y_i = (x_i, intercept).

    The objective is strictly convex and piecewise quadratic. A Newton step with exact line search (Chapelle,
    "Training a support vector machine in the primal", Neural Computation 19, 2007) needs only the rows with margin
    below 1: H = I + 2 C sum y_i y_i^T over them; it ends at the minimum after finitely many steps (Mangasarian, "A
    finite Newton method for classification", 2002). It is run on the rows with the least margins. Any other row that
    turns out to be too near is added, and so the result is the minimum over all rows.

    Parameters
    ----------
    features
        Shape (m, d), float32 or uint8.
    labels
        Shape (m,), -1 or +1.
    start
        Where to begin, shape (d + 1,), or (d,) without intercept. Near the minimum, few steps are left.
    penalty
        C, positive.
    intercept
        Value of the feature appended to every row; 0 for none.
    separate
        Stop as soon as every margin is positive: at a hyperplane without a mistake, if there is one.

    Returns
    -------
    The weights, of the shape of ``start``.
    """
    # One thread: the same sums on every machine, and products too small to gain much from two.
    with _libraries().limit(limits=1, user_api="blas"):
        return _minimize(features, labels, start, penalty, intercept, 0.0 if separate else 1.0)


@cache
def _libraries() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes longer than a Newton step."""
    return ThreadpoolController()


def _minimize(
    features: AnyArray, labels: Labels, start: Floats, penalty: float, intercept: float, goal: float
) -> Floats:
    weights = start
    margins = _margins(features, labels, weights, intercept)
    near = _least(margins, _NEAR * len(start))
    while True:
        rows = _signed(features, labels, near, intercept, len(start))
        weights = _newton(rows, weights, penalty, goal)
        if goal == 0.0 and (rows @ weights).min() <= 0.0:
            goal = 1.0  # these rows are not separated at their minimum, so all are to be at theirs
        margins = _margins(features, labels, weights, intercept)
        margins[near] = np.inf
        short = int(np.count_nonzero(margins <= 0.0 if goal == 0.0 else margins < goal))
        if not short:
            return weights
        near = np.concatenate([near, _least(margins, min(short, len(near)))])


def _newton(rows: Floats, weights: Floats, penalty: float, goal: float) -> Floats:
    """Minimize over the given rows l_i y_i; with goal 0 stop once every margin is positive."""
    margins = rows @ weights
    for _ in range(_MOST_STEPS):
        if goal == 0.0 and margins.min() > 0.0:
            break
        active = np.flatnonzero(margins < 1.0)
        held = rows[active]
        gradient = weights - 2.0 * penalty * (held.T @ (1.0 - margins[active]))
        hessian = 2.0 * penalty * (held.T @ held)
        hessian[np.diag_indices_from(hessian)] += 1.0
        step = -cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), gradient, check_finite=False)
        gain = -float(gradient @ step)
        if gain <= _ENOUGH * _objective(weights, margins, penalty):
            break
        change = rows @ step
        length = _line_search(weights, step, margins, change, penalty)
        weights = weights + length * step
        margins = margins + length * change
    return weights


def _objective(weights: Floats, margins: Floats, penalty: float) -> float:
    return float(0.5 * (weights @ weights) + penalty * np.square(np.maximum(1.0 - margins, 0.0)).sum())


def _line_search(weights: Floats, step: Floats, margins: Floats, change: Floats, penalty: float) -> float:
    """Return the length t that minimizes the objective along the step.

    Its derivative is increasing and piecewise linear: Newton's iteration on it, kept inside a bracket, ends at
    the root.
    """
    slope, bend = float(weights @ step), float(step @ step)
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(100):
        short = 1.0 - margins - length * change
        held = short > 0.0
        derivative = slope + length * bend - 2.0 * penalty * float(short[held] @ change[held])
        if derivative < 0.0:
            low = length
        else:
            high = length
        moved = length - derivative / (bend + 2.0 * penalty * float(change[held] @ change[held]))
        if not low < moved < high:
            moved = 0.5 * (low + high) if np.isfinite(high) else 2.0 * length
        if abs(moved - length) <= 1e-12 * length:
            break
        length = moved
    return length


def _margins(features: AnyArray, labels: Labels, weights: Floats, intercept: float) -> Floats:
    """Return l_i <w, y_i> of all rows, computed in float32."""
    dimension = features.shape[1]
    vector = weights[:dimension].astype(np.float32)
    shift = intercept * float(weights[-1]) if len(weights) > dimension else 0.0
    margins = np.empty(len(features))
    size = max(1, _BLOCK // dimension)
    for begin in range(0, len(features), size):
        margins[begin : begin + size] = features[begin : begin + size] @ vector
    margins += shift
    margins *= labels
    return margins


def _least(margins: Floats, count: int) -> Indices:
    """Return the rows with the least margins, ascending."""
    if count >= len(margins):
        return np.arange(len(margins))
    return np.sort(np.argpartition(margins, count)[:count])


def _signed(features: AnyArray, labels: Labels, rows: Indices, intercept: float, width: int) -> Floats:
    """Return l_i y_i of the given rows, float64, shape (len(rows), width)."""
    signed = np.full((len(rows), width), intercept)
    signed[:, : features.shape[1]] = features[rows]
    signed *= labels[rows][:, np.newaxis]
    return signed
