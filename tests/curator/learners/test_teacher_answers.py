"""How votes become answers: what each way declares, and that what it says has that noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.learners.aggregation import GnMax, SparseVector, Stability
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, Release
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.votes import Thresholds, calibrated, printed, stability_level, stability_share
from curator.learners import teacher_answers
from curator.learners.scikit import Classifier
from curator.learners.teacher_answers import (
    BOTTOM,
    UNANSWERED,
    TeacherAnswers,
    aggregate,
    enough_bottoms,
    estimated_mistakes,
    release_if_stable,
    release_until_cutoff,
)
from curator.learners.teacher_classes import LabelClasses
from tests.tiers import for_each

PARTS, WHOLE = GnMax(noise=10.0), Stability(epsilon=1.0, delta=1e-6)


def answers(aggregation: Any, points: int, *, drawn: bool) -> TeacherAnswers:
    return TeacherAnswers(
        aggregation=aggregation,
        teacher=Classifier(classifier="GaussianNB"),
        classes=LabelClasses(),
        chunks=10,
        by="slot",
        queries=3,
        points=np.zeros((points, 2), dtype=np.float32),
        drawn=drawn,
    )


@for_each(("aggregation", "drawn"), [(WHOLE, False), (WHOLE, True), (PARTS, True)])
def test_no_more_points_are_answered_than_one_sequence_was_paid_for(aggregation, drawn):
    assert answers(aggregation, 3, drawn=drawn).queries == 3
    with pytest.raises(ValueError, match="4 points are more than the 3 of one sequence"):
        answers(aggregation, 4, drawn=drawn)


def test_answers_that_are_paid_for_one_by_one_may_go_on():
    prices = [answers(PARTS, points, drawn=False).price.wire() for points in (1, 4)]
    assert [price["count"] for price in prices] == [1, 4]


COUNTS = np.array([[50, 0], [26, 24], [20, 30], [40, 10], [25, 25], [45, 5]] * 3)
SPARSE: dict[str, Any] = {"epsilon": 9.0, "delta": 1e-3, "cutoff": 3}
EACH: list[GnMax | Stability | SparseVector] = [
    GnMax(noise=5.0),
    GnMax(epsilon=2.0, delta=1e-4),
    Stability(epsilon=9.0, delta=1e-3),
    SparseVector(**SPARSE),
    SparseVector(**SPARSE, estimate=0.2),
]
SAID = [
    ([0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]),
    ([0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
    ([0, -1, -1, 0, -1, 0, 0, -1, -1, -1, -1, 0, 0, -1, -1, -1, -1, 0], [-1] * 18),
    ([0, -1, -1, 0, -1] + [-2] * 13, [0, -1, -1, 0, -1] + [-2] * 13),
    ([0, -1, -1, 0, -1] + [-2] * 13, [0, -1, -1, -1] + [-2] * 14),
]
"""Under a fixed key, if one record touches one teacher, and if it touches two."""


@pytest.mark.parametrize(("aggregation", "said"), list(zip(EACH, SAID, strict=True)), ids=str)
@pytest.mark.parametrize("touched", [1, 2])
def test_known_answers(
    aggregation: GnMax | Stability | SparseVector, said: tuple[list[int], list[int]], touched: int
) -> None:
    mistakes = 0.02 if isinstance(aggregation, SparseVector) and aggregation.estimate is not None else None
    found = aggregate(aggregation, COUNTS, 18, touched, mistakes, RandomSource.seeded(2))
    assert found.tolist() == said[touched - 1]


@pytest.mark.parametrize("touched", [1, 2])
def test_gnmax_declares_the_noise_that_it_adds(touched: int) -> None:
    # A gap of g votes is kept with probability Phi(g / (sqrt(2) sigma)); a record moves it by 2 votes a teacher.
    queries, gap = 4000, 12
    for aggregation in (GnMax(noise=9.0), GnMax(epsilon=30.0, delta=1e-3)):
        event = aggregation.event(1, queries, touched)
        assert isinstance(event, Gaussian)
        assert event.count == 1
        counts = np.array([[50 + gap // 2, 50 - gap // 2]] * queries)
        said = aggregate(aggregation, counts, queries, touched, None, RandomSource.seeded(1))
        apart = gap / (2 * touched) * event.mu
        kept = 0.5 * math.erfc(-apart / math.sqrt(2.0))
        assert (said == 0).mean() == pytest.approx(kept, abs=5 * math.sqrt(kept * (1 - kept) / queries))
        assert aggregation.event(7, queries, touched) == event.model_copy(update={"count": 7})


def test_gnmax_for_a_budget_keeps_to_it_exactly() -> None:
    event = GnMax(epsilon=2.0, delta=1e-4).event(50, 50, 2)
    assert isinstance(event, Gaussian)
    assert 0.999e-4 < delta_of(math.sqrt(50) * event.mu, 2.0) <= 1e-4


@for_each("aggregation", EACH[2:], ids=str)
def test_a_sequence_is_one_release_whatever_is_asked_of_it(aggregation: GnMax | Stability | SparseVector) -> None:
    assert aggregation.event(3, 18, 2) == Release(epsilon=9.0, delta=1e-3)
    assert aggregation.guarantee() == (9.0, 1e-3)
    assert not aggregation.in_parts


def test_guarantees_are_stated_where_they_are_given() -> None:
    assert GnMax(noise=5.0).guarantee() is None
    assert GnMax(epsilon=2.0, delta=1e-4).guarantee() == (2.0, 1e-4)
    assert GnMax.in_parts


def test_what_an_estimate_costs_is_taken_from_the_thresholds() -> None:
    whole, parted = SparseVector(**SPARSE), SparseVector(**SPARSE, estimate=0.25)
    assert whole.estimate_epsilon == 0.0
    assert 2.25 * (1 - 2e-15) <= parted.estimate_epsilon < 2.25
    assert whole.thresholds(18, 3) == calibrated(3, 18, 9.0, 1e-3)
    assert parted.thresholds(18, 3) == calibrated(3, 18, 9.0 - 2.25, 1e-3)._replace(
        of_threshold=parted.thresholds(18, 3).of_threshold, of_query=parted.thresholds(18, 3).of_query
    )
    left = parted.thresholds(18, 3)
    assert left.failure(9.0 - parted.estimate_epsilon) <= 1e-3
    assert left.of_query == pytest.approx(calibrated(3, 18, 6.75, 1e-3).of_query, rel=1e-8)


def test_printed_constants_are_those_of_the_paper_and_want_their_chunks() -> None:
    paper = SparseVector(epsilon=0.5, delta=1e-3, cutoff=2, bounds="paper", beta=0.1)
    law, chunks = printed(2, 30, 0.5, 1e-3, 0.1)
    assert paper.thresholds(30, 2) == law
    paper.check(30, chunks, chunks, 1)
    for short in ((chunks - 1, chunks), (chunks, chunks - 1)):
        with pytest.raises(BadScenario, match=f"take {chunks:,} chunks"):
            paper.check(30, *short, 1)


@for_each(
    ("mistakes", "queries", "beta", "bottoms"), [(0.0, 100, 0.05, 1), (0.01, 200, 0.05, 15), (0.1, 1000, 0.01, 372)]
)
def test_as_many_bottoms_as_theorem_3_2_wants(mistakes: float, queries: int, beta: float, bottoms: int) -> None:
    assert enough_bottoms(mistakes, queries, beta) == bottoms


def test_many_mistakes_leave_the_cutoff_as_it_is_and_few_lower_it() -> None:
    generous = SparseVector(epsilon=60.0, delta=1e-3, cutoff=15, estimate=0.2)
    hopeless = np.array([[25, 25]] * 200)
    for mistakes, bottoms in ((0.5, 15), (0.0, 1), (None, 15)):
        said = aggregate(generous, hopeless, 200, 1, mistakes, RandomSource.seeded(4))
        assert np.count_nonzero(said == -1) == bottoms


def test_stability_says_what_passes_the_level_of_its_share() -> None:
    aggregation = Stability(epsilon=9.0, delta=1e-3)
    each, own = stability_share(18, 9.0, 1e-3)
    level = stability_level(each, own)
    for gap, likely in ((level + 60, 0), (level - 60, -1)):
        counts = np.array([[2 * max(gap, 0) + 2, 0]] * 18)
        said = aggregate(aggregation, counts, 18, 1, None, RandomSource.seeded(5))
        assert np.count_nonzero(said == likely) >= 17
    with pytest.raises(BadScenario, match="stability"):
        Stability(epsilon=1e-4, delta=1e-3).check(50, 5, 5, 1)


SURE = Thresholds(cutoff=3, level=50, of_threshold=2.0, of_query=2.5)
"""Distances of 0 and 100 are told apart surely."""


def said(stable: list[int], law: Thresholds = SURE, seed: int = 1) -> list[int]:
    values = np.arange(len(stable)) % 2
    return release_until_cutoff(values, np.array(stable), law, RandomSource.seeded(seed)).tolist()


def test_stable_values_are_said_and_the_others_are_bottoms():
    assert said([100, 0, 100, 100, 0, 100]) == [0, BOTTOM, 0, 1, BOTTOM, 1]


def test_it_stops_at_the_last_bottom_and_not_one_later():
    assert said([0, 100, 0, 0, 100, 0, 100]) == [BOTTOM, 1, BOTTOM, BOTTOM, UNANSWERED, UNANSWERED, UNANSWERED]


@for_each("cutoff", [1, 2, 5])
def test_there_are_never_more_bottoms_than_the_cutoff(cutoff):
    law = SURE._replace(cutoff=cutoff)
    for seed in range(20):
        assert said([0] * 30, law, seed).count(BOTTOM) == cutoff


def test_the_threshold_is_drawn_anew_after_each_bottom_and_only_then(monkeypatch):
    def fixed(count, epsilon, source):
        """Return noise that is known: of thresholds 0, -40, 40; of queries 0."""
        return np.array([0, -40, 40])[:count] if epsilon == SURE.of_threshold else np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(teacher_answers, "geometric_noise", fixed)
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


def silent(count, epsilon, source):
    """Return no noise at all."""
    return np.zeros(count, dtype=np.int64)


@for_each(("teachers", "people", "touched"), [(7, 3, 1), (3, 7, 1), (5, 5, 2), (4, 9, 2)])
def test_one_record_moves_the_estimate_by_one_step_at_most(monkeypatch, teachers, people, touched):
    monkeypatch.setattr(teacher_answers, "geometric_noise", silent)
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


@for_each(("wrong", "told"), [(0.0, (0.0, 0.1)), (0.7, (0.6, 0.8)), (1.0, (0.97, 1.0))])
def test_the_estimate_reaches_from_no_mistakes_to_nothing_but_mistakes(wrong, told):
    votes = (np.arange(50)[:, None] < 50 * wrong) * np.ones((1, 60), dtype=np.int64)
    found = [estimated_mistakes(votes, np.zeros(60), 1, 3.0, RandomSource.seeded(seed)) for seed in range(20)]
    assert all(told[0] <= estimate <= told[1] for estimate in found)
    assert max(found) == 1.0 or wrong < 1.0
