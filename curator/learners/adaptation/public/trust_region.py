"""The greatest value of a quadratic function on a ball, globally, with a certificate (a trust-region problem).

    maximize  w'Aw - 2 b'w + c   over ||w|| <= R

is not concave, and still has no gap to its dual (Boyd and Vandenberghe, Appendix B): in the basis of A's eigenvectors,

    g(nu) = c + nu R^2 + sum_i b_i^2 / (nu - a_i),   nu >= max(a_1, 0), a_1 the greatest eigenvalue,

is an upper bound for every such nu, convex, and least where ||w(nu)|| = R, w(nu)_i = -b_i/(nu - a_i) (the secular
equation); where even the least nu has a shorter w, that w is completed along the first eigenvector (the *hard case*, in
which b has no part there), or is inside the ball already (nu = 0).

The difference-of-convex algorithm (DCA), which the paper names, stops at points that are only locally greatest: on the
interval [-1, 1] with A = 1, b = -.001, c = 0 it stops at -1, if it begins there, with .998 where 1.002 is right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats

_ROUNDING = 2.0**-50
"""What eigenvectors and sums lose for each coordinate, in shares of the terms' size."""


class Greatest(NamedTuple):
    """The answer: the greatest value is in [value - gap, value].

    Attributes
    ----------
    value
        The dual bound.
    gap
        Its distance to what ``point`` reaches, and the allowance for rounding.
    point
        w, shape (d,), within the ball.
    """

    value: float
    gap: float
    point: Floats


def greatest_on_ball(quadratic: Floats, linear: Floats, constant: float, radius: float) -> Greatest:
    """Maximize ``w'Aw - 2 b'w + c`` over ``||w|| <= radius``.

    Parameters
    ----------
    quadratic
        A, shape (d, d), symmetric; of any signs.
    linear
        b, shape (d,).
    constant
        c.
    radius
        R, positive.
    """
    values, vectors = np.linalg.eigh(quadratic)
    b = vectors.T @ linear
    floor = max(float(values[-1]), 0.0)
    distances = floor - values  # all at least 0; the last is 0 where A has a positive eigenvalue
    excess = _excess(distances, b, radius)
    w = _point(distances, b, excess)
    if floor > 0.0:
        # The hard case, or what rounding leaves of the norm: completed where it costs nothing.
        missing = radius * radius - float(w @ w)
        w[-1] = math.copysign(math.sqrt(max(missing + w[-1] * w[-1], 0.0)), -b[-1])
    w *= min(1.0, radius / max(float(np.linalg.norm(w)), radius))
    reached = float(values @ (w * w) - 2.0 * (b @ w)) + constant
    with np.errstate(divide="ignore", invalid="ignore"):
        dual = np.where(b == 0.0, 0.0, b * b / (distances + excess))
    bound = constant + (floor + excess) * radius * radius + float(dual.sum())
    size = float(np.abs(values).max()) * radius * radius + 2.0 * float(np.linalg.norm(b)) * radius + abs(constant)
    rounding = _ROUNDING * len(b) * size
    point = vectors @ w
    point *= min(1.0, radius / max(float(np.linalg.norm(point)), radius))
    return Greatest(bound + rounding, max(bound - reached, 0.0) + 2.0 * rounding, point)


def _point(distances: Floats, b: Floats, excess: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0.0, 0.0, -b / (distances + excess))


def _excess(distances: Floats, b: Floats, radius: float) -> float:
    """Return nu beyond its least value: the root of ||w|| = radius, or 0 where w is shorter from the start."""

    def length(excess: float) -> float:
        return float(np.linalg.norm(_point(distances, b, excess)))

    if length(0.0) <= radius:
        return 0.0
    # From ||b||/radius on, every denominator is large enough.
    high = max(math.sqrt(len(b)) * float(np.abs(b).max()) / radius, np.finfo(np.float64).tiny)
    while length(high) > radius:
        high *= 2.0
    low = high
    while length(low) <= radius:
        low, high = 0.5 * low, low
    from scipy.optimize import brentq  # here, since it takes a fifth of a second to load, and one learner needs it

    # 1/||w|| is nearly straight in nu.
    return float(brentq(lambda excess: 1.0 / length(excess) - 1.0 / radius, low, high, xtol=5e-324, rtol=2.0**-50))
