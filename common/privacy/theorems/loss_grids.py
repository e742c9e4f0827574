"""Privacy losses on a grid: a discrete pair of laws that dominates an event, by connecting the dots.

A profile H is convex in its level a. The chords between its values at a_j = e^{j w} lie above it, and are themselves
the profile of a pair of laws whose privacy losses are multiples of w: its second law has at a_j the mass by which the
slope changes there (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots"). The profiles here
bound both directions, so the pair is its own mirror: the first law has the second's mass at loss -j w, and no grid
below level 1 is needed. Beyond the last level the chord is constant, which is a loss of infinity of that mass.

Rounding. The masses are floating-point numbers, which *are* the pair; they are not taken for exact. What may be
missing of the profile is then checked: the pair's own profile, summed up again from the masses, falls short of the
values by at most ``shortfall``. A composition of k such pairs with any others loses k times that at most, since a
constant that is added to a profile passes unchanged through each composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.privacy.rounding import MAX_EPSILON, UNIT
from common.privacy.theorems.profiles import Profile

MAX_CELLS = 1 << 18
"""Most cells of a grid on one side."""

ROUNDED = 1e-9
"""By so much masses may add up to more than 1 for the sake of rounding."""


@dataclass(frozen=True)
class LossGrid:
    """The losses of one release, on multiples of a width.

    Attributes:
        rising, falling: Mass under the first law at losses w, 2 w, ..., J w and at -w, -2 w, ..., -J w; rounded up.
        failure: Mass at a loss of infinity.
        shortfall: By how much the true profile may exceed this pair's, at any level.
    """

    rising: Floats
    falling: Floats
    failure: float
    shortfall: float


def connect_dots(profile: Profile, width: float, cut: float) -> LossGrid | None:
    """Put a profile on a grid.

    Args:
        profile: What must be dominated.
        width: w, positive.
        cut: The grid ends where the profile is at most that above its value at infinity; both are the mass at infinity.

    Returns:
        The pair; None if the grid would have more than :data:`MAX_CELLS` cells, or if the chords are no pair's.
    """
    last = math.ceil(reach(profile, cut) / width)
    if last > MAX_CELLS:
        return None
    losses = width * np.arange(last + 1, dtype=np.float64)
    rising, falling, failure, shortfall = masses(losses, profile.at(losses), width)
    excess = float(rising.sum() + falling.sum() + failure) - 1.0
    if excess > ROUNDED:  # no law: bounds above the truth may leave no mass at 0
        return None
    if excess > 0.0:  # the law has no mass at 0, and slopes on narrow cells are rounded: what is taken off is short
        rising, falling = rising * (1.0 - excess), falling * (1.0 - excess)
        shortfall += 2.0 * excess
    return LossGrid(rising, falling, failure, shortfall)


def masses(losses: Floats, heights: Floats, steps: Floats | float) -> tuple[Floats, Floats, float, float]:
    """Return the pair whose profile are the chords between heights at levels e^loss, as floating-point numbers.

    Args:
        losses: 0 and up, ascending.
        heights: Of a convex function of the level.
        steps: From each loss to the next.

    Returns:
        The first law's masses at all losses but 0, the second's there, the first's at infinity, and the shortfall.
    """
    levels = np.exp(losses)
    gaps = levels[:-1] * np.expm1(steps)
    slopes = np.append(np.diff(heights) / gaps, 0.0)
    falling = np.maximum(np.diff(slopes), 0.0)
    # What the floats amount to: slopes and heights summed up again from the far end.
    steepness = np.cumsum(falling[::-1])[::-1]
    reached = heights[-1] + np.append(np.cumsum((steepness * gaps)[::-1])[::-1], 0.0)
    error = 8.0 * (len(losses) - 1 + 16.0 + losses[-1]) * UNIT * float(reached[0])
    shortfall = max(0.0, float(np.max(heights - reached))) + error
    rising = falling * levels[1:] * (1.0 + 8.0 * (1.0 + losses[-1]) * UNIT)
    return rising, falling, float(heights[-1]), shortfall


def reach(profile: Profile, cut: float) -> float:
    """Return a loss from which on the profile is at most ``cut`` above its value at infinity."""
    losses = np.geomspace(1e-12, MAX_EPSILON, 1024)
    below = np.flatnonzero(profile.at(losses) <= cut + profile.at(np.array([MAX_EPSILON])))
    return float(losses[below[0]])
