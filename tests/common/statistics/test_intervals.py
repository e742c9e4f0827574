"""Confidence intervals for the loss: they cover at every count at once, and are no wider than need be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.statistics.intervals import Estimate, edge, estimate, tally
from tests.tiers import for_each, thinned

WARNER = parse_mechanism({"name": "warner", "epsilon": 1.0})
NONE = parse_mechanism({"name": "none"})
LAPLACE = parse_mechanism({"name": "laplace", "epsilon": 1.0})
GAUSSIAN = parse_mechanism({"name": "gaussian", "epsilon": 1.0, "delta": 1e-4})
EVERY = [WARNER, NONE, LAPLACE, GAUSSIAN]


def ever_misses(mechanism: BitMechanism, loss: float, confidence: float, looks: int) -> float:
    """Exact probability that one of the first ``looks`` intervals misses the truth."""
    rate = (1 - mechanism.truth) + (2 * mechanism.truth - 1) * loss
    alive, absorbed = np.array([1.0]), 0.0
    for n in range(1, looks + 1):
        alive = np.concatenate([alive * (1 - rate), [0.0]]) + np.concatenate([[0.0], alive * rate])
        for ones in np.flatnonzero(alive > 1e-12):
            found = estimate(mechanism, float(ones), n, confidence)
            if not found.low <= loss <= found.high:
                absorbed += float(alive[ones])
                alive[ones] = 0.0
    return absorbed


@for_each(("mechanism", "loss"), [(WARNER, 0.3), (NONE, 0.1), (NONE, 0.5)], ids=str)
def test_it_covers_under_optional_stopping(mechanism: BitMechanism, loss: float) -> None:
    assert 0.005 < ever_misses(mechanism, loss, 0.8, 70) <= 0.2


@pytest.mark.parametrize("mechanism", thinned([LAPLACE, GAUSSIAN], 1), ids=str)
def test_it_covers_under_optional_stopping_for_real_answers(mechanism: Mechanism) -> None:
    missed = 0
    for repetition in range(60):
        source = RandomSource.seeded(repetition, str(mechanism))
        total, count = 0.0, 0
        covered = True
        for _ in range(12):
            answers = mechanism.randomize(source.bernoullis(0.3, max(20, count // 2)), source)
            batch, size = tally(mechanism, answers)
            total, count = total + batch, count + size
            found = estimate(mechanism, total, count, 0.9)
            covered &= found.low <= 0.3 <= found.high
        missed += not covered
    # 60 sequences that each miss with probability <= .1: more than 20 has probability below 1e-6.
    assert missed <= 20


@for_each("mechanism", EVERY, ids=str)
def test_it_shrinks_like_one_over_the_root_of_the_count(mechanism: Mechanism) -> None:
    count = 4_000_000
    mean = 0.3 if not isinstance(mechanism, BitMechanism) else (1 - mechanism.truth) + (2 * mechanism.truth - 1) * 0.3
    found = estimate(mechanism, mean * count, count, 0.95)
    deviation = (max(mechanism.variance(0.0), mechanism.variance(0.3)) / count) ** 0.5
    assert found.value == pytest.approx(0.3, abs=1e-9)
    assert found.low < 0.3 < found.high
    # An interval for one count only would have a half-width of 1.96 deviations.
    assert 1.96 * deviation < (found.high - found.low) / 2 < 6 * deviation


@given(count=st.integers(1, 10**9), share=st.floats(0, 1), confidence=st.floats(0.01, 1 - 1e-9))
@settings(max_examples=200, derandomize=True)
def test_bit_intervals_lie_in_the_unit_interval_around_the_value(count: int, share: float, confidence: float) -> None:
    for mechanism in (WARNER, NONE):
        found = estimate(mechanism, round(share * count), count, confidence)
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_choosing_among_many_widens_it() -> None:
    one, many = (estimate(WARNER, 400, 1000, 0.95, among=k) for k in (1, 100))
    assert many.low < one.low
    assert one.high < many.high
    assert one.confidence == many.confidence == 0.95
    assert many.low == estimate(WARNER, 400, 1000, 1 - 0.05 / 100).low or many.low == pytest.approx(
        estimate(WARNER, 400, 1000, 1 - 0.05 / 100).low, abs=1e-12
    )


def test_extreme_counts() -> None:
    nothing = estimate(WARNER, 0, 0, 0.95)
    assert nothing == Estimate(value=0.5, low=0.0, high=1.0, confidence=0.95)
    assert estimate(NONE, 0, 1000, 0.95).low == 0.0
    assert estimate(NONE, 0, 1000, 0.95).high < 0.01
    assert estimate(NONE, 1000, 1000, 0.95).high == 1.0
    outside = estimate(LAPLACE, 500.0, 100, 0.95)
    assert outside.value == outside.high == 1.0


def test_tally_of_bits_and_reals() -> None:
    assert tally(WARNER, np.array([1, 0, 1, 1], dtype=np.uint8)) == (3.0, 4)
    assert tally(WARNER, np.ones(1000, dtype=np.uint8)) == (1000.0, 1000)
    assert tally(LAPLACE, np.array([0.5, -2.0])) == (-1.5, 2)


@for_each(
    ("total", "count", "confidence", "among"),
    [(1, -1, 0.9, 1), (1, 2, 0.9, 0), (1, 2, 0.0, 1), (1, 2, 1.0, 1), (3, 2, 0.9, 1), (-1, 2, 0.9, 1)],
)
def test_impossible_numbers_are_refused(total: float, count: int, confidence: float, among: int) -> None:
    with pytest.raises(BadInput):
        estimate(WARNER, total, count, confidence, among)


def test_a_border_is_found_to_the_last_place_from_as_far_as_answers_reach() -> None:
    # Laplace answers are cut to 2^39: to come from there to 1e-12 of a border takes every turn there is.
    border = -(2.0**-39) * 0.999
    found = edge(lambda mean: mean <= border, -(2.0**40), 0.0)
    assert border < found <= border + 1e-12
