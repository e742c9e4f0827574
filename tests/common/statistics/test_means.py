"""Confidence intervals for the loss: they cover at every count at once, and are no wider than need be."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from common.core.arrays import AnyArray, Floats
from common.local.mechanisms.mechanism import BitMechanism, Laplace, Mechanism, NoMechanism, Warner
from common.numerics.randomness import RandomSource
from common.statistics.evidence import FALSE_ALARM, implausible
from common.statistics.intervals import Estimate, edge, estimate, tally
from common.statistics.robustness import Silence, robust_estimate, silence_bound
from tests.common.statistics.test_loss_tests import GAUSSIAN, LAPLACE, NONE, WARNER, exact_probability, ones_rate
from tests.tiers import for_each, thinned

BIT = Warner(epsilon=1.0)


@for_each(("mechanism", "loss"), [(WARNER, 0.3), (NONE, 0.1), (NONE, 0.5)], ids=str)
def test_it_covers_under_optional_stopping(mechanism: BitMechanism, loss: float) -> None:
    def misses(ones: Floats, n: int) -> AnyArray:
        found = (estimate(mechanism, count, n, 0.8) for count in ones.tolist())
        return np.array([not one.low <= loss <= one.high for one in found])

    assert 0.005 < exact_probability(ones_rate(mechanism, loss), misses, 70) <= 0.2


@pytest.mark.parametrize("mechanism", thinned([LAPLACE, GAUSSIAN], 1), ids=str)
def test_it_covers_under_optional_stopping_for_real_answers(mechanism: Mechanism) -> None:
    missed = 0
    for repetition in range(60):
        source = RandomSource.seeded(repetition, str(mechanism))
        total, count, covered = 0.0, 0, True
        for _ in range(12):
            answers = mechanism.randomize(source.bernoullis(0.3, max(20, count // 2)), source)
            total, count = total + tally(mechanism, answers)[0], count + len(answers)
            found = estimate(mechanism, total, count, 0.9)
            covered &= found.low <= 0.3 <= found.high
        missed += not covered
    # 60 sequences that each miss with probability <= .1: more than 20 has probability below 1e-6.
    assert missed <= 20


@for_each(("mechanism", "loss"), [(WARNER, 0.0), (WARNER, 0.3), (NONE, 0.02), (NONE, 0.5)], ids=str)
def test_one_look_covers_exactly_and_looking_after_every_answer_does_not(mechanism: BitMechanism, loss: float) -> None:
    """All numbers of ones, each with its chance. A reader who looks again and again is the broken twin."""
    rate = float(ones_rate(mechanism, loss))

    def misses(ones: Floats, n: int) -> AnyArray:
        found = (estimate(mechanism, count, n, 0.8, once=True) for count in ones.tolist())
        return np.array([not one.low <= loss <= one.high for one in found])

    for n in (1, 7, 40, 300):
        ones = np.arange(n + 1, dtype=np.float64)
        chance = stats.binom.pmf(ones, n, rate)
        assert float(chance @ misses(ones, n)) <= 0.2 + 1e-9
    if 0.1 < rate < 0.9:
        assert exact_probability(ones_rate(mechanism, loss), misses, 70) > 0.3


def test_one_look_is_the_interval_of_clopper_and_pearson_and_about_half_as_wide() -> None:
    for ones, n, among in ((0, 50, 1), (31, 120, 1), (120, 120, 3), (2_500, 9_000, 2), (4_000_123, 9_000_000, 1)):
        found, miss = estimate(NONE, ones, n, 0.95, among, once=True), 0.05 / among
        low = 0.0 if ones == 0 else float(stats.beta.ppf(miss / 2, ones, n - ones + 1))
        high = 1.0 if ones == n else float(stats.beta.ppf(1 - miss / 2, ones + 1, n - ones))
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-7)
        assert found.low <= low + 1e-12
        assert found.high >= high - 1e-12
    for n in (400, 2_500, 10_000, 1_000_000):
        one, all_counts = (estimate(BIT, n // 2, n, 0.95, once=once) for once in (True, False))
        assert 0.4 < (one.high - one.low) / (all_counts.high - all_counts.low) < 0.6


@pytest.mark.parametrize("mechanism", thinned([LAPLACE, GAUSSIAN], 1), ids=str)
def test_one_look_at_real_answers_covers_and_is_narrower(mechanism: Mechanism) -> None:
    missed = 0
    for repetition in range(200):
        source = RandomSource.seeded(repetition, "one look", str(mechanism))
        total, count = tally(mechanism, mechanism.randomize(source.bernoullis(0.3, 8_000), source))
        found = estimate(mechanism, total, count, 0.9, once=True)
        missed += not found.low <= 0.3 <= found.high
        if repetition < 20:  # widths hardly depend on the answers
            wide = estimate(mechanism, total, count, 0.9)
            assert found.high - found.low < 0.8 * (wide.high - wide.low)
    # 200 looks that each miss with probability <= .1: more than 40 has probability below 1e-5.
    assert missed <= 40


def test_lies_and_answers_left_out_widen_one_look_to_the_hull() -> None:
    found = robust_estimate(BIT, 300.0, 900, 0.95, share=0.01, missing=100, once=True)
    all_of_them = [estimate(BIT, float(ones), 1000, 0.95, once=True) for ones in range(291, 410)]
    assert (found.low, found.high) == (min(e.low for e in all_of_them), max(e.high for e in all_of_them))
    assert found.high < robust_estimate(BIT, 300.0, 900, 0.95, share=0.01, missing=100).high


def test_extreme_counts() -> None:
    assert tally(WARNER, np.ones(1000, dtype=np.uint8)) == (1000.0, 1000)
    assert tally(LAPLACE, np.array([0.5, -2.0])) == (-1.5, 2)
    nothing = estimate(WARNER, 0, 0, 0.95)
    assert nothing == Estimate(value=0.5, low=0.0, high=1.0, confidence=0.95)
    assert estimate(NONE, 0, 1000, 0.95).low == 0.0
    assert estimate(NONE, 0, 1000, 0.95).high < 0.01
    assert estimate(NONE, 1000, 1000, 0.95).high == 1.0
    outside = estimate(LAPLACE, 500.0, 100, 0.95)
    assert outside.value == outside.high == 1.0


def test_a_border_is_found_to_the_last_place_from_as_far_as_answers_reach() -> None:
    # Laplace answers are cut to 2^39: to come from there to 1e-12 of a border takes every turn there is.
    border = -(2.0**-39) * 0.999
    found = edge(lambda mean: mean <= border, -(2.0**40), 0.0)
    assert border < found <= border + 1e-12


COUNTS = [1, 2, 5, 20, 100, 1_000, 60_000]


@for_each("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0, 30.0])
@for_each("count", COUNTS)
def test_a_false_alarm_is_as_rare_as_the_theorem_says(epsilon: float, count: int) -> None:
    """The chances are exact tails; between the ends of a probability it is rarest to see few ones at the lower end."""
    mechanism = Warner(epsilon=epsilon)
    few = [ones for ones in range(count + 1) if implausible(mechanism, ones, count) and 2 * ones < count]
    many = [ones for ones in range(count + 1) if implausible(mechanism, ones, count) and 2 * ones >= count]
    assert few == list(range(len(few)))
    assert [count - ones for ones in reversed(many)] == few  # a lie that is mirrored is as implausible
    chance = stats.binom.logcdf(len(few) - 1, count, 1.0 - mechanism.truth) if few else -math.inf
    assert chance <= math.log(FALSE_ALARM / 2.0)


def test_all_that_is_left_when_ones_are_thrown_away_is_noticed() -> None:
    for epsilon, count in ((0.5, 100), (1.0, 150), (3.0, 700)):
        mechanism = Warner(epsilon=epsilon)
        assert [implausible(mechanism, ones, count) for ones in (0, count // 2, count)] == [True, False, True]
    assert not any(implausible(NoMechanism(), ones, 10**9) for ones in (0, 10**9))
    assert not implausible(BIT, 0, 0)


def test_the_interval_is_that_of_the_worst_the_silent_can_be():
    for missing, most, sure, ends in (
        (0.2, 0.25, 0.95, (0.075, 0.475, 0.9)),
        (1.0, 1.0, 0.95, (0.0, 1.0, 0.9)),
        (0.1, 0.1, 0.05, (0.0, 1.0, 0.95)),  # too unsure
    ):
        found = Silence(missing, most, sure).widened(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.95))
        assert (found.low, found.high, found.confidence) == pytest.approx(ends)
    # In doubles as in the theorem: (1 - M) b + M is 1 at most, as 1 - M is off by 2^-54 at most.
    generator = np.random.default_rng(9)
    for most in (0.0, 2.0**-60, *(generator.random(2000) ** 20).tolist(), *generator.random(2000).tolist(), 1.0):
        for high in (1.0, float(np.nextafter(1.0, 0.0)), float(generator.random())):
            assert Silence(most, most, 0.95).exceeded(high) <= 1.0


def test_the_chance_of_silence_has_a_sampling_error_and_the_question_that_fewest_answered_counts():
    few, many = (silence_bound([(asked, asked * 7 // 10)], 0.95) for asked in (100, 100_000))
    assert few.missing == many.missing == pytest.approx(0.3)
    assert few.most > 0.4 > 0.32 > many.most > 0.3
    one, several = silence_bound([(1000, 700)], 0.95), silence_bound([(1000, 999), (1000, 700), (1000, 1000)], 0.95)
    assert several.missing == pytest.approx(0.3)
    assert several.most > one.most
    assert silence_bound([], 0.95) is silence_bound([(0, 0), (500, 500)], 0.95) is None


def test_the_bound_of_each_question_has_its_own_part_of_what_may_miss():
    """The k-th has 1/(k (k + 1)) of it, these add up to 1, and one that everybody answered bounds nothing."""
    assert sum(Fraction(1, k * (k + 1)) for k in range(1, 100)) < 1
    for among in (1, 3):
        parts = [estimate(NoMechanism(), 300, 1000, 0.95, among * k * (k + 1)).high for k in (1, 2, 3)]
        for place in range(3):
            found = silence_bound(
                [*place * [(10, 10)], (1000, 700), (1000, 700), (5000, 4990)][: place + 1], 0.95, among
            )
            assert found.most == parts[place]
        assert silence_bound([(1000, 700), (1000, 700)], 0.95, among).most == max(parts[:2])


def test_the_widened_interval_holds_the_mean_of_all_people_where_that_of_those_who_answer_does_not():
    """Half, a tenth or none of those who err answer, as many or all of the others.

    The theorem's miss is .1 at most. Of 300 runs more than 60 miss then with a chance below 1e-7 (binomial tail); the
    plain interval misses nearly always where silence depends on the value.
    """
    generator, mistaken = np.random.default_rng(5), 0
    for erring, others in ((0.5, 1.0), (0.1, 1.0), (0.0, 0.9), (1.0, 0.4)):
        misses = plain = 0
        for _ in range(300):
            value = generator.random(1500) < 0.4
            answers = generator.random(1500) < np.where(value, erring, others)
            bits = np.where(generator.random(1500) < BIT.truth, value, ~value)[answers]
            found = estimate(BIT, float(bits.sum()), len(bits), 0.95)
            wide = silence_bound([(1500, len(bits))], 0.95).widened(found)
            misses += not wide.low <= 0.4 <= wide.high
            plain += not found.low <= 0.4 <= found.high
        assert misses <= 60, (erring, others)
        mistaken += plain
    assert mistaken > 600


def test_the_chance_of_silence_is_below_its_bound_at_every_number_of_people():
    """Miss .05 at most: of 200 runs more than 35 with a chance below 1e-9; looked at after each of 30 batches."""
    generator, misses = np.random.default_rng(6), 0
    for _ in range(200):
        answered = np.cumsum(generator.binomial(50, 0.7, 30))
        bounds = [silence_bound([(50 * (k + 1), int(count))], 0.95) for k, count in enumerate(answered)]
        misses += any(found is None or found.most < 0.3 for found in bounds)
    assert misses <= 35


def test_what_is_known_of_answers_left_out_and_of_lies_is_the_hull_over_all_that_they_can_have_been():
    """Against every count of ones among all who were asked: those that came, less or more the lies, and any missing."""
    cases = (50, 20, 10, 0), (50, 20, 0, 4), (50, 2, 5, 4), (50, 49, 5, 4), (50, 20, 8, 3), (40, 0, 0, 40)
    for count, ones, missing, lies in cases:
        counted = range(max(0, ones - lies), min(count + missing, ones + lies + missing) + 1)
        each = [estimate(BIT, float(s), count + missing, 0.95, 2) for s in counted]
        found = robust_estimate(BIT, float(ones), count, 0.95, 2, share=lies / count, missing=missing)
        assert found.low == pytest.approx(min(one.low for one in each), abs=1e-9)
        assert found.high == pytest.approx(max(one.high for one in each), abs=1e-9)
        assert found.value == estimate(BIT, float(ones), count, 0.95, 2).value


def test_what_holds_for_silence_does_not_hold_for_answers_that_were_dropped_for_what_they_say():
    """Of 100,000 answers about a mean of .4 a tenth, ones all: the widened interval is below it, the hull is not."""
    asked, dropped = 100_000, 10_000
    ones = round(asked * ((1.0 - BIT.truth) + (2.0 * BIT.truth - 1.0) * 0.4)) - dropped
    silent = silence_bound([(asked, asked - dropped)], 0.95)
    assert silent.widened(estimate(BIT, ones, asked - dropped, 0.95)).high < 0.36
    assert robust_estimate(BIT, ones, asked - dropped, 0.95, missing=dropped).high > 0.4


def test_without_lies_and_with_nothing_left_out_it_is_the_usual_interval_and_numbers_bear_none():
    for share in (0.0, 0.005):
        assert robust_estimate(BIT, 30.0, 100, 0.95, share=share) == estimate(BIT, 30.0, 100, 0.95)
    for wrong in ({"missing": 1}, {"share": 0.01}):
        found = robust_estimate(Laplace(epsilon=1.0), 30.0, 100, 0.95, **wrong)
        assert (found.low, found.high) == (0.0, 1.0)
