"""What has geometric noise: head lists in whole numbers, and the shares of weighted people."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import MAX_ITEMS, HypothesisLoss, ScoreCells
from common.local.mechanisms.mechanism import FLAT_BITS, Laplace
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import LEAST_EPSILON, Margins
from common.privacy.rounding import down
from common.protocols.frequencies import SPURIOUS, threshold
from curator.engine import Workspace
from curator.mechanisms import counts
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing
from tests.curator.given import Counted, reweighed, split
from tests.curator.operations.given import assert_law, geometric
from tests.tiers import for_each

CLOSE = Fraction(1, 1 << 200)


@for_each("generous", [SPURIOUS, 3.0])
def test_as_many_words_are_drawn_whatever_people_hold_and_whatever_the_noise(monkeypatch, generous):
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", generous)
    drawn = set()
    for values in (np.zeros(12), np.arange(12), np.repeat([3, 9, 15], 4)):
        for seed in range(30):
            counted: list[int] = []
            counts.listed(values.astype(np.uint64), 4, 5, Laplace(epsilon=1.0), Counted(bytes([seed] * 32), counted))
            drawn.add(tuple(counted))
    assert len(drawn) == 1


def test_a_list_may_have_every_value_that_nobody_holds(monkeypatch):
    """The number is cut beyond what a list can hold only: all cells of a small domain may be spurious at once."""
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", 1.9)
    noise = Laplace(epsilon=0.01)
    lists = [counts.listed(np.zeros(1, dtype=np.uint64), 2, 4, noise, RandomSource.seeded(seed)) for seed in range(150)]
    assert max(len(items) for items in lists) == 4
    assert all(len(set(items.tolist())) == len(items) and items.max(initial=0) < 4 for items in lists)


def exactly(noise: Laplace) -> dict[int, Fraction]:
    """Return P(Z = z) for z = 1, 2, ..., as far as digits reach, from the chances that the noise is drawn by."""
    flat = noise.flat_chance / (1 << FLAT_BITS)
    digits = [Fraction(chance, noise.one) for chance in noise.chances[1:]]
    law = {}
    for number in range(1 << len(digits)):
        chance = Fraction(1)
        for digit, one in enumerate(digits):
            chance *= one if number >> digit & 1 else 1 - one
        law[number + 1] = Fraction(noise.chances[0], 2 * noise.one) * (chance * (1 - noise.flat_chance) + flat)
    return law


@for_each("kind", [Laplace, counts.RareNoise])
@for_each("epsilon", [0.5, 1.0, 8.0, 30.0])
def test_the_chance_of_a_spurious_value_is_that_of_the_noise_itself(epsilon, kind):
    noise = kind(epsilon=epsilon)
    law = exactly(noise)
    cell = Fraction(noise.chances[0], 2 * noise.one) * noise.flat_chance / (1 << FLAT_BITS)
    behind = cell * ((1 << FLAT_BITS) - len(law))
    for least in (1, 2, 3, len(law) // 2, len(law)):
        assert counts.Tail(noise, least).chance == sum((p for z, p in law.items() if z >= least), behind)
    q = Fraction(noise.ratio)
    beyond = counts.Tail(noise, len(law) + 5)
    assert beyond.chance == behind - 4 * cell
    for z in range(1, len(law)):
        # What a neighbour's cell, held by one, gives to the same count: the theorem needs these two inequalities.
        assert q * law[z] <= law[z + 1] <= law[z]


def counted_out(tail: counts.Tail) -> dict[int, Fraction]:
    """Return the law of the digits' number minus the threshold, as the chances in whole numbers make it."""
    one, lowest = 1 << counts.FIXED_BITS, tail.least - 1
    paths = {(0, True): Fraction(1)}
    for digit in reversed(range(len(tail._free))):
        following: dict[tuple[int, bool], Fraction] = {}
        for (number, tight), chance in paths.items():
            up = Fraction((tail._tight if tight else tail._free)[digit], one)
            for bit, share in ((1, up), (0, 1 - up)):
                key = (number + (bit << digit), tight and bit == lowest >> digit & 1)
                following[key] = following.get(key, Fraction(0)) + chance * share
        paths = following
    return {number - lowest: chance for (number, _), chance in paths.items() if chance}


@for_each(("epsilon", "least"), [(0.5, 1), (0.5, 38), (1.0, 21), (1.0, 128), (8.0, 3)])
def test_amounts_have_the_law_of_the_noise_given_that_it_reaches_the_threshold(epsilon, least):
    """The digits' part counted out: each amount within 2^-200 of its conditional chance, none below the threshold."""
    noise = counts.RareNoise(epsilon=epsilon)
    tail = counts.Tail(noise, least)
    law = counted_out(tail)
    first, cell = Fraction(noise.chances[0], 2 * noise.one), noise.flat_chance / (1 << FLAT_BITS)
    wanted = {z - least: p / first - cell for z, p in exactly(noise).items() if z >= least}
    total = sum(wanted.values())
    assert law.keys() == wanted.keys()
    assert all(abs(law[b] * total / wanted[b] - 1) < CLOSE for b in law)
    flat = cell * ((1 << FLAT_BITS) - least + 1)
    assert abs(Fraction(tail._flat, 1 << counts.FIXED_BITS) * (flat + total) / flat - 1) < CLOSE


@for_each("least", [1, 4])
def test_drawn_amounts_follow_the_law(least):
    noise, source = counts.RareNoise(epsilon=0.5), RandomSource.seeded(5)
    tail = counts.Tail(noise, least)
    law = {z - least: float(p / tail.chance) for z, p in exactly(noise).items() if z >= least}
    assert_law([tail.beyond(source) for _ in range(4000)], law)


@for_each(("cells", "chance"), [(0, 0.3), (3, 0.3), (40, 0.1), (1 << 64, 2.0**-70), ((1 << 64) - 7, 2.0**-64)])
def test_coins_make_the_binomial_law(cells, chance):
    """Exact fractions: P(N = n) is within 2^-180 of the binomial's given N <= most, for each n."""
    most, exact = 12, Fraction(chance)
    law, left = [], Fraction(1)
    for coin in counts.coins(cells, exact, most):
        law.append(left * (1 - Fraction(coin, 1 << counts.FIXED_BITS)))
        left *= Fraction(coin, 1 << counts.FIXED_BITS)
    law.append(left)
    odds = exact / (1 - exact)
    ratios = [Fraction(1)]
    for n in range(most):
        ratios.append(ratios[-1] * max(cells - n, 0) / (n + 1) * odds)
    for found, ratio in zip(law, ratios, strict=True):
        wanted = ratio / sum(ratios)
        assert abs(found - wanted) <= wanted / (1 << 180)


def test_numbers_drawn_follow_the_law_and_any_cells_are_as_likely_in_any_order():
    source = RandomSource.seeded(7)
    found = [counts.how_many(6, Fraction(1, 3), 6, source) for _ in range(3000)]
    assert_law(found, {k: math.comb(6, k) * 2.0 ** (6 - k) / 3.0**6 for k in range(7)})
    assert_law(
        [tuple(counts.which(4, 3, source)) for _ in range(4000)], dict.fromkeys(permutations(range(4), 3), 1 / 24)
    )
    more = counts.which(2, 4, source)
    assert sorted(more[:2]) == [0, 1]
    assert all(rank >= 2 for rank in more[2:])


def test_what_lies_beyond_the_longest_list_weighs_nothing():
    """The docstring's bound: sum of (m o)^k/k! over k > 16, where the threshold keeps m o below .02."""
    for bits in (8, 24, 64):
        for epsilon in (0.00125, 0.3, 1.0, 8.0, 30.0):
            noise = counts.RareNoise(epsilon=epsilon)
            chance = counts.Tail(noise, threshold(bits, noise)).chance
            rate = (1 << bits) * chance / (1 - chance)
            assert rate < Fraction(2, 100)
            more = counts._FURTHER + 1
            assert rate**more / math.factorial(more) < Fraction(1, 1 << 141)


def test_no_list_of_64_bits_has_values_of_the_flat_part():
    """2^64 cells with noise that is flat once in 2^64 draws had one half of such a value on average."""
    values = np.full(200, 7, dtype=np.uint64)
    lists = [
        counts.listed(values, 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(seed)).tolist() for seed in range(200)
    ]
    assert sum(items != [7] for items in lists) < 12


def test_neighbours_lists_have_chances_within_e_to_the_epsilon_exactly():
    """Three cells, no person or one: the law of the set that reaches the threshold, in fractions and in whole coins."""
    noise = Laplace(epsilon=1.0)
    least, q = 2, Fraction(noise.ratio)
    one, none = counts.Tail(noise, least - 1).chance, counts.Tail(noise, least).chance
    assert q <= none / one <= 1
    assert 1 <= (1 - none) / (1 - one) <= 1 / q
    for cells in range(1, 4):
        steps = [Fraction(coin, 1 << counts.FIXED_BITS) for coin in counts.coins(cells, none, 20)]
        for number in range(cells + 1):
            chance = math.prod(steps[:number]) * (1 - steps[number]) / math.comb(cells, number)
            wanted = none**number * (1 - none) ** (cells - number)
            assert abs(chance / wanted - 1) < CLOSE


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
    mechanism = counts.NoisyShares(1.0, ITEMS, bound)
    whole = [mechanism.rounded(iter([given])) for given in ((items, one), (other_items, other))]
    assert np.abs(whole[1] - whole[0]).sum() <= mechanism.sensitivity


def test_both_norms_are_attained() -> None:
    """One record takes all the weight that it may from one item to another, which nobody else is in."""
    losses = np.zeros((ROUNDS, 40), dtype=np.uint8)
    losses[:, 0] = 1
    weights, bound = weighed(losses, 0.5, 20.0)
    one, other = (exact(np.array([item] + [2] * 39), weights) for item in (0, 1))
    moves = [float(b - a) for a, b in zip(one, other, strict=True)]
    assert sum(map(abs, moves)) == pytest.approx(2.0 * bound, rel=2.0**-18)
    assert math.hypot(*moves) == pytest.approx(math.sqrt(2.0) * bound, rel=2.0**-18)


def test_rounding_alone_may_move_an_item_by_a_unit() -> None:
    """So K units belong to the sensitivity: these shares move by 2^-11 of a unit in all, and a whole unit goes."""
    mechanism = counts.NoisyShares(1.0, 2, 1.0)
    items = np.array([0, 1])
    before, after = (
        mechanism.rounded(iter([(items, np.array([0.5 - shift, 0.5 + shift]))])) for shift in (0.0, 2.0**-20)
    )
    assert np.abs(after - before).sum() == 1
    assert mechanism.sensitivity >= 2 * mechanism.whole + mechanism.items


def test_shares_are_rounded_down_exactly_and_who_is_in_no_item_weighs() -> None:
    generator = np.random.default_rng(1)
    weights, items = generator.random(1000) ** 8, generator.integers(0, ITEMS - 1, 1000)
    mechanism = counts.NoisyShares(1.0, ITEMS, 1e-3)
    wanted = [math.floor(share * mechanism.whole + Fraction(1, 1 << 40)) for share in exact(items, weights)]
    assert mechanism.rounded(iter([(items, weights)])).tolist() == wanted
    mechanism = counts.NoisyShares(1.0, 2, 0.5)
    found = mechanism.rounded(iter([(np.array([-1, 0, 1, 2]), np.array([1.0, 1.0, 2.0, -3.0]))]))
    assert found.tolist() == [mechanism.whole // 3, mechanism.whole // 3]  # weights are cut to [0, 1]


def people(n: int = 400) -> Records:
    generator = np.random.default_rng(2)
    features = generator.normal(size=(n, 2)).astype(np.float32)
    return Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), n))


CELLS = ScoreCells(hypothesis=Linear(weights=(1.0, 0.5), threshold=0.1), cuts=(-0.5, 0.0, 0.7))


WEIGHING = HypothesisLoss(CELLS.hypothesis, "hinge", 2.0)


def released(sample: Sample, tilts: int, epsilon: float = 30.0, seed: int = 1) -> Floats:
    law = Reweighing(len(sample), 0.5, 2.0)
    for _ in range(tilts):
        law.update(sample, WEIGHING)
    workspace = Workspace(sample, law, None)
    found: Floats = workspace.perform(Margins(cells=CELLS, epsilon=epsilon), RandomSource.seeded(seed)).fractions
    return found


def test_without_a_reweigh_shares_are_plain_and_with_one_they_are_those_of_draws() -> None:
    records = people()
    plain = np.bincount(CELLS.items_of(records), minlength=8) / len(records)
    np.testing.assert_allclose(released(split(records), 0), plain, atol=2e-3)
    sample, law = LocalSample.of(records), Reweighing(len(records), 0.5, 2.0)
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
    mechanism = counts.NoisyShares(1.0, items, min(1.0, 2.0 / people))
    least = 2.0 * mechanism.bound * mechanism.whole
    assert math.floor(least) <= mechanism.sensitivity - items <= least * (1.0 + 2.0**-19) + 1.0
    if mechanism.whole < 1 << 37:
        assert mechanism.sensitivity <= 1.005 * least
    assert down(LEAST_EPSILON / mechanism.sensitivity) >= counts.FINEST


def test_plain_shares_are_as_sharp_as_counts() -> None:
    """Counts with noise of epsilon/2 in each cell have variance 2 q/(1 - q)^2; 4 standard errors of a variance."""
    records, epsilon = people(), 0.2
    runs = [released(LocalSample.of(records), 0, epsilon, seed) for seed in range(120)]
    noise = len(records) * (np.array(runs) - np.bincount(CELLS.items_of(records), minlength=8) / len(records))
    q = math.exp(-epsilon / 2.0)
    assert np.mean(noise**2) == pytest.approx(2.0 * q / (1.0 - q) ** 2, rel=4.0 * math.sqrt(5.0 / noise.size))


@pytest.mark.slow
def test_noise_has_the_law_of_its_sensitivity() -> None:
    mechanism, values = counts.NoisyShares(30.0, 1, 0.9), (np.zeros(2, dtype=np.int64), np.ones(2))
    found = np.array([mechanism.apply(iter([values]), RandomSource.seeded(run))[0] for run in range(2000)])
    law = counts.FineNoise(epsilon=down(30.0 / mechanism.sensitivity))
    assert_law((found - mechanism.whole).tolist(), geometric(law, 300))


@for_each(
    ("epsilon", "items", "bound"),
    [(0.001, 4, 0.1), (31.0, 4, 0.1), (float("nan"), 4, 0.1), (1.0, 0, 0.1), (1.0, 5000, 0.1), (1.0, 4, 0.0)],
)
def test_what_cannot_be_hidden_is_refused(epsilon: float, items: int, bound: float) -> None:
    with pytest.raises(BadInput, match="noisy shares need"):
        counts.NoisyShares(epsilon, items, bound)
