"""The exponential mechanism in whole numbers: its weights, its law, and what of a draw can be seen from outside."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.core.errors import BadInput
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import MAX_ITEMS, HypothesisLoss, ScoreCells, Tilt
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import LEAST_EPSILON, Margins
from common.privacy.rounding import down
from curator.engine import Workspace
from curator.mechanisms.counts import FINEST, FineNoise, NoisyShares
from curator.mechanisms.selection import _weights, choose_level
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing
from tests.curator.given import hypothesis, losses_of, split
from tests.curator.operations.given import assert_law, geometric
from tests.tiers import for_each


@for_each("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0, 700.0])
def test_weights_are_the_exponentials_to_thirty_digits(epsilon: float) -> None:
    weights = _weights(epsilon, 2000)
    with mpmath.workdps(80):
        for j in {0, 1, len(weights) // 2, len(weights) - 1}:
            exact = mpmath.exp(-mpmath.mpf(j) * mpmath.mpf(epsilon) / 2) * mpmath.mpf(2) ** 192
            wanted = max(exact, mpmath.mpf(2) ** 128)
            assert 0 <= weights[j] / wanted - 1 + mpmath.mpf(2) ** -100 < 1e-15 * epsilon * (j + 1)
    assert len(weights) == 2001 or weights[-1] == 1 << 128


@for_each("epsilon", [0.01, 1.0, 8.0])
def test_each_step_of_the_weights_costs_less_than_half_of_epsilon(epsilon: float) -> None:
    """With the slack for both roundings of a probability: pure epsilon-DP, not almost."""
    weights = _weights(epsilon, 5000)
    with mpmath.workdps(80):
        least = mpmath.exp(-mpmath.mpf(epsilon) / 2) * (1 + mpmath.mpf(2) ** -90)
        for heavier, lighter in pairwise(weights):
            assert least < mpmath.mpf(lighter) / heavier < 1


class Counting(RandomSource):
    """A source that counts its words."""

    used = 0

    def words(self, count: int) -> Words:
        self.used += count
        return super().words(count)


def test_words_are_consumed_alike_whatever_the_counts_are() -> None:
    used = set()
    for seed in range(20):
        people = np.zeros(301, dtype=np.int64)
        people[seed :: 1 + 7 * seed] = 1 + 10**seed % 1013
        source = Counting(bytes([seed] * 32), simulated=True)
        choose_level(people, 1.0, source)
        used.add(source.used)
    assert used == {9}


def test_levels_far_behind_the_best_share_one_weight() -> None:
    """min(c, c_min + J) changes by at most one with each count, so the tail may be flat; here it is all the mass."""
    people = np.zeros(5001, dtype=np.int64)
    people[10], people[3000:3004] = 1, 1 << 60
    people[4000] = 1 << 61
    found = np.bincount([choose_level(people, 0.5, RandomSource.seeded(s)) for s in range(3000)], minlength=5001)
    weights = _weights(0.5, 5000)
    assert len(weights) < 200
    tail = Fraction(6 * (1 << 60) * weights[-1], 6 * (1 << 60) * weights[-1] + weights[0])
    assert found[10] == pytest.approx(3000 * float(1 - tail), abs=6 * 28)
    assert found[4000] == pytest.approx(2 * found[3000:3004].mean(), rel=0.2)


N, ITEMS, ROUNDS = 60, 5, 4


def exact(items: Indices, weights: Floats) -> list[Fraction]:
    total = sum(map(Fraction, weights.tolist()))
    found = [Fraction(0)] * ITEMS
    for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
        found[item] += Fraction(weight) / total
    return found


def weighed(losses: AnyArray, kappa: float | None, eta: float) -> tuple[Floats, float]:
    """Return the doubles to which mu is proportional after these losses, and the bound that is claimed."""
    sample, law = LocalSample.of(losses_of(losses)), Reweighing(losses.shape[1], kappa, eta)
    for t in range(len(losses)):
        real = losses.dtype != np.uint8
        law.update(sample, HypothesisLoss(hypothesis(t, len(losses), real=real), "hinge" if real else "zero-one"))
    sampler = law.sampler(sample)
    return np.concatenate([weights for _, weights in sampler.weighted()]), sampler.share_bound


@for_each("seed", range(30))
def test_replacing_a_record_moves_shares_by_its_two_weights_at_most(seed: int) -> None:
    """Neighbouring samples, laws with and without a cap: at most one item gains, L1 and L2 norms are as claimed."""
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
    assert sum(map(abs, moves)) <= 2 * heaviest + ITEMS * tiny
    assert sum(move * move for move in moves) <= 2 * heaviest * heaviest + tiny
    assert heaviest <= Fraction(bound)
    mechanism = NoisyShares(1.0, ITEMS, bound)
    whole = [mechanism.rounded(iter([given])) for given in ((items, one), (other_items, other))]
    assert np.abs(whole[1] - whole[0]).sum() <= mechanism.sensitivity


def test_both_norms_are_attained() -> None:
    """One record takes all the weight that it may from one item to another, which nobody else is in."""
    losses = np.zeros((ROUNDS, 40), dtype=np.uint8)
    losses[:, 0] = 1
    weights, bound = weighed(losses, 0.5, 20.0)
    items = np.full(40, 2)
    shares = []
    for item in (0, 1):
        items[0] = item
        shares.append(exact(items, weights))
    moves = [b - a for a, b in zip(*shares, strict=True)]
    assert float(sum(map(abs, moves))) == pytest.approx(2.0 * bound, rel=2.0**-18)
    assert math.sqrt(sum(move * move for move in moves)) == pytest.approx(math.sqrt(2.0) * bound, rel=2.0**-18)


def test_rounding_alone_may_move_an_item_by_a_unit() -> None:
    """So K units belong to the sensitivity: these shares move by 2^-11 of a unit in all, and a whole unit goes."""
    mechanism = NoisyShares(1.0, 2, 1.0)
    items = np.array([0, 1])
    before, after = (
        mechanism.rounded(iter([(items, np.array([0.5 - shift, 0.5 + shift]))])) for shift in (0.0, 2.0**-20)
    )
    assert np.abs(after - before).sum() == 1
    assert mechanism.sensitivity >= 2 * mechanism.whole + mechanism.items


def test_shares_are_rounded_down_exactly_and_those_of_nobody_are_zero() -> None:
    generator = np.random.default_rng(1)
    weights, items = generator.random(1000) ** 8, generator.integers(0, ITEMS - 1, 1000)
    mechanism = NoisyShares(1.0, ITEMS, 1e-3)
    wanted = [share * mechanism.whole for share in exact(items, weights)]
    found = mechanism.rounded(iter([(items, weights)]))
    assert [math.floor(share + Fraction(1, 1 << 40)) for share in wanted] == found.tolist()
    assert found[ITEMS - 1] == 0


def test_who_is_in_no_item_has_no_share_but_weighs() -> None:
    mechanism = NoisyShares(1.0, 2, 0.5)
    found = mechanism.rounded(iter([(np.array([-1, 0, 1, 2]), np.array([1.0, 1.0, 2.0, -3.0]))]))
    assert found.tolist() == [mechanism.whole // 3, mechanism.whole // 3]  # weights are cut to [0, 1]


def people(n: int = 400) -> Records:
    generator = np.random.default_rng(2)
    features = generator.normal(size=(n, 2)).astype(np.float32)
    return Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), n))


CELLS = ScoreCells(hypothesis=Linear(weights=(1.0, 0.5), threshold=0.1), cuts=(-0.5, 0.0, 0.7))


def released(sample: Sample, tilts: int, epsilon: float = 30.0, seed: int = 1) -> Floats:
    law = Reweighing(len(sample), 0.5, 2.0)
    for _ in range(tilts):
        law.update(sample, Tilt(cells=CELLS, parts=(1024, 0, 512, 100, 0, 1000, 7, 1024)))
    operation = Margins(cells=CELLS, epsilon=epsilon)
    found: Floats = Workspace(sample, law, None).perform(operation, RandomSource.seeded(seed)).fractions
    return found


def test_without_a_reweigh_shares_are_plain_and_with_one_they_are_those_of_draws() -> None:
    records = people()
    plain = np.bincount(CELLS.items_of(records), minlength=8) / len(records)
    np.testing.assert_allclose(released(split(records), 0), plain, atol=2e-3)
    sample, law = LocalSample.of(records), Reweighing(len(records), 0.5, 2.0)
    law.update(sample, Tilt(cells=CELLS, parts=(1024, 0, 512, 100, 0, 1000, 7, 1024)))
    drawn = law.sampler(sample).draws(100_000, RandomSource.seeded(3))
    among = np.bincount(CELLS.items_of(drawn), minlength=8) / 100_000
    found = released(split(records), 1)
    np.testing.assert_allclose(found, among, atol=8e-3)
    assert np.abs(found - plain).max() > 0.05


@pytest.mark.parametrize("cuts", [(1,), (7, 8, 300)])
def test_shards_change_no_bit(cuts: tuple[int, ...]) -> None:
    records = people()
    for tilts in (0, 1, 3):
        np.testing.assert_array_equal(released(split(records), tilts), released(split(records, *cuts), tilts))


@for_each("items", [4, 64, MAX_ITEMS])
@for_each("people", [20, 1000, 300_000])
def test_the_grid_costs_half_a_percent_of_noise_at_most(people: int, items: int) -> None:
    mechanism = NoisyShares(1.0, items, min(1.0, 2.0 / people))
    least = 2.0 * mechanism.bound * mechanism.whole
    assert math.floor(least) <= mechanism.sensitivity - items <= least * (1.0 + 2.0**-19) + 1.0
    if mechanism.whole < 1 << 37:
        assert mechanism.sensitivity <= 1.005 * least
    assert down(LEAST_EPSILON / mechanism.sensitivity) >= FINEST


def test_plain_shares_are_as_sharp_as_counts() -> None:
    """Counts with noise of epsilon/2 in each cell have variance 2 q/(1 - q)^2; 4 standard errors of a variance."""
    records, epsilon = people(), 0.2
    runs = [released(LocalSample.of(records), 0, epsilon, seed) for seed in range(120)]
    noise = len(records) * (np.array(runs) - np.bincount(CELLS.items_of(records), minlength=8) / len(records))
    q = math.exp(-epsilon / 2.0)
    assert np.mean(noise**2) == pytest.approx(2.0 * q / (1.0 - q) ** 2, rel=4.0 * math.sqrt(5.0 / noise.size))


@pytest.mark.slow
def test_noise_has_the_law_of_its_sensitivity() -> None:
    mechanism, values = NoisyShares(30.0, 1, 0.9), (np.zeros(2, dtype=np.int64), np.ones(2))
    found = np.array([mechanism.apply(iter([values]), RandomSource.seeded(run))[0] for run in range(2000)])
    law = FineNoise(epsilon=down(30.0 / mechanism.sensitivity))
    assert_law((found - mechanism.whole).tolist(), geometric(law, 300))


@for_each(
    ("epsilon", "items", "bound"),
    [(0.001, 4, 0.1), (31.0, 4, 0.1), (float("nan"), 4, 0.1), (1.0, 0, 0.1), (1.0, 5000, 0.1), (1.0, 4, 0.0)],
)
def test_what_cannot_be_hidden_is_refused(epsilon: float, items: int, bound: float) -> None:
    with pytest.raises(BadInput, match="noisy shares need"):
        NoisyShares(epsilon, items, bound)
