"""The exact profile of a private choice: nothing found is above it, one base attains it, rounding is outwards."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.worst_choice import attained, binned, shares, worst_order
from common.core.arrays import AnyArray
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.selection import AnyLaw, delta_of_selection, mu_for_selection
from common.privacy.theorems.stopping import NegativeBinomial, Poisson, geometric
from referee.audit.recomputing import delta_of_choice
from tests.tiers import for_each, thinned

LAWS: list[AnyLaw] = [
    geometric(10.0),
    geometric(20.0, 6),
    NegativeBinomial(eta=0.0, gamma=0.02, most=200),
    NegativeBinomial(eta=-0.5, gamma=1e-3, most=50),
    NegativeBinomial(eta=2.0, gamma=0.2, most=30),
    Poisson(rate=10.0, most=26),
]
IDS = [f"{law.name} {index}" for index, law in enumerate(LAWS)]
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
    mu = mu_for_selection(1.0, 0.01, law)
    assert mu == pytest.approx(0.2865, abs=1e-4)
    assert 0.0099 < attained(mu, law, 1.0) <= 0.01 < attained(1.002 * mu, law, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_a_hundredth_more_mu_is_too_much(law: AnyLaw, delta: float) -> None:
    for epsilon in (0.3, 3.0):
        mu = mu_for_selection(epsilon, delta, law)
        assert attained(mu, law, epsilon) <= delta < attained(1.01 * mu, law, epsilon)


@for_each("law", thinned([*LAWS, *EXTREME], 2))
def test_rounding_is_outwards_and_costs_little(law: AnyLaw) -> None:
    """The certificate's recheck has another quadrature, of central values."""
    for mu, epsilon in ((0.1, 0.5), (0.3, 1.0), (1.5, 2.0), (3.0, 0.5)):
        central = delta_of_choice(mu, law.wire(), epsilon)
        assert central * (1.0 - 1e-4) <= delta_of_selection(mu, law, epsilon) <= 1.03 * central


@for_each(("mu", "epsilon"), [(0.1, 0.5), (1.0, 0.0), (1.0, 5.0), (3.0, 10.0)])
def test_a_choice_of_one_run_costs_that_run(mu: float, epsilon: float) -> None:
    assert delta_of_selection(mu, geometric(1.0), epsilon) == delta_of(mu, epsilon)
    nearly = NegativeBinomial(gamma=1.0 - 1e-9, most=2)
    assert (
        delta_of(mu, epsilon) * (1.0 - 1e-9) <= delta_of_selection(mu, nearly, epsilon) <= 1.01 * delta_of(mu, epsilon)
    )


def test_more_epsilon_costs_less_delta_and_more_mu_more() -> None:
    law = geometric(10.0)
    over_epsilon = [delta_of_selection(0.3, law, epsilon) for epsilon in np.linspace(0.0, 3.0, 40)]
    over_mu = [delta_of_selection(mu, law, 1.0) for mu in np.geomspace(0.05, 2.0, 12)]
    assert np.all(np.diff(over_epsilon) < 0.0)
    assert np.all(np.diff(over_mu) > 0.0)
