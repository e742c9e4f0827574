"""Privacy losses on a grid, a discrete pair of laws that dominates an event; and their composition by one transform.

A profile H is convex in its level a. The chords between its values at a_j = e^{j w} lie above it, and are themselves
the profile of a pair of laws whose privacy losses are multiples of w: its second law has at a_j the mass by which the
slope changes there (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots"). The profiles here bound
both directions, so the pair is symmetric: the first law has the second's mass at loss -j w, and no grid below level 1
is needed. Beyond the last level the chord is constant, which is a loss of infinity with that mass. The masses as
floating-point numbers *define* the pair. Its own profile, summed up again from them, falls short of the true one by at
most ``shortfall``, and a composition of k such pairs with any others by at most k times that.

The loss of a composition is a sum of independent losses, and its profile is

    delta(epsilon) = sum_n P(sum = n w) (1 - e^{epsilon - n w})_+  +  what is infinite.

*Tilting.* Masses are first multiplied by e^{theta n w} and normalized, which moves the sum to the relevant losses, and
divided by the same factor at the end. An error E of a tilted mass at n counts e^{K(theta) - theta n w} E, where K is
the cumulant generating function, so errors are *relative* to delta. *Aliasing.* A transform of length N wraps the line
around. Mass wrapped into the window only adds; mass missing above its top is at most e^{K(t) - t top}, for every t > 0
(Chernoff). *Floating point.* Each output of a transform errs by at most 8 log2(N) u sum|x| (Higham 2002, section
24.1; u = 2^-52). A characteristic function phi that errs by e at a frequency has a k-th power that errs by at most
(|phi| + e)^k - |phi|^k; the inverse transform adds the mean of these errors, and its own, to each mass (Gopi, Lee and
Wutschitz 2021; Koskela, Jalko and Honkela 2020). Every width of the cells gives a valid bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from common.core.arrays import Floats
from common.numerics.bisection import between
from common.privacy.rounding import MAX_EPSILON, UNIT
from common.privacy.theorems.profiles import Profile

MAX_CELLS = 1 << 18  # maximum number of cells of a grid on one side
ROUNDED = 1e-9  # amount by which masses may exceed 1 in sum because of rounding


@dataclass(frozen=True)
class LossGrid:
    """The losses of one release, on multiples of a width.

    Attributes:
        rising, falling: Mass under the first law at losses w, 2 w, ..., J w and at -w, -2 w, ..., -J w; rounded up.
        failure: Mass at a loss of infinity.
        shortfall: Greatest excess of the true profile over this pair's, at any level.
    """

    rising: Floats
    falling: Floats
    failure: float
    shortfall: float


def connect_dots(profile: Profile, width: float, cut: float) -> LossGrid | None:
    """Put a profile on a grid, up to the loss where it is at most ``cut`` above its value at infinity.

    Returns None if the grid would have more than :data:`MAX_CELLS` cells, or if no pair has these chords.
    """
    last = math.ceil(reach(profile, cut) / width)
    if last > MAX_CELLS:
        return None
    losses = width * np.arange(last + 1, dtype=np.float64)
    rising, falling, failure, shortfall = masses(losses, profile.at(losses), width)
    excess = float(rising.sum() + falling.sum() + failure) - 1.0
    if excess > ROUNDED:  # no law: loose bounds may leave no mass at 0
        return None
    if excess > 0.0:  # the law has no mass at 0, and slopes on narrow cells are rounded: removed mass is shortfall
        rising, falling = rising * (1.0 - excess), falling * (1.0 - excess)
        shortfall += 2.0 * excess
    return LossGrid(rising, falling, failure, shortfall)


def masses(losses: Floats, heights: Floats, steps: Floats | float) -> tuple[Floats, Floats, float, float]:
    """Return the pair whose profile consists of the chords between heights at levels e^loss, in floating point.

    Args:
        losses: Ascending, from 0.
        heights: Values of a convex function of the level.
        steps: Distances from each loss to the next.

    Returns:
        The first law's masses at all losses but 0, the second's there, the first's at infinity, and the shortfall.
    """
    levels = np.exp(losses)
    gaps = levels[:-1] * np.expm1(steps)
    slopes = np.append(np.diff(heights) / gaps, 0.0)
    falling = np.maximum(np.diff(slopes), 0.0)
    # The profile of the floating-point masses: slopes and heights summed up again from the far end.
    steepness = np.cumsum(falling[::-1])[::-1]
    rounded = heights[-1] + np.append(np.cumsum((steepness * gaps)[::-1])[::-1], 0.0)
    error = 8.0 * (len(losses) - 1 + 16.0 + losses[-1]) * UNIT * float(rounded[0])
    shortfall = max(0.0, float(np.max(heights - rounded))) + error
    rising = falling * levels[1:] * (1.0 + 8.0 * (1.0 + losses[-1]) * UNIT)
    return rising, falling, float(heights[-1]), shortfall


def reach(profile: Profile, cut: float) -> float:
    """Return a loss from which on the profile is at most ``cut`` above its value at infinity."""
    losses = np.geomspace(1e-12, MAX_EPSILON, 1024)
    below = np.flatnonzero(profile.at(losses) <= cut + profile.at(np.array([MAX_EPSILON])))
    return float(losses[below[0]])


MAX_POINTS = 1 << 20  # longest transform
TILTS: tuple[float, ...] = tuple(np.geomspace(2.0**-4, 2.0**36, 241).tolist())  # values of theta that are tried
_DEVIATIONS = 10.0  # half the window in standard deviations of the tilted sum, unless Chernoff's bound needs more


@dataclass(frozen=True)
class ComposedLosses:
    """Tilted masses of a composition, from which its delta is computed.

    Attributes:
        losses: n w, ascending.
        masses: Upper bounds on the tilted masses there.
        log_scale: An upper bound on K(theta); theta is ``tilt``.
        beyond: An upper bound on everything outside the window: losses above its top, infinite losses, and the
            shortfalls of the grids.
    """

    losses: Floats
    masses: Floats
    log_scale: float
    tilt: float
    beyond: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the composition's delta at epsilon >= 0."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        if first == 0:  # the window begins above epsilon, and the masses in between are unknown
            return 1.0
        heights, areas, room = self._tails
        if first == len(self.losses):
            return min(1.0, self.beyond)
        # e^{epsilon - n w} is computed from the first loss above epsilon on, to avoid overflow.
        gap = float(self.losses[first]) - epsilon
        excess = float(heights[first]) * (1.0 + room) - math.exp(-gap) * float(areas[first]) * (1.0 - room)
        return min(1.0, excess + self.beyond)

    @cached_property
    def _tails(self) -> tuple[Floats, Floats, float]:
        """Return the mass from each loss on, that mass times e^{this loss - loss}, and their relative error."""
        exponents = self.log_scale - self.tilt * self.losses
        tilted = self.masses * np.exp(np.clip(exponents, -745.0, 700.0))
        step = float(self.losses[1] - self.losses[0])
        heights = np.cumsum(tilted[::-1])[::-1]
        # B_i = w_i + e^{-step} B_{i+1}: within the rows of a square, then down the rows. All terms are positive, and so
        # an area errs by a few units for each of the 2 sqrt(n) steps, and 745 for the exponents above e^-745.
        side = math.isqrt(len(tilted)) + 1
        square = np.zeros((side, side))
        square.flat[: len(tilted)] = tilted
        for place in range(side - 1, 0, -1):
            square[:, place - 1] += math.exp(-step) * square[:, place]
        decay = np.exp(-step * np.arange(side, 0, -1, dtype=np.float64))
        for place in range(side - 1, 0, -1):
            square[place - 1] += decay * square[place, 0]
        areas = square.ravel()[: len(tilted)]
        size = abs(self.log_scale) + self.tilt * float(np.max(np.abs(self.losses)))
        return heights, areas, (8.0 * size + 4.0 * len(self.losses) + 64.0) * UNIT

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with a delta of at most ``delta``, rounded up; infinite if none is shown."""
        if self.delta(0.0) <= delta:
            return 0.0
        top = min(float(self.losses[-1]), MAX_EPSILON)
        if self.delta(top) > delta:
            return math.inf
        return between(top, 0.0, lambda epsilon: self.delta(epsilon) <= delta, 1e-6)


def compose(grids: Sequence[tuple[LossGrid, int]], width: float, delta: float) -> ComposedLosses | None:
    """Compose grids of one width, each with its number of repetitions, with the best tilt for ``delta``.

    Returns None if the transform would have more than :data:`MAX_POINTS` points, or errors as large as its values.
    """
    tilted_sum = _best_tilt(grids, width, delta)
    if tilted_sum is None:
        return None
    points = length(grids, width, tilted_sum.deviation)
    while True:
        if points is None:
            return None
        first = round(tilted_sum.mean / width) - points // 2
        top = (first + points - 1) * width

        def tail(place: int, top: float = top) -> float:
            return tilted_sum.cumulant(place) - TILTS[place] * top

        log_tail = tail(_valley(tail))
        if log_tail <= math.log(delta) - 12.0 and first * width <= 0.0:
            break
        points = _fast(1.3 * points)
    masses = _transform([(s.tilted(tilted_sum.tilt), count) for s, count in tilted_sum.sums], points)
    if masses is None:
        return None
    failure = min(1.0, sum(count * grid.failure for grid, count in grids) * (1.0 + 1e-12))
    short = sum(count * grid.shortfall for grid, count in grids) * (1.0 + 1e-12)
    beyond = math.exp(log_tail) * (1.0 + 1e-9) + failure + short
    indices = first + np.arange(points)
    losses: Floats = width * indices.astype(np.float64)
    return ComposedLosses(losses, masses[indices % points], tilted_sum.log_scale, tilted_sum.tilt, beyond)


def length(grids: Sequence[tuple[LossGrid, int]], width: float, spread: float) -> int | None:
    """Return the least number of points of a transform if the grids' sum has deviation ``spread``; None if too many."""
    longest = max(len(grid.rising) for grid, _ in grids)
    return _fast(2.0 * max(_DEVIATIONS * spread / width, longest) + 4.0)


def _fast(points: float) -> int | None:
    return None if points > MAX_POINTS else next_fast_len(math.ceil(points), real=True)


@dataclass(frozen=True)
class _TiltedSum:
    """Grids with the best tilt for a delta: K, theta, K(theta), mean and standard deviation of the tilted sum."""

    sums: list[tuple[_Cumulants, int]]
    cumulant: Callable[[int], float]
    tilt: float
    log_scale: float
    mean: float
    deviation: float


def _best_tilt(grids: Sequence[tuple[LossGrid, int]], width: float, delta: float) -> _TiltedSum | None:
    sums = [(_Cumulants(grid, width), count) for grid, count in grids]

    @cache
    def cumulant(place: int) -> float:
        return sum(count * s.value(TILTS[place]) for s, count in sums)

    # K is convex, so both searches have one minimum; their result affects only the tightness.
    place = _valley(lambda place: (cumulant(place) - math.log(delta)) / TILTS[place])
    if not math.isfinite(cumulant(place)):
        return None
    tilt = TILTS[place]
    moments = [(count, s.moments(tilt)) for s, count in sums]
    mean = sum(count * moment for count, (moment, _) in moments)
    spread = math.sqrt(sum(count * moment for count, (_, moment) in moments))
    return _TiltedSum(sums, cumulant, tilt, cumulant(place), mean, spread)


def _valley(height: Callable[[int], float]) -> int:
    """Return the index in :data:`TILTS` that minimizes a function that decreases, then increases, then is infinite."""
    low, high = 0, len(TILTS) - 1
    while low < high:
        middle = (low + high) // 2
        if height(middle) <= height(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low


class _Cumulants:
    """The cumulant generating function of one grid, without its infinite losses, rounded up."""

    def __init__(self, grid: LossGrid, width: float) -> None:
        self._grid = grid
        self._losses = width * np.arange(1, len(grid.rising) + 1, dtype=np.float64)

    def value(self, tilt: float) -> float:
        exponents = tilt * self._losses
        if exponents[-1] > 600.0:
            return math.inf
        up, down = self._grid.rising * np.expm1(exponents), self._grid.falling * -np.expm1(-exponents)
        increase, decrease = float(up.sum()), float(down.sum())
        rounding = (64.0 + 8.0 * float(exponents[-1])) * UNIT * (increase + decrease)
        return math.log1p(increase - decrease - self._grid.failure + rounding + 2.0 * UNIT) + 2.0 * UNIT

    def tilted(self, tilt: float) -> tuple[Floats, Floats]:
        """Return the tilted masses at w, 2 w, ... and at -w, -2 w, ...; the rest is at 0."""
        exponents, scale = tilt * self._losses, math.exp(-self.value(tilt))
        return self._grid.rising * np.exp(exponents) * scale, self._grid.falling * np.exp(-exponents) * scale

    def moments(self, tilt: float) -> tuple[float, float]:
        """Return mean and variance of the tilted loss (not rounded, since they only position the window)."""
        up, down = self.tilted(tilt)
        # Sums, not products of vectors: BLAS would start threads, and its order of summation depends on the processor.
        mean = float(np.sum((up - down) * self._losses))
        return mean, max(float(np.sum((up + down) * self._losses**2)) - mean * mean, 0.0)


def _transform(tilted: Sequence[tuple[tuple[Floats, Floats], int]], points: int) -> Floats | None:
    """Return upper bounds on the masses of the sum modulo ``points``, from 0 on; None if errors dominate them."""
    depth = 8.0 * math.log2(points) * UNIT
    log_sum = np.zeros(points // 2 + 1, dtype=np.complex128)
    log_most, growth = np.zeros(len(log_sum)), np.zeros(len(log_sum))
    for (up, down), count in tilted:
        law = np.zeros(points)
        law[1 : len(up) + 1] += up
        law[-len(down) :] += down[::-1]
        total = float(law.sum())
        deviation = rfft(law) - total
        error = 2.0 * depth * total + 32.0 * UNIT
        logs = np.log1p(deviation)
        size = np.maximum(np.abs(1.0 + deviation), 1e-300)
        log_sum += count * logs
        log_most += count * np.log(size + error)
        growth += count * np.log1p(error / size)
    if log_most.max() > 1.0:
        return None
    most = np.exp(log_most)
    errors = most * (-np.expm1(-growth) + 8.0 * UNIT * (np.abs(log_sum) + 1.0) * len(tilted))
    error_each = 2.0 * float(np.sum(errors + depth * most)) / points
    return np.asarray(np.maximum(irfft(np.exp(log_sum), points), 0.0) + error_each)


Parts = Sequence[tuple[Profile, int]]  # profiles of single releases, each with its number of repetitions
CUT = 1e-4  # share of delta for losses beyond the grids
SHORT = 1e-3  # share of delta that rounding on narrow cells may cost
FIRST_CELLS = 256  # cells of the coarsest grid that is tried
FEW_POINTS = 1 << 17  # transforms with this number of points are fast, so grids are refined at least up to it
FINENESS = 1e-4  # share of the loss's variance by which the last halving of the width may reduce it
COARSEST = 0.1
"""The same if the finest grid that can be transformed is coarser; a grid that adds more is not worth its time."""


def compose_profiles(parts: Parts, delta: float) -> ComposedLosses | None:
    """Compose profiles on a grid of a suitable width, tuned to a delta in (0, 1); None if it would be too long."""
    cut = CUT * delta / sum(count for _, count in parts)
    coarsest = width = max(reach(profile, cut) for profile, _ in parts) / FIRST_CELLS
    grids, spread = _grids_of_width(parts, width, cut, delta)
    added, points = 1.0, 0
    while added > FINENESS or points < FEW_POINTS:
        finer, less = _grids_of_width(parts, 0.5 * width, cut, delta)
        longer = None if finer is None or less is None else length(finer, 0.5 * width, less)
        if less is None or longer is None:
            break
        added = 1.0 if spread is None else 1.0 - (less / spread) ** 2 if spread > 0.0 else 0.0
        width, grids, spread, points = 0.5 * width, finer, less, longer
    composition = None
    while added <= COARSEST and grids is not None and composition is None:
        composition = compose(grids, width, delta)
        if width >= coarsest:
            break
        width *= 2.0
        grids = None if composition is not None else _grids_of_width(parts, width, cut, delta)[0]
    return composition


def _grids_of_width(
    parts: Parts, width: float, cut: float, delta: float
) -> tuple[list[tuple[LossGrid, int]] | None, float | None]:
    """Return the grids of a width, and the deviation of their sum; None if there are none or rounding is too large."""
    grids = []
    for profile, count in parts:
        grid = connect_dots(profile, width, cut)
        if grid is None:
            return None, None
        grids.append((grid, count))
    if sum(count * grid.shortfall for grid, count in grids) > SHORT * delta:
        return None, None
    tilted_sum = _best_tilt(grids, width, delta)
    return grids, None if tilted_sum is None else tilted_sum.deviation
