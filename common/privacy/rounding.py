"""Conservative rounding, and the ranges of epsilon and delta for which formulas are evaluated."""

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from common.core.errors import BadInput

UNIT = 2.0**-52  # relative spacing of doubles: an operation errs by at most half of it, a library function by a few
MAX_EPSILON = 700.0
"""Largest epsilon for which e^epsilon is a double; a mechanism beyond it has no meaningful guarantee."""


def up(value: float, ulps: float = 4.0) -> float:
    """Return a double above every real within ``ulps`` units of relative error of ``value``."""
    return math.nextafter(value + abs(value) * ulps * UNIT, math.inf)


def down(value: float, ulps: float = 4.0) -> float:
    """Return a double below every real within ``ulps`` units of relative error of ``value``."""
    return math.nextafter(value - abs(value) * ulps * UNIT, -math.inf)


EXP_BITS = 256
_HALVINGS = 10


def exp_below(x: float) -> int:
    """Return a whole number n with n/2^256 <= e^x, for x in [0, 700]; the relative error is below 2^-230.

    It is the series of e^(x/1024), squared ten times, in whole numbers that are rounded down. So it is the same number
    on every machine and in every language, which the exponential of a C library is not.
    """
    one = 1 << EXP_BITS
    numerator, denominator = x.as_integer_ratio()
    reduced = (numerator << EXP_BITS - _HALVINGS) // denominator
    total = term = one
    order = 1
    while term:
        term = term * reduced // (order << EXP_BITS)
        total += term
        order += 1
    for _ in range(_HALVINGS):
        total = total * total >> EXP_BITS
    return total


def above(value: Fraction) -> float:
    """Return the least double that is not below an exact number; infinity if none is finite."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


def stated(value: float) -> str:
    """Return a privacy loss as a text with six digits, rounded up: ln 2 is 0.693148.

    Floating-point errors of decimals, such as in the sum of .1 and .2, do not cause rounding up.
    """
    nearest = f"{value:g}"
    return nearest if float(nearest) >= value * (1.0 - 1e-9) else f"{float(_SIX_DIGITS.create_decimal(value)):g}"


def check_epsilon(epsilon: float) -> None:
    """Raise :class:`BadInput` for an epsilon outside (0, ``MAX_EPSILON``]."""
    if not 0.0 < epsilon <= MAX_EPSILON:
        raise BadInput(f"epsilon must be positive and at most {MAX_EPSILON:g}, found {epsilon}")


def check_delta(delta: float) -> None:
    """Raise :class:`BadInput` for a delta outside (0, 1)."""
    if not 0.0 < delta < 1.0:
        raise BadInput(f"delta must be in (0, 1), found {delta}")
