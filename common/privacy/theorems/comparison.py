"""Many small releases beside a pad: each costs what a Gaussian release costs, with a proven error.

The limit theorems of Gaussian differential privacy lie below the truth (Dong, Roth and Su 2022; Bu, Dong, Long and Su
2020). Here is a bound that lies above it and has the same limit, in Lindeberg's manner: releases are replaced one by
one by Gaussian ones, while a Gaussian *pad* smooths the profile of all others.

**Theorem.** Let F_mu(a) = delta_G(ln a; mu) be the profile of mu-GDP, and m0 > 0 the pad's. Suppose that for each
admissible event, whatever was released before, every pair of neighbours' laws (P, Q) has

    (*)   int P F_m0(a Q/P) <= F_{sqrt(m0^2 + m)}(a) + d      for all a > 0

with numbers m, d that the event declares. Then releases of any adaptively chosen events with sum m <= M and sum d <=
D are (epsilon, D + delta_G(epsilon; sqrt(m0^2 + M)))-DP for every epsilon.

*Proof.* Let V(a; M, D) be the most that an adversary reaches at level a with M and D left. If it stops, V is (1 -
a)_+ <= F_m0(a). Otherwise it takes an event and a pair, and V(a) = int P V(a Q/P; M - m, D - d). By induction the
inner value is at most F_{sqrt(m0^2 + M - m)} + D - d. The profile of a composition does not depend on its order, and
F_{sqrt(m0^2 + M - m)} is that of the pad with a Gaussian release G of the square M - m; so the integral is at most
that of G with the left side of (*), by (*) that of G with F_{sqrt(m0^2 + m)} and d more, which is F_{sqrt(m0^2 + M)}
+ d. F grows with mu, so what is left unused does no harm. (The integral is H of a composition; additive constants
pass through, since int P = 1.)

**How (*) is shown.** Write H for the profile of (P, Q), h for an envelope above it, and
w(t) = e^{-t/2} (H(e^t) - (1 - e^t)_+) >= 0. Both sides of (*), less F_m0 and times e^{-ln(a)/2}, are with x = ln a

    e^{-m0^2/8} int w(t) phi_m0(x - t) dt     and     1/2 int_{m0^2}^{m0^2+m} e^{-v/8} phi_{sqrt v}(x) dv,

phi_s being the density of N(0, s^2): the first because the second derivative of c -> c F_m0(a/c) is the density of
the pad's privacy loss, the second by d delta_G/d mu = phi_1(mu/2 - eps/mu). Divided by phi_m0(x), the first is at
most K = int w(t) e^{L t - t^2/(2 m0^2)} dt, a convex function of L = x/m0^2, and the second at least (m/2)
e^{-m/8}/sqrt(1 + m/m0^2). Three facts bound w: w <= e^{-t/2} h; so w(-t) does; and 2 int w cosh(3t/2) dt <= chi^2,
since chi^2(P || Q) = 2 int (H(a) - (1 - a)_+) da in both directions. Hence for each c >= 0 and |x| <= E = L m0^2

    K <= c chi^2 + int_{-T}^{T} (e^{L t - t^2/(2 m0^2)} - 2 c cosh(3t/2))_+ e^{-|t|/2} h(e^|t|) dt

(as a supremum of convex functions over a set that mirrors t, it is largest at the end of the range of L). Losses
beyond T add h(e^T) to d at most, since int P F(a Q/P) integrates H against a measure of mass 1 at most; levels beyond
E add F_{sqrt(m0^2 + m)}(e^E) at most, since profiles decrease and excesses below level 1 mirror those above.

So m = chi^2 nearly, where the pad is wide beside the losses of one event: what the envelope pays for being worst on
both sides of level 1 at once is not paid, and there is no conversion.
"""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Floats
from common.numerics.bisection import between
from common.privacy.rounding import up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.profiles import Profile

NODES = 1500
"""Cells of the integral on each side."""

LARGEST_PART = 0.5
"""An event of which m/m0^2 would be more is no small one: it has no price here."""


def gaussian_price(profile: Profile, pad: float, allowance: float) -> float:
    """Return m of the theorem for one event with d = ``allowance``, rounded up; infinite where none is shown.

    Args:
        profile: Of one release of the event.
        pad: m0, positive.
        allowance: d, in (0, 1).
    """
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
    """Bound K of the module's proof: in a cell h is below its chord, the kernel below its greatest value.

    h is convex in e^t, so that int e^{-t/2} h over a cell of width g is at most e^{3g/2} times the trapezoid's area
    in t.
    """
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
