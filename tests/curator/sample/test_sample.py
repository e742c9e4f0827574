"""One result, whatever the number of threads and shards; scores that widen, are stored and restored."""

from itertools import pairwise

import numpy as np
import pytest

from common.core.errors import BadData
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample import shard as shards
from curator.sample.base import LocalSample
from curator.sample.fixed_rows import FixedRows, Grid
from curator.sample.rejection import AcceptanceTable
from curator.sample.shard import ScoreHistogram, Shard
from curator.sample.single_rows import SingleRows
from curator.weights.reweighing import Reweighing
from tests.curator.given import cumulative_losses, losses_of, split
from tests.tiers import for_each

N = 5000
GRID = Grid.over(-1.0, 1.0)
ROUNDS = [
    (Linear(weights=(0.5, -1.0, 0.25), threshold=0.1), "zero-one"),
    (Stump(feature=1, threshold=0.0, sign=1), "zero-one"),
    (Linear(weights=(-1.0, 0.1, 2.0), threshold=0.0), "hinge"),
    (Linear(weights=(1.0, 1.0, 1.0), threshold=0.2), "zero-one"),
]


def people(n=N):
    generator = np.random.default_rng(0)
    features = generator.uniform(-1.0, 1.0, (n, 3)).astype(np.float32)
    return Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), n))


def held(kind, cuts, threads):
    ends = [0, *cuts, N]
    parts = [people().take(np.arange(a, b)) for a, b in pairwise(ends)]
    return LocalSample([SingleRows(p) if kind == "single" else FixedRows.of(p, GRID) for p in parts], threads)


def run(sample):
    """Return all that a run computes: scores, the law, draws, at every round."""
    weights, seen = Reweighing(N, 0.1, 0.4), []
    for hypothesis, loss in ROUNDS:
        weights.update(sample, HypothesisLoss(hypothesis, loss))
        sampler = weights.sampler(sample)
        drawn = sampler.draws(700, RandomSource.seeded(1))
        seen += [cumulative_losses(sample), weights.density().cut, drawn.features, drawn.labels]
        seen += [sampler.indices(700, RandomSource.seeded(1))]
    return seen


@for_each("kind", ["single", "fixed"])
@for_each(("cuts", "threads"), [((), 1), ((), 3), ((1,), 2), ((7, 8, 3000), 2)])
def test_threads_and_shards_change_no_bit(kind, cuts, threads, monkeypatch):
    wanted = run(held(kind, (), 1))
    monkeypatch.setattr(shards, "BLOCK", 101)
    monkeypatch.setattr(shards, "_SHARE", 777)
    for one, other in zip(wanted, run(held(kind, cuts, threads)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_fixed_rows_learn_nearly_the_same_scores():
    single, fixed = held("single", (), 1), held("fixed", (), 1)
    run(single), run(fixed)
    apart = np.abs(cumulative_losses(single).astype(np.int64) - cumulative_losses(fixed).astype(np.int64))
    assert (apart > 1).mean() < 0.002  # whose margin is within a grid step of 0
    assert apart.max() <= 2 * 1024


def test_counting_by_sorting_gives_what_tables_give(monkeypatch):
    tables = Reweighing(N, 0.1, 0.4)
    sample = held("single", (), 2)
    tables.update(sample, HypothesisLoss(*ROUNDS[2]))
    wanted = tables.density().histogram
    monkeypatch.setattr(shards, "_DENSE", 10)
    monkeypatch.setattr(shards, "_SHARE", 777)
    sorted_ = Reweighing(N, 0.1, 0.4)
    sorted_.update(held("single", (), 2), HypothesisLoss(*ROUNDS[2]))
    np.testing.assert_array_equal(sorted_.density().histogram.levels, wanted.levels)
    np.testing.assert_array_equal(sorted_.density().histogram.people, wanted.people)
    assert wanted.people.sum() == N


def test_a_census_is_merged_level_by_level():
    parts = [ScoreHistogram(np.array([0, 2]), np.array([5, 1])), ScoreHistogram(np.array([2, 9]), np.array([3, 4]))]
    merged = ScoreHistogram.merged(parts)
    assert (merged.levels.tolist(), merged.people.tolist()) == ([0, 2, 9], [5, 4, 4])


@pytest.mark.parametrize(("most", "before", "wider"), [(255, np.uint8, np.uint16), (65535, np.uint16, np.uint32)])
def test_scores_widen_before_they_overflow(most, before, wider):
    sample = LocalSample.of(losses_of(np.ones((1, 20), dtype=np.uint8)))
    sample.restore([np.full(20, most, dtype=before)], most)
    histogram = sample.reweigh(HypothesisLoss(Constant(label=-1), "zero-one"), 1, most + 1)
    assert cumulative_losses(sample).dtype == wider
    assert histogram.levels.tolist() == [most + 1]


def test_refined_scores_are_whole_multiples():
    sample = split(losses_of(np.zeros((1, 20), dtype=np.uint8)), 5)
    sample.restore(np.split(np.arange(20, dtype=np.uint8), [5]), 19)
    sample.refine(1024, 20 * 1024)
    np.testing.assert_array_equal(cumulative_losses(sample), np.arange(20) * 1024)


@for_each(
    ("stored", "says"),
    [
        ([np.zeros(19, dtype=np.uint8)], "shape"),
        ([np.zeros(20, dtype=np.int32)], "unsigned counts"),
        ([np.zeros(20)], "unsigned counts"),
        ([np.full(20, 4, dtype=np.uint8)], "outside"),
    ],
)
def test_impossible_stored_scores_are_refused(stored, says):
    sample = LocalSample.of(losses_of(np.zeros((1, 20), dtype=np.uint8)))
    with pytest.raises(BadData, match=says):
        Reweighing.restore(sample, 1.0, 0.1, [HypothesisLoss(Constant(label=1))] * 3, stored)
    assert not cumulative_losses(sample).any()


def test_nobody_writes_into_the_scores_from_outside():
    sample = LocalSample.of(losses_of(np.zeros((1, 20), dtype=np.uint8)))
    with pytest.raises(ValueError, match="read-only"):
        next(iter(sample.cumulative_losses()))[0] = 1


def test_the_sample_is_never_copied():
    records = people()
    block = Shard(SingleRows(records)).block(0, N)
    assert np.shares_memory(block.features, records.features)


@for_each("cuts", [[], [1], [700, 1300]])
def test_each_point_of_the_pile_lies_on_one_record_and_each_record_on_as_many_as_it_is_high(cuts):
    """Records are as high as their score says, one after the other, through all shards."""
    n, heights = 1500, np.array([3, 1, 2])
    sample = split(losses_of(np.zeros((1, n), dtype=np.uint8)), *cuts)
    scores = np.random.default_rng(6).integers(0, 4, n).astype(np.uint8)  # above the last level: as high as that
    sample.restore(np.split(scores, cuts), 3)
    table = AcceptanceTable(0, np.full(3, 2**64 - 1, dtype=np.uint64), heights)
    wanted = np.repeat(np.arange(n), heights[np.minimum(scores, 2)])
    sums = sample.bucket_sums(table)
    assert sums[-1] == len(wanted)
    points = np.random.default_rng(7).permutation(len(wanted))
    found = sample.find(points, np.zeros(len(wanted), dtype=np.uint64), sums, table, False)
    np.testing.assert_array_equal(found.places, np.arange(len(wanted)))
    np.testing.assert_array_equal(found.rows, wanted[points])


def test_a_table_of_heights_needs_heights():
    weights, sample = Reweighing(N, 0.1, 0.4), held("single", (), 1)
    acceptance_table = weights.density().acceptance_table()
    assert acceptance_table.heights is None
    with pytest.raises(ValueError, match="no heights"):
        sample.bucket_sums(acceptance_table)


def test_scores_of_another_law_are_not_gone_on_with():
    # Tables are as long as the law says that scores are; one beyond them would be written somewhere else.
    sample = held("single", (9,), 1)
    run(sample)
    with pytest.raises(ValueError, match="restore the sample before another law begins"):
        Reweighing(N, 0.1, 0.4).update(sample, HypothesisLoss(*ROUNDS[0]))
    Reweighing.restore(sample, 0.1, 0.4).update(sample, HypothesisLoss(*ROUNDS[0]))
    assert cumulative_losses(sample).max() == 1
