"""Gaussian noise as integers: standard normals rounded to a public grid, in bulk from a keystream.

Adding noise in floating-point numbers leaks: the low-order bits of ``gradient + noise`` depend on both in a way
that no proof about real numbers covers (Mironov, "On significance of the least significant bits for differential
privacy", 2012). So the curator works on a grid. With the gradient g rounded to integers q (multiples of a public
unit, its norm still within the bound), z exact standard normals and k = round(z / unit),

    q + k = round((q + z unit^-1)),

a function of what the exact Gaussian mechanism releases for q: post-processing. Nothing else of g survives.

What is computed is Box-Muller on 24-bit radius and angle words, in single precision with lanes side by side:

    k = round(sqrt(-2 ln u) cos(a) / unit),  round(sqrt(-2 ln u) sin(a) / unit)

so the claim above holds up to the sampler's accuracy. Each cell of each *pair* of numbers has its probability to one
part in ten thousand (tests count the words that lead to a cell; the few cells at the origin, where one pair in a
million falls, are coarser). Such errors add up as their squares: 200 coordinates of a gradient half as long as sigma
gain less than 1e-5 of their chi-squared. Signs and the order in a pair are exact bits, so the law is symmetric
exactly. One radius in 2^14 would be too coarse for the tail: it gets 64 further bits and double precision. The tail
then ends at |z| = 11.1, beyond which a normal has 1e-28 of its mass, and int16 at 15.99: nothing is cut that could
be missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.arrays import AnyArray, Words
from common.kernels import njit_fused
from common.randomness import RandomSource

Shorts = NDArray[np.int16]
Integers = NDArray[np.int32]

GRID = 1 << 11
"""Cells per standard deviation of :func:`normals`."""
FINE_GRID = 1 << 26
"""Cells per standard deviation of :func:`fine_normals`."""
LANES = 1024
"""Pairs that are made side by side: their buffers stay in the first-level cache."""
_CHUNK = 3 * LANES // 2
"""32-bit words for the radii and angles of so many pairs, 24 bits each."""
_CHUNKS = 32
_SPARE = 64
"""64-bit words kept for refining the radii of a block; it needs four on average."""
_COARSE = 1 << 10
"""Radius words below this are refined."""


def normals(count: int, source: RandomSource) -> Shorts:
    """Draw ``count`` independent standard normals, rounded to multiples of 1/GRID: the multiples, int16."""
    chunks = -(-count // (2 * LANES))
    drawn = np.empty((chunks, 2, LANES), dtype=np.int16)
    for start in range(0, chunks, _CHUNKS):
        block = drawn[start : start + _CHUNKS]
        words = source.words(len(block) * _CHUNK // 2 + _SPARE)
        _box_muller(words[_SPARE:].view(np.uint32).reshape(len(block), 3, -1), words[:_SPARE], block)
    return drawn.reshape(-1)[:count]


def fine_normals(count: int, source: RandomSource) -> Integers:
    """Draw ``count`` independent standard normals in multiples of 1/FINE_GRID, int32: slow, for large noise.

    In double precision; |z| <= 8.6, beyond which a normal has 8e-18 of its mass.
    """
    return np.asarray(np.rint(source.normals(count) * FINE_GRID), dtype=np.int32)


@njit_fused
def _box_muller(words: AnyArray, spare: Words, drawn: Shorts) -> None:
    """Fill ``drawn``, shape (chunks, 2, LANES), from ``words``, shape (chunks, 3, LANES / 2).

    Loops are short and over buffers of their own so that the compiler can turn each into vector instructions;
    for the same reason every number has its type written down (a stray promotion to 64 bits halves the lanes).
    """
    half = LANES // 2
    radius_words, angle_words = np.empty(LANES, dtype=np.int32), np.empty(LANES, dtype=np.int32)
    singles = np.empty(LANES, dtype=np.float32)
    bits = singles.view(np.int32)
    exponents, mantissa_bits = np.empty(LANES, dtype=np.int32), np.empty(LANES, dtype=np.int32)
    mantissas = mantissa_bits.view(np.float32)
    first, second = np.empty(LANES, dtype=np.int16), np.empty(LANES, dtype=np.int16)
    refined = 0
    for chunk in range(len(drawn)):
        _unpack(words[chunk, 0], words[chunk, 1], words[chunk, 2], half, radius_words, angle_words)
        coarse = np.int32(0)
        for i in range(LANES):
            coarse += np.int32(radius_words[i] < np.int32(_COARSE))
            # 2^25 u, an odd number.
            singles[i] = np.float32(np.int32(radius_words[i] + radius_words[i]) | np.int32(1))
        for i in range(LANES):
            # u = mantissa 2^exponent, the mantissa in [sqrt(1/2), sqrt(2)).
            exponents[i] = np.int32(np.int32(bits[i] - np.int32(0x3F3504F3)) >> np.int32(23))
            mantissa_bits[i] = np.int32(bits[i] - np.int32(exponents[i] << np.int32(23)))
        for i in range(LANES):
            logarithm = _log(mantissas[i]) + np.float32(np.int32(exponents[i] - np.int32(25))) * np.float32(np.log(2.0))
            radius = np.sqrt(max(np.float32(-2.0 * GRID * GRID) * logarithm, np.float32(0.0)))
            word = angle_words[i]
            cosine, sine = _turn(word)
            one = np.int32(radius * cosine + np.float32(0.5))
            other = np.int32(radius * sine + np.float32(0.5))
            swap = np.int32(word & np.int32(4)) != np.int32(0)
            first[i] = _signed(other if swap else one, np.int32(word & np.int32(1)))
            second[i] = _signed(one if swap else other, np.int32(np.int32(word >> np.int32(1)) & np.int32(1)))
        for i in range(LANES):
            drawn[chunk, 0, i] = first[i]
        for i in range(LANES):
            drawn[chunk, 1, i] = second[i]
        if coarse > 0:
            for i in range(LANES):
                if radius_words[i] < _COARSE and refined < len(spare):
                    _refine(radius_words[i], angle_words[i], spare[refined], drawn[chunk], i)
                    refined += 1


@njit_fused
def _unpack(one: AnyArray, two: AnyArray, three: AnyArray, half: int, radii: Integers, angles: Integers) -> None:
    """Make four 24-bit numbers of three 32-bit words: the upper bits of each, and their three lowest bytes."""
    byte = np.uint32(255)
    for i in range(half):
        radii[i] = np.int32(one[i] >> np.uint32(8))
    for i in range(half):
        radii[half + i] = np.int32(two[i] >> np.uint32(8))
    for i in range(half):
        angles[i] = np.int32(three[i] >> np.uint32(8))
    for i in range(half):
        low = np.uint32(np.uint32(two[i] & byte) << np.uint32(8)) | np.uint32(three[i] & byte)
        angles[half + i] = np.int32(np.uint32(np.uint32(one[i] & byte) << np.uint32(16)) | np.uint32(low))


@njit_fused
def _log(mantissa: Any) -> Any:
    """Return ln of a single in [sqrt(1/2), sqrt(2)), to single precision (the polynomial of Cephes)."""
    x = mantissa - np.float32(1.0)
    p = np.float32(7.0376836292e-2) * x + np.float32(-1.1514610310e-1)
    p = p * x + np.float32(1.1676998740e-1)
    p = p * x + np.float32(-1.2420140846e-1)
    p = p * x + np.float32(1.4249322787e-1)
    p = p * x + np.float32(-1.6668057665e-1)
    p = p * x + np.float32(2.0000714765e-1)
    p = p * x + np.float32(-2.4999993993e-1)
    p = p * x + np.float32(3.3333331174e-1)
    return x + x * x * (p * x - np.float32(0.5))


@njit_fused
def _turn(word: Any) -> tuple[Any, Any]:
    """Return cosine and sine of an angle in (0, pi/4) from the upper 21 of 24 bits, to single precision (Cephes)."""
    x = np.float32(np.int32(np.int32(word >> np.int32(3)) * np.int32(2) + np.int32(1))) * np.float32(np.pi / 2.0**24)
    y = x * x
    s = np.float32(8.3321608736e-3) + y * np.float32(-1.9515295891e-4)
    c = np.float32(-1.388731625493765e-3) + y * np.float32(2.443315711809948e-5)
    sine = x + x * y * (np.float32(-1.6666654611e-1) + y * s)
    cosine = np.float32(1.0) - np.float32(0.5) * y + y * y * (np.float32(4.166664568298827e-2) + y * c)
    return cosine, sine


@njit_fused
def _signed(magnitude: Any, negative: Any) -> Any:
    return np.int16(np.int32(np.int32(magnitude ^ np.int32(-negative)) + negative))


@njit_fused
def _refine(radius_word: int, angle_word: int, more: int, pair: Shorts, i: int) -> None:
    """Compute pair i again, with 64 more bits of the radius, in double precision."""
    uniform = (float(radius_word) + (float(more) + 0.5) * 2.0**-64) * 2.0**-24
    radius = GRID * np.sqrt(-2.0 * np.log(uniform))
    angle = (2 * (angle_word >> 3) + 1) * (np.pi / 2.0**24)
    one, other = np.int32(radius * np.cos(angle) + 0.5), np.int32(radius * np.sin(angle) + 0.5)
    if angle_word & 4:
        one, other = other, one
    pair[0, i] = _signed(one, np.int32(angle_word & 1))
    pair[1, i] = _signed(other, np.int32((angle_word >> 1) & 1))
