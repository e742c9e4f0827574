"""Draws that stay where they lie are the same records as those that are copied, and give learners the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from
from curator.learners.sgd import Sgd
from curator.sample.base import LocalSample
from curator.sample.fixed_rows import FixedRows, Grid
from curator.sample.rows import GatheredRows, feature, feature_again, how_many, label, row_of
from curator.sample.single_rows import SingleRows
from curator.weights.reweighing import Reweighing
from tests.tiers import for_each

N = 300
GRID = Grid.over(-4.0, 4.0)


def people(d, dtype=np.float32):
    generator = np.random.default_rng(0)
    features = (
        np.clip(generator.normal(size=(N, d)), -4, 4) if dtype == np.float32 else generator.integers(0, 2, (N, d))
    )
    return Records(features.astype(dtype), generator.choice(np.array([-1, 1], dtype=np.int8), N))


def rows(kind, records):
    return FixedRows.of(records, GRID) if kind == "fixed" else SingleRows(records)


@njit
def read(matrix, labels, rows, codes, features, again, signs):
    for k in range(how_many(matrix, rows)):
        row = row_of(rows, k)
        signs[k] = label(matrix, labels, row)
        for j in range(matrix.shape[1]):
            features[k, j] = feature(matrix, codes, row, k, j)
        # The draw before is still at hand.
        before = max(k - 1, 0)
        for j in range(matrix.shape[1]):
            again[before, j] = feature_again(matrix, codes, row_of(rows, before), before, j)
    for j in range(matrix.shape[1]):
        again[k, j] = feature_again(matrix, codes, row, k, j)


def seen(draws):
    """Return what a loop sees of draws."""
    shape = draws.size, draws.matrix.shape[1]
    features, again, signs = np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(shape[0], np.int8)
    read(*draws, features, again, signs)  # type: ignore[call-arg]
    np.testing.assert_array_equal(features, again)
    return Records(features, signs)


def same(one, other):
    np.testing.assert_array_equal(one.features.astype(np.float32), other.features)
    np.testing.assert_array_equal(one.labels, other.labels)


@for_each("order", [[5, 0, 299, 5, 17], [42]])
@for_each(("kind", "d", "dtype"), [("single", 70, np.float32), ("fixed", 70, np.float32), ("single", 200, np.uint8)])
def test_a_loop_reads_the_rows_that_would_be_copied(kind, d, dtype, order):
    held = rows(kind, people(d, dtype))
    chosen = np.array(order, dtype=np.int64)
    assert held.long
    same(held.take(chosen), seen(held.located(chosen)))
    same(held.take(chosen), seen(GatheredRows.of(held.take(chosen))))


@for_each("kind", ["single", "fixed"])
@for_each("d", [8, 70])
def test_located_draws_are_the_draws(kind, d):
    sampler = Reweighing(N, 0.5, 0.1).sampler(LocalSample([rows(kind, people(d))]))
    located = sampler.located(500, RandomSource.seeded(3))
    assert (located.rows is None) == (d == 8)
    same(sampler.draws(500, RandomSource.seeded(3)), seen(located))
    same(sampler.draws(500, RandomSource.seeded(3)), seen(GatheredRows.of(sampler.draws(500, RandomSource.seeded(3)))))


def test_rows_in_a_file_or_in_several_shards_are_copied(tmp_path):
    codes = GRID.encode(people(70))
    codes.tofile(tmp_path / "rows")
    mapped = FixedRows(np.memmap(tmp_path / "rows", np.uint16, "r", 0, codes.shape), GRID)
    assert mapped.long
    assert mapped.mapped
    assert LocalSample([mapped]).in_place is None
    assert LocalSample([rows("fixed", people(70))] * 2).in_place is None
    assert LocalSample([rows("fixed", people(70))]).in_place is not None


@for_each("d", [5, 8, 70, 203])
@for_each("kind", ["single", "fixed"])
@for_each("more", [{"noise": 0.7}, {"noise": 0.0}, {"noise": 0.7, "start": 0.5, "loss": "logistic"}])
def test_a_learner_learns_the_same_from_one_shard_and_from_two(kind, d, more):
    records = people(d)
    learner = Sgd(**{"steps": 400, "diameter": 6.0, "loss": "hinge", **more})
    learned = []
    for cuts in [(0, N), (0, 123, N)]:
        parts = [records.take(np.arange(a, b)) for a, b in pairwise(cuts)]
        sample = LocalSample([rows(kind, part) for part in parts])
        learned.append(learn_from(learner, Reweighing(N, 0.5, 0.1).sampler(sample), RandomSource.seeded(1), None))
    assert learned[0] == learned[1]
