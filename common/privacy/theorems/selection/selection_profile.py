"""The exact privacy profile of a private choice among mu-GDP runs: which base is the worst, and what it costs.

K runs happen, the output of the best score is released, and K is never told
(:mod:`common.privacy.theorems.selection.private_selection`). Let f be the generating function of K, and let a mu-GDP
pair have Phi(Phi^-1(s) + mu) = T(s) as the most, and Phi(Phi^-1(x) - mu) = N(x) as the least that an event of
probability s, x on the one sample may have on the other.

**Theorem.** For every base that is mu-GDP, score included, and every epsilon >= 0, the choice is (epsilon, delta)-DP
with

    delta = int_0^1 max over 0 <= x <= 1 - s of (T'(s) f'(1 - T(s) - N(x)) - e^eps f'(1 - s - x))_+ ds.

*Proof.* Let Q and Q' be the base's laws on neighbours. Ties of scores are broken by coins that are part of the output,
which changes no law, and order the outputs by rank, the best first: t in [0, 1] is the Q'-probability of a better
output, h(t) its Q-probability. The choice has the density f'(1 - h(t)) with respect to Q, and f'(1 - t) with respect
to Q'. Let A be the event that is best for telling the samples apart, alpha(t) and beta(t) its Q'- and Q-probabilities
within the ranks better than t; then

    delta = int f'(1 - h) d beta - e^eps int f'(1 - t) d alpha,   h = beta + (what is better and not in A).

Write everything in s = alpha(t), and x(s) = t - s for the Q'-probability of what is better and not in A; x does not
decrease. As the base is mu-GDP, beta <= T(s) and h >= beta + N(x(s)). Since f' increases, delta is at most

    int f'(1 - beta - N(x)) d beta - e^eps int f'(1 - s - x) ds.

The first integral does not decrease when beta grows: with F(b, y) = f(1 - y) - f(1 - b - y) it is F(beta, N(x)) at the
end plus the integral of (f'(1 - N(x)) - f'(1 - beta - N(x))) dN(x), by the product rule; both grow with beta. So beta
= T(s) bounds it; there s + x <= 1 gives T(s) + N(x) <= T(s) + N(1 - s) = 1. What is left is at most its maximum at
each s over x.

*It is attained.* Where the x of the maximum does not decrease with s, take N(0, 1) and N(mu, 1). Let A be the largest
z, and rank them downwards among the others, which rank upwards, with x(s) of these before the place s of A: each step
of the proof is an equality. So no bound is smaller. ``benchmarks/worst_choice.py`` checks that for the laws of
docs/accounting.md.

**Numbers.** s = Phi(-z) is cut into cells, and so is x. In a cell N lies above its tangent l at a middle point, and
f'(1 - t), t = s + x, above its tangent, both being convex. So the difference is at most

    T'(s) f'(1 - T(s) - l(x)) - e^eps (a linear function of s + x).

For z > -mu the first term is convex in s (T' = e^{mu z - mu^2/2} and f'(1 - T(s) - l) are positive, convex and
decreasing), and it is convex in x. So the difference lies below the one that is linear in s and in x with the same
corners, its greatest value over x is at a corner and convex in s, and its integral over s at most the trapezoid of the
values at both ends. For z <= -mu the first term is taken at its largest. Outside of all cells it is at most E[K]
times what Q has there. f' is bounded from both sides by its Taylor polynomials, whose terms are all positive.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from common.core.arrays import Floats
from common.numerics.special import ndtr
from common.privacy.rounding import up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.selection.stopping import Stopping, weights

PLACES = 360
"""Cells of s = Phi(-z) from z = 8 + mu to -3; 30 more lie above, up to 37, and 35 below, down to -38."""

LARGEST_MU = 25.0
"""Beyond it 1 is returned: Phi(mu - 37) is no longer negligible."""

RANKS = np.linspace(-5.0, 3.0, 281)
"""y at the ends of the cells of x = Phi(y); one more lies on each side."""

NODES = 1 << 14
"""Cells of f'."""

ROOM = 1e-11
"""Relative room for the rounding of f', of T and of N: some 1e-13 of it is used."""


def delta_of_selection(mu: float, law: Stopping, epsilon: float) -> float:
    """Return the delta at epsilon of a choice among mu-GDP runs, by the module's theorem, rounded up.

    Parameters
    ----------
    mu
        Of one run, score included; positive.
    law
        Of the number of runs.
    epsilon
        At least 0.
    """
    if not any(weights(law)[1:]):  # one run, for sure
        return delta_of(mu, epsilon)
    if mu > LARGEST_MU:
        return 1.0
    gains, prices, widths, beyond = _corners(mu, law)
    most = np.max(gains - math.exp(epsilon) * prices, axis=2)
    found = 0.5 * float(widths @ np.maximum(most, 0.0).sum(axis=1))
    return min(1.0, up(found * (1.0 + 1e-10) + beyond))


@lru_cache(maxsize=4)
def _corners(mu: float, law: Stopping) -> tuple[Floats, Floats, Floats, float]:
    """Return the first term, rounded up, and f'(1 - t), rounded down, at the corners; the widths; what is outside.

    The corners are those of each cell of s: two ends, by all corners of x.
    """
    fine = np.linspace(8.0 + mu, -3.0, PLACES + 1)
    z = np.concatenate([np.linspace(37.0, 8.0 + mu, 30, endpoint=False), fine, np.linspace(-4.0, -38.0, 35)])
    taken, tail = ndtr(mu - z), ndtr(-z)
    ratio = np.exp(mu * z - mu * mu / 2.0)
    widths = np.where(z[1:] > 0.0, np.diff(tail), -np.diff(ndtr(z)))
    y = 0.5 * (np.append(RANKS[0] - 0.5, RANKS) + np.append(RANKS, RANKS[-1] + 0.5))
    edges = np.concatenate([[0.0], ndtr(RANKS), [1.0]])
    inner, slope = ndtr(y), np.exp(mu * y - mu * mu / 2.0)
    away = np.stack([edges[:-1] - inner, edges[1:] - inner], axis=1)  # cell of x, its end
    least = (ndtr(y - mu)[:, None] + slope[:, None] * away).ravel()
    curve = _slope_of(law)
    gained = ratio[:, None] * curve.upper(1.0 - taken[:, None] - least)
    ends = np.stack([gained[:-1], np.where((z[1:] > -mu)[:, None], gained[1:], gained[:-1])], axis=1)
    middle = 0.5 * (tail[1:] + tail[:-1])
    height, steep = curve.lower(1.0 - middle[:, None] - inner)
    moved = np.stack([tail[:-1] - middle, tail[1:] - middle], axis=1)[:, :, None, None] + away
    flat, fast = steep
    line = np.where(moved > 0.0, fast[:, None, :, None], flat[:, None, :, None]) * -moved
    around = np.broadcast_to(height[:, None, :, None], line.shape)
    prices = (around + line - ROOM * (around + np.abs(line))).reshape(ends.shape)
    beyond = curve.top * (float(ndtr(mu - z[0])) + float(ndtr(z[-1] - mu)))
    return ends, prices, widths, beyond


class _Slope:
    """f'(q) = sum_k k P(K = k) q^{k-1} with bounds on both sides, by Taylor polynomials on cells of [0, 1]."""

    def __init__(self, law: Stopping) -> None:
        shares = weights(law)
        total = sum(shares)
        row = np.array([k * (share / total) for k, share in enumerate(shares, start=1)])
        nodes = np.linspace(0.0, 1.0, NODES + 1)
        self._terms = []
        for order in range(4):
            found = np.zeros_like(nodes)
            for value in row[::-1].tolist():
                found = found * nodes + value
            self._terms.append(found / math.factorial(order))
            row = row[1:] * np.arange(1.0, len(row)) if len(row) > 1 else np.zeros(1)
        self.top = float(self._terms[0][-1])

    def upper(self, q: Floats) -> Floats:
        """Bound f'(q) from above; f'(0) for q < 0, and for q > 1 by the last polynomial."""
        place, step = self._place(q)
        first, second, third, last = self._terms
        return np.asarray(
            (first[place] + step * (second[place] + step * (third[place] + step * last[place + 1]))) * (1.0 + ROOM)
        )

    def lower(self, q: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
        """Bound f'(q) from below, and f''(q) from both sides; for q < 0 they are f'(0) and 0."""
        place, step = self._place(q)
        first, second, third, last = self._terms
        height = (first[place] + step * (second[place] + step * third[place])) * (1.0 - ROOM)
        steep = second[place] + step * 2.0 * third[place]
        inside = q > 0.0
        fast = (steep + step * step * 3.0 * last[place + 1]) * (1.0 + ROOM)
        return height, (np.where(inside, steep * (1.0 - ROOM), 0.0), np.where(inside, fast, 0.0))

    @staticmethod
    def _place(q: Floats) -> tuple[np.ndarray, Floats]:
        inside = np.maximum(q, 0.0)
        place = np.minimum(inside * NODES, NODES - 1.0).astype(np.int64)
        return place, inside - place / NODES


@lru_cache(maxsize=16)
def _slope_of(law: Stopping) -> _Slope:
    return _Slope(law)
