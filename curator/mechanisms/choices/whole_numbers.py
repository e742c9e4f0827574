"""Draws by whole numbers: uniform ones of any size, and places in proportion to whole weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from common.numerics.randomness import RandomSource


def below(bound: int, source: RandomSource) -> int:
    """Draw an integer uniform on 0..bound-1, of any size, exactly.

    Words are drawn again until they are below the bound: how often says nothing about the number that comes at last.
    """
    bits = bound.bit_length()
    while True:
        point = random_bits(bits, source)
        if point < bound:
            return point


def random_bits(bits: int, source: RandomSource) -> int:
    """Draw an integer uniform on 0..2^bits-1."""
    words = source.words(-(-bits // 64))
    return int.from_bytes(words.astype("<u8").tobytes(), "little") >> (-bits % 64)


def place_of(point: int, weights: Sequence[int]) -> int:
    """Return the place at which the cumulated weights first exceed a point; all weights are gone through always.

    Parameters
    ----------
    point
        In 0..sum-1: uniform, it makes a place as likely as its weight is of all.
    """
    return sum(bound <= point for bound in accumulate(weights))
