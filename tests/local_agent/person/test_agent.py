"""One person: one answer in a life, on disk before it leaves, whatever happens."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from common.core.errors import AlreadyAnswered, BadData, BadInput, BadMessage, PolicyRefused, TandemError
from common.crypto.identity import verify
from common.local.hypotheses.linear import Linear
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answering import evaluate, randomize_one
from local_agent.person import agent as agent_module
from local_agent.person.agent import Agent
from tests.local_agent.test_policy import LOSS, POLICY, REFEREE, assignment, configuration
from tests.support import seal

PERSON = Records(np.zeros((1, 8), dtype=np.float32), np.ones(1, dtype=np.int8))


@pytest.fixture
def agent(tmp_path):
    found = Agent(PERSON, POLICY, tmp_path)
    yield found
    found.close()


def answer_of(signed) -> float:
    return messages.Report.parse(verify(signed, messages.Report.KIND)).answer


def test_it_answers_once_and_then_repeats_itself(agent):
    agreed = configuration()
    its = seal(REFEREE, agreed)
    assert (agent.answered, agent.report) == (False, None)
    first = agent.answer(assignment(agreed), its)
    assert agent.answered
    assert answer_of(first) in (0.0, 1.0)
    assert agent.answer(assignment(agreed), its) == first == agent.report
    for other in (assignment(agreed, question=2), assignment(agreed, slots=(4,))):
        with pytest.raises(AlreadyAnswered):
            agent.answer(other, its)
    second = configuration(run="second")
    with pytest.raises(AlreadyAnswered):
        agent.answer(assignment(second), seal(REFEREE, second))


def test_what_it_spent_survives_a_restart(agent, tmp_path):
    agreed = configuration()
    first = agent.answer(assignment(agreed), seal(REFEREE, agreed))
    agent.close()
    again = Agent(PERSON, POLICY, tmp_path)
    assert again.identity.public == agent.identity.public
    assert again.answer(assignment(agreed), seal(REFEREE, agreed)) == first
    with pytest.raises(AlreadyAnswered):
        again.answer(assignment(agreed, question=2), seal(REFEREE, agreed))
    again.close()
    stored = json.loads((tmp_path / "answered.json").read_bytes())
    assert (stored["epsilon"], stored["delta"]) == (2.0, 0.0)
    assert (tmp_path / "answered.json").stat().st_mode & 0o077 == 0


def test_what_is_on_disk_is_all_that_an_answer_costs(tmp_path):
    frank = Agent(PERSON, replace(POLICY, epsilon=math.inf), tmp_path)
    agreed = configuration("agents.mechanism={name: none}")
    frank.answer(assignment(agreed), seal(REFEREE, agreed))
    stored = json.loads((tmp_path / "answered.json").read_bytes())
    assert (stored["epsilon"], stored["delta"]) == (math.inf, 1.0)
    frank.close()


def test_a_crash_before_it_is_on_disk_sends_nothing_and_spends_nothing(agent, monkeypatch):
    agreed = configuration()

    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(agent_module, "write_durably", full)
    with pytest.raises(OSError, match="no space"):
        agent.answer(assignment(agreed), seal(REFEREE, agreed))
    assert not agent.answered
    monkeypatch.undo()
    agent.answer(assignment(agreed), seal(REFEREE, agreed))


@pytest.mark.parametrize(
    ("people", "slots"), [((), ()), ((1,), (0,)), ((0, 0), (0, 1)), ((0, 1), (0, 1)), ((0,), (0, 1)), ((0,), ())]
)
def test_an_assignment_names_exactly_this_person(agent, people, slots):
    agreed = configuration()
    with pytest.raises(BadMessage, match="one person"):
        agent.answer(assignment(agreed, people, slots), seal(REFEREE, agreed))
    assert not agent.answered


@pytest.mark.parametrize("text", ["%%%", "AAA", "AAAAAAA=", "AAAA" * 3 + "AA=="])
def test_indices_that_are_no_indices_are_refused(agent, text):
    agreed = configuration()
    with pytest.raises(TandemError):
        agent.answer(REFEREE.sign("assignment", {**assignment(agreed).message, "people": text}), seal(REFEREE, agreed))
    assert not agent.answered


def test_a_refused_question_does_not_touch_the_record(agent, monkeypatch):
    def touched(*arguments: Any) -> Any:
        raise AssertionError("the record was touched")

    monkeypatch.setattr(agent_module, "evaluate", touched)
    agreed = configuration("agents.mechanism.epsilon=3")
    with pytest.raises(PolicyRefused):
        agent.answer(assignment(agreed), seal(REFEREE, agreed))
    assert not agent.answered


@pytest.mark.parametrize("broken", ["raises", "nan", "shape", "huge"])
def test_a_query_that_goes_wrong_is_answered_like_any_other(agent, monkeypatch, broken):
    def evaluate_badly(self: Any, records: Records, slots: Any) -> Any:
        if broken == "raises":
            raise ZeroDivisionError("this depends on the record")
        return {"nan": np.array([np.nan]), "shape": np.zeros((1, 3)), "huge": np.array([1e308])}[broken]

    monkeypatch.setattr(LossQuery, "evaluate", evaluate_badly)
    agreed = configuration()
    assert answer_of(agent.answer(assignment(agreed), seal(REFEREE, agreed))) in (0.0, 1.0)


def test_what_goes_wrong_becomes_the_constant_and_is_still_randomized(monkeypatch):
    """4000 answers to a query that raises: ones come with 1 - p = 0.119 (epsilon 2), within 6 standard errors."""

    def fail(self: Any, records: Records, slots: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(LossQuery, "evaluate", fail)
    query = LossQuery(hypothesis=Linear.parse(LOSS["hypothesis"]))
    values = evaluate(query, PERSON, np.zeros(1, dtype=np.int64))
    assert values.tolist() == [0.0]
    mechanism = parse_mechanism({"name": "warner", "epsilon": 2.0})
    source = RandomSource.seeded(1)
    slots = np.zeros(1, dtype=np.int64)
    ones = sum(randomize_one(query, values, mechanism, slots, source) for _ in range(4000)) / 4000
    lie = 1 / (1 + np.exp(2))
    assert abs(ones - lie) < 6 * np.sqrt(lie * (1 - lie) / 4000)


def test_values_are_clamped_before_they_are_randomized(monkeypatch):
    monkeypatch.setattr(LossQuery, "evaluate", lambda self, records, slots: np.array([-7.0, 0.25, 9.0, np.inf]))
    query = LossQuery(hypothesis=Linear.parse(LOSS["hypothesis"]))
    people = Records(np.zeros((4, 8), dtype=np.float32), np.ones(4, dtype=np.int8))
    assert evaluate(query, people, np.arange(4)).tolist() == [0.0, 0.25, 1.0, 1.0]


def test_mechanisms_with_real_answers_are_sampled_too():
    mechanism = parse_mechanism({"name": "laplace", "epsilon": 1.0})
    query = LossQuery(hypothesis=Linear.parse(LOSS["hypothesis"]))
    value, slots, source = np.array([0.5]), np.zeros(1, dtype=np.int64), RandomSource.secure()
    drawn = [randomize_one(query, value, mechanism, slots, source) for _ in range(50)]
    assert len(set(drawn)) > 4
    assert np.isfinite(drawn).all()


def test_it_has_exactly_one_acceptable_record(tmp_path):
    with pytest.raises(BadData, match="exactly one record, found 2"):
        Agent(Records(np.zeros((2, 8), dtype=np.float32), np.ones(2, dtype=np.int8)), POLICY, tmp_path)
    with pytest.raises(BadData, match="NaN"):
        Agent(Records(np.full((1, 8), np.nan, dtype=np.float32), np.ones(1, dtype=np.int8)), POLICY, tmp_path)
    with pytest.raises(BadData, match="label outside"):
        Agent(Records(np.zeros((1, 8), dtype=np.float32), np.zeros(1, dtype=np.int8)), POLICY, tmp_path)


def test_two_processes_cannot_both_be_this_person(agent, tmp_path):
    with pytest.raises(BadInput, match="in use by another process"):
        Agent(PERSON, POLICY, tmp_path)


def test_nothing_is_left_of_a_lifetime_budget_that_is_smaller_than_what_was_spent(tmp_path):
    # An answer of before the lifetime budget was kept with it, and a policy that was lowered since.
    with closing(Agent(PERSON, POLICY, tmp_path)) as first:
        agreed = configuration()
        first.answer(assignment(agreed), seal(REFEREE, agreed))
    stored = json.loads((tmp_path / agent_module.ANSWERED).read_bytes())
    del stored["lifetime"], stored[agent_module.SEAL]
    (tmp_path / agent_module.ANSWERED).write_text(json.dumps(stored))
    with closing(Agent(PERSON, replace(POLICY, epsilon=stored["epsilon"] / 2), tmp_path)) as later:
        assert f"of the lifetime budget {stored['epsilon'] / 2:g}; 0 is left" in later.spent
