"""A_stab and A_binClas: the loop of Algorithm 2, corrected."""

from __future__ import annotations

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from common.privacy.theorems.votes import Thresholds, calibrated, stability_level
from curator.learners.teachers import stability
from curator.learners.teachers.stability import BOTTOM, UNANSWERED, release_if_stable, release_until_cutoff

SURE = Thresholds(cutoff=3, level=50, of_threshold=2.0, of_query=2.5)
"""Distances of 0 and 100 are told apart surely."""


def said(stable: list[int], law: Thresholds = SURE, seed: int = 1) -> list[int]:
    values = np.arange(len(stable)) % 2
    return release_until_cutoff(values, np.array(stable), law, RandomSource.seeded(seed)).tolist()


def test_stable_values_are_said_and_the_others_are_bottoms():
    assert said([100, 0, 100, 100, 0, 100]) == [0, BOTTOM, 0, 1, BOTTOM, 1]


def test_it_stops_at_the_last_bottom_and_not_one_later():
    assert said([0, 100, 0, 0, 100, 0, 100]) == [BOTTOM, 1, BOTTOM, BOTTOM, UNANSWERED, UNANSWERED, UNANSWERED]


@pytest.mark.parametrize("cutoff", [1, 2, 5])
def test_there_are_never_more_bottoms_than_the_cutoff(cutoff):
    law = SURE._replace(cutoff=cutoff)
    for seed in range(20):
        assert said([0] * 30, law, seed).count(BOTTOM) == cutoff


def test_the_threshold_is_drawn_anew_after_each_bottom_and_only_then(monkeypatch):
    def fixed(count, epsilon, source):
        """Return noise that is known: of thresholds 0, -40, 40; of queries 0."""
        return np.array([0, -40, 40])[:count] if epsilon == SURE.of_threshold else np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(stability, "geometric_noise", fixed)
    # Levels in force: 50 until the first bottom, 10 until the second, 90 from then on.
    assert said([60, 40, 40, 60, 5, 60, 95]) == [0, BOTTOM, 0, 1, BOTTOM, BOTTOM, UNANSWERED]


def test_queries_beyond_the_margin_are_answered():
    law = calibrated(5, 200, 2.0, 1e-3)
    found = [said([law.margin(0.05 / 200)] * 200, law, seed).count(BOTTOM) for seed in range(40)]
    assert sum(bottoms > 0 for bottoms in found) <= 8  # expected: 2


def test_a_stab_says_unstable_values_with_probability_delta_and_stable_ones_surely():
    runs, epsilon, delta = 200_000, 1.0, 0.01
    zeros = np.zeros(runs, dtype=np.int64)
    leaked = np.mean(release_if_stable(zeros, zeros, epsilon, delta, RandomSource.seeded(1)) != BOTTOM)
    assert 0.3 * delta < leaked <= delta * 1.05
    far = np.full(1000, stability_level(epsilon, delta) + 20)
    assert np.all(release_if_stable(far, far, epsilon, delta, RandomSource.seeded(2)) == far)
