"""Standard normals in bulk from a keystream, one word each: Marsaglia and Tsang's ziggurat in 256 layers."""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from common.arrays import Floats, Words
from common.kernels import njit
from common.randomness import RandomSource

LAYERS = 256
_EDGE = 3.6541528853610088
"""Where the base layer's rectangle ends and the tail begins, for 256 layers of equal area."""
_BLOCK = 1 << 15


def _tables() -> tuple[Floats, Floats]:
    """Return the layers' right edges x (x[0] > x[1] = edge > ... > x[256] = 0) and the density at each.

    All layers have the same area v; layer i spans heights f(x[i]) to f(x[i+1]) and reaches x[i] to the
    right. The base layer (0) is the rectangle below f(edge) with the tail; x[0] = v / f(edge) is the width
    of a rectangle of that area.
    """
    height = np.exp(-0.5 * _EDGE**2)
    area = _EDGE * height + np.sqrt(np.pi / 2.0) * float(erfc(_EDGE / np.sqrt(2.0)))
    edges = np.zeros(LAYERS + 1)
    edges[0], edges[1] = area / height, _EDGE
    for i in range(2, LAYERS):
        edges[i] = np.sqrt(-2.0 * np.log(np.exp(-0.5 * edges[i - 1] ** 2) + area / edges[i - 1]))
    return edges, np.exp(-0.5 * edges**2)


_EDGES, _HEIGHTS = _tables()


def normals(count: int, source: RandomSource) -> Floats:
    """Draw ``count`` independent standard normals, float64.

    A word gives the layer (8 bits), the sign (1 bit) and the place in the layer (53 bits); the 1.5% that
    fall outside a layer's core take another word or more. The law is exact up to that rounding, the tail
    (|z| > 3.65) included, which reaches as far as |z| = 13.8.
    """
    drawn = np.empty(count)
    pending = np.zeros(1)
    filled = 0
    while filled < count:
        words = source.words(min(count - filled + (count - filled) // 32 + 16, _BLOCK))
        filled = _ziggurat(words, _EDGES, _HEIGHTS, drawn, filled, pending)
    return drawn


@njit
def _ziggurat(words: Words, edges: Floats, heights: Floats, drawn: Floats, filled: int, pending: Floats) -> int:
    """Fill ``drawn`` from ``filled`` on; return how far it is filled.

    ``pending[0]`` is the sign of a number of the tail that the last block of words began and could not
    finish, or 0: to drop it would make the tail a little lighter.
    """
    at = 0
    edge = edges[1]
    while filled < len(drawn) and at + 1 < len(words):
        if pending[0] != 0.0:
            beyond = -np.log1p(-(2.0**-53) * (words[at] >> np.uint64(11))) / edge
            room = -2.0 * np.log1p(-(2.0**-53) * (words[at + 1] >> np.uint64(11)))
            at += 2
            if room > beyond * beyond:
                drawn[filled] = pending[0] * (edge + beyond)
                filled += 1
                pending[0] = 0.0
            continue
        word = words[at]
        at += 1
        layer = word & np.uint64(255)
        sign = 1.0 - 2.0 * ((word >> np.uint64(8)) & np.uint64(1))
        place = (word >> np.uint64(11)) * 2.0**-53 * edges[layer]
        inner = layer + np.uint64(1)
        if place < edges[inner]:
            drawn[filled] = sign * place
            filled += 1
        elif layer == 0:
            pending[0] = sign
        else:
            height = (words[at] >> np.uint64(11)) * 2.0**-53
            at += 1
            if heights[layer] + height * (heights[inner] - heights[layer]) < np.exp(-0.5 * place * place):
                drawn[filled] = sign * place
                filled += 1
    return filled
