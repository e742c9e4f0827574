"""The private estimate of the teachers' mistakes (Remark 1), and the T that follows from it (Theorem 3.2)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from curator.learners.teachers import mistakes
from curator.learners.teachers.aggregation import enough_bottoms
from curator.learners.teachers.mistakes import estimated_mistakes


def silent(count, epsilon, source):
    """Return no noise at all."""
    return np.zeros(count, dtype=np.int64)


@pytest.mark.parametrize(("teachers", "people", "touched"), [(7, 3, 1), (3, 7, 1), (5, 5, 2), (4, 9, 2)])
def test_one_record_moves_the_estimate_by_one_step_at_most(monkeypatch, teachers, people, touched):
    monkeypatch.setattr(mistakes, "geometric_noise", silent)
    step = max(teachers, touched * people) / (teachers * people)
    draw = np.random.default_rng(1)
    for _ in range(200):
        votes, classes = draw.integers(0, 2, (teachers, people)), draw.integers(0, 2, people).astype(np.uint8)
        told = estimated_mistakes(votes, classes, touched, 1.0, RandomSource.seeded(1))
        other_votes, other_classes = votes.copy(), classes.copy()
        if draw.integers(2):  # one of the people who are set aside: every vote on them may change
            place = draw.integers(people)
            other_votes[:, place], other_classes[place] = draw.integers(0, 2, teachers), 1 - classes[place]
        else:  # one of those who teach
            rows = draw.integers(0, teachers, touched)
            other_votes[rows] = draw.integers(0, 2, (touched, people))
        other = estimated_mistakes(other_votes, other_classes, touched, 1.0, RandomSource.seeded(1))
        assert abs(told - other) <= step * (1.0 + 1e-9)


def test_it_is_near_the_truth_and_a_share():
    draw = np.random.default_rng(2)
    votes = (draw.uniform(size=(500, 400)) < 0.1).astype(np.uint8)
    told = estimated_mistakes(votes, np.zeros(400, dtype=np.uint8), 1, 1.0, RandomSource.seeded(1))
    assert told == pytest.approx(0.1, abs=0.03)
    for seed in range(20):
        assert (
            0.0
            <= estimated_mistakes(votes[:2, :2], np.ones(2, dtype=np.uint8), 1, 0.1, RandomSource.seeded(seed))
            <= 1.0
        )


def test_the_cutoff_is_that_of_theorem_3_2():
    assert enough_bottoms(0.01, 1000, 0.05) == math.ceil(3 * (10 + math.sqrt(10 * math.log(20_000) / 2)))
    assert enough_bottoms(0.0, 1000, 0.05) == 1


def test_on_all_but_so_many_queries_two_thirds_agree():
    """Lemma 3.3: teachers that err on at most B of m queries leave fewer than 3 B on which a third of them err."""
    draw = np.random.default_rng(3)
    teachers, queries, most = 60, 400, 20
    wrong = np.zeros((teachers, queries), dtype=bool)
    hard = draw.permutation(queries)[:40]
    for row in wrong:
        row[draw.permutation(hard)[:most]] = True
    assert np.count_nonzero(wrong.sum(axis=0) > teachers / 3) < 3 * most
    assert enough_bottoms(most / queries, queries, 0.05) >= 3 * most


@pytest.mark.parametrize(("wrong", "told"), [(0.0, (0.0, 0.1)), (0.7, (0.6, 0.8)), (1.0, (0.97, 1.0))])
def test_the_estimate_reaches_from_no_mistakes_to_nothing_but_mistakes(wrong, told):
    votes = (np.arange(50)[:, None] < 50 * wrong) * np.ones((1, 60), dtype=np.int64)
    found = [estimated_mistakes(votes, np.zeros(60), 1, 3.0, RandomSource.seeded(seed)) for seed in range(20)]
    assert all(told[0] <= estimate <= told[1] for estimate in found)
    assert max(found) == 1.0 or wrong < 1.0
