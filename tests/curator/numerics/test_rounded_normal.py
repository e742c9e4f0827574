"""The tables of the rounded normal: their law, counted out in whole numbers, is what the proof says."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from curator.numerics.gaussian_noise import LANES, ROOM
from curator.numerics.rounded_normal import (
    BLOCK_BITS,
    CHANCE_BITS,
    CORE_BITS,
    GRID,
    MAGNITUDE_BITS,
    REST_CHANCE_BITS,
    TABLES_BITS,
    alias_table,
    magnitudes,
    split,
    tables,
)
from tests.tiers import thinned

PRECISION = 288


def probability(m):
    """Return P(m) to some 70 digits, a fraction."""
    with mpmath.workdps(100):
        edges = (mpmath.mpf(2 * m - 1) / (2 * GRID), mpmath.mpf(2 * m + 1) / (2 * GRID))
        tails = [mpmath.erfc(edge / mpmath.sqrt(2)) / 2 for edge in edges]
        return Fraction(mpmath.nstr((1 if m == 0 else 2) * (tails[0] - tails[1]), 95))


@cache
def drawn_core():
    """Return what the core's table draws: multiples of 2^-29 for each block."""
    counts = [0] * (1 << CORE_BITS)
    for slot, entry in enumerate(tables().core.tolist()):
        counts[slot] += entry >> CORE_BITS
        counts[entry & (1 << CORE_BITS) - 1] += (1 << CHANCE_BITS) - (entry >> CORE_BITS)
    return counts


@cache
def drawn_rest():
    """Return what the rest's table draws: multiples of 2^-207 for each magnitude."""
    counts = [0] * (1 << MAGNITUDE_BITS)
    _, rest, aliases = tables()
    for slot, ((upper, middle, lower), other) in enumerate(zip(rest.tolist(), aliases.tolist(), strict=True)):
        chance = (upper << 128) + (middle << 64) + lower
        counts[slot] += chance
        counts[other] += (1 << REST_CHANCE_BITS) - chance
    return counts


@pytest.mark.parametrize("m", thinned([0, 1, 2, 100, 2047, 2048, 5000, 8183, 8184, 12_000, 20_000, 32_767], 4))
def test_probabilities_are_those_of_a_rounded_normal(m):
    exact = probability(m)
    assert abs(Fraction(magnitudes()[m], 1 << PRECISION) - exact) < exact / (1 << 184) + Fraction(1, 1 << 230)


def test_all_magnitudes_together_have_all_but_nothing():
    with mpmath.workdps(100):
        beyond = mpmath.erfc((mpmath.mpf(1 << MAGNITUDE_BITS) - 0.5) / GRID / mpmath.sqrt(2))
        assert beyond < mpmath.mpf(2) ** -185
    assert 0 <= (1 << PRECISION) - sum(magnitudes()) <= 1 << MAGNITUDE_BITS


def test_tables_draw_the_weights_exactly():
    blocks, rest = split()
    assert drawn_core() == blocks
    assert drawn_rest() == rest
    assert min(rest) >= 0


def test_the_law_of_the_tables_is_within_its_bound_of_the_rounded_normal():
    core, rest, size = drawn_core(), drawn_rest(), 1 << BLOCK_BITS
    share = Fraction(core[-1], 1 << CORE_BITS + CHANCE_BITS)
    assert share < Fraction(1, 1 << 8)
    # All in multiples of one small number: 2^-(288 + 31 + 207) is enough for each.
    unit = 1 << PRECISION + CORE_BITS + CHANCE_BITS + BLOCK_BITS + MAGNITUDE_BITS + REST_CHANCE_BITS
    of_block = unit >> CORE_BITS + CHANCE_BITS + BLOCK_BITS
    of_rest = core[-1] * (unit >> CORE_BITS + CHANCE_BITS + MAGNITUDE_BITS + REST_CHANCE_BITS)
    distance = 0
    for m, mass in enumerate(magnitudes()):
        law = rest[m] * of_rest + (core[m // size] * of_block if m < size * (len(core) - 1) else 0)
        distance += abs(law - mass * (unit >> PRECISION))
    assert Fraction(distance, 2 * unit) < Fraction(1, 1 << TABLES_BITS)


def test_the_rest_of_a_chunk_fits_its_room():
    share = Fraction(drawn_core()[-1], 1 << CORE_BITS + CHANCE_BITS)
    with mpmath.workdps(90):
        p = mpmath.mpf(share.numerator) / share.denominator
        more = sum(mpmath.binomial(LANES, k) * p**k * (1 - p) ** (LANES - k) for k in range(ROOM + 1, ROOM + 300))
        assert more < mpmath.mpf(2) ** -200


def test_an_alias_table_has_the_given_weights_exactly():
    random = np.random.default_rng(1)
    for size in (1, 2, 7, 64):
        capacity = 1 << 90
        cuts = sorted(int(cut) for cut in random.integers(0, 1 << 62, size - 1))
        weights = [(b - a) * size * (capacity >> 62) for a, b in zip([0, *cuts], [*cuts, 1 << 62], strict=True)]
        chances, aliases = alias_table(weights, capacity)
        drawn = list(chances)
        for chance, alias in zip(chances, aliases, strict=True):
            drawn[alias] += capacity - chance
        assert drawn == weights
