"""Noise on a grid: the right law in every cell and out to the tail, symmetric, each number with its own bits."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from fractions import Fraction
from functools import cache, partial

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, norm

from common.core.errors import BadInput
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from curator.mechanisms import gaussian_noise as noise
from tests.tiers import for_each, thinned


@pytest.mark.slow
def test_every_cell_has_its_probability():
    drawn = noise.normals(16_000_000, RandomSource.seeded(1))
    most = 3 * noise.GRID
    cells = np.bincount(np.clip(drawn.astype(np.int64), -most, most) + most, minlength=2 * most + 1)
    edges = norm.cdf((np.arange(-most, most) + 0.5) / noise.GRID)
    assert chisquare(cells, len(drawn) * np.diff(np.concatenate([[0.0], edges, [1.0]]))).pvalue > 1e-6


def test_tail_is_neither_cut_nor_light():
    drawn = noise.normals(16_000_000, RandomSource.seeded(2)) / noise.GRID
    edges = np.array([3.0, 3.5, 4.0, 4.25, 4.5, 12.0])
    expected = len(drawn) * np.diff(norm.cdf(edges))
    for side in (drawn, -drawn):
        assert (np.abs(np.histogram(side, edges)[0] - expected) < 6 * np.sqrt(expected)).all()


def core_of(slots, places, signs, chances):
    """Return what words are taken for before the rest is drawn."""
    words = (slots | places << 11 | signs << 13 | chances << 14).astype(np.uint32)
    padded = np.resize(words, -(-len(words) // noise.LANES) * noise.LANES).reshape(-1, noise.LANES)
    rows = np.empty(padded.shape, dtype=np.int16)
    for some, row in zip(padded, rows, strict=True):
        draw_core(some, noise.tables().core, row)
    return rows.ravel()[: len(words)]


@njit
def draw_core(words, core, row):
    noise._draw_core(words, core, np.empty(noise.LANES, dtype=np.uint32), row)


@njit
def find_rest(row, places):
    return noise._find_rest(
        row, np.empty(noise.LANES // 8, dtype=np.uint32), np.zeros(noise.LANES // 8 + 1, dtype=np.int64), places
    )


@njit
def draw_rest(words, rest, rest_alias, places, found, row):
    noise._draw_rest(words, rest, rest_alias, places, found, row)


def test_every_word_is_taken_for_what_the_table_says():
    """At each threshold the last chance below it and the first that is not; everywhere all places and signs."""
    slots, places, signs, side = (a.ravel() for a in np.meshgrid(*map(np.arange, (2048, 4, 2, 2)), indexing="ij"))
    entries = noise.tables().core[slots].astype(np.int64)
    threshold, alias = entries >> 11, entries & 2047
    chances = threshold - 1 + side
    possible = (chances >= 0) & (chances < 1 << 18)
    expected = (4 * np.where(side == 0, slots, alias) + places) * (1 - 2 * signs)
    slots, places, signs, chances, expected = (a[possible] for a in (slots, places, signs, chances, expected))
    np.testing.assert_array_equal(core_of(slots, places, signs, chances), expected)
    ends = np.tile([0, (1 << 18) - 1], 1024)
    slots, entries = np.arange(2048), noise.tables().core.astype(np.int64)
    blocks = np.where(ends < entries >> 11, slots, entries & 2047)
    np.testing.assert_array_equal(core_of(slots, 0 * slots, 0 * slots, ends), 4 * blocks)


def rest_of(slots, chances, row, places, found):
    """Draw the rest with these slots and 192-bit chances into a copy of a row."""
    parts = [
        slots << 17 | 5,
        *(np.array([c >> shift & 0xFFFFFFFF for c in chances]) for shift in (160, 128, 96, 64, 32, 0)),
    ]
    words = np.concatenate(parts).astype(np.uint32)
    row = row.copy()
    draw_rest(words, *noise.tables()[1:], places, found, row)
    return row


@for_each("side", [0, 1])
def test_every_magnitude_of_the_rest_is_the_one_that_the_table_says(side):
    _, rest, aliases = noise.tables()
    row, places = np.full(noise.LANES, noise.REST_FROM, dtype=np.int16), np.arange(8 * noise.ROOM + 1)
    row[1::2] = -noise.REST_FROM - 3
    for begin in range(0, 1 << 15, 4 * noise.ROOM):
        slots = (begin + np.arange(noise.ROOM) * 4) & 32767
        thresholds = [sum(int(word) << 128 - 64 * k for k, word in enumerate(rest[s])) for s in slots]
        chances = [min(max(t - 1 + side, 0), (1 << 192) - 1) for t in thresholds]
        expected = [s if c < t else aliases[s] for s, c, t in zip(slots, chances, thresholds, strict=True)]
        drawn = rest_of(slots, chances, row, places, noise.ROOM)
        np.testing.assert_array_equal(drawn[: noise.ROOM], np.array(expected) * np.where(row[: noise.ROOM] > 0, 1, -1))
        np.testing.assert_array_equal(drawn[noise.ROOM :], row[noise.ROOM :])


@for_each("many", [0, 1, 7, noise.ROOM, noise.ROOM + 1, 500, noise.LANES])
def test_the_places_of_the_rest_are_found_whatever_was_there_before(many):
    random = np.random.default_rng(many)
    row = random.integers(-noise.REST_FROM + 1, noise.REST_FROM, noise.LANES).astype(np.int16)
    at = random.choice(noise.LANES, many, replace=False)
    row[at] = random.choice([-1, 1], many) * random.integers(noise.REST_FROM, noise.REST_FROM + 4, many)
    places = random.integers(0, noise.LANES, 8 * noise.ROOM + 1)
    found = find_rest(row, places)
    assert set(places[: min(found, noise.ROOM)].tolist()) <= set(at.tolist())
    assert found == many if many <= noise.ROOM else found >= noise.ROOM
    drawn = rest_of(np.zeros(noise.ROOM, dtype=np.int64), [0] * noise.ROOM, row, places, found)
    changed = np.flatnonzero(drawn != row)
    assert len(changed) == min(found, noise.ROOM)
    assert set(changed.tolist()) <= set(at.tolist())


def test_no_step_of_the_sampler_depends_on_a_word():
    """Instructions are the same whatever is drawn: no branch, no loop but over constants and the number of chunks."""
    for name in ("_draw", "_prefetch_rest", "_draw_core", "_look_up", "_find_rest", "_draw_rest", "_join_words"):
        tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(noise, name).plain)).partition("\n")[2])
        for node in ast.walk(tree):
            assert not isinstance(node, ast.If | ast.While | ast.Break | ast.Continue | ast.BoolOp | ast.Try)
            if isinstance(node, ast.For):
                limit = ast.unparse(node.iter)
                constant = {"range(_PIECE)", "range(0, LANES, _PIECE)", "range(_GROUPS)", "range(ROOM)", "range(8)"}
                assert limit in constant | {"range(len(chunks))"}


@for_each("draw", [noise.normals, noise.fine_normals, partial(noise.whole_normals, 12.5)])
def test_words_are_consumed_by_their_number_alone(draw):
    class Counting(RandomSource):
        used = 0

        def _keystream(self, size):
            self.used += size
            return super()._keystream(size)

    for seed in range(5):
        source = Counting(bytes([seed] * 32), simulated=True)
        draw(count=5000, source=source)
        assert source.used == 32


def test_numbers_are_independent_across_lags_and_blocks():
    drawn = noise.normals(500_000, RandomSource.seeded(3)).astype(float)
    for lag in (1, 2, 3, noise.LANES, 2 * noise.LANES, 4 * noise.LANES, 16 * noise.LANES):
        for power in (1, 2):
            assert abs(np.corrcoef(drawn[:-lag] ** power, drawn[lag:] ** power)[0, 1]) < 6 / np.sqrt(len(drawn) - lag)


def test_fine_normals_have_the_right_law():
    drawn = noise.fine_normals(400_000, RandomSource.seeded(5)) / noise.FINE_GRID
    assert chisquare(np.histogram(drawn, norm.ppf(np.linspace(0, 1, 1001)))[0]).pvalue > 1e-6


@for_each("deviation", [2.0**-30, 0.2, 1.0, 7.3, 1000.0, 2.0**30 / 3, 2.0**58])
def test_whole_normals_are_rounded_normals_of_at_least_that_deviation(deviation):
    count = 400_000
    drawn = noise.whole_normals(deviation, count, RandomSource.seeded(6))
    assert drawn.dtype == np.int64
    if deviation < 0.01:
        assert not drawn.any()
        return
    edges = np.unique(np.round(deviation * norm.ppf(np.linspace(0, 1, 41)[1:-1])) - 0.5)
    observed = np.histogram(drawn, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    expected = count * np.diff(np.concatenate([[0.0], norm.cdf(edges / deviation), [1.0]]))
    assert chisquare(observed, expected).pvalue > 1e-6


@for_each("deviation", [0.0, -1.0, math.nan, math.inf, 2.0**59])
def test_noise_that_cannot_be_drawn_is_refused(deviation):
    with pytest.raises(BadInput, match="standard deviation"):
        noise.whole_normals(deviation, 1, RandomSource.seeded(1))


def two_steps(step, deviation):
    """Return the law of step * k_1 + k_2 for rounded normals, and that of a normal, two uniforms and rounding."""
    k = np.arange(-12 * deviation, 12 * deviation + 1)
    p = np.diff(norm.cdf(np.append(k - 0.5, k[-1] + 0.5) / deviation))
    reach = 12 * deviation * (step + 1)
    mixed = np.zeros(2 * reach + 1)
    for one, chance in zip(k, p, strict=True):
        mixed[reach + step * one + k[0] : reach + step * one + k[-1] + 1] += chance * p
    # The density of step * U integrated exactly: the mean of the distribution function's integral.
    whole = math.hypot(step * deviation, deviation)
    points = np.arange(-reach, reach + 2) - 0.5
    upper, lower = (points + step / 2) / whole, (points - step / 2) / whole

    def integral(x):
        return x * norm.cdf(x) + norm.pdf(x)

    return mixed, np.diff(whole / step * (integral(upper) - integral(lower)))


def test_sums_of_steps_have_the_law_of_a_rounded_normal_and_an_independent_number():
    """The proof's two laws, computed; with steps that are too long for what fills them in, they differ."""
    close, ideal = two_steps(2, 8)
    assert 0.5 * np.abs(close - ideal).sum() < 1e-11
    far, ideal = two_steps(32, 8)
    assert 0.5 * np.abs(far - ideal).sum() > 0.01


PRECISION = 288


def probability(m):
    """Return P(m) to some 70 digits, a fraction."""
    with mpmath.workdps(100):
        edges = (mpmath.mpf(2 * m - 1) / (2 * noise.GRID), mpmath.mpf(2 * m + 1) / (2 * noise.GRID))
        tails = [mpmath.erfc(edge / mpmath.sqrt(2)) / 2 for edge in edges]
        return Fraction(mpmath.nstr((1 if m == 0 else 2) * (tails[0] - tails[1]), 95))


@cache
def drawn_core():
    """Return what the core's table draws: multiples of 2^-29 for each block."""
    counts = [0] * (1 << noise.CORE_BITS)
    for slot, entry in enumerate(noise.tables().core.tolist()):
        counts[slot] += entry >> noise.CORE_BITS
        counts[entry & (1 << noise.CORE_BITS) - 1] += (1 << noise.CHANCE_BITS) - (entry >> noise.CORE_BITS)
    return counts


@cache
def drawn_rest():
    """Return what the rest's table draws: multiples of 2^-207 for each magnitude."""
    counts = [0] * (1 << noise.MAGNITUDE_BITS)
    _, rest, aliases = noise.tables()
    for slot, ((upper, middle, lower), other) in enumerate(zip(rest.tolist(), aliases.tolist(), strict=True)):
        chance = (upper << 128) + (middle << 64) + lower
        counts[slot] += chance
        counts[other] += (1 << noise.REST_CHANCE_BITS) - chance
    return counts


@for_each("m", thinned([0, 1, 2, 100, 2047, 2048, 5000, 8183, 8184, 12_000, 20_000, 32_767], 4))
def test_probabilities_are_those_of_a_rounded_normal(m):
    exact = probability(m)
    assert abs(Fraction(noise.magnitudes()[m], 1 << PRECISION) - exact) < exact / (1 << 184) + Fraction(1, 1 << 230)


def test_all_magnitudes_together_have_all_but_nothing_and_tables_draw_their_weights_exactly():
    with mpmath.workdps(100):
        beyond = mpmath.erfc((mpmath.mpf(1 << noise.MAGNITUDE_BITS) - 0.5) / noise.GRID / mpmath.sqrt(2))
        assert beyond < mpmath.mpf(2) ** -185
    assert 0 <= (1 << PRECISION) - sum(noise.magnitudes()) <= 1 << noise.MAGNITUDE_BITS
    assert (drawn_core(), drawn_rest()) == noise.split()
    assert min(noise.split()[1]) >= 0


def test_the_law_of_the_tables_is_within_its_bound_of_the_rounded_normal():
    core, rest, size = drawn_core(), drawn_rest(), 1 << noise.BLOCK_BITS
    core_bits, rest_bits = noise.CORE_BITS + noise.CHANCE_BITS, noise.MAGNITUDE_BITS + noise.REST_CHANCE_BITS
    assert Fraction(core[-1], 1 << core_bits) < Fraction(1, 1 << 8)
    # All in multiples of one small number: 2^-(288 + 31 + 207) is enough for each.
    unit = 1 << PRECISION + core_bits + noise.BLOCK_BITS + rest_bits
    of_block = unit >> core_bits + noise.BLOCK_BITS
    of_rest = core[-1] * (unit >> core_bits + rest_bits)
    distance = 0
    for m, mass in enumerate(noise.magnitudes()):
        law = rest[m] * of_rest + (core[m // size] * of_block if m < size * (len(core) - 1) else 0)
        distance += abs(law - mass * (unit >> PRECISION))
    assert Fraction(distance, 2 * unit) < Fraction(1, 1 << noise.TABLES_BITS)


def test_the_rest_of_a_chunk_fits_its_room():
    share = Fraction(drawn_core()[-1], 1 << noise.CORE_BITS + noise.CHANCE_BITS)
    with mpmath.workdps(90):
        p = mpmath.mpf(share.numerator) / share.denominator
        more = sum(
            mpmath.binomial(noise.LANES, k) * p**k * (1 - p) ** (noise.LANES - k)
            for k in range(noise.ROOM + 1, noise.ROOM + 300)
        )
        assert more < mpmath.mpf(2) ** -200


def test_an_alias_table_has_the_given_weights_exactly():
    random = np.random.default_rng(1)
    for size in (1, 2, 7, 64):
        capacity = 1 << 90
        cuts = sorted(int(cut) for cut in random.integers(0, 1 << 62, size - 1))
        weights = [(b - a) * size * (capacity >> 62) for a, b in zip([0, *cuts], [*cuts, 1 << 62], strict=True)]
        chances, aliases = noise.alias_table(weights, capacity)
        drawn = list(chances)
        for chance, alias in zip(chances, aliases, strict=True):
            drawn[alias] += capacity - chance
        assert drawn == weights
