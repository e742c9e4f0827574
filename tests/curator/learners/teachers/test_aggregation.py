"""What each way to aggregate votes declares, and that what it says has the noise that it declares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, Release
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.votes import calibrated, printed, stability_level, stability_share
from common.vocabulary.learners.aggregation import GnMax, SparseVector, Stability
from curator.learners.teachers.aggregation import aggregate, enough_bottoms

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


@pytest.mark.parametrize("aggregation", EACH[2:], ids=str)
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


@pytest.mark.parametrize(
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
