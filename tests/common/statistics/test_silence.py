"""What the silent can change: the widened interval holds whatever they are like, and no narrower one does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.mechanisms.laplace import Laplace
from common.local.mechanisms.none import NoMechanism
from common.local.mechanisms.warner import Warner
from common.statistics.intervals import Estimate, estimate
from common.statistics.robustness import Silence, silence, unseen

WARNER = Warner(epsilon=1.0)


def test_where_everybody_answers_nothing_is_said():
    assert silence([], 0.95) is None
    assert silence([(0, 0), (500, 500)], 0.95) is None


def test_the_interval_is_that_of_the_worst_the_silent_can_be():
    found = Silence(0.2, 0.25, 0.95).widened(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.95))
    assert (found.low, found.high, found.confidence) == pytest.approx((0.075, 0.475, 0.9))
    assert Silence(0.2, 0.25, 0.95).exceeded(0.1) == pytest.approx(0.325)
    everybody = Silence(1.0, 1.0, 0.95).widened(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.95))
    assert (everybody.low, everybody.high) == (0.0, 1.0)


def test_a_widened_interval_stays_one_of_means():
    """In doubles as in the theorem: (1 - M) b + M is 1 at most, as 1 - M is off by 2^-54 at most."""
    generator = np.random.default_rng(9)
    for most in (0.0, 2.0**-60, *(generator.random(2000) ** 20).tolist(), *generator.random(2000).tolist(), 1.0):
        for high in (1.0, float(np.nextafter(1.0, 0.0)), float(generator.random())):
            assert Silence(most, most, 0.95).exceeded(high) <= 1.0


def test_two_halves_of_a_chance_hold_nothing_together():
    found = Silence(0.1, 0.1, 0.5).widened(Estimate(value=0.2, low=0.1, high=0.3, confidence=0.5))
    assert (found.low, found.high, found.confidence) == (0.0, 1.0, 0.5)


def test_the_chance_of_silence_has_a_sampling_error_of_its_own():
    few, many = (silence([(asked, asked * 7 // 10)], 0.95) for asked in (100, 100_000))
    assert few is not None
    assert many is not None
    assert few.missing == many.missing == pytest.approx(0.3)
    assert few.most > 0.4 > 0.32 > many.most > 0.3


def test_of_several_questions_the_one_that_fewest_answered_counts_and_all_bounds_hold_at_once():
    one, several = silence([(1000, 700)], 0.95), silence([(1000, 999), (1000, 700), (1000, 1000)], 0.95)
    assert one is not None
    assert several is not None
    assert several.missing == pytest.approx(0.3)
    assert several.most > one.most


def test_the_bound_of_each_question_has_its_own_part_of_what_may_miss():
    """The k-th has 1/(k (k + 1)) of it, these add up to 1, and one that everybody answered bounds nothing."""
    assert sum(Fraction(1, k * (k + 1)) for k in range(1, 100)) < 1
    for among in (1, 3):
        parts = [estimate(NoMechanism(), 300, 1000, 0.95, among * k * (k + 1)).high for k in (1, 2, 3)]
        for place in range(3):
            found = silence([*place * [(10, 10)], (1000, 700), (1000, 700), (5000, 4990)][: place + 1], 0.95, among)
            assert found is not None
            assert found.most == parts[place]
        both = silence([(1000, 700), (1000, 700)], 0.95, among)
        assert both is not None
        assert both.most == max(parts[:2])


@pytest.mark.parametrize("question", [(10, 11), (10, -1)])
def test_more_answers_than_people_are_refused(question):
    with pytest.raises(BadInput, match="of those who were asked"):
        silence([question], 0.95)


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
            bits = np.where(generator.random(1500) < WARNER.truth, value, ~value)[answers]
            found = estimate(WARNER, float(bits.sum()), len(bits), 0.95)
            silent = silence([(1500, len(bits))], 0.95)
            assert silent is not None
            wide = silent.widened(found)
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
        bounds = [silence([(50 * (k + 1), int(count))], 0.95) for k, count in enumerate(answered)]
        misses += any(found is None or found.most < 0.3 for found in bounds)
    assert misses <= 35


def test_answers_that_were_left_out_after_they_were_seen_are_as_good_as_lies():
    """Of answers about a mean of .4 those that say 1 are dropped, as many as there are or some: the hull holds .4.

    Without drops the interval misses with a chance of .05 at most, and the hull holds whatever that one holds.
    """
    generator = np.random.default_rng(7)
    for _ in range(100):
        bits = (generator.random(1500) < WARNER.truth) == (generator.random(1500) < 0.4)
        whole = estimate(WARNER, float(bits.sum()), 1500, 0.95)
        dropped = int(generator.integers(1, bits.sum()))
        found = unseen(WARNER, float(bits.sum() - dropped), 1500 - dropped, 1500, 0.95)
        assert found.low <= whole.low
        assert found.high >= whole.high


def test_what_is_known_of_answers_left_out_is_the_hull_over_all_that_they_can_have_been():
    """Against every count of ones among all who were asked: those that came, less or more the lies, and any missing."""
    for count, ones, asked, lies in (
        (50, 20, 60, 0),
        (50, 20, 50, 4),
        (50, 2, 55, 4),
        (50, 49, 55, 4),
        (50, 20, 58, 3),
    ):
        counted = range(max(0, ones - lies), min(asked, ones + lies + asked - count) + 1)
        each = [estimate(WARNER, float(s), asked, 0.95, 2) for s in counted]
        found = unseen(WARNER, float(ones), count, asked, 0.95, 2, lies=lies)
        assert found.low == pytest.approx(min(one.low for one in each), abs=1e-9)
        assert found.high == pytest.approx(max(one.high for one in each), abs=1e-9)
        assert found.value == estimate(WARNER, float(ones), count, 0.95, 2).value


def test_what_holds_for_silence_does_not_hold_for_answers_that_were_dropped_for_what_they_say():
    """Of 100,000 answers about a mean of .4 a tenth, ones all: the widened interval is below it, the hull is not."""
    asked, dropped = 100_000, 10_000
    ones = round(asked * ((1.0 - WARNER.truth) + (2.0 * WARNER.truth - 1.0) * 0.4)) - dropped
    silent = silence([(asked, asked - dropped)], 0.95)
    assert silent is not None
    assert silent.widened(estimate(WARNER, ones, asked - dropped, 0.95)).high < 0.36
    assert unseen(WARNER, ones, asked - dropped, asked, 0.95).high > 0.4


def test_nothing_left_out_is_the_usual_interval_and_numbers_bear_nothing():
    assert unseen(WARNER, 30.0, 100, 100, 0.95) == estimate(WARNER, 30.0, 100, 0.95)
    found = unseen(Laplace(epsilon=1.0), 30.0, 100, 101, 0.95)
    assert (found.low, found.high) == (0.0, 1.0)
