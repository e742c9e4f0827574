"""Normals in bulk: the right law out to the tail, each with its own word, reproducible."""

import numpy as np
from scipy.stats import chisquare, kstest, norm

from common.randomness import RandomSource
from curator.gaussian import _EDGES, _HEIGHTS, LAYERS, normals


def test_layers_have_equal_area():
    areas = _EDGES[1:LAYERS] * np.diff(_HEIGHTS)[1:]
    np.testing.assert_allclose(areas, _EDGES[0] * np.exp(-0.5 * _EDGES[1] ** 2), rtol=1e-10)


def test_law_is_standard_normal():
    drawn = normals(2_000_000, RandomSource.seeded(1))
    assert kstest(drawn, norm.cdf).pvalue > 1e-6
    # Fine cells, so that an error in one layer of the 256 would show.
    edges = norm.ppf(np.linspace(0, 1, 2001))
    assert chisquare(np.histogram(drawn, edges)[0]).pvalue > 1e-6


def test_tail_is_neither_cut_nor_light():
    drawn = normals(8_000_000, RandomSource.seeded(2))
    edges = np.array([3.6541528853610088, 3.8, 4.0, 4.25, 4.5, 10.0])
    expected = len(drawn) * np.diff(norm.cdf(edges))
    for side in (drawn, -drawn):
        counts = np.histogram(side, edges)[0]
        assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_numbers_are_independent_across_lags_and_blocks():
    drawn = normals(500_000, RandomSource.seeded(3))
    for lag in (1, 2, 3, 256, 1 << 15):
        assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 6 / np.sqrt(len(drawn) - lag)


def test_the_same_source_gives_the_same_numbers():
    np.testing.assert_array_equal(normals(1000, RandomSource.seeded(4)), normals(1000, RandomSource.seeded(4)))
    assert normals(0, RandomSource.seeded(4)).shape == (0,)
