"""Shares of weighted people by item, with Gaussian noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import MAX_ITEMS, HypothesisLoss, ScoreCells
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import LEAST_MU, Margins
from curator.engine import Workspace
from curator.mechanisms.sums import NoisyShares
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing
from tests.curator.given import reweighed, split
from tests.tiers import for_each

N, ITEMS, ROUNDS = 60, 5, 4


def exact(items: Indices, weights: Floats) -> list[Fraction]:
    total = sum(map(Fraction, weights.tolist()))
    found = [Fraction(0)] * ITEMS
    for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
        found[item] += Fraction(weight) / total
    return found


def weighed(losses: AnyArray, kappa: float | None, eta: float) -> tuple[Floats, float]:
    """Return the doubles to which mu is proportional after these losses, and the bound that is claimed."""
    law, sample = reweighed(losses, kappa, eta)
    sampler = law.sampler(sample)
    return np.concatenate([weights for _, weights in sampler.weighted()]), sampler.share_bound


@for_each("seed", range(30))
def test_replacing_a_record_moves_shares_by_its_two_weights_at_most(seed: int) -> None:
    """Neighbouring samples, laws with and without a cap: at most one item gains, the L2 norm is as claimed."""
    generator = np.random.default_rng(seed)
    kappa, eta = (None, 0.3, 0.8)[seed % 3], float(generator.uniform(0.1, 3.0))
    losses = generator.integers(0, 1025, (ROUNDS, N)) / 1024
    items = generator.integers(0, ITEMS, N)
    other_losses, other_items = losses.copy(), items.copy()
    other_losses[:, 0], other_items[0] = (1.0, 0.0)[seed % 2], (items[0] + seed % ITEMS) % ITEMS
    if seed % 4 < 2:
        losses, other_losses = (losses > 0.6).astype(np.uint8), (other_losses > 0.6).astype(np.uint8)
    one, bound = weighed(losses, kappa, eta)
    other, same = weighed(other_losses, kappa, eta)
    assert bound == same
    moves = [b - a for a, b in zip(exact(items, one), exact(other_items, other), strict=True)]
    tiny = Fraction(1, 1 << 44)
    gains, losses_ = [move for move in moves if move > tiny], [move for move in moves if move < -tiny]
    assert min(len(gains), len(losses_)) <= 1
    heaviest = max(Fraction(weights[0]) / sum(map(Fraction, weights.tolist())) for weights in (one, other))
    assert sum(move * move for move in moves) <= 2 * heaviest * heaviest + tiny
    assert heaviest <= Fraction(bound)
    mechanism = NoisyShares(1.0, ITEMS, bound)
    whole = [mechanism.rounded(iter([given])) for given in ((items, one), (other_items, other))]
    assert np.linalg.norm(whole[1] - whole[0]) <= mechanism.sensitivity


def test_the_norm_is_attained() -> None:
    """One record takes all the weight that it may from one item to another, which nobody else is in."""
    losses = np.zeros((ROUNDS, 40), dtype=np.uint8)
    losses[:, 0] = 1
    weights, bound = weighed(losses, 0.5, 20.0)
    one, other = (exact(np.array([item] + [2] * 39), weights) for item in (0, 1))
    moves = [float(b - a) for a, b in zip(one, other, strict=True)]
    assert math.hypot(*moves) == pytest.approx(math.sqrt(2.0) * bound, rel=2.0**-18)


def test_rounding_alone_may_move_every_item_by_a_unit() -> None:
    """So sqrt(K) units belong to the sensitivity: these shares move by 2^-11 of a unit in all, and whole units go."""
    mechanism = NoisyShares(1.0, 2, 1.0)
    items = np.array([0, 1])
    before, after = (
        mechanism.rounded(iter([(items, np.array([0.5 - shift, 0.5 + shift]))])) for shift in (0.0, 2.0**-20)
    )
    assert np.abs(after - before).sum() == 1
    assert mechanism.sensitivity >= math.sqrt(2.0) * mechanism.whole + math.sqrt(mechanism.items)


def test_shares_are_rounded_down_exactly_and_who_is_in_no_item_weighs() -> None:
    generator = np.random.default_rng(1)
    weights, items = generator.random(1000) ** 8, generator.integers(0, ITEMS - 1, 1000)
    mechanism = NoisyShares(1.0, ITEMS, 1e-3)
    wanted = [math.floor(share * mechanism.whole + Fraction(1, 1 << 40)) for share in exact(items, weights)]
    assert mechanism.rounded(iter([(items, weights)])).tolist() == wanted
    mechanism = NoisyShares(1.0, 2, 0.5)
    found = mechanism.rounded(iter([(np.array([-1, 0, 1, 2]), np.array([1.0, 1.0, 2.0, -3.0]))]))
    assert found.tolist() == [mechanism.whole // 3, mechanism.whole // 3]  # weights are cut to [0, 1]


def people(n: int = 400) -> Records:
    generator = np.random.default_rng(2)
    features = generator.normal(size=(n, 2)).astype(np.float32)
    return Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), n))


CELLS = ScoreCells(hypothesis=Linear(weights=(1.0, 0.5), threshold=0.1), cuts=(-0.5, 0.0, 0.7))


WEIGHING = HypothesisLoss(CELLS.hypothesis, "hinge", 2.0)


def released(sample: Sample, tilts: int, mu: float = 30.0, seed: int = 1) -> Floats:
    law = Reweighing(len(sample), 0.5, 2.0)
    for _ in range(tilts):
        law.update(sample, WEIGHING)
    workspace = Workspace(sample, law, None)
    found: Floats = workspace.perform(Margins(cells=CELLS, mu=mu), RandomSource.seeded(seed)).fractions
    return found


def test_without_a_reweigh_shares_are_plain_and_with_one_they_are_those_of_draws() -> None:
    records = people()
    plain = np.bincount(CELLS.items_of(records), minlength=8) / len(records)
    np.testing.assert_allclose(released(split(records), 0), plain, atol=2e-3)
    sample, law = LocalSample.from_records(records), Reweighing(len(records), 0.5, 2.0)
    law.update(sample, WEIGHING)
    drawn = law.sampler(sample).draws(100_000, RandomSource.seeded(3))
    among = np.bincount(CELLS.items_of(drawn), minlength=8) / 100_000
    found = released(split(records), 1)
    np.testing.assert_allclose(found, among, atol=8e-3)
    assert np.abs(found - plain).max() > 0.05


@for_each("cuts", [(1,), (7, 8, 300)])
def test_shards_change_no_bit(cuts: tuple[int, ...]) -> None:
    for tilts in (0, 1, 3):
        np.testing.assert_array_equal(released(split(people()), tilts), released(split(people(), *cuts), tilts))


@for_each("items", [4, 64, MAX_ITEMS])
@for_each("people", [20, 1000, 300_000])
def test_the_grid_costs_half_a_percent_of_noise_at_most(people: int, items: int) -> None:
    mechanism = NoisyShares(1.0, items, min(1.0, 2.0 / people))
    least = math.sqrt(2.0) * mechanism.bound * mechanism.whole
    assert mechanism.sensitivity >= least + math.sqrt(items)
    if mechanism.whole < 1 << 37:
        assert mechanism.sensitivity <= 1.005 * least
    assert NoisyShares(LEAST_MU, items, mechanism.bound).sensitivity / LEAST_MU < 2.0**50  # far within 2^53


def test_plain_shares_are_as_sharp_as_gaussian_counts() -> None:
    """Replacing a record moves two counts by one: noise of sqrt(2)/mu in each; 4 standard errors of a variance."""
    records, mu = people(), 0.2
    runs = [released(LocalSample.from_records(records), 0, mu, seed) for seed in range(120)]
    noise = len(records) * (np.array(runs) - np.bincount(CELLS.items_of(records), minlength=8) / len(records))
    assert np.mean(noise**2) == pytest.approx(2.0 / mu**2, rel=4.0 * math.sqrt(2.0 / noise.size))


def test_noise_is_gaussian_of_the_deviation_that_the_sensitivity_asks_for() -> None:
    """Kolmogorov and Smirnov, and the variance within 4 standard errors; fixed seeds."""
    mechanism, values = NoisyShares(3.0, 1, 0.9), (np.zeros(2, dtype=np.int64), np.ones(2))
    found = np.array([mechanism.apply(iter([values]), RandomSource.seeded(run))[0] for run in range(2000)])
    z = (found - mechanism.whole) / (mechanism.sensitivity / mechanism.mu)
    assert kstest(z, "norm").pvalue > 1e-3
    assert np.mean(z**2) == pytest.approx(1.0, rel=4.0 * math.sqrt(2.0 / len(z)))


@for_each(
    ("mu", "items", "bound"),
    [(0.0009, 4, 0.1), (31.0, 4, 0.1), (float("nan"), 4, 0.1), (1.0, 0, 0.1), (1.0, 5000, 0.1), (1.0, 4, 0.0)],
)
def test_what_cannot_be_hidden_is_refused(mu: float, items: int, bound: float) -> None:
    with pytest.raises(BadInput, match="noisy shares need"):
        NoisyShares(mu, items, bound)
