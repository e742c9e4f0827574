"""Triples of Gaussians with means in a ball, and a few that dominate them all.

One noisy step on one draw is made of three unit Gaussians A, B and C (:mod:`common.privacy.theorems.profiles`).
What a triple gives away depends on the *Gram matrix* G of b = B - A and c = C - A alone, and more of it gives away
more:

**Lemma 1.** If G <= G' (their difference is positive semidefinite), the triple of G is the image of that of G' under a
random map. *Proof.* |l b + m c|^2 <= |l b' + m c'|^2 for all l and m, so a linear contraction M takes b' to b and c' to
c; apply M to an output and add noise of covariance 1 - M M^T, which is positive semidefinite.

**Lemma 2.** Each triple in a ball of diameter 1 lies below the triple of three points on a circle of diameter 1 that
has its centre in their hull. *Proof.* Project the centre onto the plane of the three points, and blow them up until
the least disc around them has diameter 1: that only adds to G. If the disc is held by all three points, they are such
a triple. Otherwise two of them are the ends of a diameter. Stretch the plane across that diameter until the third
point is on the circle: that is no contraction of anything. (Where it lies on the diameter, lift it: a positive
semidefinite matrix is added.)

Such triples are B and C = (cos(pi/2 - psi/2), +-sin(pi/2 - psi/2))/2 and A = -(cos phi, sin phi)/2 with 0 <= psi <=
pi and |phi| <= (pi - psi)/2. :func:`cover` cuts this region into cells. In a cell with the centre G0, the derivatives
M1 and M2 and half the sides h1 and h2,

    G <= G0 + h1 |M1| + h2 |M2| + R,

where |M| is any matrix above M and -M (that of least trace in a metric of one's choice), and R is from Taylor's
theorem: with p = |l + m| and q = |l - m|, half the second derivative of |l b + m c|^2 is at most

    (e p + f q)^2 + (p + q/2) (i p + j q),   e = h1/4 + h2/2,  f = h1/4,  i = h1^2/8 + h2^2/2,  j = h1^2/8,

as A, (B+C)/2 and (B-C)/2 move at most by h2/2, h1/4 and h1/4, have second derivatives of at most h2^2/2, h1^2/8 and
h1^2/8, and b and c are the sum of a vector of length at most 1 and plus or minus one of at most 1/2.

The hockey-stick profile of one triple of Gaussians in the plane, rounded up.

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
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from common.core.arrays import Floats
from common.privacy.rounding import UNIT
from common.privacy.theorems.profiles import Profile

MAX_CELLS = 4000
"""Cells that are tried before the rest is taken as it is."""

LONG = 0.1
"""Cells are cut, too, until squares of distances, in units of the noise, are at most u^2 + that: tails matter, too."""

ROUNDED = 1e-12
"""Added to squares of distances for rounding; a unit is the diameter's square."""

Gram = tuple[float, float, float]
"""|b|^2, |c|^2 and <b, c>."""


def chi_squared(gram: Gram, square: float) -> float:
    """Return the chi-squared divergence of B and C relative to A: e^{|b|^2} + e^{|c|^2} - 2 e^{<b,c>}.

    Args:
        gram: In units of the diameter.
        square: u^2, the diameter's square in units of the noise.
    """
    x, y, product = (square * part for part in gram)
    return math.expm1(x) + math.expm1(y) - 2.0 * math.expm1(product)


@lru_cache(maxsize=64)
def cover(ratio: float, excess: float) -> tuple[Gram, ...]:
    """Return Gram matrices one of which lies above that of each triple in a ball of diameter 1.

    Args:
        ratio: u > 0. The cover is right for every u; for this one it is good.
        excess: By this share their chi-squared may exceed the greatest of all triples; cells are cut until then.
    """
    square = ratio * ratio
    most = (1.0 + excess) * math.expm1(square)
    longest = 1.0 + LONG / square
    waiting, found = [(0.0, math.pi, -0.5 * math.pi, 0.5 * math.pi)], []
    tried = 0
    while waiting:
        psi, psi_end, phi, phi_end = waiting.pop()
        if min(abs(phi), abs(phi_end)) * (phi * phi_end > 0.0) > 0.5 * (math.pi - psi):
            continue  # outside of the region
        tried += 1
        above, first, second = _above(psi, psi_end, phi, phi_end, square)
        if (chi_squared(above, square) <= most and max(above[:2]) <= longest) or tried > MAX_CELLS:
            found.append(above)
        elif first >= second:
            middle = 0.5 * (psi + psi_end)
            waiting += [(psi, middle, phi, phi_end), (middle, psi_end, phi, phi_end)]
        else:
            middle = 0.5 * (phi + phi_end)
            waiting += [(psi, psi_end, phi, middle), (psi, psi_end, middle, phi_end)]
    found.sort(key=lambda gram: -gram[0] - gram[1])
    kept: list[Gram] = []
    for gram in found:
        if not any(_below(gram, other) for other in kept):
            kept.append(gram)
    return tuple(kept)


def gram_of(psi: float, phi: float) -> Gram:
    """Return the Gram matrix of the triple at psi and phi."""
    b, c, _, _ = _vectors(psi, phi)
    return float(b @ b), float(c @ c), float(b @ c)


def _vectors(psi: float, phi: float) -> tuple[Floats, Floats, tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return b and c, and their derivatives along psi and along phi."""
    half = 0.5 * psi
    b_, c_ = 0.5 * np.array([math.sin(half), math.cos(half)]), 0.5 * np.array([math.sin(half), -math.cos(half)])
    a_, turned = -0.5 * np.array([math.cos(phi), math.sin(phi)]), 0.5 * np.array([-math.sin(phi), math.cos(phi)])
    moved = (
        0.25 * np.array([math.cos(half), -math.sin(half)]),
        0.25 * np.array([math.cos(half), math.sin(half)]),
    )
    return b_ - a_, c_ - a_, moved, (turned, turned)


def _above(psi: float, psi_end: float, phi: float, phi_end: float, square: float) -> tuple[Gram, float, float]:
    """Return a matrix above those of a cell, and what its first and its second side cost."""
    h1, h2 = 0.5 * (psi_end - psi), 0.5 * (phi_end - phi)
    b, c, along_psi, along_phi = _vectors(0.5 * (psi + psi_end), 0.5 * (phi + phi_end))
    x, y, product = float(b @ b), float(c @ c), float(b @ c)
    metric = np.array(
        [[math.exp(square * x), -math.exp(square * product)], [-math.exp(square * product), math.exp(square * y)]]
    )
    metric += 1e-3 * np.trace(metric) * np.eye(2)
    parts = [
        side * _absolute(np.array([[2 * b @ db, db @ c + b @ dc], [db @ c + b @ dc, 2 * c @ dc]]), metric)
        for side, (db, dc) in ((h1, along_psi), (h2, along_phi))
    ]
    rest = [_remainder(h1, 0.0), _remainder(0.0, h2)]
    total = np.array([[x, product], [product, y]]) + parts[0] + parts[1] + _remainder(h1, h2)
    first, second = (float(np.trace(metric @ (part + left))) for part, left in zip(parts, rest, strict=True))
    return (
        (float(total[0, 0]) + ROUNDED, float(total[1, 1]) + ROUNDED, float(total[0, 1])),
        first,
        second,
    )


def _absolute(matrix: Floats, metric: Floats) -> Floats:
    values, vectors = np.linalg.eigh(metric)
    root, inverse = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    sizes, axes = np.linalg.eigh(root @ matrix @ root)
    return np.asarray(inverse @ ((axes * np.abs(sizes)) @ axes.T) @ inverse)


def _remainder(h1: float, h2: float) -> Floats:
    e, f, i, j = h1 / 4 + h2 / 2, h1 / 4, h1 * h1 / 8 + h2 * h2 / 2, h1 * h1 / 8
    mixed = 0.5 * (j + 0.5 * i)
    along = 2.0 * e * e + i + 4.0 * mixed
    across = 2.0 * f * f + 0.5 * j + 0.25 * mixed
    return along * np.array([[1.0, 1.0], [1.0, 1.0]]) + across * np.array([[1.0, -1.0], [-1.0, 1.0]])


def _below(gram: Gram, other: Gram) -> bool:
    x, y, product = (o - g for g, o in zip(gram, other, strict=True))
    return x >= 0.0 and y >= 0.0 and x * y >= product * product


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

    Args:
        tv_bound: s in (0, 1].
        gram: |b|^2, |c|^2 and <b, c> in squares of the noise's deviation, a positive semidefinite matrix.
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
