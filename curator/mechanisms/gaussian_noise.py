"""Gaussian noise as integers: standard normals rounded to a public grid, in bulk from a keystream.

The distribution is defined in whole numbers. Grid points are 2^-11 apart; P(m) is the probability that a rounded
standard normal has the magnitude m (of 0, or of two points). P is split into two parts, both drawn by Walker's alias
method (Vose 1991, "A linear algorithm for generating random numbers with a given distribution") with whole numbers and
no rounding other than this:

* the *core*: blocks of four equally likely magnitudes. A block has four times its least P(m), rounded down to a whole
  multiple of 2^-29;
* the *rest*: the remainder of each P(m), three draws in two thousand, rounded to multiples of 2^-207 of all the rest.

**Total variation.** The core has no error: it is drawn exactly and is at most P everywhere. The rest, of mass below
2^-8, has weights in units of 2^-207 of it. Each except the greatest is within half a unit of its exact value, and the
greatest compensates for the others. So the distance of the tables' law from the rounded normal is at most 2^14 units,
less than 2^-200, plus the mass beyond 16 standard deviations, less than 2^-185.
"""

import math
from collections.abc import Sequence
from functools import cache, reduce
from math import factorial
from operator import add
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadInput
from common.numerics.chacha import BLOCK_WORDS, KEY_WORDS, fill
from common.numerics.kernels import njit, njit_inlined, prefetch
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from curator.mechanisms.selection import EXPONENT_BITS, exponential

GRID_BITS = 11
GRID = 1 << GRID_BITS  # cells per standard deviation
MAGNITUDE_BITS = 15
BLOCK_BITS = 2
CORE_BITS = 11  # there are 2^11 blocks; the last one represents the rest
CHANCE_BITS = 18  # bits of the core's thresholds
REST_CHANCE_BITS = 192
TABLES_BITS = 184  # the tables' law is within 2^-184 of the rounded normal's, in total variation
_PRECISION = 288
_TERMS = 18
_LOW = (1 << 64) - 1


class RoundedNormal(NamedTuple):
    """Alias tables from which magnitudes are drawn.

    Slot s of ``core``, shape (2048,), is block s if an 18-bit word is below ``core[s] >> 11``, else ``core[s] & 2047``.
    Slot s of ``rest``, shape (32768, 3), is magnitude s if a 192-bit word is below the number with these words, the
    highest first, else ``rest_alias[s]``.
    """

    core: NDArray[np.uint32]
    rest: NDArray[np.uint64]
    rest_alias: NDArray[np.int16]


_MAKING = Lock()


def tables() -> RoundedNormal:
    """Return the tables, which are the same whole numbers on every machine."""
    with _MAKING:  # one thread makes them for all
        return _tables()


@cache
def _tables() -> RoundedNormal:
    blocks, rest = split()
    core_chances, core_others = alias_table(blocks, 1 << CHANCE_BITS)
    core = [chance << CORE_BITS | other for chance, other in zip(core_chances, core_others, strict=True)]
    chances, aliases = alias_table(rest, 1 << REST_CHANCE_BITS)
    words = [(chance >> 128, chance >> 64 & _LOW, chance & _LOW) for chance in chances]
    return RoundedNormal(
        np.array(core, dtype=np.uint32), np.array(words, dtype=np.uint64), np.array(aliases, dtype=np.int16)
    )


def split() -> tuple[list[int], list[int]]:
    """Return the weights of the core, 2,048 multiples of 2^-29, and of the rest, 2^15 multiples of 2^-207 of it.

    The core's weights sum to 1, the last of them being the mass of the rest; the rest's weights sum to that mass.
    """
    masses, unit = magnitudes(), 1 << _PRECISION
    size, units = 1 << BLOCK_BITS, CORE_BITS + CHANCE_BITS
    blocks = []
    for block in range((1 << CORE_BITS) - 1):
        least = min(masses[block * size : (block + 1) * size])
        blocks.append((least << BLOCK_BITS + units) >> _PRECISION)
    rest_mass = (1 << units) - sum(blocks)
    blocks.append(rest_mass)
    # The remainder of each magnitude, in units of 2^-(29 + 2 + precision).
    remainders = [mass << units + BLOCK_BITS for mass in masses]
    for block, weight in enumerate(blocks[:-1]):
        for m in range(block * size, (block + 1) * size):
            remainders[m] -= weight * unit
    bits = MAGNITUDE_BITS + REST_CHANCE_BITS
    scale = rest_mass << BLOCK_BITS + _PRECISION
    rest = [((weight << bits + 1) + scale) // (2 * scale) for weight in remainders]
    rest[rest.index(max(rest))] += (1 << bits) - sum(rest)
    return blocks, rest


def magnitudes() -> list[int]:
    """Return P(m) for m in 0..2^15-1, given that it is less than 2^15, in multiples of 2^-288, to 2^-230.

    With h = 2^-11 and x = m h, the mass of a cell is the normal density at x times

        integral over |t| <= h/2 of e^{-x t - t^2/2} dt = h * sum over even j of He_j(x) (h/2)^j / (j+1)!,

    by the generating function of the Hermite polynomials; odd terms cancel. Terms beyond j = 18 are below 2^-250. From
    cell to cell the density changes by the factor e^{-h^2 (m + 1/2)}; its value at 0 is chosen to make the sum 1.
    """
    ratio = exponential(2.0 ** -(2 * GRID_BITS + 1)) >> EXPONENT_BITS - _PRECISION
    square = ratio * ratio >> _PRECISION
    density, masses = 1 << _PRECISION, []
    coefficients, denominator = _polynomial()
    coefficients.reverse()
    for m in range(1 << MAGNITUDE_BITS):
        square_of_m, cell = m * m, 0
        for coefficient in coefficients:
            cell = cell * square_of_m + coefficient
        masses.append((1 if m == 0 else 2) * density * ((cell << _PRECISION) // denominator))
        density = density * ratio >> _PRECISION
        ratio = ratio * square >> _PRECISION
    total = sum(masses)
    return [(mass << _PRECISION) // total for mass in masses]


def _polynomial() -> tuple[list[int], int]:
    """Return the sum over j, times a whole number, as a polynomial in m^2 with whole coefficients; and that number.

    2^{11 j} He_j(m h) are polynomials in m with whole coefficients. The terms have denominators (j+1)! and 2^{23 j}, so
    19! 2^{23 18} is a common denominator.
    """
    previous, current, total = [0], [1], [0] * (_TERMS + 1)
    denominator = factorial(_TERMS + 1) << (2 * GRID_BITS + 1) * _TERMS
    for j in range(_TERMS + 1):
        if j % 2 == 0:
            share = denominator // (factorial(j + 1) << (2 * GRID_BITS + 1) * j)
            for power, coefficient in enumerate(current):
                total[power] += share * coefficient
        following = [0, *current]
        for power, coefficient in enumerate(previous):
            following[power] -= (j << 2 * GRID_BITS) * coefficient
        previous, current = current, following
    return total[::2], denominator


def alias_table(weights: Sequence[int], capacity: int) -> tuple[list[int], list[int]]:
    """Return chances and aliases: slot s keeps ``chance[s]`` of its capacity and leaves the rest to ``alias[s]``.

    The table is exact: what slots keep for i and leave to i sums to weight i. A full slot is its own alias. Weights are
    whole numbers whose sum is the capacity times their number.
    """
    chances, aliases = [0] * len(weights), list(range(len(weights)))
    remaining = list(weights)
    poor = [i for i, weight in enumerate(remaining) if weight < capacity]
    rich = [i for i, weight in enumerate(remaining) if weight >= capacity]
    while poor:
        taker, giver = poor.pop(), rich[-1]
        chances[taker], aliases[taker] = remaining[taker], giver
        remaining[giver] -= capacity - remaining[taker]
        if remaining[giver] < capacity:
            poor.append(rich.pop())
    return chances, aliases


Shorts = NDArray[np.int16]
Integers = NDArray[np.int32]

FINE_GRID = 1 << 26  # least number of cells per standard deviation of :func:`fine_normals`
EXACT_BITS = 180  # the law of each number of every function here is within 2^-180 of the exact one, in total variation
LANES = 4096  # numbers in a chunk: with their words and the core's table they stay in the first-level cache
ROOM = 80  # draws of the rest for each chunk
_GROUPS = LANES // 8
_PIECE = 512
REST_WORDS = 7
REST_FROM = ((1 << CORE_BITS) - 1) << BLOCK_BITS  # least magnitude of the last block, which represents the rest
_FINE_STEPS = (1 << 15, 1 << 7, 1)
_OVERLAP = 4  # a step is at most a quarter of the standard deviation of all smaller ones together
_TARGET = 40
MAX_FINER = 60
MAX_DEVIATION = 2.0**58


def normals(count: int, source: RandomSource) -> Shorts:
    """Draw ``count`` independent standard normals, rounded to multiples of 1/GRID; return the multiples, int16."""
    chunks = np.empty((-(-count // LANES), LANES), dtype=np.int16)
    _draw(source.words(KEY_WORDS // 2).view(np.uint32), *tables(), chunks)
    return chunks.reshape(-1)[:count]


def fine_normals(count: int, source: RandomSource) -> Integers:
    """Draw rounded normals of standard deviation FINE_GRID (or a little more), int32, for large noise."""
    return _sum_scaled(_FINE_STEPS, count, source, np.dtype(np.int32))


def whole_normals(deviation: float, count: int, source: RandomSource) -> Indices:
    """Draw ``count`` independent normals of at least this standard deviation, rounded to whole numbers, int64.

    The deviation is at most 2^58. It exceeds ``deviation`` by a share of at most 2^-18 (if that is at least 2^-20).
    """
    if not 0.0 < deviation <= MAX_DEVIATION:
        raise BadInput(f"the noise's standard deviation must be positive and at most 2^58 units, found {deviation}")
    finer = min(max(_TARGET - math.frexp(deviation)[1], 0), MAX_FINER)
    steps = [math.ceil(up(math.ldexp(deviation, finer)) / GRID)]
    while steps[-1] > 1:
        steps.append(-(-_OVERLAP * steps[-1] // GRID))
    noise = _sum_scaled(steps, count, source, np.dtype(np.int64))
    return noise if finer == 0 else np.asarray((noise + (1 << finer - 1)) >> finer, dtype=np.int64)


def _sum_scaled(steps: Sequence[int], count: int, source: RandomSource, kind: np.dtype[Any]) -> AnyArray:
    """Return sum_i s_i k_i of independent rounded normals k_i, shape (count,); the last step is 1.

    Its law is within 2^-182 of that of round(Z + V), with V independent of Z and Z normal with variance
    GRID^2 sum_i s_i^2. That is post-processing of the Gaussian mechanism's Z, as rounding is.

    *Proof*, for the greatest step s and the sum Y of the others, Y = round(y + V') with y normal of standard deviation
    tau >= 4 s. P(s k_1 + Y = c) = sum_j f(s j) s for f(x) = F(x) P(Y = c - x), where s F(s j) = P(k_1 = j) and F is the
    density of s (z + U), U uniform on [-1/2, 1/2] and z normal of standard deviation GRID. The integral of f is
    P(round(s z + s U + y + V') = c). By Poisson's formula, sum and integral differ by the values of the Fourier
    transform of f at n/s, n != 0. With r = GRID s, the transforms of F and of P(Y = c - .) at a frequency w are at most
    e^{-2 pi^2 r^2 w^2} and e^{-2 pi^2 tau^2 w^2}; so that of f at n/s is at most
    e^{-2 pi^2 (n/s)^2 r^2 tau^2/(r^2 + tau^2)} < e^{-300 n^2}. The distance is at most the sum of these over the 2^17 s
    values of c, each less than 2^-430/s, plus the mass beyond 16 standard deviations.
    """
    draws = normals(len(steps) * count, source).reshape(len(steps), count)
    return reduce(add, (row.astype(kind) * kind.type(step) for row, step in zip(draws, steps, strict=True)))


@njit
def _draw(key: AnyArray, core: AnyArray, rest: AnyArray, rest_alias: AnyArray, chunks: Shorts) -> None:
    """Fill ``drawn``, shape (chunks, LANES), with a separate nonce for each chunk."""
    words = np.empty((BLOCK_WORDS, LANES // BLOCK_WORDS), dtype=np.uint32)
    further = np.empty((BLOCK_WORDS, REST_WORDS * ROOM // BLOCK_WORDS), dtype=np.uint32)
    slots = np.empty(_PIECE, dtype=np.uint32)
    flags = np.empty(_GROUPS, dtype=np.uint32)
    groups, places = np.zeros(_GROUPS + 1, dtype=np.int64), np.zeros(8 * ROOM + 1, dtype=np.int64)
    for chunk in range(len(chunks)):
        fill(key, chunk, 0, words)
        fill(key, chunk, 1, further)
        _prefetch_rest(further.reshape(further.size), rest, rest_alias)
        _draw_core(words.reshape(words.size), core, slots, chunks[chunk])
        count = _find_rest(chunks[chunk], flags, groups, places)
        _draw_rest(further.reshape(further.size), rest, rest_alias, places, count, chunks[chunk])


@njit_inlined
def _prefetch_rest(words: AnyArray, rest: AnyArray, rest_alias: AnyArray) -> None:
    for t in range(ROOM):
        slot = np.int64(words[t] >> np.uint32(32 - MAGNITUDE_BITS))
        prefetch(rest, 3 * slot)
        prefetch(rest_alias, slot)


@njit_inlined
def _draw_core(words: AnyArray, core: AnyArray, slots: AnyArray, row: Shorts) -> None:
    """Make a number from each word: bits 0-10 are the slot, 11-12 the place in it, 13 the sign, 14-31 the chance."""
    low = np.uint32((1 << CORE_BITS) - 1)
    for begin in range(0, LANES, _PIECE):
        for i in range(_PIECE):
            slots[i] = core[np.int64(words[begin + i] & low)]
        _look_up(words[begin : begin + _PIECE], slots, row[begin : begin + _PIECE])


@njit_inlined
def _look_up(words: AnyArray, slots: AnyArray, row: Shorts) -> None:
    # This loop is vectorized, so every number has an explicit type.
    low = np.uint32((1 << CORE_BITS) - 1)
    for i in range(_PIECE):
        word, slot = words[i], slots[i]
        direct = np.int32(word >> np.uint32(14)) < np.int32(slot >> np.uint32(CORE_BITS))
        block = np.uint32(word & low) if direct else np.uint32(slot & low)
        position = np.uint32(np.uint32(word >> np.uint32(CORE_BITS)) & np.uint32((1 << BLOCK_BITS) - 1))
        magnitude = np.int32(np.uint32(block << np.uint32(BLOCK_BITS)) | position)
        sign = np.int32(-np.int32(np.uint32(word >> np.uint32(13)) & np.uint32(1)))
        row[i] = np.int16(np.int32(magnitude ^ sign) - sign)


@njit_inlined
def _find_rest(row: Shorts, flags: AnyArray, groups: AnyArray, places: AnyArray) -> Any:
    """Put the places of the first ROOM numbers of the rest, or a few more, into ``places``; return how many there are.

    Columns of eight numbers are scanned first: bit j of a flag is for number j of its column. Entries after the places
    found are undefined.
    """
    for g in range(_GROUPS):
        flag = np.uint32(0)
        for j in range(8):
            rare = np.uint32(np.abs(np.int32(row[g + j * _GROUPS])) >= np.int32(REST_FROM))
            flag |= np.uint32(rare << np.uint32(j))
        flags[g] = flag
    columns: Any = 0
    for g in range(_GROUPS):
        groups[columns] = g
        columns += np.int64(flags[g] != np.uint32(0))
    count: Any = 0
    for c in range(ROOM):
        flag = np.uint32(flags[groups[c]] * np.uint32(c < columns))
        for j in range(8):
            places[count] = groups[c] + j * _GROUPS
            count += np.int64(np.uint32(flag >> np.uint32(j)) & np.uint32(1))
    return count


@njit_inlined
def _draw_rest(
    words: AnyArray, rest: AnyArray, rest_alias: AnyArray, places: AnyArray, count: Any, row: Shorts
) -> None:
    """Draw ROOM magnitudes of the rest; write as many as were found to their places, with the signs there."""
    for t in range(ROOM):
        slot = np.int64(words[t] >> np.uint32(32 - MAGNITUDE_BITS))
        upper, middle, lower = _join_words(words, 1, t), _join_words(words, 3, t), _join_words(words, 5, t)
        direct = (middle < rest[slot, 1]) | ((middle == rest[slot, 1]) & (lower < rest[slot, 2]))
        direct = (upper < rest[slot, 0]) | ((upper == rest[slot, 0]) & direct)
        magnitude = slot if direct else np.int64(rest_alias[slot])
        old = np.int64(row[places[t]])
        new = magnitude if old > 0 else -magnitude
        row[places[t]] = np.int16(new if t < count else old)


@njit_inlined
def _join_words(words: AnyArray, row: int, t: int) -> Any:
    return np.uint64(np.uint64(words[row * ROOM + t]) << np.uint64(32)) | np.uint64(words[(row + 1) * ROOM + t])
