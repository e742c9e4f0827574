"""Bins of a score: few, with about the same number of people, and cleared of noise where nobody is."""

from __future__ import annotations

import numpy as np
import pytest

from common.statistics.bins import FINE_CUTS, Within, cleared, coarser, middles
from tests.tiers import for_each


def test_bins_have_about_the_same_people():
    people = np.array([5.0, -3.0, 15.0, 15.0, 5.0, 10.0])
    cuts = coarser(people, 3)
    assert cuts == [2, 3]
    within = Within.of(people, cuts, np.arange(6.0))
    assert within.starts == (0, 3, 4)
    assert within.middles.tolist() == pytest.approx([1.5, 3.0, 70.0 / 15.0])
    assert coarser(np.array([0.0, -1.0, 0.0, 0.0]), 4) == [1]
    assert len(middles(FINE_CUTS)) == len(FINE_CUTS) + 1
    assert middles((0.0,)).tolist() == [-1.0, 1.0]


def test_all_people_in_one_bin_still_leave_two():
    people = np.zeros(8)
    people[7] = 100.0
    assert coarser(people, 5) == [6]
    people[7], people[0] = 0.0, 100.0
    assert coarser(people, 5) == [0]


def test_where_nobody_is_all_fine_bins_count_alike():
    within = Within.of(np.array([0.0, 0.0, 4.0, 0.0]), [1], np.arange(4.0))
    assert within.weights.tolist() == [0.5, 0.5, 1.0, 0.0]


@for_each("noise", [0.0, 5.0, 30.0])
def test_empty_bins_are_cleared_of_noise(noise):
    """The nearest counts with the known sum; cutting negative ones off alone would leave half of the noise there."""
    true = np.zeros(32)
    true[10:14] = [300.0, 500.0, 150.0, 50.0]
    noisy = true + np.random.default_rng(3).normal(scale=max(noise, 1e-9), size=32)
    found = cleared(noisy, 1000.0)
    assert found.sum() == pytest.approx(1000.0)
    assert found.min() >= 0.0
    assert np.abs(found - true).sum() <= np.abs(np.maximum(noisy, 0.0) - true).sum() + 1e-6
    empty = np.delete(found, range(10, 14))
    assert empty.sum() <= 0.55 * np.maximum(np.delete(noisy, range(10, 14)), 0.0).sum() + 1e-6


def test_counts_that_are_all_below_zero_are_spread():
    assert cleared(np.array([-1.0, -1.0]), 10.0).tolist() == [5.0, 5.0]
