"""Draws from mu: exact, independent, and decided by the keystream alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from common.core.errors import BadData
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Linear
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample.base import LocalSample
from curator.sample.fixed_rows import FixedRows, Grid
from curator.sample.reweighing import Reweighing
from curator.sample.rows import SingleRows
from curator.sample.sampling import MIN_ACCEPTANCE, Density, Sampler
from curator.sample.shard import ScoreHistogram
from tests.curator.given import cumulative_losses, law, reweighed, split
from tests.tiers import for_each

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
        Sampler(LocalSample.of(people(N + 1)), weights.density())
    with pytest.raises(BadData, match="between 1 and"):
        LocalSample.of(people(0))


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
        parts = [records.take(np.arange(a, b)) for a, b in pairwise([0, *cuts, len(features)])]
        grid = Grid.over(-4.0, 4.0)
        sample = LocalSample([FixedRows.of(part, grid) if kind == "fixed" else SingleRows(part) for part in parts])
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
        lambda sampler, source: [Records(*sampler.located(COUNT, source)[:2])],
        lambda sampler, source: [Records(*sampler.distinct(COUNT, source).located(np.arange(0, 30, 3))[:2])],
    ],
)
@for_each(("width", "task"), [(4, Task(features=2, label=3)), (90, Task(features=70, label=80))])
def test_records_are_seen_through_the_task_also_where_long_ones_could_be_read_in_place(width, task, ask):
    """Features tell who they are; the label in a column is not their own."""
    features = np.random.default_rng(1).normal(size=(100, width)).astype(np.float32)
    whole = Records(features, np.ones(100, dtype=np.int8))
    sampler = Sampler(LocalSample.of(whole), Reweighing(100, 0.2, 0.1).density()).through(task)
    of_view = {view.tobytes(): label for view, label in zip(*vars(task.of(whole)).values(), strict=True)}
    seen = Records.joined(list(ask(sampler, RandomSource.seeded(1))))
    assert seen.dimension == sampler.dimension == task.features
    assert [of_view[view.tobytes()] for view in seen.features] == list(seen.labels)
    assert set(seen.labels) == {-1, 1}
    plane, distinct = Linear(weights=(1.0, -1.0), threshold=0.1), sampler.distinct(COUNT, RandomSource.seeded(1))
    views = distinct.take(slice(None))
    np.testing.assert_allclose(distinct.signed_margins(plane), plane.margins(views.features) * views.labels, atol=1e-5)
