"""Agents with different epsilons in one run: levels, and estimates weighted by inverse variances."""

import math

import numpy as np
import pytest

from common.local.mechanisms.levels import PooledLevels, WarnerLevels
from common.local.mechanisms.mechanism import Warner
from common.numerics.randomness import RandomSource
from common.statistics.intervals import estimate, tally
from tests.tiers import for_each

LEVELS = WarnerLevels(epsilons=(0.5, 1.0, 3.0))
SLOPES = [2 * Warner(epsilon=epsilon).truth - 1 for epsilon in LEVELS.epsilons]
PEOPLE = np.array([4000, 1500, 500])  # at each level


def told(people, mean, seed, levels=LEVELS):
    """Return answers of so many people at each level, whose values are bits of the given mean."""
    source, random = RandomSource.seeded(seed), np.random.default_rng(seed)
    own = [levels.model_copy(update={"level": level}) for level in range(len(people))]
    bits = [(random.random(count) < mean).astype(np.uint8) for count in people]
    return np.concatenate([one.randomize(some, source) for one, some in zip(own, bits, strict=True)])


@for_each(
    ("left", "level"), [(0.1, 0), (0.5, 0), (math.nextafter(1.0, 0.0), 0), (1.0, 1), (2.9, 1), (3.0, 2), (math.inf, 2)]
)
def test_an_agent_answers_at_the_highest_level_that_its_budget_pays(left, level):
    own = LEVELS.affordable((left, 0.0))
    assert own.guarantee == (LEVELS.epsilons[level], 0.0)
    answers = own.randomize(np.array([0.0, 1.0] * 50), RandomSource.seeded(1))
    assert set(answers.tolist()) == {2 * level, 2 * level + 1}
    assert own.affordable((math.inf, 0.0)).guarantee == own.guarantee  # what is left never raises what was chosen


def test_terms_have_the_stated_moments_given_the_levels():
    """The law of every term is known: each moment is worked out, none is drawn."""
    slopes = np.repeat(SLOPES, PEOPLE)
    ones = 2 * np.repeat(np.arange(3), PEOPLE) + 1
    pooled, of_one = LEVELS.pooled(ones)
    _, of_zero = LEVELS.pooled(ones - 1)
    assert isinstance(pooled, PooledLevels)
    assert pooled.precision == pytest.approx(np.square(slopes).mean(), rel=1e-12)
    for mean in (0.0, 0.2, 0.5, 1.0):
        chance = 0.5 * (1 - slopes) + slopes * mean
        expected = chance * of_one + (1 - chance) * of_zero
        assert expected.mean() == pytest.approx(mean, abs=1e-12)
        for rate in (-2.0, -0.1, 0.3, 1.0):
            moment = np.log(chance * np.exp(rate * of_one) + (1 - chance) * np.exp(rate * of_zero)).sum()
            assert moment - rate * len(ones) * mean <= len(ones) * pooled.log_mgf(rate) * (1 + 1e-12)


def test_weights_by_inverse_variance_beat_the_plain_mean_and_every_other_weights():
    slopes = np.repeat(SLOPES, PEOPLE)
    bound = LEVELS.pooled(2 * np.repeat(np.arange(3), PEOPLE))[0].variance(0.5) / len(slopes)
    variances = 1.0 / (4.0 * np.square(slopes))
    random = np.random.default_rng(1)
    for weights in (np.ones(len(slopes)), *random.random((50, len(slopes)))):
        weights = weights / weights.sum()
        assert bound < (np.square(weights) * variances).sum()
    assert bound == pytest.approx(1.0 / (1.0 / variances).sum(), rel=1e-12)


@for_each("mean", [0.05, 0.5])
def test_an_estimate_of_mixed_levels_is_unbiased_and_its_interval_holds(mean):
    found, narrower = [], []
    for seed in range(200):
        answers = told(PEOPLE, mean, seed)
        plain = estimate(LEVELS, *tally(LEVELS, answers), 0.95)
        pooled, terms = LEVELS.pooled(answers)
        weighted = estimate(pooled, *tally(pooled, terms), 0.95)
        found.append((terms.mean(), weighted.low <= mean <= weighted.high, plain.low <= mean <= plain.high))
        narrower.append((weighted.high - weighted.low) / (plain.high - plain.low))
    means, holds, plainly = np.array(found).T
    spread = math.sqrt(pooled.variance(0.5) / PEOPLE.sum())
    assert abs(means.mean() - mean) < 4 * spread / math.sqrt(200)
    assert means.std() < 1.2 * spread
    assert min(holds.mean(), plainly.mean()) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 200)
    assert np.median(narrower) < 0.8


def test_a_twin_that_takes_all_answers_for_the_highest_level_is_biased():
    answers = told(PEOPLE, 0.05, 1)
    bits = answers & 1
    twin = (bits.mean() - 0.5 * (1 - SLOPES[-1])) / SLOPES[-1]
    pooled, terms = LEVELS.pooled(answers)
    low, high = estimate(pooled, *tally(pooled, terms), 0.95).low, estimate(pooled, *tally(pooled, terms), 0.95).high
    assert low <= 0.05 <= high < twin
