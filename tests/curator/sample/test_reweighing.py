"""The curator's weights, lazy, projected and exact for 0/1 losses; draws from them, decided by the keystream alone."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from common.core.errors import BadData, BadInput, BadScenario
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample.base import LocalSample
from curator.sample.reweighing import HEADROOM, MIN_ACCEPTANCE, Density, Reweighing, Sampler, project
from curator.sample.rows import FixedRows, Grid, SingleRows
from curator.sample.shard import ScoreHistogram
from tests.curator.given import cumulative_losses, hypothesis, law, losses_of, reweighed, split
from tests.tiers import for_each

WRONG = Constant(label=1)


def bisected(log_weights, budget):
    """Return min(c w, 1) by bisecting log c: slow and plain."""
    low, high = -np.max(log_weights) - 100.0, -np.min(log_weights) + 100.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.exp(np.minimum(log_weights + middle, 0.0)).sum() < budget:
            low = middle
        else:
            high = middle
    return np.exp(np.minimum(log_weights + high, 0.0))


@given(
    st.lists(st.floats(-2000.0, 2000.0), min_size=2, max_size=40),
    st.floats(0.01, 1.0),
    st.sampled_from([0.01, 0.12, 1.0, 7.0]),
)
def test_projection_agrees_with_bisection_and_underflows_nowhere(cumulative_losses, kappa, eta):
    cumulative_losses = np.array(cumulative_losses)
    budget = max(kappa * len(cumulative_losses), 1.0)
    cut = project(np.sort(cumulative_losses), np.broadcast_to(np.int64(1), cumulative_losses.shape), eta, budget)
    found = np.exp(eta * np.minimum(cumulative_losses - cut, 0.0))
    np.testing.assert_allclose(found, bisected(eta * cumulative_losses, budget), rtol=1e-6, atol=1e-12)
    assert found.sum() == pytest.approx(budget, rel=1e-6)


def grained(generator, shape):
    return generator.integers(0, 1025, shape) / 1024


@given(st.integers(0, 1 << 30), st.floats(0.03, 1.0), st.floats(0.05, 3.0), st.booleans())
@settings(max_examples=60)
def test_nobody_weighs_more_than_the_cap_nor_than_the_schedule(seed, kappa, eta, binary):
    table = grained(np.random.default_rng(seed), (12, 400)) ** 2
    sample = LocalSample.from_records(losses_of((table > 0.4).astype(np.uint8) if binary else table))
    weights = Reweighing(400, kappa, eta)
    for t in range(12):
        chance = law(weights, sample)
        heaviest = Fraction(float(chance.max())) / sum(map(Fraction, chance.tolist()))
        assert heaviest <= Fraction(weights.sampling_bound())
        assert heaviest * Fraction(kappa) * 400 <= 1 or kappa == 1.0
        weights.update(sample, HypothesisLoss(hypothesis(t, 12, real=not binary), "zero-one" if binary else "hinge"))


@given(st.integers(0, 1 << 30), st.booleans())
@settings(max_examples=60)
def test_neighbouring_samples_move_all_other_people_in_one_direction(seed, binary):
    # docs/corrections.md, "Coupling": so TV(mu, mu') over records is max(mu_i, mu'_i) <= the sampling bound.
    generator = np.random.default_rng(seed)
    losses = grained(generator, (20, 200))
    other = losses.copy()
    other[:, 0] = grained(generator, 20)
    if binary:
        losses, other = (losses < 0.4).astype(np.uint8), (other < 0.4).astype(np.uint8)
    mus = []
    for table in (losses, other):
        weights, sample = reweighed(table, 0.1, 0.7)
        chance = law(weights, sample)
        mus.append(chance / chance.sum())
    moves = (mus[0] - mus[1])[1:]
    assert moves.min() >= -1e-15 or moves.max() <= 1e-15
    apart = max(moves.clip(0).sum(), (-moves).clip(0).sum(), mus[0][0], mus[1][0])
    assert apart <= weights.sampling_bound() * (1 + 1e-12)


@for_each(("kappa", "eta", "rounds"), [(0.1, 0.7, 3), (0.3, 4.0, 4), (None, 2.0, 3), (0.9, 0.05, 2)])
def test_laws_as_doubles_are_as_near_to_the_exact_ones_as_their_bound_says(kappa, eta, rounds):
    """In L1 norm, for either of two neighbours, by what :meth:`share_bound` has above the bound of exact laws."""
    table = grained(np.random.default_rng(7), (rounds, 200))
    weights, sample = reweighed(table, kappa, eta)
    chance = law(weights, sample)
    scores = cumulative_losses(sample).astype(np.int64).tolist()
    with mpmath.workdps(60):
        held = [mpmath.exp(mpmath.mpf(eta) * (score - max(scores)) / 1024) for score in scores]
        if kappa is not None:
            held = capped(held, mpmath.mpf(min(kappa * 200 * (1.0 + HEADROOM), 200.0)))
        wanted = [weight / sum(held) for weight in held]
        total = mpmath.fsum(map(mpmath.mpf, chance.tolist()))
        apart = sum(abs(mpmath.mpf(p) / total - q) for p, q in zip(chance.tolist(), wanted, strict=True))
    assert 0.0 < apart <= weights.share_bound() - weights.sampling_bound() < 1e-9


def capped(weights, budget):
    """Return min(c w, 1), c such that these add up to the budget if any c with a weight of 1 does; exactly."""
    order = sorted(weights)
    for k in range(len(order)):
        factor = (budget - k) / sum(order[: len(order) - k])
        if factor * order[-1 - k] <= 1:
            return [min(factor * weight, mpmath.mpf(1)) for weight in weights]
    raise AssertionError("a budget is at most the number of people")


def test_reweighing_the_projected_weights_would_break_that():
    # The broken twin is not lazy: it multiplies what it projected. Found by search among random losses.
    losses = (np.random.default_rng(1991).random((6, 8)) < 0.5).astype(np.float64)
    other = losses.copy()
    other[:, 0] = 1.0 - losses[:, 0]

    def drift(lazy):
        mus = []
        for sample in (losses, other):
            weights = np.zeros(8)
            for row in sample:
                weights -= 2.0 * (1.0 - row)
                weights = weights if lazy else np.log(bisected(weights, 3.0))
            mus.append(bisected(weights, 3.0) / 3.0)
        return 0.5 * (np.abs(mus[0] - mus[1])[1:].sum() + mus[0][0] + mus[1][0])

    assert drift(lazy=True) <= 1 / 3 + 1e-9
    assert drift(lazy=False) > 1.9 / 3


def test_counts_turn_into_1024ths_with_the_first_real_loss():
    records = Records(np.full((20, 1), 0.5, dtype=np.float32), np.full(20, -1, dtype=np.int8))
    sample, weights = split(records, 5), Reweighing(20, 1.0, 1.0)
    plane = Linear(weights=(1.0,), threshold=0.75)  # right, by a margin of 1/4
    for rule, loss in ((WRONG, "zero-one"), (plane, "hinge"), (WRONG, "zero-one"), (WRONG, "hinge")):
        weights.update(sample, HypothesisLoss(rule, loss))
    np.testing.assert_array_equal(cumulative_losses(sample), np.full(20, 3 * 1024 + 768))
    assert weights.density().eta == 1.0 / 1024


def test_rounded_losses_cost_at_most_a_thousandth_of_regret_a_round():
    # sum_t <mu_t - mu*, loss_t> <= K/eta + eta T/8 holds for the rounded losses; for the true ones add 2^-10 T.
    generator, n, eta, rounds = np.random.default_rng(3), 200, 0.3, 60
    losses = generator.random((rounds, n)) ** np.linspace(0.2, 4.0, n)
    sample = LocalSample.from_records(Records((1.0 - losses.T).astype(np.float32).copy(), np.ones(n, dtype=np.int8)))
    weights = Reweighing(n, None, eta)
    gained = 0.0
    for t in range(rounds):
        chance = law(weights, sample)
        gained += float(chance @ losses[t]) / chance.sum()
        weights.update(sample, HypothesisLoss(hypothesis(t, rounds, real=True), "hinge"))
    most = losses.sum(axis=0).max()
    assert most - gained <= np.log(n) / eta + eta * rounds / 8 + rounds * 2.0**-10
    assert np.abs(cumulative_losses(sample) / 1024 - losses.sum(axis=0)).max() <= rounds * (2.0**-11 + 1e-6)


def test_scores_never_outgrow_their_32_bits():
    weights = Reweighing(20, 1.0, 0.1)
    weights.updates, weights._parts = (1 << 22) - 1, 1024
    with pytest.raises(BadInput, match="hold 4194303 reweighs"):
        weights.update(LocalSample.from_records(losses_of(np.zeros((1, 20), dtype=np.uint8))), HypothesisLoss(WRONG))


@for_each("real", [False, True])
def test_restored_weights_go_on_as_if_never_interrupted(real):
    table, loss = grained(np.random.default_rng(5), (10, 100)), "hinge" if real else "zero-one"
    table = table if real else (table < 0.4).astype(np.uint8)
    through, other = LocalSample.from_records(losses_of(table)), Reweighing(100, 0.2, 0.5)
    one, stopped = Reweighing(100, 0.2, 0.5), LocalSample.from_records(losses_of(table))
    for t in range(10):
        asked = HypothesisLoss(hypothesis(t, 10, real=real), loss)
        one.update(through, asked)
        other.update(stopped, asked)
        stored = [part.copy() for part in stopped.cumulative_losses()]
        stopped = LocalSample.from_records(losses_of(table))
        other = Reweighing.restore(stopped, 0.2, 0.5, [asked] * (t + 1), stored)
    np.testing.assert_array_equal(law(one, through), law(other, stopped))
    assert one.sampling_bound() == other.sampling_bound()


def test_sampling_bound_follows_the_schedule():
    weights = Reweighing(1000, 0.1, 0.5)
    sample = LocalSample.from_records(losses_of(np.zeros((1, 1000), dtype=np.uint8)))
    assert weights.sampling_bound() == pytest.approx(1 / 1000)
    for t in range(1, 12):
        weights.update(sample, HypothesisLoss(WRONG))
        assert weights.sampling_bound() == pytest.approx(min(np.exp(t / 2) / (999 + np.exp(t / 2)), 0.01))
    assert Reweighing(1000, None, 0.5).sampling_bound() >= 1 / 1000
    assert Reweighing(1, None, 0.5).sampling_bound() == 1.0


@for_each(
    ("n", "kappa", "eta", "says"),
    [
        (0, None, 0.1, "at least one record"), (100, 0.1, 0.1, "kappa n must exceed 10"),
        (100, 0.0, 0.1, "kappa must be in"), (100, 1.5, 0.1, "kappa must be in"),
        (100, 0.5, 0.0, "eta must be positive"), (100, 0.5, np.inf, "eta must be positive"),
    ],
)  # fmt: skip
def test_parameters_outside_their_range_are_refused(n, kappa, eta, says):
    with pytest.raises(BadScenario, match=says):
        Reweighing(n, kappa, eta)


N = 60


def people(n=N, dtype=np.float32):
    features = np.arange(3 * n).reshape(n, 3).astype(dtype)
    return Records(features, np.where(np.arange(n) % 3, 1, -1).astype(np.int8))


def uneven(kappa, *, real=False, rounds=9, eta=0.8):
    """Return weights with scores from 0 to ``rounds`` and their sample."""
    table = (np.arange(N) % (rounds + 1)) > np.arange(rounds)[:, np.newaxis]
    return reweighed(table.astype(np.float64 if real else np.uint8), kappa, eta)


def scored(levels, n=20_000, cuts=()):
    """Return a sample of n records with score 0, but for the last ones."""
    held = np.zeros(n, dtype=np.uint8)
    held[-len(levels) :] = levels
    sample = split(people(n), *cuts)
    histogram = sample.restore(np.split(held, list(cuts)), 255)
    return sample, histogram


def oracle(words, ties, density, held):
    """Reject by hand, with Python's integers."""
    n, chosen, limits = len(held), [], density.acceptance_table().limits
    for word, tie in zip(words.tolist(), ties.tolist(), strict=True):
        product = (word & 0xFFFFFFFF) * n
        limit = int(limits[min(held[product >> 32], len(limits) - 1)])
        if (word >> 32 << 32 | tie >> 32) <= limit and product % (1 << 32) >= (1 << 32) % n:
            chosen.append(product >> 32)
    return chosen


@for_each("real", [False, True])
@for_each("kappa", [0.2, 0.5, 1.0, None])
def test_draws_follow_mu(kappa, real):
    weights, sample = uneven(kappa, real=real)
    chance = law(weights, sample)
    drawn = weights.sampler(sample).indices(200_000, RandomSource.seeded(1, str(kappa), int(real)))
    counts = np.bincount(drawn, minlength=N)
    # Fails with probability 1e-6 for a wrong seed; the seed is fixed.
    assert chisquare(counts, 200_000 * chance / chance.sum()).pvalue > 1e-6


@pytest.mark.parametrize("cuts", [(), (1, 513, 19_998)])
def test_a_law_too_uneven_for_rejection_is_drawn_from_a_table(cuts):
    sample, histogram = scored([8, 9, 9, 10, 10], cuts=cuts)
    density = Density(histogram, 1.5, np.inf)
    assert density.acceptance < MIN_ACCEPTANCE
    drawn = Sampler(sample, density).indices(100_000, RandomSource.seeded(2))
    chance = density.relative(cumulative_losses(sample).astype(np.int64))
    chance /= chance.sum()
    counts = np.bincount(drawn, minlength=20_000)
    grouped = [[x[:-5].sum(), *x[-5:]] for x in (counts, 100_000 * chance)]
    assert chisquare(*grouped).pvalue > 1e-6
    light = counts[:-5].reshape(-1, 1333).sum(axis=1)  # 15 groups of equally light records
    assert chisquare(light).pvalue > 1e-6


def test_what_rounding_adds_to_light_records_is_rejected():
    density = Density(ScoreHistogram(np.array([0, 1, 50, 100]), np.array([20_000, 1, 1, 1])), 0.33, np.inf)
    table = density.acceptance_table()
    p = density.relative(np.arange(len(table.limits)) + table.base)
    most = 1 << (62 - len(density).bit_length())
    assert table.heights.min() == 1  # p is less than 1 / most by far
    np.testing.assert_allclose(table.heights * (table.limits + 1.0) / 2.0**64 / most, p, rtol=1e-12)


@for_each("cuts", [(), (1, 30), (59,)])
def test_kernel_agrees_with_rejection_by_hand(cuts):
    weights, whole = uneven(0.3)
    held, density = cumulative_losses(whole), weights.density()
    acceptance_table = density.acceptance_table()
    sample = split(people(), *cuts)
    sample.restore(np.split(held, list(cuts)), 255)
    words, ties = RandomSource.seeded(3).words(8000).reshape(2, 4000)
    # Ties with a limit's high half, which the other word decides, and rows that would be biased.
    high, low = ~np.uint64(0xFFFFFFFF), np.uint64(32)
    words[::7] = acceptance_table.limits[words[::7] % len(acceptance_table.limits)] & high | words[::7] >> low
    words[::11] &= high
    picked = sample.pick(words, acceptance_table, gather=True)
    assert picked.undecided > 0
    decided = sample.pick(words, acceptance_table, gather=True, ties=ties)
    assert decided.undecided == 0
    assert decided.rows.tolist() == oracle(words, ties, density, held)
    assert (np.diff(decided.places) > 0).all()
    np.testing.assert_array_equal(decided.records.features, people().features[decided.rows])
    assert set(picked.places.tolist()) <= set(decided.places.tolist())


def test_a_tie_is_decided_by_further_words():
    weights, sample = uneven(1.0)
    high, low = weights.density().acceptance_table().limits[0] & ~np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF)

    class Tied(RandomSource):
        """Begins with a batch in which every proposal ties."""

        begun = False

        def words(self, count):
            words, begun, self.begun = super().words(count), self.begun, True
            return words if begun else words & low | high

    drawn = weights.sampler(sample).indices(1000, Tied(bytes(32), simulated=True))
    assert len(drawn) == 1000
    assert set(drawn.tolist()) <= set(range(N))


@for_each("cuts", [(), (1, 30)])
@for_each("dtype", [np.float32, np.uint8])
def test_a_draw_is_a_whole_record_and_everybody_comes_once_in_the_fixed_order(dtype, cuts):
    sampler, records = Reweighing(N, None, 1.0).sampler(split(people(dtype=dtype), *cuts)), people(dtype=dtype)
    drawn, rows = (draw(500, RandomSource.seeded(6)) for draw in (sampler.draws, sampler.indices))
    everybody = Records.joined(list(sampler.everybody()))
    assert drawn.features.dtype == dtype
    for found, wanted in ((drawn, records.take(rows)), (everybody, records)):
        np.testing.assert_array_equal(found.features, wanted.features)
        np.testing.assert_array_equal(found.labels, wanted.labels)
    for count in (0, 70_000):
        assert len(sampler.draws(count, RandomSource.seeded(7))) == count
    assert len(sampler.indices(0, RandomSource.seeded(7))) == 0


def test_limits_round_up_and_never_fall_to_zero():
    table = Density(ScoreHistogram(np.array([0, 1, 200]), np.array([1, 1, 1])), 1.0, np.inf).acceptance_table()
    assert table.limits[200 - table.base] == np.uint64(2**64 - 1)
    assert int(table.limits[199 - table.base]) + 1 >= np.exp(-1.0) * 2.0**64
    assert table.base > 0  # below, all chances are at most 2^-64
    assert table.limits[0] == 0
    assert np.exp(-1.0 * (200 - table.base)) <= 2.0**-64


def test_wrong_sizes_are_refused():
    weights, _ = uneven(0.3)
    with pytest.raises(BadData, match="do not belong"):
        Sampler(LocalSample.from_records(people(N + 1)), weights.density())
    with pytest.raises(BadData, match="between 1 and"):
        LocalSample.from_records(people(0))


@for_each("cuts", [(), (20, 45), (20, 20, 59)])
def test_the_distinct_draws_are_the_draws_with_how_often_each_was_drawn(cuts):
    records = people()
    sampler = Reweighing(N, None, 0.1).sampler(split(records, *cuts))
    drawn = sampler.indices(90, RandomSource.seeded(3))
    distinct = sampler.distinct(90, RandomSource.seeded(3))
    np.testing.assert_array_equal(np.repeat(distinct.rows, distinct.times), np.sort(drawn))
    assert len(distinct) < 60
    few = sampler.distinct(5, RandomSource.seeded(3))  # sorted, not counted
    np.testing.assert_array_equal(np.repeat(few.rows, few.times), np.sort(drawn[:5]))
    found = distinct.take(slice(None))
    np.testing.assert_array_equal(found.features, records.features[distinct.rows])
    np.testing.assert_array_equal(found.labels, records.labels[distinct.rows])


@for_each("kind", [np.float32, np.uint8, "fixed"])
@for_each("count", [30, 900])
def test_signed_margins_are_the_same_wherever_the_rows_lie(kind, count):
    dtype = np.float32 if kind == "fixed" else kind
    generator = np.random.default_rng(1)
    features = generator.normal(size=(N * 9, 130)) if dtype == np.float32 else generator.integers(0, 2, (N * 9, 130))
    records = Records(features.astype(dtype), generator.choice(np.array([-1, 1], dtype=np.int8), len(features)))
    one, other = (Linear(weights=tuple(generator.normal(size=130).tolist()), threshold=0.2) for _ in range(2))
    found = []
    for cuts in ([], [100, 101]):
        rows = partial(FixedRows.from_records, grid=Grid.between(-4.0, 4.0)) if kind == "fixed" else SingleRows
        sample = split(records, *cuts, rows=rows)
        assert (sample.in_place is None) == bool(cuts)
        distinct = Reweighing(len(features), None, 0.1).sampler(sample).distinct(count, RandomSource.seeded(3))
        held = distinct.take(np.arange(len(distinct)))
        for plane in (one, other, other):
            found.append(distinct.signed_margins(plane))
            np.testing.assert_allclose(found[-1], plane.margins(held.features) * held.labels, atol=1e-4)
            np.testing.assert_array_equal((found[-1] > 0) == (held.labels > 0), plane.margins(held.features) > 0)
    np.testing.assert_array_equal(found[:3], found[3:])


COUNT = 400


@for_each(
    "ask",
    [
        lambda sampler, source: [sampler.draws(COUNT, source)],
        lambda sampler, source: [sampler.distinct(COUNT, source).take(slice(None))],
        lambda sampler, source: [sampler.distinct(COUNT, source).take(np.arange(0, 50, 2))],
        lambda sampler, source: sampler.everybody(),
        lambda sampler, source: (records for records, _ in sampler.weighted()),
        lambda sampler, source: [Records(*sampler.gathered(COUNT, source)[:2])],
        lambda sampler, source: [Records(*sampler.distinct(COUNT, source).gathered(np.arange(0, 30, 3))[:2])],
    ],
)
@for_each(("width", "task"), [(4, Task(features=2, label=3)), (90, Task(features=70, label=80))])
def test_records_are_seen_through_the_task_also_where_long_ones_could_be_read_in_place(width, task, ask):
    """Features tell who they are; the label in a column is not their own."""
    features = np.random.default_rng(1).normal(size=(100, width)).astype(np.float32)
    whole = Records(features, np.ones(100, dtype=np.int8))
    sampler = Sampler(LocalSample.from_records(whole), Reweighing(100, 0.2, 0.1).density()).through(task)
    of_view = {view.tobytes(): label for view, label in zip(*vars(task.of(whole)).values(), strict=True)}
    seen = Records.joined(list(ask(sampler, RandomSource.seeded(1))))
    assert seen.dimension == sampler.dimension == task.features
    assert [of_view[view.tobytes()] for view in seen.features] == list(seen.labels)
    assert set(seen.labels) == {-1, 1}
    plane, distinct = Linear(weights=(1.0, -1.0), threshold=0.1), sampler.distinct(COUNT, RandomSource.seeded(1))
    views = distinct.take(slice(None))
    np.testing.assert_allclose(distinct.signed_margins(plane), plane.margins(views.features) * views.labels, atol=1e-5)
