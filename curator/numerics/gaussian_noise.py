"""Gaussian noise as integers: standard normals rounded to a public grid, in bulk from a keystream.

Adding noise in floating-point numbers leaks: the low-order bits of ``gradient + noise`` depend on both in a way
that no proof about real numbers covers (Mironov, "On significance of the least significant bits for differential
privacy", 2012). So the curator works on a grid. With the gradient g rounded to integers q (multiples of a public
unit, its norm still within the bound), z exact standard normals and k = round(z / unit),

    q + k = round(q + z / unit),

a function of what the exact Gaussian mechanism releases for q: post-processing. Nothing else of g survives.

**The law.** k is drawn from tables of whole numbers (:mod:`curator.numerics.rounded_normal`), whose law is within
2^-184 of the rounded normal's in total variation. The core of the law takes one 32-bit word: eleven bits for a slot,
eighteen for the choice of slot or alias, two within the block, one for the sign. Three words in two thousand name the
rest, which takes 207 further bits. There is room for 80 of these among 4,096 numbers; more come with probability below
2^-200, and what is then wrong is part of the distance. One number is thus within :data:`EXACT_BITS` bits of the exact
law, and the distances of several add up; :mod:`common.privacy.sampling_error` adds them to delta.

**The time.** All loops have a fixed length and no branch depends on a word: also the draws of the rest are 80 for each
4,096 numbers, whether they are needed or not. The words are a ChaCha8 keystream (:mod:`common.numerics.chacha`) under a
key that the source gives, made in the first-level cache just before they are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadInput
from common.numerics.chacha import BLOCK_WORDS, KEY_WORDS, fill
from common.numerics.kernels import njit, njit_inlined, prefetch
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from curator.numerics.rounded_normal import BLOCK_BITS, CORE_BITS, GRID, MAGNITUDE_BITS, tables

Shorts = NDArray[np.int16]
Integers = NDArray[np.int32]

FINE_GRID = 1 << 26
"""Cells per standard deviation of :func:`fine_normals`, at least."""
EXACT_BITS = 180
"""The law of each number of every function here is within 2^-180 of the exact one, in total variation."""
LANES = 4096
"""Numbers of a chunk: they, their words and the core's table stay in the first-level cache."""
ROOM = 80
"""Draws of the rest for each chunk."""
_GROUPS = LANES // 8
_PIECE = 512
REST_WORDS = 7
REST_FROM = ((1 << CORE_BITS) - 1) << BLOCK_BITS
"""Least magnitude of the last block, which stands for the rest."""
_FINE_STEPS = (1 << 15, 1 << 7, 1)
_OVERLAP = 4
"""A step is at most a quarter of the standard deviation of all smaller ones together."""
_TARGET = 40
MAX_FINER = 60
MAX_DEVIATION = 2.0**58


def normals(count: int, source: RandomSource) -> Shorts:
    """Draw ``count`` independent standard normals, rounded to multiples of 1/GRID: the multiples, int16."""
    drawn = np.empty((-(-count // LANES), LANES), dtype=np.int16)
    _draw(source.words(KEY_WORDS // 2).view(np.uint32), *tables(), drawn)
    return drawn.reshape(-1)[:count]


def fine_normals(count: int, source: RandomSource) -> Integers:
    """Draw normals of standard deviation FINE_GRID (a little more), rounded: whole numbers, int32, for large noise."""
    return _summed(_FINE_STEPS, count, source, np.dtype(np.int32))


def whole_normals(deviation: float, count: int, source: RandomSource) -> Indices:
    """Draw ``count`` independent whole numbers: a normal of at least this standard deviation, rounded, int64.

    Added to whole numbers, they are a function of what the Gaussian mechanism releases, as above. The deviation is
    greater than asked for by a share of 2^-18 at most (where it is at least 2^-20).

    Parameters
    ----------
    deviation
        Positive, at most 2^58.

    Raises
    ------
    BadInput
        If it is not.
    """
    if not 0.0 < deviation <= MAX_DEVIATION:
        raise BadInput(f"the noise's standard deviation must be positive and at most 2^58 units, found {deviation}")
    finer = min(max(_TARGET - math.frexp(deviation)[1], 0), MAX_FINER)
    steps = [math.ceil(up(math.ldexp(deviation, finer)) / GRID)]
    while steps[-1] > 1:
        steps.append(-(-_OVERLAP * steps[-1] // GRID))
    noise = _summed(steps, count, source, np.dtype(np.int64))
    return noise if finer == 0 else np.asarray((noise + (1 << finer - 1)) >> finer, dtype=np.int64)


def _summed(steps: Sequence[int], count: int, source: RandomSource, kind: np.dtype[Any]) -> AnyArray:
    """Return sum_i s_i k_i of independent rounded normals k_i, shape (count,); the last step is 1.

    Its law is within 2^-182 of that of round(Z + V), V independent of Z and Z normal with variance GRID^2 sum_i s_i^2:
    post-processing of the Gaussian mechanism's Z, as rounding is.

    *Proof*, for the greatest step s and the sum Y of the others, Y = round(y + V') with y normal of standard deviation
    tau >= 4 s. s k_1 + Y is c with chance sum_j f(s j) s for f(x) = F(x) P(Y = c - x), where s F(s j) = P(k_1 = j) and
    F is the density of s (z + U), U uniform on [-1/2, 1/2] and z normal of standard deviation GRID. The integral of f
    is the chance of round(s z + s U + y + V'). By Poisson's formula, sum and integral differ by the values of the
    Fourier transform of f at n/s, n != 0. With r = GRID s, those of F and of P(Y = c - .) at a frequency w are at most
    e^{-2 pi^2 r^2 w^2} and e^{-2 pi^2 tau^2 w^2}; so that of f at n/s is at most
    e^{-2 pi^2 (n/s)^2 r^2 tau^2/(r^2 + tau^2)} < e^{-300 n^2}. The distance is at most the sum of these over the values
    that c has, 2^17 s of them, each less than 2^-430/s, and what lies beyond 16 standard deviations.
    """
    drawn = normals(len(steps) * count, source).reshape(len(steps), count)
    return reduce(add, (row.astype(kind) * kind.type(step) for row, step in zip(drawn, steps, strict=True)))


@njit
def _draw(key: AnyArray, core: AnyArray, rest: AnyArray, rest_alias: AnyArray, drawn: Shorts) -> None:
    """Fill ``drawn``, shape (chunks, LANES): each chunk from a nonce of its own."""
    words = np.empty((BLOCK_WORDS, LANES // BLOCK_WORDS), dtype=np.uint32)
    further = np.empty((BLOCK_WORDS, REST_WORDS * ROOM // BLOCK_WORDS), dtype=np.uint32)
    slots = np.empty(_PIECE, dtype=np.uint32)
    flags = np.empty(_GROUPS, dtype=np.uint32)
    groups, places = np.zeros(_GROUPS + 1, dtype=np.int64), np.zeros(8 * ROOM + 1, dtype=np.int64)
    for chunk in range(len(drawn)):
        fill(key, chunk, 0, words)
        fill(key, chunk, 1, further)
        _ask_ahead(further.reshape(further.size), rest, rest_alias)
        _draw_core(words.reshape(words.size), core, slots, drawn[chunk])
        found = _find_rest(drawn[chunk], flags, groups, places)
        _draw_rest(further.reshape(further.size), rest, rest_alias, places, found, drawn[chunk])


@njit_inlined
def _ask_ahead(words: AnyArray, rest: AnyArray, rest_alias: AnyArray) -> None:
    """Ask memory for what the draws of the rest will read, before the core is drawn."""
    for t in range(ROOM):
        slot = np.int64(words[t] >> np.uint32(32 - MAGNITUDE_BITS))
        prefetch(rest, 3 * slot)
        prefetch(rest_alias, slot)


@njit_inlined
def _draw_core(words: AnyArray, core: AnyArray, slots: AnyArray, row: Shorts) -> None:
    """Make a number of each word: bits 0-10 are the slot, 11-12 the place in the block, 13 the sign, 14-31 the chance.

    Two loops, of which the second becomes vector instructions; so every number has its type written down.
    """
    low = np.uint32((1 << CORE_BITS) - 1)
    for begin in range(0, LANES, _PIECE):
        for i in range(_PIECE):
            slots[i] = core[np.int64(words[begin + i] & low)]
        _look_up(words[begin : begin + _PIECE], slots, row[begin : begin + _PIECE])


@njit_inlined
def _look_up(words: AnyArray, slots: AnyArray, row: Shorts) -> None:
    low = np.uint32((1 << CORE_BITS) - 1)
    for i in range(_PIECE):
        word, slot = words[i], slots[i]
        own = np.int32(word >> np.uint32(14)) < np.int32(slot >> np.uint32(CORE_BITS))
        block = np.uint32(word & low) if own else np.uint32(slot & low)
        within = np.uint32(np.uint32(word >> np.uint32(CORE_BITS)) & np.uint32((1 << BLOCK_BITS) - 1))
        magnitude = np.int32(np.uint32(block << np.uint32(BLOCK_BITS)) | within)
        sign = np.int32(-np.int32(np.uint32(word >> np.uint32(13)) & np.uint32(1)))
        row[i] = np.int16(np.int32(magnitude ^ sign) - sign)


@njit_inlined
def _find_rest(row: Shorts, flags: AnyArray, groups: AnyArray, places: AnyArray) -> Any:
    """Put the places of the first ROOM numbers of the rest, or a few more, into ``places``; return how many there are.

    Columns of eight numbers are looked through first: bit j of a flag stands for number j of its column. What lies
    behind the places found means nothing.
    """
    for g in range(_GROUPS):
        flag = np.uint32(0)
        for j in range(8):
            beyond = np.uint32(np.abs(np.int32(row[g + j * _GROUPS])) >= np.int32(REST_FROM))
            flag |= np.uint32(beyond << np.uint32(j))
        flags[g] = flag
    columns: Any = 0
    for g in range(_GROUPS):
        groups[columns] = g
        columns += np.int64(flags[g] != np.uint32(0))
    found: Any = 0
    for c in range(ROOM):
        flag = np.uint32(flags[groups[c]] * np.uint32(c < columns))
        for j in range(8):
            places[found] = groups[c] + j * _GROUPS
            found += np.int64(np.uint32(flag >> np.uint32(j)) & np.uint32(1))
    return found


@njit_inlined
def _draw_rest(
    words: AnyArray, rest: AnyArray, rest_alias: AnyArray, places: AnyArray, found: Any, row: Shorts
) -> None:
    """Draw ROOM magnitudes of the rest, and put as many as were found where they belong, with the signs there."""
    for t in range(ROOM):
        slot = np.int64(words[t] >> np.uint32(32 - MAGNITUDE_BITS))
        upper, middle, lower = _joined(words, 1, t), _joined(words, 3, t), _joined(words, 5, t)
        own = (middle < rest[slot, 1]) | ((middle == rest[slot, 1]) & (lower < rest[slot, 2]))
        own = (upper < rest[slot, 0]) | ((upper == rest[slot, 0]) & own)
        magnitude = slot if own else np.int64(rest_alias[slot])
        before = np.int64(row[places[t]])
        after = magnitude if before > 0 else -magnitude
        row[places[t]] = np.int16(after if t < found else before)


@njit_inlined
def _joined(words: AnyArray, row: int, t: int) -> Any:
    """Return 64 bits of two rows of words, the upper half first."""
    return np.uint64(np.uint64(words[row * ROOM + t]) << np.uint64(32)) | np.uint64(words[(row + 1) * ROOM + t])
