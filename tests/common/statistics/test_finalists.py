"""Bounds of a mean of bits and of a difference of two losses: how often they fail is worked out, not drawn."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

from common.local.mechanisms.mechanism import Warner
from common.statistics import finalists
from common.statistics.finalists import BinomialCount, Difference, ToBestConstant, ToConstant, estimated
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
    bounds = [
        (BinomialCount(ones, count).low(miss), BinomialCount(ones, count).high(miss)) for ones in range(count + 1)
    ]
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
    of = cache(lambda reported: estimated(WARNER, reported, 0.2, 0.95))
    for _ in range(2_000):
        bits = [generator.random(each) < (1 - WARNER.truth) + (2 * WARNER.truth - 1) * loss for loss in (first, second)]
        found = Difference.of(WARNER, *(each.astype(np.uint8) for each in bits))
        failed[0] += found.low(0.1) > first - second
        failed[1] += found.high(0.1) < first - second
        for place, (loss, reported) in enumerate(zip((first, second), bits, strict=True)):
            told = of(BinomialCount(int(reported.sum()), each))
            assert told.low <= told.value <= told.high
            assert told.confidence == 0.95
            failed[2 + place] += not told.low <= loss <= told.high
    assert (failed[:2] < 250).all()  # of 200 expected at most; five standard deviations more
    assert (failed[2:] < 490).all()


JUDGES, TELLERS = 60, 30
LOSSES: dict[str, Callable[[int], float]] = {
    "kept": lambda ones: 0.3,
    "worse the more ones": lambda ones: ones / TELLERS,
    "better the more ones": lambda ones: 1.0 - ones / TELLERS,
}


def chance(loss: float) -> float:
    return float((1 - WARNER.truth) + (2 * WARNER.truth - 1) * loss)


def fails(loss_of: Callable[[int], float], loss: float, weight: float, miss: float) -> tuple[float, float]:
    """Return the exact chances that the upper and the lower bound of h's loss less the constant's are wrong.

    ``loss_of`` is h's loss by the number of ones that tellers gave, ``loss`` the constant's, of weight 1.
    """
    over = under = 0.0
    for told, probability in enumerate(stats.binom.pmf(range(TELLERS + 1), TELLERS, chance(loss))):
        judged = stats.binom.pmf(range(JUDGES + 1), JUDGES, chance(loss_of(told)))
        for ones, of in enumerate(judged):
            found = ToConstant(WARNER, BinomialCount(ones, JUDGES), BinomialCount(told, TELLERS), weight)
            apart = loss_of(told) - weight * loss
            over += probability * of * (found.high(miss) < apart)
            under += probability * of * (found.low(miss) > apart)
    return over, under


@for_each("weight", [1.0, 0.25])
def test_a_difference_to_a_constant_holds_whatever_was_learned_from_those_who_told_of_it(weight):
    worst = 0.0
    for loss, loss_of, miss in product((0.05, 0.35, 0.5), LOSSES.values(), (0.01, 0.25)):
        found = max(fails(loss_of, loss, weight, miss))
        assert found <= miss
        worst = max(worst, found / miss)
    assert worst > 0.15


def test_the_best_of_two_constants_need_not_be_known():
    """Both are told of by the same bits; near 1/2 either may look better."""
    generator, failed = np.random.default_rng(4), np.zeros(2, dtype=int)
    for _ in range(2_000):
        told, judged = generator.binomial(600, chance(0.48)), generator.binomial(2_500, chance(0.45))
        each = [
            ToConstant(WARNER, BinomialCount(judged, 2_500), BinomialCount(ones, 600)) for ones in (told, 600 - told)
        ]
        found = ToBestConstant(each)
        low, high = found.low(0.1), found.high(0.1)
        assert low <= found.value <= high
        failed += (low > 0.45 - 0.48, high < 0.45 - 0.48)
    assert (failed < 200).all()
    assert found.times_settling(0.05) is None or found.value < 0.0
    clear = ToBestConstant([ToConstant(WARNER, BinomialCount(900, 2_500), BinomialCount(300, 600))])
    assert clear.value < 0.0
    assert clear.times_settling(0.05) == pytest.approx((clear.each[0].width(0.05) / clear.value) ** 2)
    nothing = ToConstant(WARNER, BinomialCount(0, 0), BinomialCount(3, 7))
    assert (nothing.low(0.1), nothing.value, nothing.high(0.1)) == (-1.0, 0.0, 1.0)
    assert ToBestConstant([nothing]).times_settling(0.1) is None


def test_the_best_of_the_constants_beside_the_one_that_was_chosen_need_not_be_known():
    """Of three, that of which most was told is the rival, often the wrong one; the others are compared."""
    generator, true, failed = np.random.default_rng(5), np.array([0.62, 0.63, 0.75]), np.zeros(2, dtype=int)
    for _ in range(2_000):
        told, judged = generator.binomial(300, [chance(loss) for loss in true]), generator.binomial(2_500, chance(0.6))
        rest = np.arange(3) != told.argmin()
        each = [ToConstant(WARNER, BinomialCount(judged, 2_500), BinomialCount(int(ones), 300)) for ones in told[rest]]
        found = ToBestConstant(each, chosen=True)
        low, high = found.low(0.1), found.high(0.1)
        failed += (low > 0.6 - true[rest].min(), high < 0.6 - true[rest].min())
    assert (failed < 200).all()
    assert ToBestConstant(each, chosen=True).high(0.1) == ToBestConstant(each).high(0.05)


def test_bits_without_a_partner_are_left_out():
    found = Difference.of(WARNER, np.array([1, 0, 1], dtype=np.uint8), np.array([1], dtype=np.uint8))
    assert found.reported == BinomialCount(1, 2)
    assert found.value == 0.0
    nothing = Difference.of(WARNER, np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8))
    assert (nothing.low(0.1), nothing.value, nothing.high(0.1)) == (-1.0, 0.0, 1.0)
    nobody = estimated(WARNER, BinomialCount(0, 0), 0.1, 0.95)
    assert (nobody.value, nobody.low, nobody.high) == (0.5, 0.0, 1.0)


def test_widths_are_those_of_the_normal_law_where_there_are_many():
    for judges, miss in ((625, 0.025), (100_000, 0.25)):
        slope = 2.0 * WARNER.truth - 1.0
        normal = stats.norm.isf(miss) / slope / np.sqrt(judges)
        assert finalists.width(WARNER, judges, miss) == pytest.approx(normal, rel=0.05)
    assert finalists.width(WARNER, 1, 0.1) == 1.0
    assert finalists.sure_width(WARNER, 625, 0.05) < 0.18
    assert finalists.likely_width(WARNER, 625) < 0.071


def test_as_many_judges_are_needed_as_tell_it_and_a_forecast_needs_a_difference():
    needed = finalists.judges_needed(WARNER, 0.05, 0.05)
    assert finalists.sure_width(WARNER, needed, 0.05) <= 0.05 < finalists.sure_width(WARNER, needed - 4, 0.05)
    assert finalists.settling(WARNER, Difference(WARNER, BinomialCount(50, 100)), 0.05) is None
    better = Difference(WARNER, BinomialCount(45, 100))
    assert finalists.settling(WARNER, better, 0.05) == finalists.judges_needed(WARNER, -better.value, 0.05)


def test_all_that_is_stated_fails_with_probability_beta_at_most():
    assert sum((*finalists.SHARES.values(), *finalists.OF_CONSTANTS.values())) == pytest.approx(1.0, abs=1e-12)
