"""A hypothesis about another label: held against a column, blind to it, and never a way around what a party accepts."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.relabelled import Relabelled, Task
from common.local.losses import evaluate
from common.local.records import Records
from common.planning.plan import plan
from common.scenario.loading import load
from tests.common.local.hypotheses.onnx_models import linear, wire
from tests.support import tiny
from tests.tiers import for_each

PLANE = {"kind": "linear", "weights": [1.0], "threshold": 0.25}
HYPOTHESIS = parse_hypothesis({"kind": "relabelled", "column": 1, "hypothesis": PLANE})
RECORDS = Records(
    np.array([[0.75, 1.0], [0.75, 0.0], [-0.25, 1.0], [-0.25, 0.0]], dtype=np.float32), -np.ones(4, dtype=np.int8)
)


@for_each(
    ("loss", "expected"), [("zero-one", [0, 1, 1, 0]), ("hinge", [0.5, 1, 1, 0.5]), ("perceptron", [0, 0.5, 0.5, 0])]
)
def test_every_loss_is_held_against_the_column(loss, expected):
    assert evaluate(loss, HYPOTHESIS, RECORDS).tolist() == expected


def test_it_needs_the_column():
    assert HYPOTHESIS.min_features == 2


def test_a_hypothesis_that_sees_the_label_is_refused():
    with pytest.raises(BadMessage, match="features before it only"):
        parse_hypothesis({"kind": "relabelled", "column": 1, "hypothesis": {**PLANE, "weights": [1.0, 1.0]}})


@for_each("inner", [HYPOTHESIS.wire(), wire(linear([1.0], 0.25)), {"kind": "pickle"}, {"kind": [1]}, None])
def test_what_a_party_accepts_by_choice_only_does_not_come_in_through_it(inner):
    with pytest.raises(BadMessage, match="cannot be part of another"):
        parse_hypothesis({"kind": "relabelled", "column": 3, "hypothesis": inner})


THREE = Records(np.array([[1, 2, 0], [3, 4, 1]], dtype=np.float32), np.array([1, -1], dtype=np.int8))


def test_a_view_has_the_first_features_and_one_label():
    own, other = Task(features=2).of(THREE), Task(features=1, label=2).of(THREE)
    assert (own.features.tolist(), own.labels.tolist()) == ([[1, 2], [3, 4]], [1, -1])
    assert (other.features.tolist(), other.labels.tolist()) == ([[1], [3]], [-1, 1])
    assert own.features.flags.c_contiguous
    assert (Task(features=2).min_features, Task(features=1, label=2).min_features) == (2, 3)


def test_losses_on_views_are_losses_on_records():
    task, hypothesis = Task(features=1, label=2), Linear(weights=(1.0,), threshold=4.0)
    np.testing.assert_array_equal(hypothesis.mistakes(task.of(THREE)), task.about(hypothesis).mistakes(THREE))
    assert task.about(hypothesis) == Relabelled(column=2, hypothesis=hypothesis)
    assert Task(features=2).about(hypothesis) is hypothesis


def test_a_label_among_the_features_is_refused():
    with pytest.raises(ValidationError, match="a model would see it"):
        Task(features=3, label=2)
    with pytest.raises(BadMessage, match="features before it only"):
        Task(features=1, label=2).about(Linear(weights=(1.0, 1.0, 1.0), threshold=0.0))


@for_each(
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
