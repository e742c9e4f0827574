"""Recheck a certificate of steps whose neighbours are chosen anew each time: bound the game by moves of its own.

Before each step an adversary who knows all losses so far picks three unit Gaussians A, B, C with means in a ball of
diameter u; the step's laws are P = (1-s) A + s B and Q = (1-s) A + s C (docs/accounting.md, Theorem 4). Let V(x) be the
most that it reaches from loss x. A step takes V to at most T V = max over *moves* of E V, E V(x) = int P V(x - ln P/Q),
if each triple lies below a move. The theorem is that of the accountant; moves, prices and blocks are found here.

*Moves.* A triple leaks no more than another one if the Gram matrix of b = B - A and c = C - A is no larger, and
each triple lies below one of three points on the circle whose hull holds the centre (docs/accounting.md): B and C =
(sin h, +-cos h)/2 and A = -(cos f, sin f)/2, with h = psi/2, in units of u. Take a cell of psi and f with sides p, q.
Bilinear interpolation of its four corners errs by at most (p^2 D + q^2 D')/8, D and D' being bounds on the second
derivatives. Those of |l b + m c|^2 with l^2 + m^2 = 1 are 2 |v'|^2 + 2 <v, v''> with v = l b + m c, |v| <= |l| + |m|
<= sqrt 2; along psi |v'| <= sqrt(2)/4 and |v''| <= sqrt(2)/8, along f both are at most |l + m|/2 <= sqrt(2)/2. So D =
3/4 and D' = 3. An interpolation is a mixture of corners, so a matrix above the four corners and (p^2 D + q^2 D')/8
more on its diagonal lies above the cell: its move. Cells are cut until no move's chi-squared is more than
an *excess* (:data:`EXCESSES`) above the greatest that there is, e^{u^2} - 1.

*Blocks.* If T V <= E V + c + C e^{-tx} for the mean E of one pair, a *leader*, and no mean multiplies e^{-tx} by more
than e^k, then T^m V <= E^m V + m c + m C e^{(m-1) k - tx}, as means commute. The envelope of all triples always leads.

*Beyond the grid* V(x) - (1 - e^x)_+ is at most what it is at the grid's ends: V is convex in e^x with slopes from -1
to 0.

Rounds of T are computed until the bound is at most the claimed delta, or no longer falls. Prices are central values on
:data:`NODES` nodes; the errors of transforms, and all that is cut off, are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr, ndtr

from common.core.errors import AuditFailed

Floats = NDArray[np.float64]
Spectra = NDArray[np.complex128]
Gram = NDArray[np.float64]  # of b and c, shape (2, 2)

EXCESSES = (0.02, 0.01)
"""By how much a move's chi-squared may exceed the greatest of all triples: at first, and if that bound is too large."""
LONG = 0.1  # squares of a move's distances are at most u^2 and that, where so many cells do: tails matter, too
CELLS = 6000  # after so many cells the rest is taken without cutting
NODES = 800
LEADERS = (0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15)
"""By how much, beyond the excess, the squares of leaders' distances exceed the greatest."""
SLACK, CUT = 0.01, 1e-3  # shares of delta that leaders, and losses beyond the moves' ends, may cost
HOPELESS = 1.4
"""If a bound is this many times the claim, finer moves are not tried, and further rounds only while each lowers it by a
fiftieth."""
FIRST, MORE = 100, 1.3  # so many rounds before the first bound, and so many times more before each further one
ROUNDS, WORK = 1200, 1 << 31  # most rounds, and most points of all moves in all rounds
MOST_POINTS = 1 << 17
UNIT = 2.0**-52


def delta_of_game(s: float, u: float, steps: int, epsilon: float, width: float, delta: float) -> float:
    """Return an upper bound on what an adversary reaches at epsilon.

    Args:
        s, u, steps: Of the steps.
        width: Of the losses' grid.
        delta: The claim: a bound that is no larger is not improved.
    """
    if not (delta > 0.0 and u * u < 25.0 and 1e-3 * s * u < width < s * math.exp(u * u)):
        raise AuditFailed("the privacy certificate's grid is none for a game of such steps")
    bound = math.inf
    for excess in EXCESSES:
        if delta < bound < HOPELESS * delta or bound == math.inf:
            bound = min(bound, _game(s, u, steps, epsilon, width, delta, excess).bound())
    return bound


def _game(s: float, u: float, steps: int, epsilon: float, width: float, delta: float, excess: float) -> _Game:
    grams = moves(u, excess)
    leading = [np.diag([1.0 + excess + share, 1e-9]) for share in LEADERS]
    longest = max(float(np.diag(gram).max()) for gram in (*grams, *leading))
    places = _places(s, u * math.sqrt(longest), width, CUT * delta / steps)
    levels = np.exp(width * places)
    scaled = [u * u * gram for gram in (*grams, *leading)]
    pairs = [(_heights(s, gram, levels), _heights(s, gram[::-1, ::-1], levels)) for gram in scaled]
    pairs.append((_envelope(s, u, levels), _envelope(s, u, levels)))
    laws = np.array([_law(there, back, places, levels) for there, back in pairs])
    infinite = max(float(max(there[-1], back[-1])) for there, back in pairs)
    return _Game(laws, len(grams), infinite, width, steps, epsilon, delta)


# Moves --------------------------------------------------------------------------------------------------------------


def moves(u: float, excess: float) -> list[Gram]:
    """Return Gram matrices, suited to u, such that each triple in a ball of diameter 1 lies below one of them."""
    square = u * u
    most, longest = (1.0 + excess) * math.expm1(square), 1.0 + LONG / square
    cells, grams, tried = [(0.0, math.pi, -math.pi / 2, math.pi)], [], 0
    while cells:
        psi, p, f, q = cells.pop()
        if max(f, -f - q) > (math.pi - psi) / 2:
            continue  # the centre is in no hull
        tried += 1
        above = _above(psi, p, f, q, square)
        if (_chi_squared(above, square) <= most and np.diag(above).max() <= longest) or tried > CELLS:
            grams.append(above)
            continue
        halves = ([(psi, p / 2, f, q), (psi + p / 2, p / 2, f, q)], [(psi, p, f, q / 2), (psi, p, f + q / 2, q / 2)])
        costs = [max(_chi_squared(_above(a, b, c, d, square), square) for a, b, c, d in half) for half in halves]
        cells += halves[int(costs[1] < costs[0])]
    grams.sort(key=lambda gram: -float(np.trace(gram)))
    maximal: list[Gram] = []
    for gram in grams:
        if not any(_least(other - gram) >= 0.0 for other in maximal):
            maximal.append(gram)
    return maximal


def gram_of(psi: float, f: float) -> Gram:
    """Return the Gram matrix of the triple at psi and f."""
    a = -0.5 * np.array([math.cos(f), math.sin(f)])
    rows = 0.5 * np.array([[math.sin(psi / 2), math.cos(psi / 2)], [math.sin(psi / 2), -math.cos(psi / 2)]]) - a
    return np.asarray(rows @ rows.T)


def _above(psi: float, p: float, f: float, q: float, square: float) -> Gram:
    """Return a matrix above those of a cell: join the corners one by one, at least cost to chi-squared."""
    middle = gram_of(psi + p / 2, f + q / 2)
    metric = np.exp(square * middle) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    values, vectors = np.linalg.eigh(metric + 1e-3 * np.trace(metric) * np.eye(2))
    root, inverse = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    joined = gram_of(psi, f)
    for corner in (gram_of(psi + p, f), gram_of(psi, f + q), gram_of(psi + p, f + q)):
        sizes, axes = np.linalg.eigh(root @ (corner - joined) @ root)
        joined = joined + inverse @ ((axes * np.maximum(sizes, 0.0)) @ axes.T) @ inverse
    return np.asarray(joined + ((0.75 * p * p + 3.0 * q * q) / 8.0 + 1e-11) * np.eye(2))


def _chi_squared(gram: Gram, square: float) -> float:
    x, y, xy = (square * float(part) for part in (gram[0, 0], gram[1, 1], gram[0, 1]))
    return math.inf if max(x, y) > 700.0 else math.expm1(x) + math.expm1(y) - 2.0 * math.expm1(xy)


def _least(gram: Gram) -> float:
    x, y, xy = float(gram[0, 0]), float(gram[1, 1]), float(gram[0, 1])
    return (x + y) / 2.0 - math.hypot((x - y) / 2.0, xy)


# Prices -------------------------------------------------------------------------------------------------------------


def _heights(s: float, gram: Gram, levels: Floats) -> Floats:
    """Return the mean of s (L_B - (1-s)(a-1)/s - a L_C)_+ under A at levels a, given the coordinate along b."""
    x, y, xy = float(gram[0, 0]), float(gram[1, 1]), float(gram[0, 1])
    size = math.sqrt(x)
    along = xy / size if size > 1e-6 else 0.0
    across = math.sqrt(max(y - along * along, 1e-8))
    z = np.linspace(-9.0 + min(0.0, along), 9.0 + max(size, along), NODES)
    weights = np.exp(-z * z / 2.0) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
    mine = np.exp(size * z - x / 2.0) - (1.0 - s) / s * (levels[:, None] - 1.0)
    theirs = levels[:, None] * np.exp(along * z - along * along / 2.0)
    d = np.log(np.maximum(mine, 1e-300) / theirs) / across + across / 2.0
    gained = np.where(mine > 0.0, mine * ndtr(d) - theirs * ndtr(d - across), 0.0)
    return np.asarray(s * (np.maximum(gained, 0.0) @ weights))


def _envelope(s: float, u: float, levels: Floats) -> Floats:
    t = np.log1p((levels - 1.0) / s)
    return np.asarray(s * np.maximum(ndtr(u / 2 - t / u) - np.exp(np.minimum(t + log_ndtr(-u / 2 - t / u), 0.0)), 0.0))


def _places(s: float, u: float, width: float, cut: float) -> NDArray[np.int64]:
    """Return places of the grid, the farthest with a height of about ``cut``: all near 0, then ever farther apart."""
    losses = np.linspace(0.0, math.log1p(s * math.expm1(min(u * (u + 9.0), 600.0))), 4000)
    beyond = _envelope(s, u, np.exp(losses)) <= cut
    last = math.ceil(float(losses[np.argmax(beyond) if beyond.any() else -1]) / width)
    if last > MOST_POINTS // 8:
        raise AuditFailed("the privacy certificate's grid is too fine to recheck")
    places = np.concatenate([np.arange(30.0), np.geomspace(30.0, max(last, 31), 160)])
    return np.unique(np.round(places)).astype(np.int64)


def _law(there: Floats, back: Floats, places: NDArray[np.int64], levels: Floats) -> Floats:
    """Return P's masses at losses -K w, ..., K w of the pair with the chords of both profiles; the rest is infinite."""
    reach = int(places[-1])
    law = np.zeros(2 * reach + 1)
    there[0] = back[0] = max(there[0], back[0])  # the total variation, whichever way it was computed
    for heights, sign in ((there, 1), (back, -1)):
        slopes = np.append(np.diff(heights) / np.diff(levels), 0.0)
        masses = np.maximum(np.diff(slopes), 0.0)
        law[reach + sign * places[1:]] = masses * levels[1:] if sign > 0 else masses
    law[reach] = 1.0 - law.sum() - float(there[-1])
    if law[reach] < 0.0:
        raise AuditFailed("the privacy certificate's grid is too coarse for its steps")
    return law


# The game -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """After ``done`` steps V(x) <= (1 - e^x)_+ + excess + lost + e^{weight - t x}."""

    excess: Floats
    lost: float
    weight: float
    done: int


class _Game:
    """Moves, leaders after them (the last one is the envelope), and the interval of losses on which V is stored."""

    def __init__(
        self, laws: Floats, count: int, infinite: float, width: float, steps: int, epsilon: float, delta: float
    ) -> None:
        self._laws, self._count, self._infinite, self._width = laws, count, infinite, width
        self._steps, self._epsilon, self._delta = steps, epsilon, delta
        self._reach = laws.shape[1] // 2
        losses = width * np.arange(-self._reach, self._reach + 1)
        side = max(0.6 * epsilon, 3.0 * math.sqrt(steps * float((laws[:count] @ losses**2).max())), width)
        if 2.0 * side + epsilon > width * MOST_POINTS:
            raise AuditFailed("the privacy certificate's grid is too fine to recheck")
        self._zero = math.ceil(side / width)
        self._size = self._zero + math.ceil((epsilon + side) / width) + 2
        self._x = width * np.arange(-self._zero, self._size - self._zero)
        wide = width * np.arange(-self._zero - self._reach, self._size - self._zero + self._reach)
        self._points = int(next_fast_len(self._size + 4 * self._reach, real=True))
        self._spectra, self._gains, self._losses = _spectra(laws, self._points), _gains(laws, losses), losses
        tilts = np.geomspace(1e-2, 300.0 / float(losses[-1] + self._x[-1]), 120)
        growths = np.array([np.log(laws @ np.exp(t * losses)) for t in tilts]) + 1e-12
        place = int(np.argmin(steps * growths[:, :count].max(axis=1) - tilts * epsilon))
        self._tilt, self._growth = float(tilts[place]), np.maximum(growths[place], 0.0)
        self._most = float(self._growth[:count].max())
        self._weighed = np.exp(self._tilt * wide)
        self._allowed = SLACK * delta / steps

    def bound(self) -> float:
        """Return a bound at epsilon: the first that is at most delta, or the best where more rounds do not help."""
        state = _State(np.zeros(self._size), 0.0, -math.inf, 0)
        rounds, best, following = min(ROUNDS, WORK // (self._points * len(self._laws))), math.inf, FIRST
        while True:
            while state.done < min(following, rounds, self._steps):
                state = self._round(state, self._best_mean(state.excess)[0])
            bound, previous = self._final_bound(state), best
            best = min(best, bound)
            falls = bound < (0.98 if best > HOPELESS * self._delta else 0.999) * previous
            if best <= self._delta or state.done >= min(rounds, self._steps) or not falls:
                return best
            following = math.ceil(MORE * following)

    def _final_bound(self, state: _State) -> float:
        while state.done < self._steps:
            best, rest = self._best_mean(state.excess)
            blown = math.exp(min(300.0, (self._steps - state.done) * self._most - self._tilt * self._epsilon))
            leader, over = len(self._laws) - 1, 0.0
            for place in range(self._count, len(self._laws) - 1):
                more = np.maximum(best - self._mean(rest, place) - self._allowed, 0.0)
                weighed = float((more * self._weighed).max())
                if weighed * blown <= self._allowed:
                    leader, over = place, weighed
                    break
            state = self._jump(state, leader, over, min(self._steps - state.done, max(4, state.done // 6)))
        place = self._zero + int(self._epsilon / self._width)
        levels = np.expm1(self._x[place : place + 2])  # chords lie above functions that are convex in e^x
        height = float(np.interp(math.expm1(self._epsilon), levels, state.excess[place : place + 2]))
        return min(1.0, height + state.lost + math.exp(min(0.0, state.weight - self._tilt * self._epsilon)))

    def _best_mean(self, excess: Floats) -> tuple[Floats, Spectra]:
        spectrum = rfft(_padded(excess, 2 * self._reach, self._points))
        best = np.zeros(self._size + 2 * self._reach)
        for place in range(self._count):
            np.maximum(best, self._mean(spectrum, place), out=best)
        return best, spectrum

    def _mean(self, spectrum: Spectra, place: int) -> Floats:
        inner = slice(self._reach, 3 * self._reach + self._size)
        mean: Floats = irfft(spectrum * self._spectra[place], self._points)[inner]
        mean[self._zero : self._zero + 2 * self._reach + 1] += self._gains[place]
        return mean

    def _round(self, state: _State, best: Floats) -> _State:
        lost = state.lost + self._beyond(state) + self._infinite + self._rounding(state.excess)
        return _State(best[self._reach : -self._reach], lost, state.weight + self._most, state.done + 1)

    def _jump(self, state: _State, leader: int, over: float, steps: int) -> _State:
        law, excess = self._laws[leader], state.excess
        mean, square = float(law @ self._losses), float(law @ self._losses**2)
        side = math.ceil((12.0 * math.sqrt(steps * square) + steps * abs(mean)) / self._width) + self._reach
        points = next_fast_len(self._size + 2 * side, real=True)
        tails = 0.0
        for sign in (1.0, -1.0):
            tilts = np.geomspace(0.25, 500.0 / float(self._losses[-1]), 60).tolist()
            logs = [
                math.log(float(law @ np.exp(sign * t * self._losses))) * steps - t * side * self._width for t in tilts
            ]
            tails += math.exp(min(0.0, *logs))
        padded = _padded(excess, side, points)
        padded[:side] += _stopped(self._x[0] - self._width * np.arange(side, 0, -1.0))
        padded[side : side + self._size] += _stopped(self._x)
        spectrum, base = rfft(padded), _spectra(law[None, :], points)[0]
        moved = irfft(spectrum * base**steps, points)[side : side + self._size]
        depth = 16.0 * math.log2(points) * UNIT
        error = 2.0 * steps * depth * float(np.abs(spectrum) @ (np.abs(base) + depth) ** (steps - 1)) / points
        error += 4.0 * depth * float(np.linalg.norm(padded))
        grows = max(self._most, float(self._growth[leader]))
        added = math.log(max(steps * over, 1e-300)) + (steps - 1) * grows
        lost = state.lost + self._beyond(state) + tails + error
        lost += steps * (self._allowed + self._infinite + self._rounding(excess))
        weight = float(np.logaddexp(state.weight + steps * grows, added))
        return _State(np.maximum(moved - _stopped(self._x), 0.0), lost, weight, state.done + steps)

    def _beyond(self, state: _State) -> float:
        return math.exp(min(300.0, state.weight - self._tilt * float(self._x[-1])))

    def _rounding(self, excess: Floats) -> float:
        size = float(np.linalg.norm(excess)) + 2.0 * self._reach * float(excess[[0, -1]].max()) + 1.0
        return float(64.0 * math.log2(self._points) * UNIT * size)


def _stopped(x: NDArray[Any]) -> Floats:
    return np.asarray(np.maximum(-np.expm1(np.minimum(x, 0.0)), 0.0))


def _padded(values: Floats, side: int, points: int) -> Floats:
    padded = np.full(points, values[-1])
    padded[:side] = values[0]
    padded[side : side + len(values)] = values
    return padded


def _spectra(laws: Floats, points: int) -> Spectra:
    reach = laws.shape[1] // 2
    wrapped = np.zeros((len(laws), points))
    wrapped[:, : reach + 1], wrapped[:, -reach:] = laws[:, reach:], laws[:, :reach]
    return np.asarray(rfft(wrapped, axis=1))


def _gains(laws: Floats, losses: Floats) -> Floats:
    """Return E V_0 - V_0 at losses x = -K w, ..., K w.

    It is the sum of p_n (1 - e^{x - n}) over n > x where x >= 0, and of p_n (e^{x - n} - 1) over n < x where x < 0.
    """
    reach = len(losses) // 2
    other = laws * np.exp(-losses)
    above, above_other = (np.cumsum(each[:, ::-1], axis=1)[:, ::-1] for each in (laws, other))
    below, below_other = np.cumsum(laws, axis=1), np.cumsum(other, axis=1)
    gains = np.zeros_like(laws)
    gains[:, reach:-1] = (above[:, 1:] - np.exp(losses[:-1]) * above_other[:, 1:])[:, reach:]
    gains[:, 1:reach] = (np.exp(losses[1:]) * below_other[:, :-1] - below[:, :-1])[:, : reach - 1]
    return np.maximum(gains, 0.0)
