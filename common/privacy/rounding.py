"""Rounding to the private side: a float that is surely above, or below, the number that was computed."""

from __future__ import annotations

import math
from fractions import Fraction

UNIT = 2.0**-52
"""Relative spacing of doubles: an operation errs by half of it at most, a library function by a few."""

MAX_EPSILON = 700.0
"""Largest epsilon for which e^epsilon is a double; a mechanism beyond it has no meaningful guarantee."""


def up(value: float, ulps: float = 4.0) -> float:
    """Return a double above every real within ``ulps`` units of relative error of ``value``."""
    return math.nextafter(value + abs(value) * ulps * UNIT, math.inf)


def down(value: float, ulps: float = 4.0) -> float:
    """Return a double below every real within ``ulps`` units of relative error of ``value``."""
    return math.nextafter(value - abs(value) * ulps * UNIT, -math.inf)


def above(value: Fraction) -> float:
    """Return the least double that is not below an exact number."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
