"""A calibration is found again from what agents tell of residuals; a prior decides where they say little."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from common.local.mechanisms.mechanism import Warner
from common.numerics.elementary import logistic
from common.statistics.calibration import (
    QUARTER,
    Belief,
    CellShares,
    Prior,
    Reported,
    WithinBins,
    octave_quarter,
    of_sample,
)
from common.statistics.evidence import SequentialTest, implausible
from common.statistics.robustness import RobustTest, most_adversarial, robust_estimate
from tests.tiers import for_each

SCORES = np.linspace(-3.0, 3.0, 9)
MASS = np.full(9, 1.0 / 9.0)
POINTS = WithinBins(tuple(range(9)), SCORES, np.ones(9))
"""Nobody's score differs from that of the bin."""


def shares(slope: float, intercept: float, precision: float, mass: np.ndarray = MASS) -> CellShares:
    """Shares of very many people that follow a curve, with noise of a stated precision."""
    chance = logistic(slope * SCORES + intercept)
    items = np.stack([mass * (1.0 - chance), mass * chance], axis=1)
    return CellShares(items, np.full(9, 1.0 / precision), 1 << 40, POINTS)


def reported(
    slope: float, intercept: float, about: tuple[float, float], variance: float, center: float | None
) -> Reported:
    """What people of such odds tell of the residuals of a model with other odds."""
    signs = np.ones(9) if center is None else np.where(center < SCORES, 1.0, -1.0)
    asked = logistic(about[0] * SCORES + about[1])
    told = signs * (logistic(slope * SCORES + intercept) - asked) / np.maximum(asked, 1.0 - asked)
    return Reported(float((MASS * told).sum()), variance, *about, center)


def believed(prior: Prior, *answers: Reported) -> Belief:
    belief = Belief.of_others(prior.logarithm())
    for answer in answers:
        belief = belief.posterior(POINTS, MASS, answer)
    return belief


_INTERCEPTS = np.arange(-256, 257) / 16.0


@for_each("step", [-3, 0, 3])
@for_each("intercept", [-1.0, 0.3])
def test_odds_are_found_from_residuals_of_any_model_in_a_few_rounds(step, intercept):
    """Each asks about what the one before found: at the truth the mean of a residual is 0, whatever T's scores are."""
    slope, about = octave_quarter(step), (1.0, 0.5)
    answers: list[Reported] = []
    for _ in range(4):
        answers += [reported(slope, intercept, about, 1e-8, center) for center in (None, 0.0)]
        about = believed(Prior(), *answers).best()
    assert about[0] == pytest.approx(slope, rel=0.2)  # a step of the grid
    assert about[1] == pytest.approx(intercept, abs=0.1)


def test_an_intercept_alone_is_taught_where_the_prior_knows_the_slope():
    """T's scores need not lie as the sample's: that far from the truth one answer tells less than the next, near it."""
    prior = Prior(steep=0.01, far=3.0)
    once = reported(1.0, -1.3, (1.0, 0.0), 1e-8, None)
    near = believed(prior, once).best()
    assert near == pytest.approx((1.0, -1.3), abs=0.1)
    assert believed(prior, once, reported(1.0, -1.3, near, 1e-8, None)).best() == pytest.approx((1.0, -1.3), abs=0.02)
    share = float((MASS * logistic(SCORES - 1.3)).sum())
    assert believed(prior, Reported(share, 1e-8)).best()[1] == pytest.approx(-1.3, abs=0.2)


def test_a_share_of_labels_tells_less_where_scores_may_lie_higher_or_lower_than_the_samples():
    """T's scores are lower by half a deviation, and their odds the sample's: the share alone would move them by 1."""
    tilted = MASS * (1.0 - 0.5 * SCORES / np.sqrt((MASS * SCORES**2).sum()))
    told = Reported(float((tilted * logistic(SCORES)).sum()), 1e-4)
    moved = believed(Prior(steep=0.3, far=0.8), told).best()[1]
    assert -0.5 < moved < 0.0
    asked = logistic(SCORES + moved)
    residual = float((tilted * (logistic(SCORES) - asked) / np.maximum(asked, 1.0 - asked)).sum())
    answers = told, Reported(residual, 1e-4, 1.0, moved)
    assert believed(Prior(steep=0.3, far=0.8), *answers).best()[1] == pytest.approx(0.0, abs=0.1)


def test_noise_moves_a_belief_by_no_more_than_it_deserves():
    """Answers of variance .01 about what the prior has right: they move the intercept by a part of what they say."""
    prior, rng, errors = Prior(steep=0.3, far=0.7), np.random.default_rng(5), []
    for _ in range(60):
        noisy = Reported(float(rng.normal(scale=0.1)), 0.01, 1.0, 0.0)
        errors.append(believed(prior, noisy).best()[1])
    assert abs(np.mean(errors)) < 0.15
    assert np.std(errors) < 0.45  # alone they would be off by .1/E p(1 - p), about .7
    assert believed(prior).best() == (1.0, 0.0)


def test_of_other_people_far_odds_are_believed_where_answers_are_clear_and_noise_is_not():
    """Student's t with 3 degrees of freedom: a vague answer moves it by less than a Gaussian of its deviation, .87."""
    rare = Prior(step=0.0, odds=-3.0, steep=0.1, far=0.05)
    heavy, light = rare.transferred(0.0, 0.1, 0.5), Prior(step=0.0, odds=-3.0, steep=0.15, far=0.87)
    at_middle = heavy.logarithm()[24]
    assert float(at_middle.max() - at_middle[np.searchsorted(_INTERCEPTS, -1.0)]) == pytest.approx(
        2.0 * math.log1p((2.0 / math.hypot(0.05, 0.5)) ** 2 / 3.0), abs=0.01
    )
    vague, clear = Reported(0.3, 0.004), Reported(0.7, 1e-5)
    assert believed(heavy, vague).best()[1] < believed(light, vague).best()[1] - 0.2
    assert believed(heavy, clear).best()[1] > believed(light, clear).best()[1] + 0.2


def test_what_a_sample_says_is_believed_with_its_own_uncertainty():
    found = of_sample(shares(2.0, -1.0, 1e6), Prior())
    assert (found.step / 4.0, found.intercept) == pytest.approx((1.0, -1.0), abs=0.05)
    assert max(found.steep, found.far) < 0.1
    unknown = of_sample(shares(2.0, -1.0, 1e-9), Prior())
    assert (unknown.steep, unknown.far) == pytest.approx((1.5, 4.0), rel=0.1)
    spread = math.hypot(found.steep, 0.3), math.hypot(found.far, 0.4)
    assert found.transferred(0.0, 0.3, 0.4) == Prior(found.step, found.odds, *spread, heavy=True)
    assert found.transferred(4.0 * QUARTER, 0.3, 0.4).step == pytest.approx(found.step - 4.0)  # an octave


@for_each("bend", [-0.1, 0.08])
def test_of_odds_that_no_line_follows_the_likeliest_line_is_found_also_where_a_label_is_rare(bend: float) -> None:
    """Nearly that of a logistic regression on the people themselves; with one variance for all bins it was not."""
    people, middle = 14_000, -4.0 if bend > 0.0 else -3.0
    chance = logistic(SCORES + bend * SCORES**2 + middle)
    items = np.stack([MASS * (1.0 - chance), MASS * chance], axis=1)
    rows, labels = np.tile(SCORES, 2)[:, None], np.repeat([0, 1], 9)
    likeliest = LogisticRegression(C=1e9).fit(rows, labels, items.T.ravel())
    noise = np.full(9, (5.0 / people) ** 2)
    found = of_sample(CellShares(items, noise, people, POINTS), Prior(odds=middle))
    assert math.exp(found.step * QUARTER) == pytest.approx(float(likeliest.coef_[0, 0]), abs=0.08)
    assert found.odds == pytest.approx(float(likeliest.intercept_[0]), abs=0.2)


def test_rare_labels_are_as_certain_as_their_number_says() -> None:
    """With next to no noise the deviation of ln(odds) is that of the information in people's labels."""
    people = 1_000
    for middle in (-1.5, -3.0, -4.5):
        chance = logistic(SCORES + middle)
        items = np.stack([MASS * (1.0 - chance), MASS * chance], axis=1)
        noise = np.full(9, (0.1 / people) ** 2)
        known = of_sample(CellShares(items, noise, people, POINTS), Prior(odds=middle, steep=1e-3))
        information = people * float((MASS * chance * (1.0 - chance)).sum())
        assert known.odds == pytest.approx(middle, abs=0.05)
        assert known.far == pytest.approx(information**-0.5, rel=0.25)


def test_odds_at_the_middle_of_people_and_the_slope_are_believed_independently():
    """Few have labels +1, so scores are around -3: a steeper line through the middle of the people is as likely."""
    prior = Prior(step=0.0, odds=-3.0, steep=0.3, far=0.2, middle=-3.0)
    assert prior.intercept == 0.0
    told = prior.logarithm()
    steeper, at_zero = told[24 + 2], told[24]  # by half an octave
    assert float(steeper.max()) == pytest.approx(float(at_zero.max()) - 0.5 * (0.34657 / 0.3) ** 2, abs=1e-3)
    assert _INTERCEPTS[int(np.argmax(steeper))] == pytest.approx(3.0 * (2.0**0.5 - 1.0), abs=1.0 / 16.0)
    found = of_sample(shares(2.0, -1.0, 1e6), Prior(odds=1.0, middle=1.0))
    assert (found.odds, found.intercept) == pytest.approx((1.0, -1.0), abs=0.05)


def test_the_line_that_is_answered_has_the_least_log_loss_that_is_expected():
    known = believed(Prior(odds=-1.0, steep=1e-3, far=1e-3))
    assert known.expected(POINTS, MASS) == pytest.approx((1.0, -1.0), abs=0.02)
    unknown = believed(Prior(odds=-1.0, steep=0.5, far=1.5))
    slope, intercept = unknown.expected(POINTS, MASS)
    assert slope < 1.0  # flatter than the most likely line
    assert -1.0 < intercept < 0.0

    def loss(line: tuple[float, float]) -> float:
        about = logistic(line[0] * SCORES + line[1])
        chances = [logistic(octave_quarter(step) * SCORES + _INTERCEPTS[:, None]) for step in range(-24, 25)]
        mean = sum((row[:, None] * of).sum(axis=0) for row, of in zip(unknown.chances, chances, strict=True))
        return -float((MASS * (mean * np.log(about) + (1.0 - mean) * np.log(1.0 - about))).sum())

    least = loss((slope, intercept))
    assert all(least <= loss((slope * a, intercept + b)) + 1e-6 for a in (0.8, 1.0, 1.25) for b in (-0.1, 0.0, 0.1))
    assert least < loss(unknown.best()) - 0.001


def test_losses_are_those_of_thresholds_under_what_is_believed():
    line, cuts = Prior(odds=-1.0, steep=1e-3, far=1e-3).logarithm(), (-10.0, 0.0, 10.0)
    chance = logistic(SCORES - 1.0)
    wrong = np.array([np.where(cut < SCORES, 1.0 - chance, chance) for cut in cuts])
    found = Belief(line[None]).losses(POINTS, MASS, cuts)
    assert [mean for mean, _ in found] == pytest.approx((MASS * wrong).sum(axis=1).tolist(), abs=2e-3)
    kept = 0.15 * np.sqrt((MASS * wrong**2).sum(axis=1))  # of a bin's share, .15 of its root is not known
    assert [deviation for _, deviation in found] == pytest.approx(np.hypot(kept, 0.01).tolist(), abs=2e-3)
    # T's scores may be higher or lower: shares are tilted by the standardised score.
    tilts, standing = np.arange(-8, 9) / 4.0, SCORES / np.sqrt((MASS * SCORES**2).sum())
    people, chances = MASS * np.exp(tilts[:, None] * standing), np.exp(-0.5 * (tilts / 0.5) ** 2)
    means = (people / people.sum(axis=1, keepdims=True)) @ wrong.T
    middle = chances @ means / chances.sum()
    found = Belief.of_others(line).losses(POINTS, MASS, cuts)
    assert [mean for mean, _ in found] == pytest.approx(middle.tolist(), abs=2e-3)
    tilted = np.sqrt(chances @ (means - middle) ** 2 / chances.sum())
    assert [deviation for _, deviation in found] == pytest.approx(np.hypot(kept, tilted).tolist(), abs=0.01)
    assert believed(Prior()).losses(POINTS, MASS, (0.0,))[0][1] > 0.1


def test_people_lie_inside_wide_bins_as_the_sample_does():
    weights = np.concatenate([np.full(4, 0.25), np.full(5, 0.2)])
    wide = WithinBins((0, 4), SCORES, weights)
    chance = wide.means(1.0, np.array([-0.5]))[0]
    assert chance == pytest.approx([logistic(SCORES[:4] - 0.5).mean(), logistic(SCORES[4:] - 0.5).mean()])
    assert wide.middles == pytest.approx([SCORES[:4].mean(), SCORES[4:].mean()])
    noisy = CellShares(np.array([[0.5, -0.2], [0.4, 0.3]]), np.ones(2), 100, wide)
    assert noisy.masses == pytest.approx([0.3, 0.7])


WARNER = Warner(epsilon=1.0)


def test_how_many_may_lie():
    cases = (0, 0.3, 0), (100, 0.29, 29), (30, 0.1, 3), (7, 0.1, 0), (5, 1, 5)
    assert all(most_adversarial(count, share) == found for count, share, found in cases)


def test_the_robust_test_takes_the_least_evidence_that_honest_answers_can_have_left():
    """For either verdict, against all counts of ones that differ from what was counted by the lies at most."""
    for count, ones, share in ((40, 0, 0.2), (40, 3, 0.2), (40, 20, 0.2), (40, 37, 0.2), (40, 40, 0.2), (40, 20, 0.0)):
        test, plain = RobustTest(WARNER, 0.2, 0.3, 0.01, share), SequentialTest(WARNER, 0.2, 0.3, 0.01)._processes
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


def test_where_scores_tell_nothing_of_these_people_a_doubted_prior_gives_way_and_a_gaussian_does_not():
    sample, slopes = Prior(steep=0.2, far=0.8), []
    for logarithm in (sample.logarithm(), sample.doubted()):
        belief = Belief.of_others(logarithm)
        for _ in range(3):
            belief = belief.posterior(POINTS, MASS, reported(1 / 64, 0.0, belief.best(), 0.04**2, 0.0))
        slopes.append(belief.expected(POINTS, MASS)[0])
    assert slopes[1] < 0.5 * slopes[0]
    usual = Belief.of_others(sample.doubted()).posterior(POINTS, MASS, reported(1.0, 0.0, (1.0, 0.0), 0.04**2, 0.0))
    assert usual.best()[0] == 1.0


def test_judges_tell_a_slope_that_residuals_alone_do_not():
    sample, slopes = Prior(steep=0.45, far=0.8), {}
    for of in (1.0, 1.0 / 64.0):  # the slope on T; the residual of the intercept alone is 0 with either
        told = Belief.of_others(sample.doubted()).posterior(POINTS, MASS, reported(of, 0.0, (1.0, 0.0), 0.04**2, None))
        (loss, _), *_ = Belief(Prior(math.log2(of) * 4.0, 0.0, 1e-3, 1e-3).logarithm()[None]).losses(
            POINTS, MASS, (0.0,)
        )
        slopes[of] = [b.expected(POINTS, MASS)[0] for b in (told, told.judged(POINTS, MASS, 0.0, (loss, 0.04**2)))]
    assert slopes[1.0][1] == pytest.approx(1.0, rel=0.2)
    assert slopes[1.0 / 64.0][1] < 0.3 * slopes[1.0 / 64.0][0]


@for_each("odds", [0.0, 1.5])
def test_a_line_through_the_threshold_is_preferred_where_it_is_as_good(odds):
    for through, kept in (((-0.3, odds), True), ((2.0, odds), False)):
        told = reported(0.7, 0.2 + odds, (1.0, odds), 0.05**2, 0.0)
        belief = believed(Prior(odds=odds, steep=0.5, far=0.8), told, told)
        free, bound = belief.expected(POINTS, MASS), belief.expected(POINTS, MASS, through)
        assert (bound != free) == kept
        assert (bound[0] * through[0] + bound[1] == pytest.approx(through[1])) == kept
