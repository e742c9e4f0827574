"""Newton's method for the squared hinge loss, on the rows near the boundary only."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from common.arrays import AnyArray, Floats, Indices
from curator.sampling import Distinct

_BLOCK = 1 << 9
"""Rows looked at in one go: they stay in the second-level cache until their margins are computed."""
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
        places = _least(_margins(rows, weights, intercept), np.inf, _NEAR * len(start), known)
        near = _signed(rows, places, intercept)
        enough = 0.0 if separate else 1.0
        while True:
            weights = _newton(near, costs[places], weights, enough)
            if (near @ weights).min() <= 0.0:
                enough = 1.0
            more = _least(_margins(rows, weights, intercept), enough, len(near), known)
            if not len(more):
                return weights
            places, near = np.concatenate([places, more]), np.concatenate([near, _signed(rows, more, intercept)])


@cache
def _libraries() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes longer than a Newton step."""
    return ThreadpoolController()


def _margins(rows: Distinct, weights: Floats, intercept: float) -> Floats:
    """Return l_i <w, y_i> of all rows, shape (m,), to single precision."""
    vector = weights[: rows.dimension].astype(np.float32)
    shift = intercept * float(weights[-1]) if intercept > 0.0 else 0.0
    margins = [((block.features @ vector) + np.float64(shift)) * block.labels for block in rows.blocks(_BLOCK)]
    return np.concatenate(margins)


def _least(margins: Floats, cut: float, most: int, known: AnyArray) -> Indices:
    """Return the ascending places of at most ``most`` rows: those with the least margins.

    Only of rows with a margin below the cut (at most 0, if that is the cut) that are not yet ``known``, shape (m,).
    Those returned become known.
    """
    places = np.flatnonzero((margins < cut if cut > 0.0 else margins <= 0.0) & ~known)
    if len(places) > most:
        places = np.sort(places[np.argpartition(margins[places], most)[:most]])
    known[places] = True
    return places


def _signed(rows: Distinct, places: Indices, intercept: float) -> Floats:
    """Return l_i y_i of the rows at these places, shape (., width)."""
    records = rows.take(places)
    signs = records.labels[:, np.newaxis].astype(np.float64)
    return np.hstack([records.features * signs, intercept * signs] if intercept > 0.0 else [records.features * signs])


def _newton(rows: Floats, costs: Floats, weights: Floats, enough: float) -> Floats:
    """Minimize over the given rows l_i y_i, at costs 2 C t_i; with ``enough`` 0 stop once every margin is positive."""
    margins = rows @ weights
    for _ in range(_MOST_STEPS):
        if enough == 0.0 and margins.min() > 0.0:
            break
        held = margins < 1.0
        active = rows[held] * np.sqrt(costs[held])[:, np.newaxis]
        gradient = weights - active.T @ (np.sqrt(costs[held]) * (1.0 - margins[held]))
        hessian = active.T @ active
        hessian[np.diag_indices_from(hessian)] += 1.0
        step = -cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), gradient, check_finite=False)
        if -float(gradient @ step) <= _ENOUGH * _objective(weights, margins, costs):
            break
        change = rows @ step
        length = _line_search(weights, step, margins, change, costs)
        weights = weights + length * step
        margins = margins + length * change
    return weights


def _objective(weights: Floats, margins: Floats, costs: Floats) -> float:
    return float(0.5 * (weights @ weights) + 0.5 * (costs @ np.square(np.maximum(1.0 - margins, 0.0))))


def _line_search(weights: Floats, step: Floats, margins: Floats, change: Floats, costs: Floats) -> float:
    """Return the length t that minimizes the objective along the step.

    Its derivative is increasing and piecewise linear: Newton's iteration on it, kept inside a bracket, ends at
    the root.
    """
    slope, bend = float(weights @ step), float(step @ step)
    weighed = costs * change
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(100):
        short = 1.0 - margins - length * change
        held = short > 0.0
        derivative = slope + length * bend - float(short[held] @ weighed[held])
        if derivative < 0.0:
            low = length
        else:
            high = length
        moved = length - derivative / (bend + float(change[held] @ weighed[held]))
        if not low < moved < high:
            moved = 0.5 * (low + high) if np.isfinite(high) else 2.0 * length
        if abs(moved - length) <= 1e-12 * length:
            break
        length = moved
    return length
