"""The gradient query: each slot is one coordinate of the true gradient, scaled by a public bound."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.hypotheses.linear import Linear
from common.local.queries.gradient import GradientQuery
from common.local.records import Records
from tests.tiers import for_each

HYPOTHESIS = Linear(weights=(0.7, -1.2, 0.4), threshold=0.3)


def people(n):
    random = np.random.default_rng(1)
    return Records(random.uniform(-1, 1, (n, 3)).astype(np.float32), random.choice([-1, 1], n).astype(np.int8))


def logistic_loss(parameters, x, label):
    return np.log1p(np.exp(-label * (x @ parameters[:3] - parameters[3])))


@for_each("coordinate", range(4))
def test_each_slot_asks_one_coordinate_of_the_gradient_of_the_logistic_loss(coordinate):
    records = people(40)
    query = GradientQuery(hypothesis=HYPOTHESIS, bound=2.0)
    values = query.evaluate(records, np.full(40, coordinate))
    at, step = np.array([*HYPOTHESIS.weights, HYPOTHESIS.threshold]), 1e-5 * np.eye(4)[coordinate]
    for x, label, value in zip(records.features.astype(float), records.labels, values, strict=True):
        slope = (logistic_loss(at + step, x, label) - logistic_loss(at - step, x, label)) / 2e-5
        assert (2 * value - 1) * 2.0 == pytest.approx(slope, abs=1e-6)


def test_slots_go_round_the_coordinates():
    records = people(1).take([0] * 12)
    values = GradientQuery(hypothesis=HYPOTHESIS, bound=1.0).evaluate(records, np.arange(12))
    np.testing.assert_array_equal(values[:4], values[4:8])
    np.testing.assert_array_equal(values[:4], values[8:])
    assert len(set(values[:4])) == 4


def test_a_coordinate_beyond_the_bound_is_clipped():
    records = Records(np.array([[100, 0, 0], [-100, 0, 0]], dtype=np.float32), np.array([-1, 1], dtype=np.int8))
    hypothesis = Linear(weights=(0.0, 0.0, 0.0), threshold=0.0)
    values = GradientQuery(hypothesis=hypothesis, bound=1.0).evaluate(records, np.array([0, 0]))
    np.testing.assert_array_equal(values, [1.0, 1.0])


def test_descent_on_the_mean_answers_finds_the_half_space():
    # What the agents-only baseline does with the values, here without noise.
    random = np.random.default_rng(2)
    features = random.uniform(-1, 1, (3000, 3)).astype(np.float32)
    records = Records(features, np.where(features @ [1, -1, 0.5] > 0.2, 1, -1).astype(np.int8))
    parameters = np.zeros(4)
    for _ in range(60):
        hypothesis = Linear(weights=tuple(parameters[:3]), threshold=parameters[3])
        values = GradientQuery(hypothesis=hypothesis, bound=1.0).evaluate(records, np.arange(3000))
        parameters -= 4.0 * np.array([2 * values[j::4].mean() - 1 for j in range(4)])
    assert Linear(weights=tuple(parameters[:3]), threshold=parameters[3]).mistakes(records).mean() < 0.05


@for_each("bound", [0, -1, float("inf")])
def test_a_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(BadMessage, match="bound"):
        GradientQuery.parse({"hypothesis": HYPOTHESIS.wire(), "bound": bound})
