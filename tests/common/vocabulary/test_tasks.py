"""Tasks: a public view of one record, and hypotheses that say which label they are about."""

import numpy as np
import pytest
from pydantic import ValidationError

from common.core.errors import BadMessage, BadScenario
from common.planning.plan import plan
from common.scenario.loading import load
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.hypotheses.relabelled import Relabelled
from common.vocabulary.records import Records
from common.vocabulary.tasks import Task
from tests.support import tiny

RECORDS = Records(np.array([[1, 2, 0], [3, 4, 1]], dtype=np.float32), np.array([1, -1], dtype=np.int8))


def test_a_view_has_the_first_features_and_one_label():
    own, other = Task(features=2).of(RECORDS), Task(features=1, label=2).of(RECORDS)
    assert (own.features.tolist(), own.labels.tolist()) == ([[1, 2], [3, 4]], [1, -1])
    assert (other.features.tolist(), other.labels.tolist()) == ([[1], [3]], [-1, 1])
    assert own.features.flags.c_contiguous
    assert (Task(features=2).min_features, Task(features=1, label=2).min_features) == (2, 3)


def test_losses_on_views_are_losses_on_records():
    task, hypothesis = Task(features=1, label=2), Linear(weights=(1.0,), threshold=4.0)
    np.testing.assert_array_equal(hypothesis.mistakes(task.of(RECORDS)), task.about(hypothesis).mistakes(RECORDS))
    assert task.about(hypothesis) == Relabelled(column=2, hypothesis=hypothesis)
    assert Task(features=2).about(hypothesis) is hypothesis


def test_a_label_among_the_features_is_refused():
    with pytest.raises(ValidationError, match="a model would see it"):
        Task(features=3, label=2)
    with pytest.raises(BadMessage, match="features before it only"):
        Task(features=1, label=2).about(Linear(weights=(1.0, 1.0, 1.0), threshold=0.0))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["tasks=[{features: 8}]"], "tasks are for protocol hand-over"),
        (["protocol=hand-over", "tasks=[{features: 8}]"], "baselines are for one label"),
        (["protocol=hand-over", "tasks=[{features: 8, label: 8}]", "baselines=[]"], "tasks need 9 features"),
    ],
)
def test_a_scenario_whose_tasks_do_not_fit_is_refused(overrides, words):
    with pytest.raises(BadScenario, match=words):
        tiny(*overrides)


@pytest.mark.slow
def test_each_further_task_costs_one_more_round():
    one = plan(load("hand-over", ["tasks=[{features: 8}]"])).rounds.value
    assert plan(load("hand-over")).rounds.value == one + 1
