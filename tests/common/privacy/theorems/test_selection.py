"""What a private choice costs: the theorems against the exact output laws of small mechanisms, and of an oracle."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import chi2

from benchmarks.worst_choice import attained, binned, shares, worst_order
from common.core.arrays import AnyArray, Floats
from common.learners.chosen import combinations
from common.numerics.randomness import RandomSource
from common.privacy.accountants import ACCOUNTANTS
from common.privacy.budget import cost
from common.privacy.events import Gaussian, PrivateSelection, SubsampledSteps
from common.privacy.theorems import selection
from common.privacy.theorems.gaussian_dp import delta_of, epsilon_of
from common.privacy.theorems.selection import AnyLaw, NegativeBinomial, Poisson, Stopping, delta_of_selection, geometric
from curator.mechanisms.selection import below, choose, draw_count
from curator.mechanisms.sums import noisy_sum
from referee.audit.recomputing import delta_of_choice
from tests.tiers import for_each, thinned

LAWS: list[AnyLaw] = [
    geometric(5.0),
    geometric(20.0),
    geometric(20.0, 6),
    NegativeBinomial(eta=0.0, gamma=0.01, most=100),
    NegativeBinomial(eta=-0.5, gamma=1e-3, most=50),
    NegativeBinomial(eta=2.0, gamma=0.2, most=30),
    Poisson(rate=4.0, most=16),
    Poisson(rate=15.0, most=40),
]
IDS = [f"{law.name} {index}" for index, law in enumerate(LAWS)]
DELTA = 1e-6


def best_of(law: AnyLaw, chances: Floats) -> Floats:
    """Return the exact law of the best of K draws of a discrete mechanism, whose outputs ascend: f(F_i) - f(F_i-1)."""
    levels = np.append(0.0, np.minimum(np.cumsum(chances), 1.0))
    generating = np.polynomial.polynomial.polyval(levels, shares(law))
    return np.diff(generating)


def selection_binned(mu: float, order: str) -> tuple[Floats, Floats]:
    """Return a mu-GDP mechanism on neighbours: N(0, 1) and N(mu, 1) in bins, ranked by a public order of the bins."""
    edges = np.concatenate([[-np.inf], np.linspace(-6.0, 6.0 + mu, 240), [np.inf]])
    first, second = np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))
    places = np.arange(len(first))
    ranked = {"up": places, "down": places[::-1], "mixed": np.random.default_rng(1).permutation(places)}[order]
    return first[ranked], second[ranked]


def divergence(first: Floats, second: Floats, epsilon: float) -> float:
    forward = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
    return max(forward, np.maximum(second - math.exp(epsilon) * first, 0.0).sum())


def renyi(first: Floats, second: Floats, order: int) -> float:
    kept = (first > 0) & (second > 0)
    ratio = np.log(first[kept]) - np.log(second[kept])
    sums = [np.sum(np.exp(order * sign * ratio) * base[kept]) for sign, base in ((1, second), (-1, first))]
    return max(math.log(total) / (order - 1) for total in sums)


@for_each("law", LAWS, ids=IDS)
@for_each("mu", thinned([0.1, 1.5, 0.5], 1, rest=pytest.mark.thorough))
@for_each("order", ["up", "down", "mixed"])
def test_both_divergences_of_the_best_are_at_most_the_claimed_ones(law: AnyLaw, mu: float, order: str) -> None:
    first, second = (best_of(law, chances) for chances in selection_binned(mu, order))
    for moment in (2, 3, 8, 32):
        assert renyi(first, second, moment) <= selection.selection_rdp(moment, mu, law)
    for delta in (1e-1, 1e-3, 1e-6):
        assert divergence(first, second, selection.epsilon_of_selection(mu, law, delta)) <= delta


@for_each("law", LAWS, ids=IDS)
def test_a_choice_costs_more_than_one_run_and_nearly_what_is_claimed(law: AnyLaw) -> None:
    """Charging one run, or half of the claim, is a false claim, of these very mechanisms."""
    half = 0.5 * selection.epsilon_of_selection(0.5, law, 1e-3)
    found = []
    for order in ("up", "down"):
        first, second = (best_of(law, chances) for chances in selection_binned(0.5, order))
        found += [divergence(first, second, epsilon) for epsilon in (epsilon_of(0.5, 1e-3), half)]
    assert found[0] > 1e-3
    assert max(found[1::2]) > 1e-3


def test_the_renyi_bound_is_that_of_an_oracle() -> None:
    # dp-accounting uses that the divergence grows with the order, and searches its own orders for the second one.
    orders = [2, 3, 4, 8, 16, 24, 32, 48, 64]
    for eta, gamma, mu in ((1.0, 0.1, 0.2), (0.0, 0.01, 0.2), (1.0, 0.1, 1.0)):
        law = NegativeBinomial(eta=eta, gamma=gamma, most=1024)
        oracle = RdpAccountant(orders=[*orders, *np.arange(1.05, 10.0, 0.05)])
        oracle.compose(RepeatAndSelectDpEvent(GaussianDpEvent(1.0 / mu), mean=law.whole_mean, shape=eta))
        theirs = dict(zip(oracle._orders.tolist(), oracle._rdp.tolist(), strict=True))
        for place, order in enumerate(orders):
            ours = min(selection.selection_rdp(larger, mu, law) for larger in orders[place:])
            assert 0.97 * theirs[order] <= ours <= 1.02 * theirs[order]


@for_each("law", thinned(LAWS, 2, rest=pytest.mark.thorough))
@for_each("epsilon", thinned([0.3, 20.0], 1))
def test_mu_for_a_choice_is_the_largest_that_fits(law: AnyLaw, epsilon: float) -> None:
    mu = selection.mu_for_selection(epsilon, DELTA, law)
    assert selection.epsilon_of_selection(mu, law, DELTA) <= epsilon
    assert selection.epsilon_of_selection(mu * (1 + 1e-4), law, DELTA) > epsilon


def test_one_choice_is_for_the_direct_bound_and_several_or_others_beside_it_for_renyi() -> None:
    choice, steps = PrivateSelection(mu=0.2, law=geometric(10.0)), SubsampledSteps(count=100, tv_bound=1e-4, ratio=0.5)
    direct, rdp = ACCOUNTANTS["selection"](), ACCOUNTANTS["rdp"]()
    one = direct.epsilon([(choice, 1)], DELTA)
    assert one < rdp.epsilon([(choice, 1)], DELTA)
    assert math.isinf(direct.epsilon([(choice, 2)], DELTA))
    assert one < cost([(choice, 2)], DELTA) < 2.61 * one
    assert one < cost([(choice, 1), (Gaussian(mu=0.1), 3), (steps, 1)], DELTA) < math.inf
    budget_filter = direct.budget_filter([(choice, 1)], one, DELTA)
    cheaper = choice.model_copy(update={"mu": 0.1})
    assert budget_filter.cap == budget_filter.amount(choice) == budget_filter.amount(cheaper) == (Fraction(1),)
    assert budget_filter.amount(choice.model_copy(update={"mu": 0.21})) is None
    assert budget_filter.amount(PrivateSelection(mu=0.1, law=geometric(11.0))) is None
    assert direct.budget_filter([(choice, 1)], 0.5, DELTA).cap == (Fraction(0),)


GRID = {"a": [1, 2, 3], "b": ["x", "y"]}


def test_all_combinations_are_candidates_and_each_is_drawn_as_often() -> None:
    assert combinations(GRID)[:3] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}]
    assert combinations({}) == [{}]
    runs = 3000
    drawn = [choose(first_word, level, GRID, geometric(1.0), RandomSource.seeded(seed)) for seed in range(runs)]
    counts = [sum(one.settings["a"] == value for one in drawn) for value in (1, 2, 3)]
    assert all(abs(count - runs / 3) < 6 * math.sqrt(runs * 2 / 9) for count in counts)  # six standard errors


def first_word(settings: dict[str, object], source: RandomSource) -> str:
    return f"{settings['a']}{settings['b']} {source.words(1)[0]}"


def level(output: str, source: RandomSource) -> float:
    return 0.0


def test_the_best_of_the_first_runs_is_returned_whatever_the_time_shows() -> None:
    law = geometric(6.0)
    for seed in range(40):
        seen: list[tuple[float, str]] = []

        def score(output: str, source: RandomSource) -> float:
            seen.append((float(source.uniforms(1)[0]), output))  # noqa: B023
            return seen[-1][0]  # noqa: B023

        chosen = choose(first_word, score, GRID, law, RandomSource.seeded(seed))
        count = draw_count(law, RandomSource.seeded(seed).derive("count"))
        assert len(seen) == law.most
        assert chosen.output == max(seen[:count])[1]
        assert chosen.output.startswith(f"{chosen.settings['a']}{chosen.settings['b']}")
        seen.clear()
        assert choose(first_word, score, GRID, law, RandomSource.seeded(seed), constant_time=False) == chosen
        assert len(seen) == count
    # Of equally good runs it is the first.
    same = [choose(first_word, level, GRID, geometric(mean), RandomSource.seeded(3)) for mean in (9.0, 1.0)]
    assert same[0] == same[1]


def test_a_noisy_sum_has_the_noise_of_its_mu() -> None:
    source = RandomSource.seeded(5)
    drawn = np.array([noisy_sum(500, 8, 0.5, source) for _ in range(4000)])
    assert abs(drawn.mean() - 500) < 6 * 16 / math.sqrt(4000)
    assert drawn.std() == pytest.approx(16.0, rel=0.07)


EXTREME: list[AnyLaw] = [
    Poisson(rate=500.0, most=1024),
    NegativeBinomial(eta=16.0, gamma=0.1, most=1024),
    NegativeBinomial(eta=-0.9, gamma=1e-6, most=500),
    NegativeBinomial(gamma=1e-30, most=1000),
]


def choice_delta(mu: float, law: AnyLaw, epsilon: float, order: AnyArray) -> float:
    """Return delta of the choice among runs of a Gaussian base whose bins are ranked so, from the law of the best."""
    ranks = [1.0 - np.append(0.0, np.cumsum(side[order])) for side in binned(mu)]
    first, second = (-np.diff(np.polynomial.polynomial.polyval(rank, shares(law))) for rank in ranks)
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@for_each("law", LAWS, ids=IDS)
def test_no_ranking_of_a_gaussian_base_has_a_larger_delta(law: AnyLaw) -> None:
    random = np.random.default_rng(7)
    mu, epsilon = 0.3, 0.8
    claimed = delta_of_selection(mu, law, epsilon)
    worst = worst_order(*binned(mu), law, epsilon)
    count = len(worst)
    assert 0.97 * claimed < choice_delta(mu, law, epsilon, worst) <= claimed
    for _ in range(20):
        spread = random.choice([3.0, 30.0, 300.0, 3000.0])
        order = worst[np.argsort(np.arange(count) + spread * random.standard_normal(count))]
        assert choice_delta(mu, law, epsilon, order) <= claimed
        assert choice_delta(mu, law, epsilon, order[::-1]) <= claimed
        blocks = np.array_split(np.arange(count), int(random.integers(2, 9)))
        mixed = np.concatenate([blocks[place][:: random.choice([-1, 1])] for place in random.permutation(len(blocks))])
        assert choice_delta(mu, law, epsilon, mixed) <= claimed


def test_outputs_that_hide_their_rank_or_their_value_tell_no_more() -> None:
    """Random mechanisms of a few outputs, ties by coins, that post-process a Gaussian one."""
    random, law = np.random.default_rng(8), geometric(10.0)
    for mu in (0.2, 1.0):
        first, second = binned(mu)
        for _ in range(30):
            kernel = random.dirichlet(np.full(6, 0.2), 80)[np.repeat(np.arange(80), len(first) // 80)]
            ranks = [1.0 - np.append(0.0, np.cumsum(side @ kernel)) for side in (first, second)]
            laws = [-np.diff(np.polynomial.polynomial.polyval(rank, shares(law))) for rank in ranks]
            for epsilon in (0.1, 1.0):
                found = float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum())
                assert found <= delta_of_selection(mu, law, epsilon)


def test_one_base_attains_the_claim_at_its_epsilon() -> None:
    law = geometric(10.0)
    mu = selection.mu_for_selection(1.0, 0.01, law)
    assert mu == pytest.approx(0.2865, abs=1e-4)
    assert 0.0099 < attained(mu, law, 1.0) <= 0.01 < attained(1.002 * mu, law, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("law", LAWS[:-1], ids=IDS[:-1])  # of the last, mu is so small that Renyi decides
def test_a_hundredth_more_mu_is_too_much(law: AnyLaw, delta: float) -> None:
    for epsilon in (0.3, 3.0):
        mu = selection.mu_for_selection(epsilon, delta, law)
        assert attained(mu, law, epsilon) <= delta < attained(1.01 * mu, law, epsilon)


@for_each("law", thinned([*LAWS, *EXTREME], 2, rest=pytest.mark.thorough))
def test_rounding_is_outwards_and_costs_little(law: AnyLaw) -> None:
    """The certificate's recheck has another quadrature, of central values."""
    for mu, epsilon in ((0.1, 0.5), (0.3, 1.0), (1.5, 2.0), (3.0, 0.5)):
        central = delta_of_choice(mu, law.wire(), epsilon)
        assert central * (1.0 - 1e-4) <= delta_of_selection(mu, law, epsilon) <= 1.03 * central


@for_each(("mu", "epsilon"), [(0.1, 0.5), (1.0, 0.0), (1.0, 5.0), (3.0, 10.0)])
def test_a_choice_of_one_run_costs_that_run(mu: float, epsilon: float) -> None:
    assert delta_of_selection(mu, geometric(1.0), epsilon) == delta_of(mu, epsilon)
    nearly = NegativeBinomial(gamma=1.0 - 1e-9, most=2)
    exact = delta_of(mu, epsilon)
    assert exact * (1.0 - 1e-9) <= delta_of_selection(mu, nearly, epsilon) <= 1.01 * exact


STOPPING_LAWS: list[AnyLaw] = [
    *LAWS,
    NegativeBinomial(eta=-0.9, gamma=1e-20, most=100),
    NegativeBinomial(gamma=1.0, most=5),
    Poisson(rate=0.01, most=3),
]


def printed(law: Stopping, count: int) -> mpmath.mpf:
    if isinstance(law, Poisson):
        rate = mpmath.mpf(law.rate)
        return rate**count / mpmath.factorial(count) / (mpmath.exp(rate) - 1)
    assert isinstance(law, NegativeBinomial)
    eta, gamma = mpmath.mpf(law.eta), mpmath.mpf(law.gamma)
    if law.gamma == 1.0:
        return mpmath.mpf(count == 1)
    if law.eta == 0.0:
        return (1 - gamma) ** count / (count * mpmath.log(1 / gamma))
    product = mpmath.fprod((place + eta) / (place + 1) for place in range(count))
    return (1 - gamma) ** count / (gamma**-eta - 1) * product


@for_each("law", STOPPING_LAWS)
def test_the_weights_are_the_printed_probabilities_and_what_follows_errs_on_the_private_side(law: Stopping) -> None:
    with mpmath.workdps(40):
        chances = [printed(law, count) for count in range(1, law.most + 1)]
        shares, total = selection.weights(law), sum(chances)
        for weight, chance in zip(shares, chances, strict=True):
            assert weight / sum(shares) == pytest.approx(float(chance / total), rel=1e-12)
        covered = mpmath.log(total)
        mean = sum(count * chance for count, chance in enumerate(chances, start=1)) / total
        assert mean <= law.expected <= mean * (1 + 1e-12)
        assert covered - 1e-10 <= law.log_covered <= min(mpmath.mpf(0), covered)


@for_each(("eta", "gamma"), [(1.0, 0.1), (0.0, 0.05), (-0.5, 0.1), (2.5, 0.2), (1e-9, 0.05)])
def test_the_whole_mean_is_the_sum_over_all_counts(eta: float, gamma: float) -> None:
    law = NegativeBinomial(eta=eta, gamma=gamma, most=1)
    count = np.arange(1, 4000)
    log_ratios = np.log1p(-gamma) + np.log(count + eta) - np.log(count + 1)
    chances = np.exp(np.append(0.0, np.cumsum(log_ratios)))
    mean = np.sum(np.arange(1, 4001) * chances) / np.sum(chances)
    assert law.whole_mean == pytest.approx(mean, rel=1e-9)


@for_each("law", thinned(STOPPING_LAWS, 3))
def test_draws_follow_the_law(law: Stopping) -> None:
    # A chi-squared test at level 1e-6 over cells of at least five expected draws; the seed is fixed.
    assert isinstance(law, NegativeBinomial | Poisson)
    source, runs = RandomSource.seeded(1, law.name), 4000
    drawn = np.array([draw_count(law, source) for _ in range(runs)])
    assert 1 <= drawn.min() <= drawn.max() <= law.most
    shares = selection.weights(law)
    expected = np.array([runs * (share / sum(shares)) for share in shares])
    observed = np.bincount(drawn, minlength=law.most + 1)[1:]
    large = expected >= 5
    cells = [(observed[large], expected[large])]
    if not large.all():
        cells.append((np.array([observed[~large].sum()]), np.array([expected[~large].sum()])))
    statistic = sum(float(np.sum((seen - want) ** 2 / np.maximum(want, 1e-9))) for seen, want in cells)
    assert statistic < chi2.ppf(1 - 1e-6, max(1, int(large.sum())))


@given(st.integers(1, 1 << 200), st.integers(0, 100))
def test_integers_of_any_size_stay_below_their_bound(bound: int, seed: int) -> None:
    assert 0 <= below(bound, RandomSource.seeded(seed)) < bound


def test_small_bounds_are_drawn_uniformly() -> None:
    source, runs = RandomSource.seeded(3), 6000
    counts = np.bincount([below(6, source) for _ in range(runs)], minlength=6)
    assert np.sum((counts - runs / 6) ** 2 / (runs / 6)) < chi2.ppf(1 - 1e-6, 5)
