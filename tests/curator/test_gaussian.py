"""Noise on a grid: the right law in every cell and out to the tail, symmetric, each number with its own bits."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from common.randomness import RandomSource
from curator.gaussian import FINE_GRID, GRID, LANES, _box_muller, fine_normals, normals


def cells(drawn, most):
    """Count how often each of -most..most was drawn; both ends hold what is beyond."""
    return np.bincount(np.clip(drawn.astype(np.int64), -most, most) + most, minlength=2 * most + 1)


def masses(most):
    """Return the probability of each of these cells, their ends included."""
    edges = norm.cdf((np.arange(-most, most) + 0.5) / GRID)
    return np.diff(np.concatenate([[0.0], edges, [1.0]]))


def transformed(radii, angles):
    """Return the pairs that 24-bit radius and angle words lead to, shape (k, 2)."""
    count = len(radii)
    half = LANES // 2
    padding = -count % LANES
    n, t = (
        np.pad(np.asarray(w, dtype=np.uint32), (0, padding), mode="edge").reshape(-1, 2, half) for w in (radii, angles)
    )
    words = np.empty((len(n), 3, half), dtype=np.uint32)
    words[:, 0] = n[:, 0] << 8 | t[:, 1] >> 16
    words[:, 1] = n[:, 1] << 8 | t[:, 1] >> 8 & 255
    words[:, 2] = t[:, 0] << 8 | t[:, 1] & 255
    drawn = np.empty((len(n), 2, LANES), dtype=np.int16)
    _box_muller(words, np.full(64, 1 << 63, dtype=np.uint64), drawn)
    return drawn.transpose(0, 2, 1).reshape(-1, 2)[:count]


def test_every_cell_has_its_probability():
    drawn = normals(16_000_000, RandomSource.seeded(1))
    most = 3 * GRID
    assert chisquare(cells(drawn, most), len(drawn) * masses(most)).pvalue > 1e-6
    z = drawn / GRID
    assert abs(z.mean()) < 6 / math.sqrt(len(z))
    assert abs((z**2).mean() - 1) < 6 * math.sqrt(2 / len(z))
    assert abs((z**4).mean() - 3) < 6 * math.sqrt(96 / len(z))


def test_tail_is_neither_cut_nor_light():
    drawn = normals(16_000_000, RandomSource.seeded(2)) / GRID
    edges = np.array([3.0, 3.5, 4.0, 4.25, 4.5, 12.0])
    expected = len(drawn) * np.diff(norm.cdf(edges))
    for side in (drawn, -drawn):
        assert (np.abs(np.histogram(side, edges)[0] - expected) < 6 * np.sqrt(expected)).all()


@pytest.mark.parametrize(("x", "y"), [(1400, 900), (3000, 2500), (6000, 300), (700, 60)])
def test_every_cell_of_a_pair_has_its_probability_by_counting_all_words_that_lead_there(x, y):
    corners = [complex(x + dx, y + dy) for dx in (-0.6, 0.6) for dy in (-0.6, 0.6)]
    low, high = (math.exp(-0.5 * (r / GRID) ** 2) * 2**24 for r in (max(map(abs, corners)), min(map(abs, corners))))
    radii = np.arange(math.floor(low), math.ceil(high))
    turns = np.angle(corners) / (math.pi / 4) * 2**21
    angles = np.arange(math.floor(turns.min()), math.ceil(turns.max())) << 3
    assert radii[0] >= 1 << 10
    assert angles[-1] < 1 << 24
    found = 0
    for some in np.array_split(radii, -(-len(radii) * len(angles) // 2_000_000)):
        pairs = transformed(np.repeat(some, len(angles)), np.tile(angles, len(some)))
        found += np.count_nonzero((pairs == (x, y)).all(axis=1))
    mass = math.prod(norm.cdf((k + 0.5) / GRID) - norm.cdf((k - 0.5) / GRID) for k in (x, y))
    assert found * 2.0**-48 == pytest.approx(mass, rel=1e-4)


def test_law_is_symmetric_exactly():
    random = np.random.default_rng(3)
    radii, angles = random.integers(1 << 24, size=(2, 20 * LANES))
    pairs = transformed(radii, angles)
    np.testing.assert_array_equal(transformed(radii, angles ^ 1), pairs * (-1, 1))
    np.testing.assert_array_equal(transformed(radii, angles ^ 2), pairs * (1, -1))
    np.testing.assert_array_equal(np.abs(transformed(radii, angles ^ 4)), np.abs(pairs[:, ::-1]))


@pytest.mark.parametrize("word", [0, 1, 500, 1023, 1024, 100_000, 1 << 20, (1 << 24) - 1])
def test_radius_is_that_of_its_word_from_the_far_tail_to_the_middle(word):
    angles = np.arange(0, 1 << 24, 16411)
    pairs = transformed(np.full(len(angles), word), angles)
    radius = GRID * math.sqrt(-2 * math.log((word + 0.5) * 2.0**-24))
    np.testing.assert_allclose(np.hypot(*pairs.T), radius, atol=1.0)


def test_numbers_are_independent_across_lags_and_blocks():
    drawn = normals(500_000, RandomSource.seeded(3)).astype(float)
    for lag in (1, 2, 3, 512, LANES, 2 * LANES, 64 * LANES):
        for power in (1, 2):
            assert abs(np.corrcoef(drawn[:-lag] ** power, drawn[lag:] ** power)[0, 1]) < 6 / np.sqrt(len(drawn) - lag)


def test_the_same_source_gives_the_same_numbers():
    np.testing.assert_array_equal(normals(9000, RandomSource.seeded(4)), normals(9000, RandomSource.seeded(4)))
    assert normals(0, RandomSource.seeded(4)).shape == (0,)


def test_fine_normals_have_the_right_law():
    drawn = fine_normals(400_000, RandomSource.seeded(5)) / FINE_GRID
    counts = np.histogram(drawn, norm.ppf(np.linspace(0, 1, 1001)))[0]
    assert chisquare(counts).pvalue > 1e-6
