"""What an adversary reaches that chooses neighbours anew at each step, knowing all before: the value of a game.

Let each step be a mixture of laws each of which is dominated, whatever was released before, by one of the pairs (P_j,
Q_j), the *moves*. Write V_t(a) for the most that an adversary reaches at level a with t steps to go, E_j f(a) = int P_j
f(a Q_j/P_j), and T f = max_j E_j f.

**Theorem 4.** V_{t+1} <= T V_t. So H_a <= T^t V_0 at every a > 0, with V_0(a) = (1 - a)_+.

*Proof.* An adversary that takes the laws (P, Q) reaches int P V_t(a Q/P). V_t is a supremum of hockey-stick
divergences: it is convex, falls, lies between (1 - a)_+ and 1, and so is a mixture of functions (c - a)_+ and a
constant; for each of these the integral is at most that of a pair that dominates (P, Q). The integral is jointly convex
in (P, Q), so a mixture of such laws reaches no more than the best of them.

Rounds of T are costly. Two things make many at once:

**Lemma 3.** (i) If the laws of every step are dominated by one pair with the mean E, V_{t+m} <= E^m V_t. (ii) Let E be
any pair's mean, a *leader*, with

    T f <= E f + c + C a^{-theta},   and let each E_j and E multiply a^{-theta} by at most e^k, k >= 0.

Then T^m f <= E^m f + m c + m C e^{(m-1) k} a^{-theta}. *Proof.* (i) is the theorem with one move. (ii) E_j E = E E_j,
so T E^i f <= E^i max_j E_j f = E^i T f <= E^{i+1} f + c + C e^{ik} a^{-theta}; and T (f + g) <= T f + T g. Induction
over m.

Leaders are pairs somewhat dearer than all moves. As f grows smooth, its third derivative fades beside its second: moves
then differ by little more than their chi-squared, and ever cheaper leaders lead.

*On the grid.* The pairs have losses on multiples of a width w, so that values at multiples of w need only such values.
V - (1-a)_+ rises up to a = 1 and falls from there on, as V is convex with slopes from -1 to 0; so beyond the grid it is
at most what it is at its ends. (An error of C a^{-theta} at the upper end may be as large beyond it: it is added to the
constants whenever that is used.) A transform of length N errs by at most 8 log2(N) u of the 2-norm, u = 2^-52 (Higham
2002, section 24.1). Such errors, the masses at infinity and the shortfalls of pairs are constants, which
pass unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from common.core.arrays import Floats
from common.privacy.rounding import UNIT
from common.privacy.theorems.loss_grids import masses
from common.privacy.theorems.profiles import Profile

SLACK = 0.01
"""Share of delta that leaders may cost, and the same again for what is too small to be distinguished from 0."""

WORK = 1 << 29
"""So many points, of all moves in all rounds, are spent on T itself."""

ROUNDS = 400
"""Most rounds of T."""

Spectra = NDArray[np.complex128]


@dataclass(frozen=True)
class Move:
    """A pair on the grid: P's masses at losses -K w, ..., K w, at infinity, and what its profile may fall short."""

    law: Floats
    failure: float
    shortfall: float


@dataclass(frozen=True)
class GameValue:
    """Upper bounds on V_t at levels e^loss."""

    losses: Floats
    heights: Floats

    def delta(self, epsilon: float) -> float:
        """Return a bound at epsilon >= 0: chords lie above, as V_t is convex in e^epsilon."""
        place = int(np.searchsorted(self.losses, epsilon, side="right"))
        if place == 0:
            return 1.0
        if place == len(self.losses):
            return float(self.heights[-1])
        low, high = float(self.losses[place - 1]), float(self.losses[place])
        share = math.expm1(epsilon - low) / math.expm1(high - low)
        before, after = float(self.heights[place - 1]), float(self.heights[place])
        return min(1.0, (before + share * (after - before)) * (1.0 + 1e-12))


def knots(reach: int) -> list[int]:
    """Return places of the grid up to ``reach`` or just above it: all near 0, then a twentieth apart."""
    found = [0]
    while found[-1] < reach:
        found.append(found[-1] + max(1, found[-1] // 20))
    return found


def move(profiles: tuple[Profile, Profile], places: Sequence[int], width: float) -> Move | None:
    """Put bounds on H(P || Q) and H(Q || P) on a grid, with chords between some places; None if they are no pair's."""
    losses, steps = (width * np.asarray(found, dtype=np.float64) for found in (places, np.diff(places)))
    there, back = (profile.at(losses) for profile in profiles)
    there[0] = back[0] = max(there[0], back[0])
    rising, _, failure, short = masses(losses, there, steps)
    _, falling, _, short_back = masses(losses, back, steps)
    law = np.zeros(2 * places[-1] + 1)
    law[places[-1] + np.asarray(places[1:])] = rising
    law[places[-1] - np.asarray(places[1:])] = falling
    stays = 1.0 - float(law.sum()) - failure
    if stays < 0.0:
        return None
    law[places[-1]] = stays
    return Move(law, failure, max(short, short_back) + 8.0 * UNIT)


class Game:
    """Moves, leaders, and the stretch of losses on which V is kept.

    Args:
        moves, leaders: All on one grid; the last leader dominates every move, the others are tried from the first on.
        width: w.
        span: Lowest and highest loss, below and above 0.
    """

    def __init__(self, moves: Sequence[Move], leaders: Sequence[Move], width: float, span: tuple[float, float]) -> None:
        every = [*moves, *leaders]
        self._reach = len(moves[0].law) // 2
        self._width, self._zero = width, -math.floor(span[0] / width)
        self._count = math.ceil(span[1] / width) + self._zero + 1
        self._losses = width * np.arange(-self._zero, self._count - self._zero, dtype=np.float64)
        self._laws = np.array([each.law for each in every])
        self._moves = len(moves)
        self._lost = max(each.failure for each in every) + max(each.shortfall for each in every)
        self._points = next_fast_len(self._count + 4 * self._reach, real=True)
        self._spectra = _spectra(self._laws, self._points)
        self._stopped = _stopped(self._losses)
        self._first, self._first_error = self._gains()

    def value(self, steps: int, epsilon: float, delta: float) -> GameValue:
        """Return bounds for so many steps: valid everywhere, and good near epsilon if V is about delta there."""
        theta, growths = self._tilt(steps, epsilon)
        reached, lost, log_weight, done = self._stopped.copy(), 0.0, -math.inf, 0
        allowed, work = SLACK * delta / steps, min(ROUNDS, WORK // (self._points * len(self._laws)))
        most, top = float(growths[: self._moves].max()), float(self._losses[-1])
        while done < steps:
            lost += _exp(log_weight - theta * top)
            excesses, constant, greatest = self._looked(reached, theta, allowed)
            blown = _exp((steps - done - 1) * most - theta * epsilon)
            good = np.flatnonzero(excesses[:-1] * blown <= allowed)
            leader = int(good[0]) if len(good) else len(excesses) - 1
            if work > 0 and not (len(good) and leader <= len(excesses) // 3):  # a leader is not worth its price yet
                reached, work, done = greatest, work - 1, done + 1
                lost, log_weight = lost + constant + self._lost, log_weight + most
                continue
            jump = min(steps - done, max(4, done // 6))
            growth = max(most, float(growths[self._moves + leader]))
            log_weight += jump * growth
            if len(good):
                added = math.log(max(jump * float(excesses[leader]), 1e-300)) + (jump - 1) * growth
                log_weight = float(np.logaddexp(log_weight, added)) + 1e-12
                lost += jump * (constant + allowed)
            reached, error = self._jump(reached, self._laws[self._moves + leader], jump)
            lost, done = lost + jump * self._lost + error, done + jump
        errors = (lost + np.exp(np.clip(log_weight - theta * self._losses, -745.0, 300.0))) * (1.0 + 1e-9)
        return GameValue(self._losses, np.minimum(1.0, reached + errors))

    def _looked(self, reached: Floats, theta: float, allowed: float) -> tuple[Floats, float, Floats]:
        """Return each leader's C, where c is the error and ``allowed``; the error of a round of T; and T f on the grid.

        C is taken over the grid and a reach beyond: farther out f - (1-a)_+ is constant for every move.
        """
        padded = self._padded(reached - self._stopped, 2 * self._reach, self._points)
        spectrum, inner = rfft(padded), slice(self._reach, 3 * self._reach + self._count)
        wide = self._count + 2 * self._reach
        greatest = np.zeros(wide)
        losses = self._losses[0] + self._width * np.arange(-self._reach, self._count + self._reach)
        weighed = np.exp(theta * losses)
        excesses = []
        for place, (spectra, first) in enumerate(zip(self._spectra, self._first, strict=True)):
            gained = irfft(spectrum * spectra, self._points)[inner]
            gained[self._zero : self._zero + 2 * self._reach + 1] += first
            if place < self._moves:
                np.maximum(greatest, gained, out=greatest)
            else:
                excesses.append(float((np.maximum(greatest - gained - allowed, 0.0) * weighed).max()))
        error = 2.0 * (self._rounding(padded) + self._first_error)
        return np.array(excesses), error, greatest[self._reach : -self._reach] + self._stopped

    def _jump(self, reached: Floats, law: Floats, steps: int) -> tuple[Floats, float]:
        """Return E^m f for one leader, and its error: tails that wrap around, and rounding."""
        away = self._away()
        mean, square = float(law @ away), float(law @ away**2)
        side = math.ceil((12.0 * math.sqrt(steps * square) + steps * abs(mean)) / self._width) + self._reach
        points = next_fast_len(self._count + 2 * side, real=True)
        tails = 0.0
        for sign in (1.0, -1.0):
            exponents = [
                steps * math.log(float(law @ np.exp(sign * tilt * away))) - tilt * side * self._width
                for tilt in np.geomspace(0.25, 500.0 / away[-1], 60).tolist()
            ]
            tails += math.exp(min(0.0, *exponents))
        padded = self._padded(reached, side, points)
        below = self._losses[0] + self._width * np.arange(-side, 0, dtype=np.float64)
        padded[:side] = np.minimum(1.0, reached[0] - self._stopped[0] + _stopped(below))
        spectrum, base = rfft(padded), _spectra(law[None, :], points)[0]
        size, depth = np.maximum(np.abs(base), 1e-300), 8.0 * math.log2(points) * UNIT
        logs = np.log(np.where(np.abs(base) > 1e-300, base, 1e-300))
        wrong = np.exp(np.minimum(0.0, steps * np.log(size + 2.0 * depth))) - np.exp(steps * np.log(size))
        wrong = np.maximum(wrong, 0.0) + np.exp(steps * np.log(size)) * (steps * np.abs(logs) + 4.0) * 8.0 * UNIT
        moved = irfft(spectrum * np.exp(steps * logs), points)[side : side + self._count]
        error = 2.0 * float(np.abs(spectrum) @ wrong) / points
        return np.maximum(moved, self._stopped), (tails + error + self._rounding(padded)) * (1.0 + 1e-6)

    def _padded(self, values: Floats, side: int, points: int) -> Floats:
        found = np.full(points, values[-1])
        found[:side] = values[0]
        found[side : side + self._count] = values
        return found

    def _rounding(self, padded: Floats) -> float:
        return 32.0 * math.log2(len(padded)) * UNIT * float(np.sqrt(padded @ padded)) + 8.0 * UNIT

    def _away(self) -> Floats:
        return np.asarray(self._width * np.arange(-self._reach, self._reach + 1, dtype=np.float64))

    def _gains(self) -> tuple[Floats, float]:
        """Return E V_0 - V_0 for each law at losses -K w, ..., K w, and a bound on its error."""
        away = self._away().astype(np.longdouble)
        above = np.zeros((len(self._laws), len(away)), dtype=np.longdouble)
        laws = self._laws.astype(np.longdouble)
        for heights, sign in ((laws, np.ones(len(away))), (laws * np.exp(-away), -np.exp(away))):
            summed = np.cumsum(heights[:, ::-1], axis=1)[:, ::-1]
            above[:, :-1] += sign[:-1] * summed[:, 1:]
        found = above - np.maximum(-np.expm1(np.minimum(away, 0.0)), 0.0)
        each = 16.0 * (len(away) + 8.0) * float(np.finfo(np.longdouble).eps)
        return np.asarray(np.maximum(found, 0.0), dtype=np.float64), each + 8.0 * UNIT

    def _tilt(self, steps: int, epsilon: float) -> tuple[float, Floats]:
        """Return the theta that suits epsilon, and each law's k there."""
        away = self._away()
        best = (math.inf, 0.0, np.zeros(0))
        for theta in np.geomspace(1e-2, 300.0 / (away[-1] + self._losses[-1]), 120).tolist():
            growths = np.maximum(0.0, np.log(self._laws @ np.exp(theta * away))) + 1e-12
            height = steps * float(growths[: self._moves].max()) - theta * epsilon
            if height < best[0]:
                best = (height, theta, growths)
        return best[1], best[2]


def _exp(exponent: float) -> float:
    return math.exp(min(300.0, exponent))


def _stopped(losses: Floats) -> Floats:
    return np.asarray(np.maximum(-np.expm1(np.minimum(losses, 0.0)), 0.0))


def _spectra(laws: Floats, points: int) -> Spectra:
    reach = laws.shape[1] // 2
    wrapped = np.zeros((len(laws), points))
    wrapped[:, : reach + 1] = laws[:, reach:]
    wrapped[:, -reach:] = laws[:, :reach]
    return np.asarray(rfft(wrapped, axis=1))
