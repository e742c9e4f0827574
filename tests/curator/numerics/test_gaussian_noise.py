"""Noise on a grid: the right law in every cell and out to the tail, symmetric, each number with its own bits."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from common.numerics.randomness import RandomSource
from curator.numerics.gaussian_noise import FINE_GRID, GRID, LANES, _box_muller, _refine, fine_normals, normals


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
    padding = -count % (2 * LANES)
    n, t = (
        np.pad(np.asarray(w, dtype=np.uint32), (0, padding), mode="edge").reshape(-1, 2, LANES) for w in (radii, angles)
    )
    words = np.empty((len(n), 3, LANES), dtype=np.uint32)
    words[:, 0] = n[:, 0] << 8 | t[:, 1] >> 16
    words[:, 1] = n[:, 1] << 8 | t[:, 1] >> 8 & 255
    words[:, 2] = t[:, 0] << 8 | t[:, 1] & 255
    drawn = np.empty((len(n), 2, 2, LANES), dtype=np.int16)
    middle = np.tile(np.array([1 << 31, 0], dtype=np.uint32), 2 * LANES + 2)
    for these, pairs in zip(words, drawn.reshape(-1, 4, LANES), strict=True):
        assert _box_muller(these, pairs) == (these[:2] >> 8).min()
        _refine(these, middle, pairs)
    return drawn.transpose(0, 1, 3, 2).reshape(-1, 2)[:count]


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


@pytest.mark.parametrize(
    ("x", "y", "accuracy"),
    [
        (1400, 900, 1e-4),
        (3000, 2500, 1e-4),
        (6000, 300, 1e-4),
        (700, 60, 1e-4),
        (2000, 1347, 1e-4),
        (1347, 2000, 1e-4),
        (0, 2500, 1e-3),
        (1, 3000, 1e-3),
        (0, 6000, 1e-3),
        (2500, 0, 1e-3),
        (5500, 1, 1e-3),
    ],
)
def test_every_cell_of_a_pair_has_its_probability_by_counting_all_words_that_lead_there(x, y, accuracy):
    # At x = 0 the cosine's sign changes, at y = 0 the angle's; 2000^2 + 1347^2 = 2 ln 2 GRID^2, where u passes 1/2.
    corners = [complex(x + dx, y + dy) for dx in (-0.6, 0.6) for dy in (-0.6, 0.6)]
    low, high = (math.exp(-0.5 * (r / GRID) ** 2) * 2**24 for r in (max(map(abs, corners)), min(map(abs, corners))))
    radii = np.arange(math.floor(low), math.ceil(high))
    turns = np.angle(corners) / (math.pi / 2) * 2**22
    upper = np.arange(math.floor(turns.min()), min(math.ceil(turns.max()), 1 << 22))
    angles = (upper[:, None] << 1 & 0xFFFFFE | [0, 1]).ravel() if x == 0 else upper << 1 & 0xFFFFFE
    assert radii[0] >= 1 << 10
    found = 0
    for some in np.array_split(radii, -(-len(radii) * len(angles) // 2_000_000)):
        pairs = transformed(np.repeat(some, len(angles)), np.tile(angles, len(some)))
        found += int(np.count_nonzero((pairs == (x, y)).all(axis=1)))
    mass = math.prod(norm.cdf((k + 0.5) / GRID) - norm.cdf((k - 0.5) / GRID) for k in (x, y))
    assert found * 2.0**-48 == pytest.approx(mass, rel=accuracy)


@pytest.mark.parametrize("most", [1 << 24, 1 << 10], ids=["all", "refined"])
def test_law_is_symmetric_exactly(most):
    random = np.random.default_rng(3)
    radii, angles = random.integers(most, size=20 * LANES), random.integers(1 << 24, size=20 * LANES)
    pairs = transformed(radii, angles)
    np.testing.assert_array_equal(transformed(radii, angles ^ 1), pairs * (-1, 1))
    np.testing.assert_array_equal(transformed(radii, angles ^ 0xFFFFFE), pairs * (1, -1))


def test_refined_pairs_point_where_their_angle_says():
    angles = np.arange(0, 1 << 24, 16411)
    refined, plain = (transformed(np.full(len(angles), word), angles) for word in (1023, 1024))
    np.testing.assert_allclose(refined, plain, atol=3.0)


@pytest.mark.parametrize("word", [0, 1, 500, 1023, 1024, 100_000, 1 << 20, (1 << 24) - 1])
def test_radius_is_that_of_its_word_from_the_far_tail_to_the_middle(word):
    angles = np.arange(0, 1 << 24, 16411)
    pairs = transformed(np.full(len(angles), word), angles)
    radius = GRID * math.sqrt(-2 * math.log((word + 0.5) * 2.0**-24))
    np.testing.assert_allclose(np.hypot(*pairs.T), radius, atol=1.0)


def test_numbers_are_independent_across_lags_and_blocks():
    drawn = normals(500_000, RandomSource.seeded(3)).astype(float)
    for lag in (1, 2, 3, LANES, 2 * LANES, 4 * LANES, 64 * LANES):
        for power in (1, 2):
            assert abs(np.corrcoef(drawn[:-lag] ** power, drawn[lag:] ** power)[0, 1]) < 6 / np.sqrt(len(drawn) - lag)


def test_the_same_source_gives_the_same_numbers():
    np.testing.assert_array_equal(normals(9000, RandomSource.seeded(4)), normals(9000, RandomSource.seeded(4)))
    assert normals(0, RandomSource.seeded(4)).shape == (0,)


def test_fine_normals_have_the_right_law():
    drawn = fine_normals(400_000, RandomSource.seeded(5)) / FINE_GRID
    counts = np.histogram(drawn, norm.ppf(np.linspace(0, 1, 1001)))[0]
    assert chisquare(counts).pvalue > 1e-6
