"""What a private choice costs: the theorems against the exact output laws of small mechanisms, and of an oracle."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant
from scipy.special import ndtr

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.learners.chosen import combinations
from common.numerics.randomness import RandomSource
from common.privacy.accountants.base import ACCOUNTANTS
from common.privacy.budget import cost
from common.privacy.events import Gaussian, PrivateSelection, SubsampledSteps
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.selection import (
    AnyLaw,
    epsilon_of_selection,
    mu_for_selection,
    pure_epsilon_of_selection,
    selection_rdp,
)
from common.privacy.theorems.stopping import NegativeBinomial, Poisson, geometric, weights
from curator.mechanisms.random_stopping import choose, draw_count
from curator.mechanisms.sums import noisy_sum
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


@cache
def shares(law: AnyLaw) -> Floats:
    """Return P(K = 1), ..., P(K = most)."""
    whole = weights(law)
    total = sum(whole)
    return np.array([weight / total for weight in whole])


def best_of(law: AnyLaw, chances: Floats) -> Floats:
    """Return the exact law of the best of K draws of a discrete mechanism, whose outputs ascend: f(F_i) - f(F_i-1)."""
    levels = np.append(0.0, np.minimum(np.cumsum(chances), 1.0))
    generating = np.sum(shares(law) * levels[:, None] ** np.arange(1, law.most + 1), axis=1)
    return np.diff(generating)


def binned(mu: float, order: str) -> tuple[Floats, Floats]:
    """Return a mu-GDP mechanism on neighbours: N(0, 1) and N(mu, 1) in bins, ranked by a public order of the bins."""
    edges = np.concatenate([[-np.inf], np.linspace(-6.0, 6.0 + mu, 240), [np.inf]])
    first, second = np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))
    places = np.arange(len(first))
    ranked = {"up": places, "down": places[::-1], "mixed": np.random.default_rng(1).permutation(places)}[order]
    return first[ranked], second[ranked]


def divergence(first: Floats, second: Floats, epsilon: float) -> float:
    """Return the hockey-stick divergence, in the worse direction."""
    forward = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
    return max(forward, np.maximum(second - math.exp(epsilon) * first, 0.0).sum())


def renyi(first: Floats, second: Floats, order: int) -> float:
    """Return the Renyi divergence, in the worse direction."""
    kept = (first > 0) & (second > 0)
    ratio = np.log(first[kept]) - np.log(second[kept])
    sums = [np.sum(np.exp(order * sign * ratio) * base[kept]) for sign, base in ((1, second), (-1, first))]
    return max(math.log(total) / (order - 1) for total in sums)


@for_each("law", LAWS, ids=IDS)
@for_each("mu", thinned([0.1, 1.5, 0.5], 1))
@for_each("order", ["up", "down", "mixed"])
class TestTheTheorems:
    def test_the_renyi_divergence_of_the_best_is_at_most_the_claimed_one(
        self, law: AnyLaw, mu: float, order: str
    ) -> None:
        first, second = (best_of(law, chances) for chances in binned(mu, order))
        for moment in (2, 3, 8, 32):
            assert renyi(first, second, moment) <= selection_rdp(moment, mu, law)

    def test_the_hockey_stick_divergence_of_the_best_is_at_most_delta(self, law: AnyLaw, mu: float, order: str) -> None:
        first, second = (best_of(law, chances) for chances in binned(mu, order))
        for delta in (1e-1, 1e-3, 1e-6):
            assert divergence(first, second, epsilon_of_selection(mu, law, delta)) <= delta


@for_each("law", LAWS, ids=IDS)
def test_a_choice_costs_more_than_one_run(law: AnyLaw) -> None:
    # Charging one run is a false claim, of this very mechanism.
    first, second = (best_of(law, chances) for chances in binned(0.5, "up"))
    assert divergence(first, second, epsilon_of(0.5, 1e-3)) > 1e-3


@for_each("law", LAWS, ids=IDS)
def test_the_claim_is_not_far_from_what_a_mechanism_attains(law: AnyLaw) -> None:
    claimed = epsilon_of_selection(0.5, law, 1e-3)
    worst = max(divergence(*(best_of(law, c) for c in binned(0.5, order)), 0.5 * claimed) for order in ("up", "down"))  # type: ignore[call-arg]
    assert worst > 1e-3


@for_each("epsilon", [0.1, 1.0, 3.0])
@for_each("law", LAWS, ids=IDS)
def test_pure_runs_make_a_pure_choice(epsilon: float, law: AnyLaw) -> None:
    claimed = pure_epsilon_of_selection(epsilon, law)
    random = np.random.default_rng(2)
    for _ in range(60):
        second = random.dirichlet(np.ones(5))
        first = second * np.exp(random.choice([-1, 1], 5) * epsilon / 2)
        first /= first.sum()
        base = np.abs(np.log(first / second)).max()
        best = np.abs(np.log(best_of(law, first) / best_of(law, second))).max()
        assert best <= pure_epsilon_of_selection(base, law) + 1e-9
    assert epsilon < claimed
    if isinstance(law, NegativeBinomial):
        assert claimed <= (2.0 + law.eta) * epsilon


@for_each("law", LAWS, ids=IDS)
def test_a_fit_on_one_part_and_a_score_on_the_other_cost_as_one(law: AnyLaw) -> None:
    # Randomized response twice: h tells the training bit, s whether h fits the validation bit; ranked by s.
    epsilon = 0.7
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def scored(training: int, validation: int) -> Floats:
        fits = [truth if h == training else 1.0 - truth for h in (0, 1)]
        likes = [truth if h == validation else 1.0 - truth for h in (0, 1)]
        return np.array([fits[h] * (likes[h] if s else 1.0 - likes[h]) for s in (0, 1) for h in (0, 1)])

    def loss(one: tuple[int, int], other: tuple[int, int]) -> float:
        return float(np.abs(np.log(best_of(law, scored(*one)) / best_of(law, scored(*other)))).max())

    claimed = pure_epsilon_of_selection(epsilon, law)
    assert epsilon < max(loss((0, 0), (1, 0)), loss((0, 0), (0, 1))) <= claimed + 1e-9
    assert np.abs(np.log(scored(0, 0) / scored(1, 1))).max() > 1.39  # two records, one in each part


def test_the_bound_of_liu_and_talwar_is_the_limit_of_rare_stopping() -> None:
    assert pure_epsilon_of_selection(0.5, NegativeBinomial(gamma=1e-12, most=10)) == pytest.approx(1.5)
    assert pure_epsilon_of_selection(0.5, NegativeBinomial(gamma=1.0, most=10)) == pytest.approx(0.5)


def test_the_renyi_bound_is_that_of_an_oracle() -> None:
    # dp-accounting uses that the divergence grows with the order, and searches its own orders for the second one.
    orders = [2, 3, 4, 8, 16, 24, 32, 48, 64]
    for eta, gamma, mu in ((1.0, 0.1, 0.2), (0.0, 0.01, 0.2), (1.0, 0.1, 1.0)):
        law = NegativeBinomial(eta=eta, gamma=gamma, most=1024)
        oracle = RdpAccountant(orders=[*orders, *np.arange(1.05, 10.0, 0.05)])
        oracle.compose(RepeatAndSelectDpEvent(GaussianDpEvent(1.0 / mu), mean=law.whole_mean, shape=eta))
        theirs = dict(zip(oracle._orders.tolist(), oracle._rdp.tolist(), strict=True))
        for place, order in enumerate(orders):
            ours = min(selection_rdp(larger, mu, law) for larger in orders[place:])
            assert 0.97 * theirs[order] <= ours <= 1.02 * theirs[order]


def test_known_answers() -> None:
    assert epsilon_of_selection(0.23670438066, geometric(1.0), DELTA) == pytest.approx(1.0, abs=1e-5)
    assert epsilon_of_selection(0.23670438066, geometric(20.0, 60), DELTA) == pytest.approx(1.6076, abs=1e-4)
    assert cost([(PrivateSelection(mu=0.23670438066, law=geometric(20.0, 60)), 1)], DELTA) <= 1.69


def test_more_runs_cost_more() -> None:
    for laws in ([geometric(mean) for mean in (1.0, 2.0, 5.0, 20.0)], [Poisson(rate=r, most=60) for r in (1, 4, 16)]):
        costs = [epsilon_of_selection(0.3, law, DELTA) for law in laws]
        assert all(less < more for less, more in pairwise(costs))


@for_each("law", thinned(LAWS, 2))
@for_each("epsilon", thinned([0.3, 20.0], 1))
def test_mu_for_a_choice_is_the_largest_that_fits(law: AnyLaw, epsilon: float) -> None:
    mu = mu_for_selection(epsilon, DELTA, law)
    assert epsilon_of_selection(mu, law, DELTA) <= epsilon
    assert epsilon_of_selection(mu * (1 + 1e-4), law, DELTA) > epsilon


@for_each(("epsilon", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_budgets_out_of_range_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(BadInput):
        mu_for_selection(epsilon, delta, geometric(5.0))
    if delta in (0.0, 1.0):
        with pytest.raises(BadInput, match="delta"):
            epsilon_of_selection(1.0, geometric(5.0), delta)


class TestAccounting:
    CHOICE = PrivateSelection(mu=0.2, law=geometric(10.0))

    def test_one_choice_is_for_the_direct_bound_and_several_for_renyi(self) -> None:
        direct, rdp = ACCOUNTANTS["selection"](), ACCOUNTANTS["rdp"]()
        assert direct.epsilon([(self.CHOICE, 1)], DELTA) < rdp.epsilon([(self.CHOICE, 1)], DELTA)
        assert math.isinf(direct.epsilon([(self.CHOICE, 2)], DELTA))
        twice = cost([(self.CHOICE, 2)], DELTA)
        assert direct.epsilon([(self.CHOICE, 1)], DELTA) < twice < 2.61 * direct.epsilon([(self.CHOICE, 1)], DELTA)

    def test_a_choice_may_stand_beside_other_releases(self) -> None:
        steps = SubsampledSteps(count=100, tv_bound=1e-4, ratio=0.5)
        beside = cost([(self.CHOICE, 1), (Gaussian(mu=0.1), 3), (steps, 1)], DELTA)
        assert cost([(self.CHOICE, 1)], DELTA) < beside < math.inf

    def test_the_filter_admits_the_planned_choice_once_and_no_dearer_one(self) -> None:
        direct = ACCOUNTANTS["selection"]()
        budget_filter = direct.budget_filter([(self.CHOICE, 1)], direct.epsilon([(self.CHOICE, 1)], DELTA), DELTA)
        assert (budget_filter.cap, budget_filter.amount(self.CHOICE)) == (1, 1)  # type: ignore[comparison-overlap]
        assert budget_filter.amount(self.CHOICE.model_copy(update={"mu": 0.1})) == 1
        assert budget_filter.amount(self.CHOICE.model_copy(update={"mu": 0.21})) is None
        assert budget_filter.amount(PrivateSelection(mu=0.1, law=geometric(11.0))) is None
        assert direct.budget_filter([(self.CHOICE, 1)], 0.5, DELTA).cap == 0


GRID = {"a": [1, 2, 3], "b": ["x", "y"]}


class TestChoosing:
    def test_all_combinations_are_candidates(self) -> None:
        assert combinations(GRID)[:3] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}]
        assert combinations({}) == [{}]

    def test_the_best_of_the_first_runs_is_returned_whatever_the_time_shows(self) -> None:
        law = geometric(6.0)
        for seed in range(40):
            seen: list[tuple[float, str]] = []

            def fit(settings: dict[str, object], source: RandomSource) -> str:
                return f"{settings['a']}{settings['b']} {source.words(1)[0]}"

            def score(output: str, source: RandomSource) -> float:
                seen.append((float(source.uniforms(1)[0]), output))  # noqa: B023
                return seen[-1][0]  # noqa: B023

            chosen = choose(fit, score, GRID, law, RandomSource.seeded(seed))
            count = draw_count(law, RandomSource.seeded(seed).derive("count"))
            assert len(seen) == law.most
            assert chosen.output == max(seen[:count])[1]
            assert chosen.output.startswith(f"{chosen.settings['a']}{chosen.settings['b']}")
            seen.clear()
            assert choose(fit, score, GRID, law, RandomSource.seeded(seed), constant_time=False) == chosen
            assert len(seen) == count

    def test_the_first_of_equally_good_runs_is_returned(self) -> None:
        chosen = choose(
            lambda _, s: int(s.words(1)[0]), lambda _, __: 0.0, GRID, geometric(9.0), RandomSource.seeded(3)
        )
        again = choose(lambda _, s: int(s.words(1)[0]), lambda _, __: 0.0, GRID, geometric(1.0), RandomSource.seeded(3))
        assert chosen == again

    def test_settings_are_drawn_uniformly(self) -> None:
        runs, counts = 3000, dict.fromkeys(range(1, 4), 0)
        for seed in range(runs):
            counts[
                choose(lambda _, __: None, lambda _, __: 0.0, GRID, geometric(1.0), RandomSource.seeded(seed)).settings[
                    "a"
                ]
            ] += 1
        # Six standard errors.
        assert all(abs(count - runs / 3) < 6 * math.sqrt(runs * 2 / 9) for count in counts.values())

    def test_a_setting_without_values_is_refused(self) -> None:
        with pytest.raises(BadInput, match="at least one value"):
            choose(lambda _, __: 0, lambda _, __: 0.0, {"a": []}, geometric(2.0), RandomSource.seeded(1))

    def test_a_noisy_sum_has_the_noise_of_its_mu(self) -> None:
        source = RandomSource.seeded(5)
        drawn = np.array([noisy_sum(500, 8, 0.5, source) for _ in range(4000)])
        assert abs(drawn.mean() - 500) < 6 * 16 / math.sqrt(4000)
        assert drawn.std() == pytest.approx(16.0, rel=0.07)
