"""Whatever a learner asks of a task's sampler, it sees the task's view of records, and nothing else of them."""

from typing import Any

import numpy as np
import pytest

from common.local.hypotheses.linear import Linear
from common.local.hypotheses.relabelled import Task
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from, parse_learner
from curator.sample.local import LocalSample
from curator.weights.reweighing import Reweighing
from curator.weights.task_views import TaskSampler

TASK = Task(features=2, label=3)
COUNT, SIZE = 400, 64


@pytest.fixture
def sampler():
    """People whose features tell who they are; the label in column 3 is not their own."""
    features = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    sample = LocalSample.of(Records(features, np.ones(100, dtype=np.int8)))
    return TaskSampler(sample, Reweighing(100, 0.2, 0.1).density(), TASK)


@pytest.mark.parametrize(
    "ask",
    [
        lambda sampler, source: [sampler.draws(COUNT, source)],
        lambda sampler, source: sampler.blocks(COUNT, SIZE, source),
        lambda sampler, source: sampler.distinct(COUNT, source).blocks(SIZE),
        lambda sampler, source: [sampler.distinct(COUNT, source).take(np.arange(0, 50, 2))],
        lambda sampler, source: sampler.everybody(),
    ],
    ids=["draws", "blocks", "distinct", "some of the distinct", "everybody"],
)
def test_records_are_seen_through_the_task(sampler, ask):
    whole = next(sampler._sample.blocks(100))
    of_view = {view.tobytes(): label for view, label in zip(whole.features[:, :2], TASK.of(whole).labels, strict=True)}
    seen = Records.joined(list(ask(sampler, RandomSource.seeded(1))))
    assert seen.dimension == sampler.dimension == 2
    assert [of_view[view.tobytes()] for view in seen.features] == list(seen.labels)
    assert set(seen.labels) == {-1, 1}


def test_a_learner_that_asks_for_distinct_draws_learns_the_task(sampler):
    learned: Any = learn_from(parse_learner({"name": "svm", "draws": COUNT}), sampler, RandomSource.seeded(1), None)
    assert len(learned.weights) == 2


def test_a_learner_that_reads_long_records_in_place_sees_the_task(sampler):
    features = np.random.default_rng(1).normal(size=(100, 90)).astype(np.float32)
    sample = LocalSample.of(Records(features, np.ones(100, dtype=np.int8)))
    assert sample.in_place is not None
    view = TaskSampler(sample, Reweighing(100, 0.2, 0.1).density(), Task(features=70, label=80))
    learned: Any = learn_from(
        parse_learner({"name": "sgd", "steps": 50, "noise": 1.0, "diameter": 2.0}), view, RandomSource.seeded(1), None
    )
    assert len(learned.weights) == 70
    drawn, located = view.draws(200, RandomSource.seeded(1)), view.located(200, RandomSource.seeded(1))
    np.testing.assert_array_equal(located.matrix, drawn.features)
    np.testing.assert_array_equal(located.labels, drawn.labels)


def test_long_rows_in_memory_are_seen_through_the_task_too():
    features = np.random.default_rng(1).normal(size=(100, 64)).astype(np.float32)
    sample = LocalSample.of(Records(features, np.ones(100, dtype=np.int8)))
    assert sample.in_place is not None
    task = Task(features=40, label=50)
    distinct = TaskSampler(sample, Reweighing(100, 0.2, 0.1).density(), task).distinct(COUNT, RandomSource.seeded(1))
    views = distinct.take(np.arange(len(distinct)))
    plane = Linear(weights=tuple(np.linspace(-1.0, 1.0, 40).tolist()), threshold=0.1)
    np.testing.assert_allclose(distinct.signed_margins(plane), plane.margins(views.features) * views.labels, atol=1e-5)
    draws = distinct.located(np.arange(0, 30, 3))
    assert draws.rows is None
    np.testing.assert_array_equal(draws.matrix, views.features[:30:3])
