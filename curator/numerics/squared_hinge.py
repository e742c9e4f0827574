"""Newton's method for the squared hinge loss, on the rows near the boundary only."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Singles
from common.local.hypotheses.linear import Linear
from common.numerics.kernels import njit
from common.numerics.lanes import dot
from curator.numerics.active_set import ActiveSet
from curator.weights.sampling import Distinct

_NEAR = 8
"""Rows to start with, in multiples of the number of weights: with fewer, others must be added more often."""
_MAX_STEPS = 200
_ENOUGH = 1e-10
"""A step that promises to lower the objective by a smaller share than this is not made."""


def minimize(rows: Distinct, start: Floats, penalty: float, intercept: float, *, separate: bool) -> Floats:
    """Minimize ``|w|^2 / 2 + C sum_i t_i max(0, 1 - l_i <w, y_i>)^2`` with y_i = (x_i, intercept).

    The objective is strictly convex and piecewise quadratic. A Newton step with exact line search (Chapelle,
    "Training a support vector machine in the primal", Neural Computation 19, 2007) needs only the rows with margin
    below 1: H = I + 2 C sum t_i y_i y_i^T over them; it ends at the minimum after finitely many steps (Mangasarian, "A
    finite Newton method for classification", 2002). It is run on the rows with the least margins. Any other row that
    turns out to be too near is added, and so the result is the minimum over all rows, of which no more are held at
    once than come near; of the others their margins are. From a good start two looks are enough, and margins at a start
    that was looked at last need not be computed again (:meth:`~curator.weights.sampling.Distinct.signed_margins`).

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
    costs = 2.0 * penalty * rows.times.astype(np.float64)
    known = np.zeros(len(rows), dtype=np.bool_)
    weights = start
    more = _least(_margins(rows, weights, intercept), np.inf, _NEAR * len(start), known)
    enough = 0.0 if separate else 1.0
    while len(more):
        known[more] = True
        near = np.flatnonzero(known)
        held = ActiveSet(rows.located(near), costs[near], intercept, len(weights))
        weights, least = _newton(held, weights, enough)
        if least <= 0.0:
            enough = 1.0
        more = _least(_margins(rows, weights, intercept), enough, len(near), known)
    return weights


def half_space(weights: Floats, dimension: int, intercept: float) -> Linear:
    """Return the hypothesis that predicts by the sign of <w, (x, intercept)>."""
    threshold = -intercept * weights[-1] if intercept > 0.0 else 0.0
    return Linear(weights=tuple(weights[:dimension].tolist()), threshold=float(threshold))


def _margins(rows: Distinct, weights: Floats, intercept: float) -> Singles:
    """Return l_i <w, y_i> of all rows, shape (m,), in the precision in which the half-space predicts."""
    return rows.signed_margins(half_space(weights, rows.dimension, intercept))


def _least(margins: Singles, cut: float, most: int, known: AnyArray) -> Indices:
    """Return the places of at most ``most`` rows, in no order: those with the least margins.

    Only of rows with a margin below the cut (at most 0, if that is the cut) that are not ``known``, shape (m,).
    """
    places = np.flatnonzero((margins < cut if cut > 0.0 else margins <= 0.0) & ~known)
    if len(places) <= most:
        return places
    # Of equal margins the first: which of them a library's partition puts in front depends on the processor.
    greatest = np.partition(margins[places], most - 1)[most - 1]
    below, even = places[margins[places] < greatest], places[margins[places] == greatest]
    return np.concatenate([below, even[: most - len(below)]])


def _newton(rows: ActiveSet, weights: Floats, enough: float) -> tuple[Floats, float]:
    """Minimize over the given rows; with ``enough`` 0 stop once every margin is positive.

    Returns
    -------
    The weights, and their least margin.
    """
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
