"""Differences of losses: unbiased, covered at every count at once, and sharper than two losses asked one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.krr import KaryResponse
from common.local.mechanisms.warner import Warner
from common.statistics.intervals import estimate
from common.statistics.paired import difference
from tests.tiers import for_each

KRR = KaryResponse(epsilon=1.0)


def told(outcomes: tuple[float, float, float], count: int) -> list[int]:
    """Return how many answers name each outcome if every share is as expected."""
    own, other = KRR.rates(3)
    return [round(count * (other + (own - other) * share)) for share in outcomes]


def test_it_is_unbiased_and_mirrored() -> None:
    found = difference(KRR, told((0.2, 0.7, 0.1), 1_000_000), 0.95)
    assert found.value == pytest.approx(0.1, abs=1e-5)
    assert found.low < 0.1 < found.high
    mirrored = difference(KRR, told((0.1, 0.7, 0.2), 1_000_000), 0.95)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


@for_each("outcomes", [(0.05, 0.9, 0.05), (0.6, 0.4, 0.0), (0.0, 1.0, 0.0)])
def test_the_ends_are_where_the_mixture_of_bets_reaches_the_bar(outcomes: tuple[float, float, float]) -> None:
    """Worked out again from the answers one by one, at the lower end."""
    counts = told(outcomes, 300)
    found = difference(KRR, counts, 0.9, among=4)
    own, other = KRR.rates(3)
    scores = np.repeat([1.0, 0.0, -1.0], counts)
    rates = 0.49 * 2.0 ** (-np.arange(48) / 2)
    weights = 1.0 / ((np.arange(48) + 1.0) * (np.arange(48) + 2.0))
    wealth = weights @ np.prod(1.0 + rates[:, None] * (scores - (own - other) * found.low), axis=1)
    assert found.low > -1.0
    assert math.log(wealth) == pytest.approx(math.log(2.0 * 4 / 0.1), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("outcomes", [(0.3, 0.4, 0.3), (0.02, 0.97, 0.01)])
def test_intervals_hold_at_all_counts_at_once(outcomes: tuple[float, float, float]) -> None:
    """Of 60 sequences at confidence .8, 12 may miss somewhere; 24 would be 3.9 standard deviations more."""
    own, other = KRR.rates(3)
    generator, missed = np.random.default_rng(5), 0
    chances = [other + (own - other) * share for share in outcomes]
    truth = outcomes[0] - outcomes[2]
    for _ in range(60):
        steps = generator.multinomial(1, chances, 2000).cumsum(axis=0)
        seen = [difference(KRR, steps[count - 1].tolist(), 0.8) for count in (10, 40, 150, 500, 2000)]
        missed += any(not found.low <= truth <= found.high for found in seen)
    assert missed <= 24


@for_each(("errs", "apart"), [(0.2, 0.02), (0.2, 0.1), (0.4, 0.1)])
def test_it_is_sharper_than_both_losses_asked_one_by_one(errs: float, apart: float) -> None:
    """At epsilon = 1, half of the agents about each hypothesis, which differ on a share ``apart`` of the people."""
    count, warner = 20_000, Warner(epsilon=1.0)
    paired = difference(KRR, told((apart / 2, 1.0 - apart, apart / 2), count), 0.95)
    ones = round(count / 2 * (1.0 - warner.truth + (2.0 * warner.truth - 1.0) * errs))
    alone = estimate(warner, ones, count // 2, 0.95, among=2)
    assert paired.high - paired.low < 0.75 * 2.0 * (alone.high - alone.low)


def test_nobody_says_nothing() -> None:
    found = difference(KRR, [0, 0, 0], 0.9)
    assert (found.value, found.low, found.high) == (0.0, -1.0, 1.0)


@for_each(
    ("counts", "confidence", "among"),
    [([1, 2], 0.9, 1), ([1, -1, 2], 0.9, 1), ([1, 1, 1], 1.0, 1), ([1, 1, 1], float("nan"), 1), ([1, 1, 1], 0.9, 0)],
)
def test_numbers_out_of_range_are_refused(counts: list[int], confidence: float, among: int) -> None:
    with pytest.raises(BadInput):
        difference(KRR, counts, confidence, among)
