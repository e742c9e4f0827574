"""Many small releases beside a pad: each costs what a Gaussian release costs, with a proven error.

**Theorem** (docs/accounting.md, Theorem 2, with its proof). Let F_mu(a) = delta_G(ln a; mu) be the profile of mu-GDP,
and m0 > 0 the pad's. Suppose that for each admissible event, whatever was released before, every pair of neighbours'
laws (P, Q) has

    (*)   int P F_m0(a Q/P) <= F_{sqrt(m0^2 + m)}(a) + d      for all a > 0

with numbers m, d that the event declares. Then releases of any adaptively chosen events with sum m <= M and sum d <= D
are (epsilon, D + delta_G(epsilon; sqrt(m0^2 + M)))-DP for every epsilon.

For the envelope h of an event, (*) holds for d = h(e^T) + F_{sqrt(m0^2 + m)}(e^E) where, with L = E/m0^2 and any c >=
0,

    c chi^2 + int_{-T}^{T} (e^{L t - t^2/(2 m0^2)} - 2 c cosh(3t/2))_+ e^{-|t|/2} h(e^|t|) dt  =  K
    K <= (m/2) e^{-m/8} / sqrt(1 + m/m0^2).

So m = chi^2 nearly, where the pad is wide beside the losses of one event.
"""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Floats
from common.numerics.bisection import between
from common.privacy.rounding import up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.profiles import Profile

NODES = 1500  # cells of the integral on each side
LARGEST_PART = 0.5  # an event of which m/m0^2 would be more is no small one: it has no price here


def gaussian_price(profile: Profile, pad: float, allowance: float) -> float:
    """Return m of the theorem for a pad m0 and d = ``allowance`` in (0, 1), rounded up; infinite if none is shown."""
    widest = pad * math.sqrt(1.0 + LARGEST_PART)
    reach = _reach(profile, allowance / 2.0)
    if reach > 40.0 * pad or delta_of(widest, 0.0) <= allowance / 2.0:
        return math.inf
    end = between(80.0 * widest, 0.0, lambda level: delta_of(widest, level) <= allowance / 2.0, 1e-3)
    price = 2.0 * _moment(profile, pad, end, reach)
    found = price
    while found <= min(LARGEST_PART * pad * pad, 100.0):
        needed = up(price * math.exp(found / 8.0) * math.sqrt(1.0 + found / (pad * pad)), 16.0)
        if needed <= found:
            return found
        found = needed * (1.0 + 1e-12)
    return math.inf


def _reach(profile: Profile, failure: float) -> float:
    """Return a T with h(e^T) <= failure."""
    low, high = 1e-12, 60.0
    for _ in range(2):
        levels = np.geomspace(low, high, 64)
        below = np.flatnonzero(profile.at(levels) <= failure)
        if len(below) == 0:
            return math.inf
        low, high = float(levels[max(below[0] - 1, 0)]), float(levels[below[0]])
    return high


def _moment(profile: Profile, pad: float, end: float, reach: float) -> float:
    # In a cell the kernel is below its greatest value, and h, convex in e^t, below its chord: int e^{-t/2} h
    # over a cell of width g is at most e^{3g/2} times the area of the trapezoid in t.
    nodes = reach * np.linspace(0.0, 1.0, NODES + 1) ** 1.5
    low, high = nodes[:-1], nodes[1:]
    height = np.exp(-nodes / 2.0) * profile.at(nodes)
    area = (high - low) * 0.5 * (height[:-1] + height[1:]) * np.exp(1.5 * (high - low))
    slope, spread = end / (pad * pad), 2.0 * pad * pad
    exponents = slope * high - low * low / spread
    if exponents.max() > 700.0:
        return math.inf
    rising = np.exp(exponents)
    falling = np.exp(-slope * low - low * low / spread)
    base = 2.0 * np.cosh(1.5 * low)
    kernel, weight = np.concatenate([rising, falling]), np.concatenate([base, base])
    return _least(kernel, weight, np.concatenate([area, area]), profile.chi_squared)


def _least(kernel: Floats, weight: Floats, area: Floats, chi_squared: float) -> float:
    """Return min over c of c chi^2 + sum (kernel - c weight)_+ area, rounded up: the corners suffice."""
    corners = kernel / weight
    order = np.argsort(corners)[::-1]
    gained, mass = np.cumsum((kernel * area)[order]), np.cumsum((weight * area)[order])
    found = whole = float(gained[-1])
    if math.isfinite(chi_squared):
        c = corners[order]
        found = min(whole, float(np.min(c * chi_squared + np.maximum(gained - c * mass, 0.0))))
    return found * (1.0 + 1e-9) + 1e-11 * whole
