"""Sums and histograms for everybody's learners: clipped by themselves, and noise of the declared size."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.laplace import Laplace
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from curator.mechanisms.clipping import clipped
from curator.mechanisms.counting.counts import MostFrequent, NoisyCount, NoisyHistogram
from curator.mechanisms.sums import ClippedSum, LossSum
from tests.curator.operations.given import assert_law, geometric

RUNS = 3000


def sums(mechanism, rows, runs=RUNS):
    return np.array([mechanism.apply(iter([rows]), RandomSource.seeded(run)) for run in range(runs)])


def test_a_row_counts_by_its_direction_and_by_the_norm_at_most():
    mechanism = ClippedSum(norm=2.0, width=2, mu=1e4)
    for row, kept in (((0.6, 0.8), (0.6, 0.8)), ((30.0, 40.0), (1.2, 1.6)), ((1e308, 0.0), (2.0, 0.0))):
        assert mechanism.apply(iter([np.array([row])]), RandomSource.seeded(1)) == pytest.approx(kept, abs=5e-3)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_counts_as_nothing(odd):
    mechanism = ClippedSum(norm=1.0, width=2, mu=1e4)
    rows = np.array([[odd, 1.0], [0.5, 0.0]])
    assert mechanism.apply(iter([rows]), RandomSource.seeded(1)) == pytest.approx([0.5, 0.0], abs=5e-3)


@pytest.mark.parametrize("mu", [0.5, 4.0])
def test_its_noise_is_two_norms_over_mu(mu):
    """4 standard errors of a variance of 6000 numbers."""
    found = sums(ClippedSum(norm=3.0, width=2, mu=mu), np.zeros((4, 2)))
    assert found.std() == pytest.approx(2.0 * 3.0 / mu, rel=4.0 / np.sqrt(2.0 * found.size))
    assert abs(found.mean()) < 4.0 * (6.0 / mu) / np.sqrt(found.size)


def test_pieces_of_any_size_give_the_same_sum():
    rows = np.random.default_rng(1).normal(size=(100, 3))
    mechanism = ClippedSum(norm=1.0, width=3, mu=1.0)
    whole = mechanism.apply(iter([rows]), RandomSource.seeded(1))
    pieces = mechanism.apply(iter(np.split(rows, [1, 40])), RandomSource.seeded(1))
    np.testing.assert_array_equal(whole, pieces)


def test_a_sum_whose_grid_is_too_coarse_is_refused():
    with pytest.raises(BadInput, match="does not fit the grid"):
        ClippedSum(norm=1.0, width=10**6, mu=1e-6).apply(iter([]), RandomSource.seeded(1))


def test_losses_are_cut_to_their_range():
    mechanism = LossSum(parts=10, mu=1e6)
    assert mechanism.apply(iter([np.array([3, 10, 99, -5])]), RandomSource.seeded(1)) == 23


def test_a_person_is_in_one_cell_and_counts_one_at_most():
    mechanism = NoisyHistogram(epsilon=30.0, cells=3)
    cells, numbers = np.array([0, 0, 2, 3, -1, 2]), np.array([1, 50, -7, 9, 9, 0])
    found = sums_of(mechanism, (cells, numbers))
    np.testing.assert_array_equal(np.round(found.mean(axis=0)), [2, 0, -1])


def sums_of(mechanism, values, runs=200):
    return np.array([mechanism.apply(iter([values]), RandomSource.seeded(run)) for run in range(runs)])


@pytest.mark.slow
def test_every_cell_has_noise_of_half_of_epsilon():
    epsilon = 1.2
    found = sums_of(NoisyHistogram(epsilon=epsilon, cells=4), (np.array([1]), np.array([1])), RUNS)
    assert_law((found - [0, 1, 0, 0]).ravel().tolist(), geometric(Laplace(epsilon=down(epsilon / 2.0)), 30))


def test_a_person_has_one_value():
    for mechanism in (NoisyCount(1.0), NoisyHistogram(1.0, 2)):
        twice = np.ones((3, 2))
        values = twice if isinstance(mechanism, NoisyCount) else (twice, twice)
        with pytest.raises(ValueError, match="one number a person"):
            mechanism.apply(iter([values]), RandomSource.seeded(1))


def test_the_most_frequent_column_has_the_law_of_the_exponential_mechanism():
    epsilon = 0.8
    rows = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    weights = np.exp(epsilon * rows.sum(axis=0) / 2.0)
    found = [MostFrequent(epsilon, 3).apply(iter([rows]), RandomSource.seeded(run)) for run in range(RUNS)]
    assert_law(found, dict(enumerate(weights / weights.sum())))


@pytest.mark.parametrize("cells", [40.0, float(1 << 15)])
def test_no_row_is_longer_than_the_norm_once_it_is_rounded(cells):
    """Exactly, in whole numbers: the sensitivity of every sum rests on it. Plain clipping and rounding exceeds it."""
    rows = np.random.default_rng(7).normal(size=(4000, 30)) * np.geomspace(1e-3, 1e200, 4000)[:, None]
    found = clipped(rows, 2.0, cells).astype(np.int64)
    assert (found * found).sum(axis=1).max() <= cells * cells
    plain = np.rint(rows / np.maximum(np.linalg.norm(rows / 1e100, axis=1, keepdims=True) * 1e100, 2.0) * cells)
    assert (plain * plain).sum(axis=1).max() > cells * cells
