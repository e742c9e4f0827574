"""The laboratory computes what a deployment computes, for simulated people only."""

from __future__ import annotations

import json

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.hypotheses.linear import Linear
from common.local.queries.loss import LossQuery
from deploy.simulation import SimulatedAgents, conduct
from tests.support import tiny

PLANE = LossQuery(hypothesis=Linear(weights=(1.0,) * 8, threshold=0.0))


def ignore(round_: int, hypothesis: object) -> None:
    """Record nothing."""


def test_the_same_seed_is_the_run_of_a_deployment(undisturbed):
    told = []
    outcome = conduct(tiny(), 1, lambda round_, hypothesis: told.append((round_, hypothesis)))
    assert [round_ for round_, _ in told] == [1, 2, 3]
    result = undisturbed[1].result
    assert (outcome.status, outcome.iterations) == (result["status"], result["iterations"]) == ("exhausted", 3)
    assert outcome.answer.wire() == result["answer"]
    assert outcome.estimate.wire() == result["estimate"]
    entries = [json.loads(line) for line in undisturbed[1].transcript.splitlines()]
    released = [entry["body"]["release"]["message"]["result"] for entry in entries if "release" in entry["body"]]
    assert [h.wire() for _, h in told] == [r["hypothesis"] for r in released if "hypothesis" in r]


def test_the_same_seed_is_the_same_experiment_and_another_seed_another():
    first, again, other = (conduct(tiny(), seed, ignore) for seed in (1, 1, 2))
    assert first == again
    assert first.answer != other.answer


def test_the_sample_is_kept_as_the_scenario_says():
    fixed = conduct(tiny("curator.storage.numbers=fixed"), 1, ignore)
    mapped = conduct(tiny("curator.storage.numbers=fixed", "curator.storage.place=disk"), 1, ignore)
    assert fixed == mapped
    assert fixed != conduct(tiny(), 1, ignore)


def test_everybody_is_asked_once_until_nobody_is_left():
    simulated_agents = SimulatedAgents(tiny("agents.count=5000"), 1)
    first, second, third, none = (simulated_agents.answer(PLANE, 2000) for _ in range(4))
    assert [answers.asked for answers in (first, second, third, none)] == [2000, 2000, 1000, 0]
    assert list(first.slots[:3]) == [0, 1, 2]
    assert len(none.values) == 0
    assert not np.array_equal(first.values, second.values)


def test_a_pool_answers_the_same_again_and_from_its_beginning_when_it_is_through():
    chosen = tiny("agents.mechanism={name: none}")
    simulated_agents = SimulatedAgents(chosen, 1, pool=1000)
    first, again = simulated_agents.answer(PLANE, 1000), simulated_agents.answer(PLANE, 2500)
    assert np.array_equal(first.values, again.values[:1000])
    assert np.array_equal(again.values[:1000], again.values[1000:2000])
    assert np.array_equal(again.slots, np.arange(2500))


def test_a_pool_is_refused_where_answers_are_protected():
    with pytest.raises(BadScenario, match="pool"):
        SimulatedAgents(tiny(), 1, pool=1000)


def test_people_who_never_answer_are_refused():
    with pytest.raises(BadScenario, match="dropout"):
        SimulatedAgents(tiny("agents.dropout=0.25"), 1)


def test_answers_are_unbiased_for_the_loss_on_the_target():
    chosen = tiny("agents.mechanism={name: none}", "agents.count=60000")
    answers = SimulatedAgents(chosen, 1).answer(PLANE, 60000)
    population = SimulatedAgents(chosen, 2).answer(PLANE, 60000)
    # The difference of two means of bits over 60,000 people each: deviation at most 0.0029.
    assert abs(float(answers.values.mean()) - float(population.values.mean())) < 6 * 0.0029


def test_real_people_are_refused():
    real = tiny().model_copy(update={"people": "real"})
    with pytest.raises(BadScenario, match="real"):
        conduct(real, 1, ignore)
