"""Privacy profiles: upper bounds on an event's divergence at each level, for every pair of neighbours at once.

The hockey-stick divergence of a pair of laws is H_a(P || Q) = sup_E P(E) - a Q(E); (epsilon, delta)-DP means that
H_{e^epsilon} <= delta for all pairs of neighbours. A :class:`Profile` is an upper bound t -> H(e^t), t >= 0, on it,
for every pair of neighbours in both directions. Below level 1 the other direction determines it: H_a(P || Q) = 1 - a +
a H_{1/a}(Q || P). The *upper envelope* of a set of profiles is a profile itself and has a dominating pair (Zhu, Dong
and Wang 2022), even if no single pair of neighbours is worst at each level, as for replacement (Lebeda, Regehr, Kamath
and Steinke 2024).

**Many small releases beside a pad** each cost what a Gaussian release costs (docs/accounting.md, Theorem 2, with its
proof). Let F_mu(a) = delta_G(ln a; mu) be the profile of mu-GDP, and m0 > 0 the pad's. Suppose that for each admissible
event, for any earlier releases, every pair of neighbours' laws (P, Q) satisfies, for all a > 0,

    (*)   int P F_m0(a Q/P) <= F_{sqrt(m0^2 + m)}(a) + d

with numbers m, d that the event declares. Then releases of any adaptively chosen events with sum m <= M and sum d <= D
are (epsilon, D + delta_G(epsilon; sqrt(m0^2 + M)))-DP for every epsilon. For the envelope h of an event, (*) holds for
d = h(e^T) + F_{sqrt(m0^2 + m)}(e^E) where, with L = E/m0^2 and any c >= 0,

    c chi^2 + int_{-T}^{T} (e^{L t - t^2/(2 m0^2)} - 2 c cosh(3t/2))_+ e^{-|t|/2} h(e^|t|) dt  =  K
    K <= (m/2) e^{-m/8} / sqrt(1 + m/m0^2).

*Proof of the condition* (*) for an event, by an inequality in one variable. Let H be the profile of (P, Q), h an
envelope above it, phi_s the density of N(0, s^2), and w(t) = e^{-t/2} (H(e^t) - (1 - e^t)_+) >= 0. Both sides, minus
F_m0 and times e^{-ln(a)/2}, are with x = ln a

    e^{-m0^2/8} int w(t) phi_m0(x - t) dt     and     1/2 int_{m0^2}^{m0^2+m} e^{-v/8} phi_{sqrt v}(x) dv:

the first because the second derivative of c -> c F_m0(a/c) is the density of the pad's privacy loss, the second by d
delta_G/d mu = phi_1(mu/2 - eps/mu). Divided by phi_m0(x), the first is at most K = int w(t) e^{L t - t^2/(2 m0^2)} dt,
a convex function of L = x/m0^2, and the second at least (m/2) e^{-m/8}/sqrt(1 + m/m0^2). Three facts bound w: w <=
e^{-t/2} h; so w(-t) does; and 2 int w cosh(3t/2) dt <= V, the bound on chi^2, since chi^2(P || Q) = 2 int (H(a) - (1 -
a)_+) da in both directions. As a supremum of convex functions over a set that mirrors t, the bound on K is largest at
the end of the range |x| <= E. Losses beyond T add h(e^T) to d at most, since int P F(a Q/P) integrates H against a
measure of mass 1 at most; levels beyond E add F_{sqrt(m0^2 + m)}(e^E) at most, since profiles decrease and excesses
below level 1 mirror those above. So the condition follows. K is bounded cell by cell: h by its chord, the kernel by its
greatest value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from common.core.arrays import Floats
from common.numerics.bisection import between
from common.privacy.rounding import UNIT, up
from common.privacy.theorems.gaussian_dp import delta_of


@dataclass(frozen=True)
class Profile:
    """An upper bound on the hockey-stick divergences of all pairs of neighbours.

    Attributes:
        at: t >= 0 -> an upper bound on H(e^t), in both directions; does not increase with t.
        chi_squared: An upper bound on the chi-squared divergence in both directions; infinite where none is known.
    """

    at: Callable[[Floats], Floats]
    chi_squared: float


def gaussian_excess(mu: float, levels: Floats) -> Floats:
    """Return delta_G(t; mu) at each t >= 0, of any shape, rounded up: ``gaussian_dp.delta_of`` for arrays."""
    x, y = levels / mu - mu / 2.0, levels / mu + mu / 2.0
    distance = np.maximum(x, 0.0)
    density = np.exp(-distance * distance / 2.0) / math.sqrt(2.0 * math.pi)
    mills = math.sqrt(math.pi / 2.0)
    upper, lower = mills * erfcx(distance / math.sqrt(2.0)), mills * erfcx(y / math.sqrt(2.0))
    slack = (32.0 + 8.0 * distance * distance) * UNIT
    tail = density * ((upper - lower) * (1.0 + slack) + 32.0 * UNIT * upper * (1.0 + levels / mu)) + 5e-324
    near = ndtr(-x) - np.exp(np.minimum(levels + log_ndtr(-y), 0.0)) + (64.0 + 8.0 * levels) * UNIT
    return np.asarray(np.minimum(1.0, np.where(x > 0.0, tail, near)))


def step_profile(tv_bound: float, ratio: float) -> Profile:
    """Return the exact upper envelope over all neighbours of one noisy gradient step on one draw from mu, s in (0, 1].

        H(a) = s delta_G(ln(1 + (a - 1)/s); u),  a >= 1;      chi^2 <= s^2 (e^{u^2} - 1)

    P = (1-s) A + s B and Q = (1-s) A + s C, where A, B and C are mixtures of unit Gaussians with means in a ball of
    diameter u. The proof is that of Theorem 1 in docs/accounting.md. Equality holds for A = C and |B - A| = u and, by
    symmetry, below level 1 for A = B, so no geometry is worst at both. The chi-squared divergence needs the ball:
    :func:`common.privacy.theorems.renyi.closed_form`, order 2. It is *less* than that of the envelope, by up to a
    factor of two.
    """

    def at(levels: Floats) -> Floats:
        inner = np.where(levels < 30.0, np.log1p(np.expm1(np.minimum(levels, 30.0)) / tv_bound), 0.0)
        inner = np.where(levels < 30.0, inner, levels + math.log((1.0 - 2.0**-43) / tv_bound))
        return np.asarray(
            tv_bound * gaussian_excess(ratio, np.maximum(inner * (1.0 - 16.0 * UNIT), 0.0)) * (1.0 + UNIT)
        )

    square = ratio * ratio
    chi_squared = up(tv_bound * tv_bound * math.expm1(square), 16.0 * (1.0 + square)) if square < 500.0 else math.inf
    return Profile(at, chi_squared)


def gaussian_profile(mu: float) -> Profile:
    """Return the profile of a mu-GDP release."""
    return step_profile(1.0, mu)


def release_profile(epsilon: float, delta: float) -> Profile:
    """Return the profile of (epsilon, delta)-DP releases: of the worst one (Kairouz, Oh and Viswanath 2015, Theorem 2).

    H(e^t) = delta + (1 - delta) (e^epsilon - e^t)_+ / (1 + e^epsilon)
    """

    def at(levels: Floats) -> Floats:
        gap = np.maximum(epsilon - levels, 0.0)
        pure = -np.expm1(-gap) / (1.0 + math.exp(-epsilon))
        return np.asarray(np.minimum(1.0, (delta + (1.0 - delta) * pure) * (1.0 + 32.0 * UNIT)))

    chi_squared = math.inf if delta > 0.0 or epsilon > 500.0 else up(4.0 * math.sinh(epsilon / 2.0) ** 2, 64.0)
    return Profile(at, chi_squared)


NODES = 1500  # cells of the integral on each side
LARGEST_PART = 0.5  # an event with a greater m/m0^2 is not small and has no price here


def gaussian_price(profile: Profile, pad: float, allowance: float) -> float:
    """Return m of the theorem for a pad m0 and d = ``allowance`` in (0, 1), rounded up; infinite if none is shown."""
    widest = pad * math.sqrt(1.0 + LARGEST_PART)
    reach = _reach(profile, allowance / 2.0)
    if reach > 40.0 * pad or delta_of(widest, 0.0) <= allowance / 2.0:
        return math.inf
    end = between(80.0 * widest, 0.0, lambda level: delta_of(widest, level) <= allowance / 2.0, 1e-3)
    price = 2.0 * _moment(profile, pad, end, reach)
    candidate = price
    while candidate <= min(LARGEST_PART * pad * pad, 100.0):
        needed = up(price * math.exp(candidate / 8.0) * math.sqrt(1.0 + candidate / (pad * pad)), 16.0)
        if needed <= candidate:
            return candidate
        candidate = needed * (1.0 + 1e-12)
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
    kernel_mass, mass = np.cumsum((kernel * area)[order]), np.cumsum((weight * area)[order])
    bound = total = float(kernel_mass[-1])
    if math.isfinite(chi_squared):
        c = corners[order]
        bound = min(total, float(np.min(c * chi_squared + np.maximum(kernel_mass - c * mass, 0.0))))
    return bound * (1.0 + 1e-9) + 1e-11 * total
