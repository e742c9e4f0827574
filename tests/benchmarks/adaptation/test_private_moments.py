"""A second moment with noise: as much as its sensitivity asks for, alike in all directions."""

import numpy as np
import pytest

from benchmarks.adaptation.baselines.private_moments import learn, noisy_moment
from common.numerics.randomness import RandomSource
from curator.learners.adaptation.domains import Domains, Side


def unit(generator, count, width):
    rows = generator.normal(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_no_replaced_row_moves_the_moment_by_more_than_its_sensitivity_and_some_do():
    rows = unit(np.random.default_rng(1), 400, 3)
    moved = [np.linalg.norm(np.outer(x, x) - np.outer(z, z)) for x, z in zip(rows[::2], rows[1::2], strict=True)]
    assert max(moved) <= np.sqrt(2.0)
    axes = np.eye(3)
    assert np.linalg.norm(np.outer(axes[0], axes[0]) - np.outer(axes[1], axes[1])) == pytest.approx(np.sqrt(2.0))


def test_the_noise_is_alike_in_all_directions_of_symmetric_matrices():
    rows, mu, runs = unit(np.random.default_rng(2), 50, 3), 0.5, 4000
    noise = np.array([noisy_moment(rows, 1.0, mu, RandomSource.seeded(run)) for run in range(runs)])
    noise -= rows.T @ rows / 50
    np.testing.assert_array_equal(noise, noise.transpose(0, 2, 1))
    deviation = np.sqrt(2.0) / (50 * mu)
    for direction in (np.diag([1.0, 0.0, 0.0]), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / np.sqrt(2.0)):
        along = np.einsum("kij,ij->k", noise, direction)  # of Frobenius norm 1
        assert along.std() == pytest.approx(deviation, rel=5.0 / np.sqrt(2 * runs))
        assert abs(along.mean()) < 5.0 * deviation / np.sqrt(runs)


def test_with_hardly_any_noise_it_matches_as_without():
    generator = np.random.default_rng(3)
    source, target = unit(generator, 300, 3), unit(generator, 4000, 3) * [1.0, 0.5, 0.5]
    domains = Domains(Side(source, np.clip(source @ [0.5, 0.2, 0.0], -1, 1)), Side(target, np.zeros(4000)))
    found = learn(domains, 500.0, 0.1, 1.0, 1.0, RandomSource.seeded(1))
    assert found == pytest.approx([0.5, 0.2, 0.0], abs=1e-6)
