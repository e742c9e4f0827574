"""Local gradient descent is gradient descent: fed exact answers, against a plain one; fed randomized ones, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.answers import Answers, AskAgents
from common.local.queries.gradient import GradientQuery
from common.local.records import Records
from deploy.simulation import conduct
from referee.protocols.base import protocol_of
from referee.protocols.local import MAX_STEPS, MIN_PER_COORDINATE, TESTED
from tests.support import small

NAME = "local-gradient-descent"


def test_the_same_iterates_as_plain_descent_and_the_sum_of_their_later_half():
    """Each agent answers one coordinate; here all coordinates are asked of the same records, without noise."""
    norms = [f"{side}.distribution.norm=2.0" for side in ("source", "target")]
    chosen = small(NAME, "agents.mechanism={name: none}", "agents.count=40000", *norms)
    d, norm, asked = chosen.target.dimension, chosen.target.norm, []
    generator = np.random.default_rng(3)
    x = generator.normal(size=(20, d)).astype(np.float32)
    x *= norm / (1.01 * np.linalg.norm(x, axis=1, keepdims=True))
    labels = np.where(x[:, 0] > 0.1, 1, -1).astype(np.int8)
    script = protocol_of(chosen).script(chosen, 7)
    step, reply, outcome = next(script), None, None
    while outcome is None:
        reply = None
        if isinstance(step, AskAgents):
            asked.append(step.count)
            slots = np.arange(20 * (d + 1))
            records = Records(x[slots // (d + 1)], labels[slots // (d + 1)])
            reply = Answers(step.count, step.query.evaluate(records, slots).astype(np.float64), slots)
        try:
            step = script.send(reply)
        except StopIteration as end:
            outcome = end.value
    learning = int(40_000 * (1 - TESTED))
    steps = min(MAX_STEPS, learning // (MIN_PER_COORDINATE * (d + 1)))
    assert steps > 2
    assert outcome.iterations == steps
    assert asked == [*steps * [learning // steps], 40_000 - learning]
    features = np.column_stack([x.astype(np.float64), -np.ones(20)])  # the threshold is the last parameter
    iterate, total = np.zeros(d + 1), np.zeros(d + 1)
    for number in range(1, steps + 1):
        weight = labels / (1.0 + np.exp(labels * (features @ iterate)))
        iterate = iterate + 4.0 / (norm**2 + 1.0) * (features * weight[:, None]).mean(axis=0)
        total += iterate * (number > steps / 2)
    assert [*outcome.answer.weights, outcome.answer.threshold] == pytest.approx(total.tolist(), rel=1e-5, abs=1e-7)
    assert (np.sign(features @ total) == labels).mean() > 0.8


def test_coordinates_about_which_nobody_answers_stay_where_they_are():
    chosen = small(NAME, "agents.count=40000")
    script = protocol_of(chosen).script(chosen, 7)
    step: Any = next(script)
    hypotheses: list[Any] = []
    while len(hypotheses) < 2:
        reply = None
        if isinstance(step, AskAgents) and isinstance(step.query, GradientQuery):
            hypotheses.append(step.query.hypothesis)
            reply = Answers(step.count, np.ones(3, dtype=np.uint8), np.zeros(3, dtype=np.int64))
        step = script.send(reply)
    first, *others = hypotheses[1].weights
    assert first != 0.0
    assert (others, hypotheses[1].threshold) == ([0.0] * (chosen.target.dimension - 1), 0.0)


def test_what_it_cannot_work_with_is_refused_before_anybody_is_asked():
    with pytest.raises(BadScenario, match="bounded norm"):
        small(NAME, "target.distribution.norm=null", "source.distribution.norm=null")


def test_with_enough_agents_it_learns():
    """Half of the people are inside the ball, and a constant is wrong about half of them."""
    chosen = small(NAME, "agents.mechanism.epsilon=4", "agents.count=60000", "target.distribution.inside=0.5")
    outcome = conduct(chosen, 1, lambda *a: None)
    assert outcome.status == "exhausted"
    assert outcome.estimate.high < 0.4
