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
part in ten thousand (tests count the words that lead to a cell). Cells along the axes, one pair in a thousand, have it
to one part in a thousand, as their sides lie along the grid of the angles; the few cells at the origin, where one pair
in a million falls, are coarser. Such errors add up as their squares: 200 coordinates of a gradient half as long as
sigma gain less than 1e-5 of their chi-squared. The signs of both are exact bits, so the law is symmetric exactly. One
radius in 2^14 would be too coarse for the tail: it gets 64 further bits and double precision. The tail then ends at
|z| = 11.1, beyond which a normal has 1e-28 of its mass, and int16 at 15.99: nothing is cut that could be missed.

The words are a ChaCha8 keystream (:mod:`common.numerics.chacha`) under a key that the source gives, made in the
first-level cache just before they are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray
from common.numerics.chacha import BLOCK_WORDS, KEY_WORDS, fill
from common.numerics.elementary import HIGH, LOW
from common.numerics.elementary_compiled import log, turned
from common.numerics.kernels import bits_of, njit_inlined, single_of
from common.numerics.lanes import fma
from common.numerics.randomness import RandomSource

Shorts = NDArray[np.int16]
Integers = NDArray[np.int32]

GRID = 1 << 11
"""Cells per standard deviation of :func:`normals`."""
FINE_GRID = 1 << 26
"""Cells per standard deviation of :func:`fine_normals`."""
LANES = 512
"""Three 32-bit words each make two pairs; so many are worked on at a time, in the first-level cache."""
_BLOCKS = 3 * LANES // BLOCK_WORDS
_SPARE_BLOCKS = 16
"""Blocks of further bits for the radii of a chunk that need them: one chunk in sixteen needs any, a block has eight."""
_COARSE = 1 << 10
"""Radius words below this are refined."""
_LN_2 = HIGH + LOW
_EVEN = np.float32(3 << 22)
"""Added to a single up to 2^22, it leaves the nearest integer in the lowest bits."""


def normals(count: int, source: RandomSource) -> Shorts:
    """Draw ``count`` independent standard normals, rounded to multiples of 1/GRID: the multiples, int16."""
    drawn = np.empty((-(-count // (4 * LANES)), 4, LANES), dtype=np.int16)
    _draw(source.words(KEY_WORDS // 2).view(np.uint32), drawn)
    return drawn.reshape(-1)[:count]


def fine_normals(count: int, source: RandomSource) -> Integers:
    """Draw ``count`` independent standard normals in multiples of 1/FINE_GRID, int32: slow, for large noise.

    In double precision; |z| <= 8.6, beyond which a normal has 8e-18 of its mass.
    """
    return np.asarray(np.rint(source.normals(count) * FINE_GRID), dtype=np.int32)


@njit_inlined
def _draw(key: AnyArray, drawn: Shorts) -> None:
    """Fill ``drawn``, shape (chunks, 4, LANES): each chunk from a nonce of its own."""
    blocks = np.empty((BLOCK_WORDS, _BLOCKS), dtype=np.uint32)
    spare = np.empty((BLOCK_WORDS, _SPARE_BLOCKS), dtype=np.uint32)
    words = blocks.reshape((3, LANES))
    for chunk in range(len(drawn)):
        fill(key, chunk, 0, blocks)
        if _box_muller(words, drawn[chunk]) < _COARSE:
            fill(key, chunk, 1, spare)
            _refine(words, spare.reshape(spare.size), drawn[chunk])


@njit_inlined
def _box_muller(words: AnyArray, drawn: Shorts) -> Any:
    """Make four normals of each three words, shapes (4, LANES) and (3, LANES); return the least radius word.

    One loop without branches, which the compiler turns into vector instructions. For the same reason every number has
    its type written down: a stray promotion to 64 bits halves the lanes.
    """
    least = np.int32(1 << 24)
    for i in range(words.shape[1]):
        radius, angle, other_radius, other_angle = _unpacked(words[0, i], words[1, i], words[2, i])
        least = min(least, radius, other_radius)
        drawn[0, i], drawn[1, i] = _pair(radius, angle)
        drawn[2, i], drawn[3, i] = _pair(other_radius, other_angle)
    return least


@njit_inlined
def _unpacked(one: Any, two: Any, three: Any) -> tuple[Any, Any, Any, Any]:
    """Make two radius words, 24 bits, and two angle words, the upper 24 of 32, of three words: 8 bits of each go last.

    The eight lowest bits of an angle word mean nothing.
    """
    byte = np.uint32(255)
    low = np.uint32(np.uint32(two & byte) << np.uint32(16)) | np.uint32(np.uint32(three & byte) << np.uint32(8))
    last = np.int32(np.uint32(one << np.uint32(24)) | np.uint32(low))
    return np.int32(one >> np.uint32(8)), np.int32(three), np.int32(two >> np.uint32(8)), last


@njit_inlined
def _pair(radius_word: Any, angle_word: Any) -> tuple[Any, Any]:
    """Return both numbers of a pair; the radius word must not be one to refine."""
    radius = _radius(radius_word)
    cosine, sine = _turn(angle_word)
    return np.int16(bits_of(fma(radius, cosine, _EVEN))), np.int16(bits_of(fma(radius, sine, _EVEN)))


@njit_inlined
def _radius(word: Any) -> Any:
    """Return GRID sqrt(-2 ln u) for u = (word + 1/2) / 2^24.

    u = (1 - x) 2^-e with x in (0, 1/2], so -ln u = e ln 2 - ln(1 - x). The polynomial for the latter is the one whose
    *slope* is closest to the true one, 9e-6 of it at most: that is what changes the mass of a cell. Its error is 0 at
    both ends, so that nothing jumps where e changes.
    """
    bits = bits_of(np.float32(word) + np.float32(0.5))
    exponent = np.float32(np.int32(np.int32(150) - np.int32(bits >> np.int32(23))))
    x = np.float32(1.0) - single_of(np.int32(np.int32(bits & np.int32(0x7FFFFF)) | np.int32(0x3F000000)))
    scale = 2.0 * GRID * GRID
    p = fma(x, np.float32(1.31133606 * scale), np.float32(-1.14786461 * scale))
    p = fma(p, x, np.float32(0.83241674 * scale))
    p = fma(p, x, np.float32(0.09832123 * scale))
    p = fma(p, x, np.float32(0.35111591 * scale))
    p = fma(p, x, np.float32(0.49914305 * scale))
    p = fma(p, x, np.float32(1.0000088 * scale))
    return np.sqrt(fma(exponent, np.float32(_LN_2 * scale), x * p))


@njit_inlined
def _turn(word: Any) -> tuple[Any, Any]:
    """Return cosine and sine of an angle: the cosine's sign and the angle t pi/2 in its half are bits of the word.

    t = (k + 1/2) / 2^22 in (-1, 1) from the upper 23 bits, k the integer that they are in two's complement. Both
    polynomials are closest in the largest error, 6e-7; the cosine's has the factor 1 - t^2, so that nothing jumps where
    its sign changes.
    """
    t = fma(np.float32(np.int32(word >> np.int32(9))), np.float32(2.0**-22), np.float32(2.0**-23))
    y = t * t
    p = fma(fma(y, np.float32(-0.0043331), np.float32(0.07943434)), y, np.float32(-0.64589285))
    q = fma(fma(y, np.float32(-8.56702302e-4), np.float32(1.99512897e-2)), y, np.float32(-0.233698027))
    q = fma(q, y, np.float32(1.0))
    sign = np.int32(np.int32(word << np.int32(23)) & np.int32(-(1 << 31)))
    cosine = single_of(np.int32(bits_of(fma(-q, y, q)) ^ sign))
    return cosine, t * fma(p, y, np.float32(1.57079101))


@njit_inlined
def _refine(words: AnyArray, spare: AnyArray, drawn: Shorts) -> None:
    """Compute again, in double precision and with 64 more bits of the radius, the pairs that need it."""
    used = 0
    for i in range(words.shape[1]):
        radius, angle, other_radius, other_angle = _unpacked(words[0, i], words[1, i], words[2, i])
        if radius < _COARSE:
            drawn[0, i], drawn[1, i] = _fine_pair(radius, angle, spare[used], spare[used + 1])
            used += 2
        if other_radius < _COARSE:
            drawn[2, i], drawn[3, i] = _fine_pair(other_radius, other_angle, spare[used], spare[used + 1])
            used += 2
        if used + 4 > len(spare):
            break


@njit_inlined
def _fine_pair(radius_word: Any, angle_word: Any, high: Any, low: Any) -> tuple[Any, Any]:
    more = (float(high) + (float(low) + 0.5) * 2.0**-32) * 2.0**-32
    radius = GRID * np.sqrt(-2.0 * log((float(radius_word) + more) * 2.0**-24))
    cosine, sine = turned((float(angle_word >> 9) + 0.5) * 2.0**-24)
    sign = -1.0 if angle_word & 256 else 1.0
    return np.int16(np.rint(sign * radius * cosine)), np.int16(np.rint(radius * sine))
