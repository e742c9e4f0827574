"""GNMax: its calibration, and the law of what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.votes import answer_mu, answers_sigma, flips
from curator.mechanisms.gaussian import noisy_winners
from curator.numerics.gaussian_noise import FINE_GRID


def test_the_numbers_of_the_corrections():
    """m = 1,000 at (1, 1e-6): sigma = 189 a count; with 1,000 teachers, nine in ten of one mind, .14% flips."""
    sigma = answers_sigma(1000, 1.0, 1e-6)
    assert sigma == pytest.approx(188.94, abs=0.01)
    assert flips(0.9, 1000, sigma) == pytest.approx(0.0014, abs=5e-5)


@pytest.mark.parametrize("touched", [1, 2])
@pytest.mark.parametrize(("queries", "epsilon", "delta"), [(1, 0.5, 1e-5), (1000, 1.0, 1e-6), (77, 8.0, 1e-3)])
def test_all_answers_together_keep_to_the_budget_and_use_it(queries, epsilon, delta, touched):
    sigma = answers_sigma(queries, epsilon, delta, touched)
    whole = math.sqrt(queries) * answer_mu(sigma, touched)
    assert delta_of(whole * (1.0 - 1e-12), epsilon) <= delta
    assert delta_of(whole * (1.0 + 1e-6), epsilon) > delta


def test_a_changed_vote_is_no_longer_than_stated_on_the_grid():
    """One count falls by a vote, one rises; in units, the noise's standard deviation is the grid's."""
    for sigma in (0.001, 0.37, 189.0, 1e6):
        vote = math.floor(FINE_GRID / sigma)
        assert math.sqrt(2.0) * vote / FINE_GRID <= answer_mu(sigma)


@pytest.mark.parametrize("classes", [2, 4])
def test_answers_have_the_law_of_noisy_counts(classes):
    sigma, gap, queries = 3.0, 4, 200_000
    counts = np.zeros((queries, classes), dtype=np.int64)
    counts[:, 1] = gap
    share = np.mean(noisy_winners(counts, sigma, RandomSource.seeded(1)) == 1)
    if classes == 2:
        assert 1.0 - share == pytest.approx(ndtr(-gap / (math.sqrt(2.0) * sigma)), abs=5e-3)
        assert flips(0.7, 10, sigma) == pytest.approx(ndtr(-gap / (math.sqrt(2.0) * sigma)))
    draws = np.random.default_rng(2).normal(size=(queries, classes)) * sigma + counts
    assert share == pytest.approx(np.mean(draws.argmax(axis=1) == 1), abs=7e-3)


@pytest.mark.parametrize("others", [[3, 0, 0], [1, 1, 1]])
def test_with_several_classes_answers_go_wrong_no_more_often_than_stated(others):
    sigma, queries = 3.0, 200_000
    counts = np.tile(np.array([7, *others]), (queries, 1))
    wrong = np.mean(noisy_winners(counts, sigma, RandomSource.seeded(1)) != 0)
    bound = flips(0.7, 10, sigma, classes=4)
    assert bound == pytest.approx(ndtr(-4 / (math.sqrt(2.0) * sigma)) + 2 * ndtr(-7 / (math.sqrt(2.0) * sigma)))
    assert 0.4 * bound < wrong < bound
    assert flips(0.5, 10, 100.0, classes=64) == 1.0


def test_the_same_source_says_the_same_and_little_noise_says_the_winner():
    counts = np.random.default_rng(1).integers(0, 50, size=(300, 3))
    one, other = (noisy_winners(counts, 20.0, RandomSource.seeded(3)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(noisy_winners(2 * counts + [0, 1, 0], 0.01, RandomSource.seeded(1)) >= 0, True)
    ordered = np.array([[5, 1, 0], [0, 2, 9]])
    np.testing.assert_array_equal(noisy_winners(ordered, 0.001, RandomSource.seeded(1)), [0, 2])


@pytest.mark.parametrize("sigma", [0.0, 1e-4, 1e7, math.nan, math.inf])
def test_noise_that_cannot_be_drawn_is_refused(sigma):
    with pytest.raises(BadInput, match="noise on votes"):
        noisy_winners(np.zeros((1, 2), dtype=np.int64), sigma, RandomSource.seeded(1))
