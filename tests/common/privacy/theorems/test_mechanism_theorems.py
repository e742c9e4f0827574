"""Calibration of adaptation: the joint bound of the squared loss, exact totals, and where the printed noise fails."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.local.mechanisms.mechanism import Laplace
from common.privacy.rounding import EXP_BITS, exp_below
from common.privacy.theorems import gaussian_dp, votes
from common.privacy.theorems import randomized_response as local
from common.privacy.theorems.composition import composed_delta
from common.privacy.theorems.gaussian_dp import delta_of, joint_step, mu_allowed, paper_mu, scales_share, step_noise
from common.privacy.theorems.profiles import gaussian_price, release_profile, step_profile
from common.privacy.theorems.votes import Thresholds, calibrated, leak, printed
from curator.mechanisms.counts import Tail
from tests.common.privacy.theorems.test_profiles import exact_gaussian_delta
from tests.tiers import for_each


@for_each("gradient", [0.0, 1e-8, 0.3, 1.0, 7.0])
@for_each("scales", [1e-9, 0.2, 0.693, 1.0, 50.0])
def test_the_joint_bound_is_the_greatest_over_a_grid(gradient, scales):
    q = np.linspace(0.0, 1.0, 20_001)
    found = float(((1 + q) ** 2 * (gradient / 4 + scales * (1 - q) ** 2)).max())
    assert found <= joint_step(gradient, scales) <= found * (1 + 1e-7)
    assert joint_step(gradient, scales) <= (gradient + scales) * (1 + 1e-12)
    assert joint_step(1.0, gaussian_dp.FREE) == pytest.approx(1.0, rel=1e-12)
    assert joint_step(1.0, 0.694) > 1.0 + 1e-4


def test_the_joint_bound_holds_for_records():
    # Residuals of two records at one w, with features of norm r: gradients 2 rho x, losses rho^2.
    draw = np.random.default_rng(1)
    a, b, worst = 0.8, 1.1, 0.0
    for _ in range(5000):
        rho = draw.uniform(-1, 1, size=2)
        x = draw.normal(size=(2, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        apart = np.linalg.norm(2 * rho[0] * x[0] - 2 * rho[1] * x[1]) / 4  # in units of s_1 = 4
        worst = max(worst, a * apart**2 + b * (rho[0] ** 2 - rho[1] ** 2) ** 2)
    assert 0.6 * joint_step(a, b) < worst <= joint_step(a, b)


@for_each("joint", [True, False])
@for_each("share", [0.01, 0.5, 0.9])
@for_each("iterations", [1, 15_000])
def test_all_iterations_together_are_as_private_as_wanted(iterations, share, joint):
    mu = mu_allowed(1.0, 1e-6)
    noise = step_noise(mu, iterations, share, joint=joint)
    a, b = noise.gradient**-2, noise.scales**-2
    whole = iterations * (joint_step(a, b) if joint else a + b)
    assert whole <= mu**2
    assert whole == pytest.approx(mu**2, rel=1e-9)
    if not joint:
        assert b / (a + b) == pytest.approx(share)


def test_division_minimizes_the_weighted_noise():
    best = scales_share(3.0, 0.4)
    cost = {share: 3.0 / math.sqrt(1 - share) + 0.4 / math.sqrt(share) for share in (best, best * 1.05, best * 0.95)}
    assert min(cost, key=cost.__getitem__) == best


@for_each(("delta", "most"), [(1e-2, 8.9), (1e-4, 9.9), (1e-6, 10.6)])
def test_printed_noise_is_private_up_to_a_limit(delta, most):
    mu = paper_mu(most - 0.1, delta)
    assert delta_of(mu, most - 0.1) <= delta
    assert mu < mu_allowed(most - 0.1, delta)
    for epsilon, says in ((most + 0.1, "not private at epsilon"), (8 * math.log(1 / delta) + 1, "covers epsilon in")):
        with pytest.raises(BadInput, match=says):
            paper_mu(epsilon, delta)


GRID = np.linspace(-10.0, 12.0, 20001)


def profile(mu: float, losses: Floats) -> Floats:
    """delta_G(x; mu) for any real x, (1 - e^x)_+ not taken off."""
    return ndtr(-losses / mu + mu / 2) - np.exp(losses) * ndtr(-losses / mu - mu / 2)


def beside_the_pad(tv_bound: float, means: tuple[float, float, float], pad: float, levels: Floats) -> Floats:
    """int P F_pad(a Q/P) - F_pad(a) for unit Gaussians on a line, by the trapezoid."""
    a, b, c = (np.exp(-0.5 * (GRID - mean) ** 2) / math.sqrt(2 * math.pi) for mean in means)
    p, q = (1 - tv_bound) * a + tv_bound * b, (1 - tv_bound) * a + tv_bound * c
    losses = np.log(q / p)
    width = GRID[1] - GRID[0]
    gains = profile(pad, levels[:, None] + losses[None, :]) - profile(pad, levels)[:, None]
    return (gains * p).sum(axis=1) * width


@for_each(("tv_bound", "ratio", "pad"), [(1e-3, 0.25, 0.01), (0.05, 0.5, 0.3), (0.01, 1.0, 0.2)])
def test_every_triple_beside_the_pad_is_below_the_gaussian_of_that_price(tv_bound, ratio, pad):
    allowance = 1e-9
    price = gaussian_price(step_profile(tv_bound, ratio), pad, allowance)
    assert price >= step_profile(tv_bound, ratio).chi_squared * 0.99
    levels = np.linspace(-9.0 * pad, 9.0 * pad, 61)
    allowed = profile(math.sqrt(pad * pad + price), levels) - profile(pad, levels)
    half = 0.5 * ratio
    for means in [(-half, half, -half), (half, half, -half), (0.0, half, -half), (-half, half, half), (0.0, half, 0.0)]:
        gained = beside_the_pad(tv_bound, means, pad, levels)
        assert np.all(gained <= allowed + allowance + 1e-13)


def test_half_the_price_is_exceeded() -> None:
    tv_bound, ratio, pad = 1e-3, 0.25, 0.01
    price = gaussian_price(step_profile(tv_bound, ratio), pad, 1e-12)
    levels = np.linspace(-3.0 * pad, 3.0 * pad, 21)
    allowed = profile(math.sqrt(pad * pad + 0.9 * price), levels) - profile(pad, levels)
    gained = beside_the_pad(tv_bound, (-0.125, 0.125, -0.125), pad, levels)
    assert np.max(gained - allowed) > 1e-8


def test_a_wide_pad_makes_it_the_chi_squared_and_a_narrow_one_nothing() -> None:
    small = step_profile(1e-5, 0.2)
    narrow, wide = (gaussian_price(small, pad, 1e-14) for pad in (1e-3, 1e-2))
    assert small.chi_squared <= wide <= 1.001 * small.chi_squared < 1.001 * narrow
    assert math.isinf(gaussian_price(small, 1e-6, 1e-14))
    assert gaussian_price(release_profile(1e-4, 0.0), 0.05, 1e-12) == pytest.approx(1e-8, rel=0.02)
    unknown = replace(step_profile(1e-4, 1.0), chi_squared=math.inf)  # then the envelope itself is charged
    charged = gaussian_price(unknown, 0.1, 1e-14) / step_profile(1e-4, 1.0).chi_squared
    assert 1.3 < charged < 2.0


@settings(max_examples=60)
@given(epsilon=st.floats(1e-3, 60.0), log_delta=st.floats(-30.0, -1.0), sensitivity=st.floats(1e-3, 1e3))
def test_the_calibrated_sigma_is_private_and_nothing_much_smaller_is(epsilon, log_delta, sensitivity):
    delta = math.exp(log_delta)
    sigma = local.analytic_gaussian_sigma(epsilon, delta, sensitivity)
    assert exact_gaussian_delta(epsilon, sensitivity / sigma) <= delta * (1 + 1e-14)
    assert exact_gaussian_delta(epsilon, sensitivity / (sigma * (1 - 1e-6))) > delta


@given(epsilon=st.floats(0.0, 700.0))
def test_the_exponential_in_whole_numbers_is_a_lower_bound_and_near(epsilon: float) -> None:
    found = exp_below(epsilon)
    with mpmath.workdps(700):
        exact = mpmath.exp(epsilon) * mpmath.mpf(2) ** EXP_BITS
        assert exact * (1 - mpmath.mpf(2) ** -230) <= found <= exact


def exact_odds(probability: Fraction, symbols: int) -> mpmath.mpf:
    """Return p (k - 1)/(1 - p), to the digits that are set."""
    odds = probability * (symbols - 1) / (1 - probability)
    return mpmath.mpf(odds.numerator) / odds.denominator


@given(epsilon=st.floats(1e-9, 700.0), symbols=st.just(2) | st.integers(2, 1 << 16))
def test_k_ary_response_is_private_and_no_more_truth_is(epsilon: float, symbols: int) -> None:
    probability = Fraction(local.k_ary_response_probability(epsilon, symbols))
    assert (probability * 2**53).denominator == 1
    assert Fraction(1, symbols) < probability < 1
    more = probability + Fraction(1, 2**53)
    with mpmath.workdps(400):
        assert exact_odds(probability, symbols) <= mpmath.exp(epsilon)
        assert more >= 1 or exact_odds(more, symbols) > mpmath.exp(epsilon)


REACH = 400
PRINTED = (100, 1000, 1.0, 1e-6)
"""T, m, epsilon and delta of the erratum's example."""


def noise_law(epsilon: float) -> np.ndarray:
    z = np.arange(-REACH, REACH + 1)
    law = np.exp(-epsilon * np.abs(z))
    return law / law.sum()


def law_of_epoch(distances: tuple[int, ...], thresholds: Thresholds) -> dict[tuple[int, ...], float]:
    """Return the law of one epoch's comparisons, up to its first bottom: 1 for "passes", 0 for bottom."""
    z = np.arange(-REACH, REACH + 1)
    weight, cumulated = noise_law(thresholds.of_threshold), np.cumsum(noise_law(thresholds.of_query))
    below = [cumulated[np.clip(thresholds.level + z - d + REACH, 0, 2 * REACH)] for d in distances]
    found: dict[tuple[int, ...], float] = {}
    passed = weight
    for place in range(len(distances)):
        found[(1,) * place + (0,)] = float((passed * below[place]).sum())
        passed = passed * (1.0 - below[place])
    found[(1,) * len(distances)] = float(passed.sum())
    return found


def test_a_leak_has_the_probability_of_the_exact_law():
    for of_threshold, of_query in ((0.5, 0.3), (0.31, 0.3), (0.2, 0.4)):
        both = np.convolve(noise_law(of_threshold), noise_law(of_query))
        for level in (0, 1, 7, 60):
            exact = float(both[2 * REACH + level + 1 :].sum())
            assert exact <= leak(level, of_threshold, of_query) <= exact * (1.0 + 1e-9) + 1e-15


def test_an_epoch_costs_what_it_states_and_nearly_that_much():
    """All distances up to 3 of up to three queries, and all neighbouring ones."""
    thresholds = Thresholds(cutoff=1, level=2, of_threshold=0.4, of_query=0.3)
    worst = 0.0
    for count in (1, 2, 3):
        laws = {d: law_of_epoch(d, thresholds) for d in itertools.product(range(4), repeat=count)}
        for one, other in itertools.product(laws, repeat=2):
            if max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1:
                ratios = [math.log(laws[one][said] / laws[other][said]) for said in laws[one]]
                worst = max(worst, *ratios)
    assert 0.7 * thresholds.epoch < worst <= thresholds.epoch


def test_many_queries_that_pass_cost_no_more():
    """The longer an epoch, the nearer it comes to its cost; the one bottom at its end pays for all."""
    thresholds = Thresholds(cutoff=1, level=6, of_threshold=0.4, of_query=0.3)
    worst = []
    for count in (1, 10, 60):
        one, other = (law_of_epoch((d,) * count + (last,), thresholds) for d, last in ((9, 1), (10, 0)))
        worst.append(max(abs(math.log(one[said] / other[said])) for said in one))
    assert worst == sorted(worst)
    assert 0.8 * thresholds.epoch < worst[-1] <= thresholds.epoch


def test_labels_leak_no_more_than_the_failure_says_however_many_queries_there_are():
    """T = 1: half of the queries have another winner on the neighbour; the exact delta of everything that is said."""
    epsilon, delta = 1.0, 0.01
    thresholds = calibrated(1, 20, epsilon, delta)
    unstable = (0,) * 20
    law = law_of_epoch(unstable, thresholds)
    # What passes says the winner, which differs: nothing but an immediate bottom is said on both.
    exact = sum(p for said, p in law.items() if said[0] == 1)
    assert exact <= leak(thresholds.level, thresholds.of_threshold, thresholds.of_query)
    assert exact <= thresholds.failure(epsilon) <= delta
    stable_first = law_of_epoch((30,) * 10 + unstable, thresholds)
    leaks = sum(p for said, p in stable_first.items() if len(said) > 11 and said[10] == 1)
    assert leaks <= leak(thresholds.level, thresholds.of_threshold, thresholds.of_query)


@for_each("case", [(1, 10, 0.1, 1e-9), (7, 100, 3.0, 1e-3), PRINTED, (1, 1, 90.0, 0.4)])
def test_a_calibration_ends_on_the_private_side_and_wastes_little(case):
    cutoff, _, epsilon, delta = case
    thresholds = calibrated(*case)
    assert thresholds.failure(epsilon) <= delta
    lower = thresholds._replace(level=thresholds.level - 1)
    assert lower.level < 0 or cutoff * leak(lower.level, *thresholds[2:]) > delta / 2.0
    if epsilon < 60.0:
        narrower = thresholds._replace(of_query=1.01 * thresholds.of_query, of_threshold=1.01 * thresholds.of_threshold)
        assert narrower.failure(epsilon) > 0.5 * delta


def test_the_numbers_of_the_corrections():
    """At n = 50,000, m = 1,000, T = 100, (1, 1e-6): printed, 276,779 chunks; exactly calibrated, nine times fewer."""
    thresholds, chunks = printed(*PRINTED, beta=0.05)
    assert chunks == 276_779
    assert thresholds.failure(1.0) < 1e-6
    margin = calibrated(*PRINTED).margin(0.05 / 1000)
    assert 2 * (margin + 1) / 0.8 == pytest.approx(10_242, abs=100)  # chunks, if nine in ten teachers agree


def test_a_margin_is_the_least_that_is_answered_surely():
    thresholds = calibrated(3, 100, 2.0, 1e-3)
    margin = thresholds.margin(0.01)
    bottoms = [law_of_epoch((d,), thresholds)[(0,)] for d in (margin - 1, margin)]
    assert bottoms[1] <= 0.01 < bottoms[0]


@for_each("epsilon", [0.1, 1.0, 5.0])
def test_the_level_of_a_single_release_is_the_least_that_keeps_delta(epsilon):
    for delta in (0.2, 1e-3, 1e-9):
        level = votes.stability_level(epsilon, delta)
        tails = [math.exp(-epsilon * (w + 1)) / (1.0 + math.exp(-epsilon)) for w in (level - 1, level)]
        assert tails[1] <= delta < tails[0] or level == 0
        assert level <= math.ceil(math.log(1.0 / delta) / epsilon)  # Theorem 2.4


@for_each("epsilon", [0.001, 0.3, 1.0, 29.0])
def test_the_level_keeps_delta_for_noise_as_it_is_drawn(epsilon):
    """One draw in 2^64 is flat, and q is rounded up: what is drawn is beyond the level at least as often as the law."""
    for delta in (0.2, 1e-6, 1e-15, 1e-19, 2.0**-64):
        assert Tail(Laplace(epsilon=epsilon), votes.stability_level(epsilon, delta) + 1).chance <= Fraction(delta)
    either = 2 * Tail(Laplace(epsilon=epsilon), 2 * 10**9).chance  # of two, one flat
    assert leak(10**9, epsilon, epsilon + 1e-4) >= either > 0
    for refused in ((votes.stability_level, epsilon, 1e-20), (votes.stability_share, 10_000, 30.0, 1e-16)):
        with pytest.raises(BadInput, match="2\\^64"):
            refused[0](*refused[1:])


@for_each(("queries", "epsilon", "delta"), [(1, 1.0, 1e-6), (200, 1.0, 1e-6), (50, 20.0, 0.1)])
def test_shares_of_single_releases_compose_to_the_budget_and_use_it(queries, epsilon, delta):
    each, own = votes.stability_share(queries, epsilon, delta)
    assert composed_delta(queries, each, own, epsilon) <= delta
    assert composed_delta(queries, 1.001 * each, own, epsilon) > 0.99 * delta
    margin = votes.stability_margin(0.01, each, own)
    bottom = [
        math.exp(-each * (d - votes.stability_level(each, own))) / (1.0 + math.exp(-each)) for d in (margin - 1, margin)
    ]
    assert bottom[1] <= 0.01 < bottom[0]
