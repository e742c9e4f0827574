"""A calibration is found again from shares, exact or noisy; a prior decides where they say little."""

import math

import numpy as np
import pytest

from common.local.mechanisms.mechanism import Warner
from common.statistics import calibration
from common.statistics.calibration import (
    VAGUE,
    Calibration,
    CellShares,
    Prior,
    ReportedShare,
    Within,
    calibrate,
    forecast,
    logistic,
    octave_quarter,
    posterior,
)
from common.statistics.evidence import SequentialTest, implausible
from common.statistics.robustness import RobustTest, most_adversarial, robust_estimate
from tests.tiers import for_each

SCORES = np.linspace(-3.0, 3.0, 9)
MASS = np.full(9, 1.0 / 9.0)
POINTS = Within(tuple(range(9)), SCORES, np.ones(9))
"""Nobody's score differs from that of the bin."""


def items(slope: float, intercepts: tuple[float, ...], mass: np.ndarray = MASS) -> np.ndarray:
    found = []
    for intercept in intercepts:
        chance = logistic(slope * SCORES + intercept)
        found.append(np.stack([mass * (1.0 - chance), mass * chance], axis=1))
    return np.array(found) / len(intercepts)


def shares(items: np.ndarray, precision: float = 1e6, within: Within = POINTS) -> CellShares:
    return CellShares(items, np.full(items.shape[1], precision), within)


@for_each("step", [-4, 0, 3])
@for_each("intercept", [-2.0, 0.3])
def test_it_is_found_from_exact_shares_of_one_group_or_of_several(step, intercept):
    found = calibrate(shares(items(octave_quarter(step), (intercept,))))
    assert found == Calibration(octave_quarter(step), (pytest.approx(intercept, abs=1e-3),))
    several = calibrate(shares(items(1.0, (-1.5, intercept, 1.0)), 1e9))
    assert several.intercepts == pytest.approx((-1.5, intercept, 1.0), abs=0.01)


def test_noise_of_one_size_in_all_shares_does_not_count_as_people():
    """2,500 agents at epsilon 1: every share is off by .04. A likelihood of counts would believe all of it."""
    rng, precision = np.random.default_rng(5), 600.0
    errors: list[float] = []
    for _ in range(60):
        true = items(1.0, (-1.0,))
        noisy = true + rng.normal(scale=precision**-0.5, size=true.shape)
        found = calibrate(shares(noisy, precision), Prior(intercept=-0.7, steep=0.3, far=0.5))
        errors.append(found.intercepts[0] + 1.0)
    assert abs(np.mean(errors)) < 0.3
    assert np.std(errors) < 0.4


def test_what_people_told_of_their_label_moves_the_intercept():
    """Nothing is known of labels by score; a quarter of the people is +1, the slope is known."""
    silent, prior = shares(np.zeros((1, 9, 2)), 1e-9), Prior(steep=0.01, far=3.0)
    masses = shares(items(1.0, (0.0,)), 1e9).masses(MASS)
    assert masses.shares == pytest.approx(MASS, abs=1e-6)
    found = calibrate(silent, prior, ReportedShare(0.25, 0.001), masses)
    assert float((MASS * logistic(SCORES + found.intercepts[0])).sum()) == pytest.approx(0.25, abs=0.005)
    vague = calibrate(silent, prior, ReportedShare(0.25, 10.0), masses)
    assert vague.intercepts[0] == pytest.approx(0.0, abs=0.1)


def test_masses_lie_between_what_is_said_and_the_sample_by_what_is_known():
    said = np.stack([np.full(9, 0.0), np.arange(9.0) / 36.0], axis=1)[None]
    assert shares(said, 1e9).masses(MASS).shares == pytest.approx(np.arange(9.0) / 36.0, abs=1e-4)
    assert shares(said, 1e-9).masses(MASS).shares == pytest.approx(MASS, abs=1e-4)
    wrong = shares(-said, 1e9).masses(MASS)
    assert (wrong.shares > 0.0).all()
    assert math.fsum(wrong.shares.tolist()) == pytest.approx(1.0)


def test_people_lie_inside_wide_bins_as_the_sample_does():
    weights = np.concatenate([np.full(4, 0.25), np.full(5, 0.2)])
    wide = Within((0, 4), SCORES, weights)
    chance = wide.means(1.0, np.array([-0.5]))[0]
    assert chance == pytest.approx([logistic(SCORES[:4] - 0.5).mean(), logistic(SCORES[4:] - 0.5).mean()])
    assert wide.middles == pytest.approx([SCORES[:4].mean(), SCORES[4:].mean()])
    exact = np.stack([0.5 * (1.0 - chance), 0.5 * chance], axis=1)[None]
    found = calibrate(shares(exact, 1e8, wide))
    assert found == Calibration(1.0, (pytest.approx(-0.5, abs=2e-3),))


def test_a_prior_decides_where_nobody_has_said_anything_and_yields_to_many():
    prior = Prior(step=4, intercept=-1.0, steep=0.1, far=0.1)
    silent = calibrate(shares(np.zeros((1, 9, 2)), 1e-6), prior)
    assert silent == Calibration(2.0, (pytest.approx(-1.0, abs=1e-3),))
    assert calibrate(shares(items(1.0, (0.5,)), 1e8), prior).intercepts[0] == pytest.approx(0.5, abs=0.05)


def test_what_a_sample_says_is_believed_with_its_own_uncertainty():
    told = posterior(shares(items(2.0, (-1.0,)), 1e6))
    assert (told.step / 4.0, told.intercept) == pytest.approx((1.0, -1.0), abs=0.05)
    assert max(told.steep, told.far) < 0.1
    unknown = posterior(shares(items(2.0, (-1.0,)), 1e-9))
    assert (unknown.steep, unknown.far) == pytest.approx((1.5, 4.0), rel=0.1)
    spread = math.hypot(told.steep, 0.3), math.hypot(told.far, 0.4)
    assert told.shifted(0.7, 0.3, 0.4) == Prior(told.step, told.intercept + 0.7, *spread)


def test_a_forecast_is_the_loss_of_a_threshold_under_what_is_believed():
    exact = shares(items(1.0, (-1.0,)), 1e9)
    chance, masses = logistic(SCORES - 1.0), exact.masses(MASS)
    found = forecast(exact, VAGUE, None, masses, (-10.0, 0.0, 10.0))
    wanted = [(MASS * np.where(cut < SCORES, 1.0 - chance, chance)).sum() for cut in (-10.0, 0.0, 10.0)]
    assert [mean for mean, _ in found] == pytest.approx(wanted, abs=2e-3)
    assert all(deviation < 0.01 for _, deviation in found)
    silent = forecast(shares(np.zeros((1, 9, 2)), 1e-9), VAGUE, None, masses, (0.0,))
    assert silent[0][1] > 0.1


RAKING_SCORES = np.array([-2.0, -0.5, 1.0, 2.5])


def weighed(sample: np.ndarray, tilts: list[int], eta: float) -> np.ndarray:
    weights = sample * np.exp(-eta * (1.0 - np.array(tilts) / 1024.0))
    return weights / weights.sum()


def test_weights_take_the_sample_to_the_wanted_shares_or_as_far_as_a_step_can():
    sample, wanted = np.array([0.1, 0.4, 0.3, 0.2]), np.array([0.4, 0.1, 0.2, 0.3])
    found = weighed(sample, calibration.rake(wanted, sample, 4.0, 1024), 4.0)
    assert found == pytest.approx(wanted, abs=2e-3)
    assert calibration.rake(np.array([0.99, 0.01]), np.array([0.5, 0.5]), 1.0, 1024) == [1024, 0]
    assert all(0 <= tilt <= 1024 for tilt in calibration.rake(np.array([0.5, 0.5]), np.array([-0.1, 0.4]), 4.0, 1024))


def test_labels_get_the_populations_share_if_it_is_known_and_stay_where_noise_explains_the_difference():
    minus, plus = calibration.label_ratios(0.25, 1e-6, 0.07)
    assert (0.93 * minus, 0.07 * plus) == pytest.approx((0.75, 0.25), abs=1e-4)
    assert calibration.label_ratios(0.25, 0.3, 0.24) == pytest.approx((1.0, 1.0))
    assert calibration.label_ratios(0.25, 0.01, 0.25) == pytest.approx((1.0, 1.0))
    assert calibration.label_ratios(0.25, 1e-6, 0.24, 0.05) == pytest.approx((1.0, 1.0))  # the sample's own noise, too
    for share in (-0.2, 0.0, 1.0, 1.7):  # estimates may lie outside [0, 1]
        assert all(0.0 < ratio < 250.0 for ratio in calibration.label_ratios(share, 0.01, 0.5))


def test_shares_are_smoothed_towards_the_curve_by_as_much_as_noise_explains():
    rng, curve = np.random.default_rng(3), Calibration(1.0, (0.0,))
    chance = logistic(RAKING_SCORES)
    exact = np.stack([0.25 * (1.0 - chance), 0.25 * chance], axis=1)[None]
    errors: dict[str, list[float]] = {"raw": [], "smoothed": []}
    for _ in range(200):
        noisy = exact + rng.normal(scale=0.05, size=exact.shape)
        found = calibration.smoothed(noisy, exact, RAKING_SCORES, curve, 400.0)
        assert found.min() > 0.0
        assert found.sum() == pytest.approx(1.0)
        errors["raw"].append(float(np.square(noisy - exact).sum()))
        errors["smoothed"].append(float(np.square(found - exact).sum()))
    assert np.mean(errors["smoothed"]) < 0.7 * np.mean(errors["raw"])
    clear = np.array([[[0.01, 0.24], [0.24, 0.01], [0.01, 0.24], [0.24, 0.01]]])
    assert calibration.smoothed(clear, clear, RAKING_SCORES, curve, 1e8) == pytest.approx(clear, abs=1e-4)


WARNER = Warner(epsilon=1.0)


def test_how_many_may_lie():
    cases = (0, 0.3, 0), (100, 0.29, 29), (30, 0.1, 3), (7, 0.1, 0), (5, 1, 5)
    assert all(most_adversarial(count, share) == found for count, share, found in cases)


def test_the_robust_test_takes_the_least_evidence_that_honest_answers_can_have_left():
    """For either verdict, against all counts of ones that differ from what was counted by the lies at most."""
    for count, ones, share in ((40, 0, 0.2), (40, 3, 0.2), (40, 20, 0.2), (40, 37, 0.2), (40, 40, 0.2), (40, 20, 0.0)):
        test, plain = RobustTest(WARNER, 0.2, 0.3, 0.01, share), SequentialTest(WARNER, 0.2, 0.3, 0.01)._evidences
        test.update(ones, count)
        lies = most_adversarial(count, share)
        honest = range(max(0, ones - lies), min(count, ones + lies) + 1)
        least = [min(side.log_value(float(s), count) for s in honest) for side in (plain.above, plain.below)]
        assert test._evidence() == pytest.approx(least, abs=1e-9)


def test_the_robust_test_asks_for_half_as_many_as_came_and_for_none_after_its_verdict():
    test = RobustTest(WARNER, 0.2, 0.3, 0.01, 0.05)
    assert test.next_batch(500) == 500
    for ones, count, following in ((1, 1, 1), (0, 3, 2), (2, 5, 5), (50_000, 50_000, 0)):
        test.update(ones, count)
        assert test.next_batch(500) == following
    assert test.verdict == "above"


RUNS, COUNT, LOSS, SHARE = 200, 40_000, 0.3, 0.05


def counts(say: float, seed: int) -> np.ndarray:
    """Ones among honest answers and those of a share of liars, who all say 1 with a chance: 0, 1, or nobody lies."""
    generator = np.random.default_rng(seed)
    p = WARNER.truth
    q = LOSS * p + (1 - LOSS) * (1 - p)
    lies = most_adversarial(COUNT, SHARE)
    return generator.binomial(COUNT - lies, q, RUNS) + generator.binomial(lies, say, RUNS)


@pytest.mark.parametrize("say", [0.0, 1.0])
def test_liars_who_all_say_the_same_leave_the_usual_interval_false_and_not_the_robust_one(say):
    def covered(ones: int, share: float) -> bool:
        found = robust_estimate(WARNER, ones, COUNT, 0.95, share=share)
        return found.low <= LOSS <= found.high

    found = counts(say, 7).tolist()
    assert sum(covered(ones, 0.0) for ones in found) < 0.9 * RUNS  # 5% of liars are more than its confidence bears
    assert sum(covered(ones, SHARE) for ones in found) >= 0.95 * RUNS
    assert not covered(found[0], SHARE / 10)  # more lies than were assumed: it need not hold


def decided(test: SequentialTest, loss: float, say: float, share: float, generator: np.random.Generator) -> str | None:
    p = WARNER.truth
    q = loss * p + (1 - loss) * (1 - p)
    while test.verdict is None and test.count < 60_000:
        batch = test.next_batch(500)
        lies = most_adversarial(batch, share)
        test.update(int(generator.binomial(batch - lies, q)) + say * lies, batch)
    return test.verdict


@pytest.mark.parametrize(("loss", "say", "false"), [(0.15, 1.0, "above"), (0.35, 0.0, "below")])
def test_a_test_is_misled_by_liars_and_the_robust_one_is_not(loss, say, false):
    generator, levels = np.random.default_rng(3), (0.2, 0.3)
    share = 0.2
    misled = [decided(SequentialTest(WARNER, *levels, 0.01), loss, say, share, generator) for _ in range(20)]
    bears = [decided(RobustTest(WARNER, *levels, 0.01, share), loss, say, share, generator) for _ in range(20)]
    assert misled.count(false) > 10
    assert bears.count(false) == 0
    clear, right = {"above": (0.05, "below"), "below": (0.6, "above")}[false]  # lies do not reach so far
    assert decided(RobustTest(WARNER, *levels, 0.01, 0.01), clear, say, 0.01, generator) == right


def test_lies_that_are_borne_do_not_make_answers_implausible():
    ones = round(1000 * (1 - WARNER.truth)) - 150
    assert implausible(WARNER, ones, 1000)
    assert not implausible(WARNER, ones, 1000, 150)
    assert implausible(WARNER, ones - 150, 1000, 150)
    assert implausible(WARNER, 1000 - ones, 1000)
    assert not implausible(WARNER, 1000 - ones, 1000, 150)
