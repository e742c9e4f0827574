"""The hockey-stick profile of one triple of Gaussians in the plane, rounded up.

P = (1-s) A + s B and Q = (1-s) A + s C, with b = B - A and c = C - A given by their Gram matrix (in units of the
noise). For a >= 1

    H_a(P || Q) = s E_A (L_B - k - a L_C)_+,   k = (1-s)(a-1)/s,

L being likelihood ratios to A. Let z be the coordinate along b and y the other one; c = (c1, c2) with c2 > 0. Given z,
the mean over y is the price of an option to exchange K = L_B(z) - k for F = a e^{c1 z - c1^2/2}:

    g(K, F) = E (K - F e^{c2 y - c2^2/2})_+ = K Phi(d) - F Phi(d - c2),   d = ln(K/F)/c2 + c2/2   (0 for K <= 0).

The mean over z is bounded on nodes a distance h apart. g is convex in (K, F), grows with K and falls with F. In a cell
K lies below its chord, and F above e^{-(c1 h)^2/8} times its own (Hoeffding's lemma). So g(K, F) is at most the linear
interpolation of g(K, (1 - (c1 h)^2/8) F) at the nodes, whose mean is a sum with the weights int phi(z) (1 - |z -
node|/h)_+ dz <= h phi(node) (sinh(w)/w)^2, w = node h/2, as phi(node + t) <= phi(node) e^{-node t}. last
nodes g <= L_B, whose mass there is a Gaussian tail's.
"""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Floats
from common.numerics.special import ndtr
from common.privacy.rounding import UNIT
from common.privacy.theorems.grids.profiles import Profile
from common.privacy.theorems.grids.triples import Gram

STEP = 0.05
"""h, in units of the noise."""

SPAN = 9.0
"""So far beyond the means of A and B there are nodes."""

FLAT = 1e-5
"""Least c2: a triple on a line is lifted by that, which gives more away."""

ERROR = 64.0 * UNIT
"""Bound on the rounding error of g relative to K + F; each exponent is below 1,000."""


def triple_profiles(tv_bound: float, gram: Gram) -> tuple[Profile, Profile]:
    """Return bounds on H(P || Q) and on H(Q || P), from level 1 on.

    Parameters
    ----------
    tv_bound
        s in (0, 1].
    gram
        |b|^2, |c|^2 and <b, c> in squares of the noise's deviation, a positive semidefinite matrix.
    """
    x, y, product = gram
    return _one_way(tv_bound, x, y, product), _one_way(tv_bound, y, x, product)


def _one_way(s: float, square: float, other: float, product: float) -> Profile:
    length = math.sqrt(square)
    c1 = product / length if length > 1e-9 else 0.0
    c2 = math.sqrt(max(other - c1 * c1, FLAT * FLAT))
    first, last = -SPAN + min(0.0, c1), SPAN + max(length, c1, 0.0)
    nodes = np.linspace(first, last, math.ceil((last - first) / STEP) + 1)
    h = float(nodes[1] - nodes[0])
    w = np.abs(nodes) * h / 2.0 + 1e-9
    weights = h * np.exp(-nodes * nodes / 2.0) / math.sqrt(2.0 * math.pi) * (np.sinh(w) / w) ** 2
    gain, loss = np.exp(length * nodes - square / 2.0), np.exp(c1 * nodes - c1 * c1 / 2.0)
    loss = loss * (1.0 - (c1 * h) ** 2 / 8.0)
    outside = float(ndtr(first - length) + ndtr(length - last))

    def height(level: float) -> float:
        excess = math.expm1(level)
        kept = gain - (1.0 - s) * excess / s
        live = kept > 0.0
        if not live.any():
            return outside
        k, f, weight = kept[live], (1.0 + excess) * loss[live], weights[live]
        d = np.log(k / f) / c2 + c2 / 2.0
        value = k * ndtr(d) - f * ndtr(d - c2)
        return float(weight @ np.maximum(value, 0.0)) * (1.0 + 1e-12) + ERROR + outside

    def at(levels: Floats) -> Floats:
        return s * np.array([height(level) if level < 600.0 else outside for level in levels.tolist()])

    return Profile(at, math.inf)
