"""The value of a game against an adversary that chooses neighbours anew at each step, knowing all earlier releases.

docs/accounting.md, "Neighbours chosen anew each time", has the theorem and its proof. One noisy step on one draw
involves three unit Gaussians A, B and C (:mod:`common.privacy.theorems.profiles`). The privacy loss of a triple depends
only on the *Gram matrix* G of b = B - A and c = C - A, and increases with it (Lemma 1). Each triple in a ball of
diameter 1 lies below that of three points on a circle of diameter 1 that has its centre in their hull (Lemma 2): B and
C = (cos(pi/2 - psi/2), +-sin(pi/2 - psi/2))/2 and A = -(cos phi, sin phi)/2, 0 <= psi <= pi, |phi| <= (pi - psi)/2.

Let each step be a mixture of laws, each of which is dominated, for any earlier releases, by one of the pairs (P_j,
Q_j), the *moves*. Let V_t(a) be the greatest value of an adversary at level a with t steps to go, and T f(a) = max_j
int P_j f(a Q_j/P_j). Then V_{t+1} <= T V_t (Theorem 4). A *leader* E, any pair's mean with T f <= E f + c + C
a^{-theta}, makes m steps at once: T^m f <= E^m f + m c + m C e^{(m-1) k} a^{-theta}, if no move and no leader
multiplies a^{-theta} by more than e^k, k >= 0 (Lemma 3).

Lemma 1. If G <= G' (G' - G is positive semidefinite), the triple of G is the image of that of G' under a random map.
*Proof.* |l b + m c|^2 <= |l b' + m c'|^2 for all l and m, so a linear contraction M takes b' to b and c' to c; apply M
to an output and add noise of covariance 1 - M M^T.

Lemma 2. Each triple in a ball of diameter 1 lies below the triple of three points on a circle of diameter 1 that has
its centre in their hull. *Proof.* Project the centre onto the plane of the three points, and scale them up until the
smallest disc around them has diameter 1: that only adds to G. If all three points determine the disc, they are such a
triple. Otherwise two of them are the ends of a diameter. Stretch the plane perpendicular to that diameter until the
third point is on the circle: that contracts nothing. (If it lies on the diameter, lift it, which adds a positive
semidefinite matrix.)

``cover`` cuts this region of psi and phi into cells. In a cell with the centre G0, the derivatives M1 and M2 and half
the sides h1 and h2,

    G <= G0 + h1 |M1| + h2 |M2| + R,

where |M| is any matrix above M and -M (the one of least trace in a chosen metric), and R is from Taylor's theorem:
with p = |l + m| and q = |l - m|, half the second derivative of |l b + m c|^2 is at most

    (e p + f q)^2 + (p + q/2) (i p + j q),   e = h1/4 + h2/2,  f = h1/4,  i = h1^2/8 + h2^2/2,  j = h1^2/8,

as A, (B+C)/2 and (B-C)/2 move by at most h2/2, h1/4 and h1/4, have second derivatives of at most h2^2/2, h1^2/8 and
h1^2/8, and b and c are the sum of a vector of length at most 1 and plus or minus one of length at most 1/2. Cells are
cut until the chi-squared divergence of each move is at most 2% above the greatest possible one, e^{u^2} - 1. That takes
about a hundred moves.

*The profile of a move.* For a >= 1, H_a(P || Q) = s E_A (L_B - k - a L_C)_+ with k = (1-s)(a-1)/s, where L are
likelihood ratios to A. Let z be the coordinate along b and y the other one; c = (c1, c2) with c2 > 0. Given z, the mean
over y is the price of an option to exchange K = L_B(z) - k for F = a e^{c1 z - c1^2/2}:

    g(K, F) = E (K - F e^{c2 y - c2^2/2})_+ = K Phi(d) - F Phi(d - c2),   d = ln(K/F)/c2 + c2/2   (0 for K <= 0).

The mean over z is bounded on nodes a distance h apart. g is convex in (K, F), increases in K, decreases in F. In a cell
K lies below its chord, and F above e^{-(c1 h)^2/8} times its own (Hoeffding's lemma). So g(K, F) is at most the linear
interpolation of g(K, (1 - (c1 h)^2/8) F) at the nodes, whose mean is a sum with the weights int phi(z) (1 - |z -
node|/h)_+ dz <= h phi(node) (sinh(w)/w)^2, w = node h/2, as phi(node + t) <= phi(node) e^{-node t}. Beyond the last
nodes g <= L_B, whose mass there is a Gaussian tail's.

*Time.* T costs a Fourier transform per move. After enough steps V is smooth, and the moves differ by little more than
their chi-squared.

Lemma 3. (i) If the laws of every step are dominated by one pair with the mean E, V_{t+m} <= E^m V_t. (ii) Let E be any
pair's mean, a *leader*, with T f <= E f + c + C a^{-theta}, and let each E_j and E multiply a^{-theta} by at most e^k,
k >= 0. Then T^m f <= E^m f + m c + m C e^{(m-1) k} a^{-theta}.

*Proof.* (i) is the theorem with one move. (ii) E_j E = E E_j, so T E^i f <= E^i max_j E_j f = E^i T f <= E^{i+1} f + c
+ C e^{ik} a^{-theta}; and T (f + g) <= T f + T g. Induction over m.

So about a hundred first steps are computed with T. After that a leader that costs a little more than all moves makes
many steps at once, and ever cheaper leaders follow. While even the costliest does not lead yet, Theorem 1's envelope
makes the steps. The work depends on the number of steps only through its logarithm.

*On the grid.* The pairs have losses on multiples of a width w, so that values at multiples of w need only such values.
V - (1-a)_+ increases up to a = 1 and decreases from there on, as V is convex with slopes from -1 to 0. So beyond the
grid it is at most its value at the end. (An error of C a^{-theta} at the upper end may be as large beyond it; it is
added to the constants whenever that is used.) A transform of length N errs by at most 8 log2(N) 2^-52 of the 2-norm
(Higham 2002, section 24.1). Such errors, the masses at infinity and the shortfalls of pairs are additive constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from common.core.arrays import Floats
from common.privacy.rounding import UNIT
from common.privacy.theorems.loss_grids import masses
from common.privacy.theorems.profiles import Profile

MAX_CELLS = 4000  # number of cells that are tried before the rest is no longer cut
LONG = 0.1
"""Cells are also cut until squares of distances, in units of the noise, are at most u^2 + this, for the tails."""
ROUNDED = 1e-12  # added to squares of distances for rounding; the unit is the square of the diameter
Gram = tuple[float, float, float]  # |b|^2, |c|^2 and <b, c>


def chi_squared(gram: Gram, square: float) -> float:
    """Return the chi-squared divergence of B and C relative to A, e^{|b|^2} + e^{|c|^2} - 2 e^{<b,c>}.

    ``gram`` is in units of the diameter, ``square`` its square u^2 in units of the noise.
    """
    x, y, product = (square * part for part in gram)
    return math.expm1(x) + math.expm1(y) - 2.0 * math.expm1(product)


@lru_cache(maxsize=64)
def cover(ratio: float, excess: float) -> tuple[Gram, ...]:
    """Return Gram matrices such that the matrix of each triple in a ball of diameter 1 lies below one of them.

    They are valid for every u. Cells are cut until, for ``ratio``, u > 0, their chi-squared exceeds the greatest of all
    triples by at most a share ``excess``.
    """
    square = ratio * ratio
    most = (1.0 + excess) * math.expm1(square)
    longest = 1.0 + LONG / square
    waiting, grams = [(0.0, math.pi, -0.5 * math.pi, 0.5 * math.pi)], []
    count = 0
    while waiting:
        psi, psi_end, phi, phi_end = waiting.pop()
        if min(abs(phi), abs(phi_end)) * (phi * phi_end > 0.0) > 0.5 * (math.pi - psi):
            continue  # outside the region
        count += 1
        above, first, second = _upper_gram(psi, psi_end, phi, phi_end, square)
        if (chi_squared(above, square) <= most and max(above[:2]) <= longest) or count > MAX_CELLS:
            grams.append(above)
        elif first >= second:
            middle = 0.5 * (psi + psi_end)
            waiting += [(psi, middle, phi, phi_end), (middle, psi_end, phi, phi_end)]
        else:
            middle = 0.5 * (phi + phi_end)
            waiting += [(psi, psi_end, phi, middle), (psi, psi_end, middle, phi_end)]
    grams.sort(key=lambda gram: -gram[0] - gram[1])
    covering: list[Gram] = []
    for gram in grams:
        if not any(_is_below(gram, other) for other in covering):
            covering.append(gram)
    return tuple(covering)


def _vectors(psi: float, phi: float) -> tuple[Floats, Floats, tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return b and c, and their derivatives along psi and along phi."""
    half = 0.5 * psi
    b_, c_ = 0.5 * np.array([math.sin(half), math.cos(half)]), 0.5 * np.array([math.sin(half), -math.cos(half)])
    a_, d_phi = -0.5 * np.array([math.cos(phi), math.sin(phi)]), 0.5 * np.array([-math.sin(phi), math.cos(phi)])
    d_psi = (0.25 * np.array([math.cos(half), -math.sin(half)]), 0.25 * np.array([math.cos(half), math.sin(half)]))
    return b_ - a_, c_ - a_, d_psi, (d_phi, d_phi)


def _upper_gram(psi: float, psi_end: float, phi: float, phi_end: float, square: float) -> tuple[Gram, float, float]:
    """Return a matrix above those of a cell, and the cost of its first and of its second side."""
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
    first, second = (float(np.trace(metric @ (part + remainder))) for part, remainder in zip(parts, rest, strict=True))
    return ((float(total[0, 0]) + ROUNDED, float(total[1, 1]) + ROUNDED, float(total[0, 1])), first, second)


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


def _is_below(gram: Gram, other: Gram) -> bool:
    x, y, product = (o - g for g, o in zip(gram, other, strict=True))
    return x >= 0.0 and y >= 0.0 and x * y >= product * product


STEP = 0.05  # h, in units of the noise
SPAN = 9.0  # distance beyond the means of A and B up to which there are nodes
FLAT = 1e-5  # least c2: a triple on a line is lifted by this, which can only increase the bound
ERROR = 64.0 * UNIT  # bound on the rounding error of g relative to K + F; each exponent is below 1,000


def triple_profiles(tv_bound: float, gram: Gram) -> tuple[Profile, Profile]:
    """Return bounds on H(P || Q) and on H(Q || P), from level 1 on; ``gram`` is in squares of the noise's deviation."""
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
        ratios = gain - (1.0 - s) * excess / s
        positive = ratios > 0.0
        if not positive.any():
            return outside
        k, f, weight = ratios[positive], (1.0 + excess) * loss[positive], weights[positive]
        d = np.log(k / f) / c2 + c2 / 2.0
        value = k * ndtr(d) - f * ndtr(d - c2)
        return float(weight @ np.maximum(value, 0.0)) * (1.0 + 1e-12) + ERROR + outside

    def at(levels: Floats) -> Floats:
        return s * np.array([height(level) if level < 600.0 else outside for level in levels.tolist()])

    return Profile(at, math.inf)


SLACK = 0.01
"""Share of delta that leaders may cost, and again for values too small to be distinguished from 0."""
WORK = 1 << 29  # maximum number of points, over all moves and rounds, that are spent on T itself
ROUNDS = 400  # maximum number of rounds of T
Spectra = NDArray[np.complex128]


@dataclass(frozen=True)
class Move:
    """A pair on the grid: P's masses at losses -K w, ..., K w and at infinity, and the shortfall of its profile."""

    law: Floats
    failure: float
    shortfall: float


@dataclass(frozen=True)
class GameValue:
    """Upper bounds on V_t at levels e^loss."""

    losses: Floats
    heights: Floats

    def delta(self, epsilon: float) -> float:
        """Return a bound at epsilon >= 0 by linear interpolation, as V_t is convex in e^epsilon."""
        place = int(np.searchsorted(self.losses, epsilon, side="right"))
        if place == 0:
            return 1.0
        if place == len(self.losses):
            return float(self.heights[-1])
        low, high = float(self.losses[place - 1]), float(self.losses[place])
        share = math.expm1(epsilon - low) / math.expm1(high - low)
        start, end = float(self.heights[place - 1]), float(self.heights[place])
        return min(1.0, (start + share * (end - start)) * (1.0 + 1e-12))


def knots(reach: int) -> list[int]:
    """Return indices of the grid up to ``reach`` or just above it: all near 0, then in steps of a twentieth."""
    indices = [0]
    while indices[-1] < reach:
        indices.append(indices[-1] + max(1, indices[-1] // 20))
    return indices


def move(profiles: tuple[Profile, Profile], places: Sequence[int], width: float) -> Move | None:
    """Return the pair on a grid with bounds on H(P || Q) and H(Q || P), linear between ``places``; None if none."""
    losses, steps = (width * np.asarray(indices, dtype=np.float64) for indices in (places, np.diff(places)))
    forward, backward = (profile.at(losses) for profile in profiles)
    forward[0] = backward[0] = max(forward[0], backward[0])
    rising, _, failure, short = masses(losses, forward, steps)
    _, falling, _, short_back = masses(losses, backward, steps)
    law = np.zeros(2 * places[-1] + 1)
    law[places[-1] + np.asarray(places[1:])] = rising
    law[places[-1] - np.asarray(places[1:])] = falling
    zero_mass = 1.0 - float(law.sum()) - failure
    if zero_mass < 0.0:
        return None
    law[places[-1]] = zero_mass
    return Move(law, failure, max(short, short_back) + 8.0 * UNIT)


class Game:
    """Moves, leaders, and the range of losses on which V is kept: from ``span[0]`` below to ``span[1]`` above 0.

    All are on one grid. The last leader dominates every move; the others are tried from the first on.
    """

    def __init__(self, moves: Sequence[Move], leaders: Sequence[Move], width: float, span: tuple[float, float]) -> None:
        pairs = [*moves, *leaders]
        self._reach = len(moves[0].law) // 2
        self._width, self._zero = width, -math.floor(span[0] / width)
        self._count = math.ceil(span[1] / width) + self._zero + 1
        self._losses = width * np.arange(-self._zero, self._count - self._zero, dtype=np.float64)
        self._laws = np.array([pair.law for pair in pairs])
        self._moves = len(moves)
        self._lost = max(pair.failure for pair in pairs) + max(pair.shortfall for pair in pairs)
        self._points = next_fast_len(self._count + 4 * self._reach, real=True)
        self._spectra = _spectra(self._laws, self._points)
        self._terminal = _terminal(self._losses)
        self._first, self._first_error = self._gains()

    def value(self, steps: int, epsilon: float, delta: float) -> GameValue:
        """Return bounds for ``steps`` steps: valid everywhere, and tight near epsilon if V is about delta there."""
        theta, growths = self._tilt(steps, epsilon)
        values, lost, log_weight, done = self._terminal.copy(), 0.0, -math.inf, 0
        allowed, work = SLACK * delta / steps, min(ROUNDS, WORK // (self._points * len(self._laws)))
        most, top = float(growths[: self._moves].max()), float(self._losses[-1])
        while done < steps:
            lost += _exp(log_weight - theta * top)
            excesses, constant, greatest = self._evaluate(values, theta, allowed)
            factor = _exp((steps - done - 1) * most - theta * epsilon)
            eligible = np.flatnonzero(excesses[:-1] * factor <= allowed)
            leader = int(eligible[0]) if len(eligible) else len(excesses) - 1
            if work > 0 and not (len(eligible) and leader <= len(excesses) // 3):  # a leader is still too costly
                values, work, done = greatest, work - 1, done + 1
                lost, log_weight = lost + constant + self._lost, log_weight + most
                continue
            jump = min(steps - done, max(4, done // 6))
            growth = max(most, float(growths[self._moves + leader]))
            log_weight += jump * growth
            if len(eligible):
                added = math.log(max(jump * float(excesses[leader]), 1e-300)) + (jump - 1) * growth
                log_weight = float(np.logaddexp(log_weight, added)) + 1e-12
                lost += jump * (constant + allowed)
            values, error = self._jump(values, self._laws[self._moves + leader], jump)
            lost, done = lost + jump * self._lost + error, done + jump
        errors = (lost + np.exp(np.clip(log_weight - theta * self._losses, -745.0, 300.0))) * (1.0 + 1e-9)
        return GameValue(self._losses, np.minimum(1.0, values + errors))

    def _evaluate(self, values: Floats, theta: float, allowed: float) -> tuple[Floats, float, Floats]:
        """Return each leader's C, if c is the error plus ``allowed``; the error of a round of T; and T f on the grid.

        C is computed over the grid and one reach beyond: farther out f - (1-a)_+ is constant for every move.
        """
        padded = self._padded(values - self._terminal, 2 * self._reach, self._points)
        spectrum, inner = rfft(padded), slice(self._reach, 3 * self._reach + self._count)
        wide = self._count + 2 * self._reach
        greatest = np.zeros(wide)
        losses = self._losses[0] + self._width * np.arange(-self._reach, self._count + self._reach)
        weights = np.exp(theta * losses)
        excesses = []
        for place, (spectra, first) in enumerate(zip(self._spectra, self._first, strict=True)):
            image = irfft(spectrum * spectra, self._points)[inner]
            image[self._zero : self._zero + 2 * self._reach + 1] += first
            if place < self._moves:
                np.maximum(greatest, image, out=greatest)
            else:
                excesses.append(float((np.maximum(greatest - image - allowed, 0.0) * weights).max()))
        error = 2.0 * (self._rounding(padded) + self._first_error)
        return np.array(excesses), error, greatest[self._reach : -self._reach] + self._terminal

    def _jump(self, values: Floats, law: Floats, steps: int) -> tuple[Floats, float]:
        """Return E^m f for one leader, and its error from wrapped tails and rounding."""
        shifts = self._shifts()
        mean, square = float(law @ shifts), float(law @ shifts**2)
        side = math.ceil((12.0 * math.sqrt(steps * square) + steps * abs(mean)) / self._width) + self._reach
        points = next_fast_len(self._count + 2 * side, real=True)
        tails = 0.0
        for sign in (1.0, -1.0):
            exponents = [
                steps * math.log(float(law @ np.exp(sign * tilt * shifts))) - tilt * side * self._width
                for tilt in np.geomspace(0.25, 500.0 / shifts[-1], 60).tolist()
            ]
            tails += math.exp(min(0.0, *exponents))
        padded = self._padded(values, side, points)
        below = self._losses[0] + self._width * np.arange(-side, 0, dtype=np.float64)
        padded[:side] = np.minimum(1.0, values[0] - self._terminal[0] + _terminal(below))
        spectrum, base = rfft(padded), _spectra(law[None, :], points)[0]
        size, depth = np.maximum(np.abs(base), 1e-300), 8.0 * math.log2(points) * UNIT
        logs = np.log(np.where(np.abs(base) > 1e-300, base, 1e-300))
        errors = np.exp(np.minimum(0.0, steps * np.log(size + 2.0 * depth))) - np.exp(steps * np.log(size))
        errors = np.maximum(errors, 0.0) + np.exp(steps * np.log(size)) * (steps * np.abs(logs) + 4.0) * 8.0 * UNIT
        image = irfft(spectrum * np.exp(steps * logs), points)[side : side + self._count]
        error = 2.0 * float(np.abs(spectrum) @ errors) / points
        return np.maximum(image, self._terminal), (tails + error + self._rounding(padded)) * (1.0 + 1e-6)

    def _padded(self, values: Floats, side: int, points: int) -> Floats:
        padded = np.full(points, values[-1])
        padded[:side] = values[0]
        padded[side : side + self._count] = values
        return padded

    def _rounding(self, padded: Floats) -> float:
        return 32.0 * math.log2(len(padded)) * UNIT * float(np.sqrt(padded @ padded)) + 8.0 * UNIT

    def _shifts(self) -> Floats:
        return np.asarray(self._width * np.arange(-self._reach, self._reach + 1, dtype=np.float64))

    def _gains(self) -> tuple[Floats, float]:
        """Return E V_0 - V_0 for each law at losses -K w, ..., K w, and a bound on its error."""
        shifts = self._shifts().astype(np.longdouble)
        above = np.zeros((len(self._laws), len(shifts)), dtype=np.longdouble)
        laws = self._laws.astype(np.longdouble)
        for heights, sign in ((laws, np.ones(len(shifts))), (laws * np.exp(-shifts), -np.exp(shifts))):
            sums = np.cumsum(heights[:, ::-1], axis=1)[:, ::-1]
            above[:, :-1] += sign[:-1] * sums[:, 1:]
        gains = above - np.maximum(-np.expm1(np.minimum(shifts, 0.0)), 0.0)
        rounding = 16.0 * (len(shifts) + 8.0) * float(np.finfo(np.longdouble).eps)
        return np.asarray(np.maximum(gains, 0.0), dtype=np.float64), rounding + 8.0 * UNIT

    def _tilt(self, steps: int, epsilon: float) -> tuple[float, Floats]:
        """Return the best theta for epsilon, and each law's k there."""
        shifts = self._shifts()
        best = (math.inf, 0.0, np.zeros(0))
        for theta in np.geomspace(1e-2, 300.0 / (shifts[-1] + self._losses[-1]), 120).tolist():
            growths = np.maximum(0.0, np.log(self._laws @ np.exp(theta * shifts))) + 1e-12
            height = steps * float(growths[: self._moves].max()) - theta * epsilon
            if height < best[0]:
                best = (height, theta, growths)
        return best[1], best[2]


def _exp(exponent: float) -> float:
    return math.exp(min(300.0, exponent))


def _terminal(losses: Floats) -> Floats:
    return np.asarray(np.maximum(-np.expm1(np.minimum(losses, 0.0)), 0.0))


def _spectra(laws: Floats, points: int) -> Spectra:
    reach = laws.shape[1] // 2
    wrapped = np.zeros((len(laws), points))
    wrapped[:, : reach + 1] = laws[:, reach:]
    wrapped[:, -reach:] = laws[:, :reach]
    return np.asarray(rfft(wrapped, axis=1))
