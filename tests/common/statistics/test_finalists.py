"""Bounds of a mean of bits and of a difference of two losses: how often they fail is worked out, not drawn."""

import numpy as np
import pytest
from scipy import stats

from common.local.mechanisms.mechanism import Warner
from common.statistics.finalists import Difference, Ones, estimated, judges_needed, likely, settling, sure, width
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


def law(chances: list[float]) -> np.ndarray:
    """Return the probability of each number of ones among independent bits."""
    found = np.ones(1)
    for chance in chances:
        found = np.convolve(found, [1.0 - chance, chance])
    return found


@for_each("count", [8, 41, 200])
@for_each("apart", [0.0, 0.2])
@for_each("miss", [0.0125, 0.25])
def test_a_bound_fails_as_rarely_as_is_said_and_hardly_more_rarely(count, apart, miss):
    """Half of the bits have one chance, half another: their sum strays no farther than a binomial one."""
    bounds = [(Ones(ones, count).low(miss), Ones(ones, count).high(miss)) for ones in range(count + 1)]
    most = 0.0
    for mean in np.linspace(0.27, 0.73, 21):
        chances = [mean - apart / 2.0] * (count // 2) + [mean + apart / 2.0] * (count - count // 2)
        true, probabilities = np.mean(chances), law(chances)
        for failed in ([low > true for low, _ in bounds], [high < true for _, high in bounds]):
            most = max(most, float(probabilities[failed].sum()))
    assert most <= miss
    if count == 200 and not apart:
        assert most > 0.6 * miss


@for_each(("first", "second"), [(0.1, 0.4), (0.5, 0.5), (0.02, 0.0)])
def test_a_difference_and_two_losses_lie_in_their_intervals(first, second):
    generator, each, failed = np.random.default_rng(3), 300, np.zeros(4, dtype=int)
    for _ in range(2_000):
        bits = [generator.random(each) < (1 - WARNER.truth) + (2 * WARNER.truth - 1) * loss for loss in (first, second)]
        found = Difference.of(WARNER, *(each.astype(np.uint8) for each in bits))
        failed[0] += found.low(0.1) > first - second
        failed[1] += found.high(0.1) < first - second
        for place, (loss, reported) in enumerate(zip((first, second), bits, strict=True)):
            told = estimated(WARNER, Ones(int(reported.sum()), each), 0.2, 0.95)
            assert told.low <= told.value <= told.high
            assert told.confidence == 0.95
            failed[2 + place] += not told.low <= loss <= told.high
    assert (failed[:2] < 250).all()  # of 200 expected at most; five standard deviations more
    assert (failed[2:] < 490).all()


def test_bits_without_a_partner_are_left_out():
    found = Difference.of(WARNER, np.array([1, 0, 1], dtype=np.uint8), np.array([1], dtype=np.uint8))
    assert found.reported == Ones(1, 2)
    assert found.value == 0.0
    nothing = Difference.of(WARNER, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8))
    assert (nothing.low(0.1), nothing.value, nothing.high(0.1)) == (-1.0, 0.0, 1.0)
    nobody = estimated(WARNER, Ones(0, 0), 0.1, 0.95)
    assert (nobody.value, nobody.low, nobody.high) == (0.5, 0.0, 1.0)


def test_widths_are_those_of_the_normal_law_where_there_are_many():
    for judges, miss in ((625, 0.025), (100_000, 0.25)):
        slope = 2.0 * WARNER.truth - 1.0
        normal = stats.norm.isf(miss) / slope / np.sqrt(judges)
        assert width(WARNER, judges, miss) == pytest.approx(normal, rel=0.05)
    assert width(WARNER, 1, 0.1) == 1.0
    assert sure(WARNER, 625, 0.05) < 0.18
    assert likely(WARNER, 625) < 0.071


def test_as_many_judges_are_needed_as_tell_it_and_a_forecast_needs_a_difference():
    needed = judges_needed(WARNER, 0.05, 0.05)
    assert sure(WARNER, needed, 0.05) <= 0.05 < sure(WARNER, needed - 4, 0.05)
    assert settling(WARNER, Difference(WARNER, Ones(50, 100)), 0.05) is None
    better = Difference(WARNER, Ones(45, 100))
    assert settling(WARNER, better, 0.05) == judges_needed(WARNER, -better.value, 0.05)
