"""Laws of the number of runs: the paper's probabilities, conditioned on at most so many, and exact draws from them."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from common.core.errors import BadMessage
from common.numerics.randomness import RandomSource
from common.privacy.theorems.stopping import NegativeBinomial, Poisson, Stopping, geometric, weights
from curator.mechanisms.random_stopping import draw_count
from curator.mechanisms.whole_numbers import below
from tests.tiers import for_each, thinned

LAWS = [
    NegativeBinomial(eta=1.0, gamma=0.1, most=40),
    NegativeBinomial(eta=1.0, gamma=0.1, most=4),
    NegativeBinomial(eta=0.0, gamma=0.02, most=200),
    NegativeBinomial(eta=-0.5, gamma=1e-3, most=30),
    NegativeBinomial(eta=-0.9, gamma=1e-20, most=100),
    NegativeBinomial(eta=2.5, gamma=0.3, most=25),
    NegativeBinomial(eta=1.0, gamma=1.0, most=5),
    Poisson(rate=3.0, most=12),
    Poisson(rate=0.01, most=3),
]
IDS = [f"{law.name} {index}" for index, law in enumerate(LAWS)]


def printed(law: Stopping, count: int) -> mpmath.mpf:
    """Return the probability as Definition 1, or Poisson's law given K >= 1, has it."""
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


@for_each("law", LAWS, ids=IDS)
def test_the_weights_are_the_printed_probabilities(law: Stopping) -> None:
    with mpmath.workdps(40):
        chances = [printed(law, count) for count in range(1, law.most + 1)]
        shares = weights(law)
        for weight, chance in zip(shares, chances, strict=True):
            assert weight / sum(shares) == pytest.approx(float(chance / sum(chances)), rel=1e-12)


@for_each("law", LAWS, ids=IDS)
def test_mean_and_coverage_err_on_the_private_side_by_little(law: Stopping) -> None:
    with mpmath.workdps(40):
        chances = [printed(law, count) for count in range(1, law.most + 1)]
        covered = mpmath.log(sum(chances))
        mean = sum(count * chance for count, chance in enumerate(chances, start=1)) / sum(chances)
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


def test_the_geometric_law_has_its_mean_and_the_poisson_law_nearly_its_rate() -> None:
    assert geometric(10.0).whole_mean == pytest.approx(10.0)
    assert (geometric(10.0).most, geometric(10.0, 25).most) == (40, 25)
    assert geometric(10.0).expected < 10.0
    assert Poisson(rate=6.0, most=30).expected == pytest.approx(6.0 / (1.0 - math.exp(-6.0)))


@for_each("law", thinned(LAWS, 3))
def test_draws_follow_the_law(law: Stopping) -> None:
    # A chi-squared test at level 1e-6 over cells of at least five expected draws; the seed is fixed.
    assert isinstance(law, NegativeBinomial | Poisson)
    source, runs = RandomSource.seeded(1, law.name), 4000
    drawn = np.array([draw_count(law, source) for _ in range(runs)])
    assert 1 <= drawn.min() <= drawn.max() <= law.most
    shares = weights(law)
    expected = np.array([runs * (share / sum(shares)) for share in shares])
    observed = np.bincount(drawn, minlength=law.most + 1)[1:]
    large = expected >= 5
    cells = [(observed[large], expected[large])]
    if not large.all():
        cells.append((np.array([observed[~large].sum()]), np.array([expected[~large].sum()])))
    statistic = sum(float(np.sum((seen - want) ** 2 / np.maximum(want, 1e-9))) for seen, want in cells)
    assert statistic < chi2.ppf(1 - 1e-6, max(1, int(large.sum())))


def test_the_same_source_draws_the_same_count() -> None:
    law = geometric(30.0)
    counts = {draw_count(law, RandomSource.seeded(7)) for _ in range(3)}
    assert len(counts) == 1


@given(st.integers(1, 1 << 200), st.integers(0, 100))
def test_integers_of_any_size_stay_below_their_bound(bound: int, seed: int) -> None:
    assert 0 <= below(bound, RandomSource.seeded(seed)) < bound


def test_small_bounds_are_drawn_uniformly() -> None:
    source, runs = RandomSource.seeded(3), 6000
    counts = np.bincount([below(6, source) for _ in range(runs)], minlength=6)
    assert np.sum((counts - runs / 6) ** 2 / (runs / 6)) < chi2.ppf(1 - 1e-6, 5)


@for_each("wrong", [{"eta": -1.0}, {"gamma": 0.0}, {"gamma": 1.1}, {"most": 0}, {"most": 10_000}, {"mean": 3}])
def test_laws_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadMessage):
        NegativeBinomial.parse({"gamma": 0.1, "most": 10, **wrong})
