"""Newton's method for the squared hinge loss, on the rows near the boundary only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from common.arrays import Bits, Floats, Indices, Singles
from common.records import Records

Look = Callable[[], Iterable[Records]]
"""Goes through the rows, block by block; the same rows in the same order each time."""

_NEAR = 8
"""Rows to start with, in multiples of the number of weights: with fewer, others must be added more often."""
_MOST_STEPS = 200
_ENOUGH = 1e-10
"""A step that promises to lower the objective by a smaller share than this is not made."""


def minimize(look: Look, times: Indices, start: Floats, penalty: float, intercept: float, *, separate: bool) -> Floats:
    """Minimize ``|w|^2 / 2 + C sum_i t_i max(0, 1 - l_i <w, y_i>)^2`` with y_i = (x_i, intercept).

    The objective is strictly convex and piecewise quadratic. A Newton step with exact line search (Chapelle,
    "Training a support vector machine in the primal", Neural Computation 19, 2007) needs only the rows with margin
    below 1: H = I + 2 C sum t_i y_i y_i^T over them; it ends at the minimum after finitely many steps (Mangasarian, "A
    finite Newton method for classification", 2002). It is run on the rows with the least margins. Any other row that
    turns out to be too near is added, and so the result is the minimum over all rows, of which no more are held at
    once than come near. From a good start two looks are enough.

    Parameters
    ----------
    look
        Goes through the rows: features of shape (., d), float32 or uint8, and labels.
    times
        How often each row counts, t_i; shape (m,).
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
        costs = 2.0 * penalty * times.astype(np.float64)
        known = np.zeros(len(times), dtype=np.uint8)
        weights = start
        places, near = _nearest(look, weights, intercept, np.inf, _NEAR * len(start), known)
        enough = 0.0 if separate else 1.0
        while True:
            weights = _newton(near, costs[places], weights, enough)
            if (near @ weights).min() <= 0.0:
                enough = 1.0
            more, rows = _nearest(look, weights, intercept, enough, len(near), known)
            if not len(more):
                return weights
            places, near = np.concatenate([places, more]), np.concatenate([near, rows])


@cache
def _libraries() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes longer than a Newton step."""
    return ThreadpoolController()


def _nearest(
    look: Look, weights: Floats, intercept: float, cut: float, most: int, known: Bits
) -> tuple[Indices, Floats]:
    """Return i and l_i y_i, shape (., width), of at most ``most`` rows: those with the least margins.

    Only of rows with a margin below the cut (at most 0, if that is the cut) that are not yet ``known`` (shape (m,), 1
    for known ones). Those returned become known.
    """
    dimension = len(weights) - (intercept > 0.0)
    vector = weights[:dimension].astype(np.float32)
    shift = intercept * float(weights[-1]) if intercept > 0.0 else 0.0
    least = _Least(most, cut if cut > 0.0 else float(np.nextafter(0.0, 1.0)))
    begin = 0
    for block in look():
        margins = ((block.features @ vector).astype(np.float64) + shift) * block.labels
        some = np.flatnonzero((margins < least.cut) & (known[begin : begin + len(block)] == 0))
        rows = block.features[some] * block.labels[some, np.newaxis].astype(np.float32)
        signs = np.full((len(some), len(weights) - dimension), intercept) * block.labels[some, np.newaxis]
        least.add(margins[some], begin + some, np.hstack([rows, signs.astype(np.float32)]))
        begin += len(block)
    _, places, near = least.closed()
    known[places] = 1
    return places, near.astype(np.float64)


class _Least:
    """The rows with the least margins among those that were added, with their places; a few more in between.

    Attributes
    ----------
    cut
        Rows with a margin at or above it need not be added any more.
    """

    def __init__(self, most: int, cut: float) -> None:
        self.cut = cut
        self._most = most
        self._held = 0
        self._parts: list[tuple[Floats, Indices, Singles]] = []

    def add(self, margins: Floats, places: Indices, rows: Singles) -> None:
        self._parts.append((margins, places, rows))
        self._held += len(margins)
        if self._held > 2 * self._most:
            self._parts = [self.closed()]
            self._held = self._most
            self.cut = float(self._parts[0][0].max())

    def closed(self) -> tuple[Floats, Indices, Singles]:
        margins, places, rows = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        if len(margins) <= self._most:
            return margins, places, rows
        least = np.argpartition(margins, self._most)[: self._most]
        return margins[least], places[least], rows[least]


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
