"""The law of a standard normal rounded to a grid, in whole numbers, and the tables that draw from it.

Grid points are 2^-11 apart; P(m) is the probability that a standard normal, rounded, has the magnitude m (of 0, or of
two points). The law is split into two parts, both drawn by Walker's alias method (Vose 1991, "A linear algorithm for
generating random numbers with a given distribution") with whole numbers and no other rounding than this:

* the *core*: blocks of four magnitudes, within which all are alike. A block has four times its least P(m), rounded
  down to a whole multiple of 2^-29;
* the *rest*: what is left of each P(m), three draws in two thousand, rounded to multiples of 2^-207 of all the rest.

**Total variation.** The core has no error: it is what the tables say, and less than P everywhere. The rest, of mass
below 2^-8, has weights in units of 2^-207 of it. Each but the greatest is within half a unit of what it should be, and
the greatest makes up for them; so the distance of the tables' law from the rounded normal is at most 2^14 units,
less than 2^-200, and what lies beyond 16 standard deviations, less than 2^-185.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import factorial
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRID_BITS = 11
GRID = 1 << GRID_BITS
"""Cells per standard deviation."""
MAGNITUDE_BITS = 15
BLOCK_BITS = 2
CORE_BITS = 11
"""There are 2^11 blocks; the last stands for the rest."""
CHANCE_BITS = 18
"""Of the core's thresholds."""
REST_CHANCE_BITS = 192
TABLES_BITS = 184
"""The tables' law is within 2^-184 of the rounded normal's, in total variation."""
_PRECISION = 288
_TERMS = 18
_LOW = (1 << 64) - 1


class RoundedNormal(NamedTuple):
    """Tables to draw a magnitude from.

    Attributes
    ----------
    core
        Shape (2048,), uint32: slot s is block s if an 18-bit word is below ``core[s] >> 11``, else ``core[s] & 2047``.
    rest
        Shape (32768, 3), uint64: slot s is magnitude s if a 192-bit word is below the number with these words,
        the highest first,
    rest_alias
        shape (32768,), int16: and this one else.
    """

    core: NDArray[np.uint32]
    rest: NDArray[np.uint64]
    rest_alias: NDArray[np.int16]


_MAKING = Lock()


def tables() -> RoundedNormal:
    """Return the tables: the same whole numbers on every machine."""
    with _MAKING:  # of several threads that need them first, one makes them
        return _tables()


@cache
def _tables() -> RoundedNormal:
    blocks, rest = split()
    core_chances, core_others = alias_table(blocks, 1 << CHANCE_BITS)
    core = [chance << CORE_BITS | other for chance, other in zip(core_chances, core_others, strict=True)]
    chances, others = alias_table(rest, 1 << REST_CHANCE_BITS)
    words = [(chance >> 128, chance >> 64 & _LOW, chance & _LOW) for chance in chances]
    return RoundedNormal(
        np.array(core, dtype=np.uint32), np.array(words, dtype=np.uint64), np.array(others, dtype=np.int16)
    )


def split() -> tuple[list[int], list[int]]:
    """Return the weights of core and rest.

    Returns
    -------
    blocks
        2,048 multiples of 2^-29, together 1; the last is the rest's.
    rest
        2^15 multiples of 2^-207 of the rest, together all of it.
    """
    masses, one = magnitudes(), 1 << _PRECISION
    size, units = 1 << BLOCK_BITS, CORE_BITS + CHANCE_BITS
    blocks = []
    for block in range((1 << CORE_BITS) - 1):
        least = min(masses[block * size : (block + 1) * size])
        blocks.append((least << BLOCK_BITS + units) >> _PRECISION)
    rest_mass = (1 << units) - sum(blocks)
    blocks.append(rest_mass)
    # What is left of each magnitude, in units of 2^-(29 + 2 + precision).
    left = [mass << units + BLOCK_BITS for mass in masses]
    for block, weight in enumerate(blocks[:-1]):
        for m in range(block * size, (block + 1) * size):
            left[m] -= weight * one
    whole = MAGNITUDE_BITS + REST_CHANCE_BITS
    scale = rest_mass << BLOCK_BITS + _PRECISION
    rest = [((weight << whole + 1) + scale) // (2 * scale) for weight in left]
    rest[rest.index(max(rest))] += (1 << whole) - sum(rest)
    return blocks, rest


def magnitudes() -> list[int]:
    """Return P(m) for m in 0..2^15-1, given that it is less than 2^15, in multiples of 2^-288, to 2^-230.

    With h = 2^-11 and x = m h, the mass of a cell is the normal density at x times

        integral over |t| <= h/2 of e^{-x t - t^2/2} dt = h * sum over even j of He_j(x) (h/2)^j / (j+1)!,

    by the generating function of Hermite's polynomials; odd terms cancel. Terms beyond j = 18 are below 2^-250. The
    density goes from cell to cell by the factor e^{-h^2 (m + 1/2)}; at 0 it is what makes the sum 1.
    """
    ratio = _exponential(2 * GRID_BITS + 1)
    square = ratio * ratio >> _PRECISION
    density, found = 1 << _PRECISION, []
    coefficients, denominator = _polynomial()
    coefficients.reverse()
    for m in range(1 << MAGNITUDE_BITS):
        square_of_m, cell = m * m, 0
        for coefficient in coefficients:
            cell = cell * square_of_m + coefficient
        found.append((1 if m == 0 else 2) * density * ((cell << _PRECISION) // denominator))
        density = density * ratio >> _PRECISION
        ratio = ratio * square >> _PRECISION
    total = sum(found)
    return [(mass << _PRECISION) // total for mass in found]


def _exponential(bits: int) -> int:
    """Return e^{-2^-bits} in multiples of 2^-288."""
    total, term, k = 0, 1 << _PRECISION, 0
    while term:
        total += term if k % 2 == 0 else -term
        k += 1
        term = (term >> bits) // k
    return total


def _polynomial() -> tuple[list[int], int]:
    """Return the sum over j, times a whole number, as a polynomial in m^2 with whole coefficients; and that number.

    2^{11 j} He_j(m h) are polynomials in m with whole coefficients; with (j+1)! and 2^{23 j} below, all have the one
    denominator 19! 2^{23 18}.
    """
    before, now, total = [0], [1], [0] * (_TERMS + 1)
    denominator = factorial(_TERMS + 1) << (2 * GRID_BITS + 1) * _TERMS
    for j in range(_TERMS + 1):
        if j % 2 == 0:
            share = denominator // (factorial(j + 1) << (2 * GRID_BITS + 1) * j)
            for power, coefficient in enumerate(now):
                total[power] += share * coefficient
        further = [0, *now]
        for power, coefficient in enumerate(before):
            further[power] -= (j << 2 * GRID_BITS) * coefficient
        before, now = now, further
    return total[::2], denominator


def alias_table(weights: Sequence[int], capacity: int) -> tuple[list[int], list[int]]:
    """Return chances and aliases: slot s keeps ``chance[s]`` of its capacity and leaves the others to ``alias[s]``.

    Exact: what slots keep for i, and what they leave to it, together is weight i. A full slot is its own alias.

    Parameters
    ----------
    weights
        Whole numbers >= 0, together the capacity times their number.
    """
    chances, aliases = [0] * len(weights), list(range(len(weights)))
    left = list(weights)
    poor = [i for i, weight in enumerate(left) if weight < capacity]
    rich = [i for i, weight in enumerate(left) if weight >= capacity]
    while poor:
        taker, giver = poor.pop(), rich[-1]
        chances[taker], aliases[taker] = left[taker], giver
        left[giver] -= capacity - left[taker]
        if left[giver] < capacity:
            poor.append(rich.pop())
    return chances, aliases
