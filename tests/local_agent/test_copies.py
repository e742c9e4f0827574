"""Copies of a state directory are the same person: the same question gets the same answer from each of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from common.crypto.identity import verify
from common.data.population import TableRecordSource
from common.local.mechanisms.warner import Warner
from common.local.queries.coordinate import CoordinateQuery
from common.local.queries.loss import LossQuery
from common.local.queries.query import QUERIES
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answering import noise_for, question_digest
from local_agent.hosted.answers import answer_together
from local_agent.person.agent import Agent
from local_agent.policy import Policy
from tests.local_agent.test_policy import LOSS, POLICY, REFEREE, assignment, configuration
from tests.support import seal
from tests.tiers import for_each

PERSON = Records(np.zeros((1, 8), dtype=np.float32), np.ones(1, dtype=np.int8))
COPIES = 20


def copies(folder: Path, record: Records = PERSON, policy: Policy = POLICY) -> list[Agent]:
    Agent(record, policy, folder / "first").close()
    for number in range(COPIES):
        shutil.copytree(folder / "first", folder / f"copy-{number}")
    return [Agent(record, policy, folder / f"copy-{number}") for number in range(COPIES)]


@for_each("asked", ["the same assignment", "other slots", "other runs"])
def test_copies_of_a_person_answer_alike(tmp_path, asked):
    """Independent answers at epsilon 2 would all agree with probability below 0.9^20 = 0.13; slots and runs are new."""
    answers, reports = set(), set()
    for number, agent in enumerate(copies(tmp_path)):
        run = f"run-{number}" if asked == "other runs" else "run"
        slots = (number,) if asked == "other slots" else (3,)
        agreed = configuration(run=run)
        signed = agent.answer(assignment(agreed, slots=slots), seal(REFEREE, agreed))
        report = messages.Report.parse(verify(signed, messages.Report.KIND))
        answers.add(report.answer)
        reports.add(report.report_id)
        agent.close()
    assert len(answers) == 1
    assert asked != "the same assignment" or len(reports) == 1


def uniforms(query, slot, person, secret=None):
    what, part = question_digest(query, Warner(epsilon=1.0)), int(query.parts(np.array([slot]))[0])
    return noise_for(what, part, person, secret or RandomSource(bytes(32), simulated=False)).words(2)


def test_noise_belongs_to_the_question_the_part_the_record_and_the_secret():
    loss, other = (LossQuery.parse({**LOSS, "loss": name}) for name in ("zero-one", "hinge"))
    first = uniforms(loss, 0, "a")
    assert (uniforms(loss, 9, "a") == first).all()
    for different in (
        uniforms(other, 0, "a"),
        uniforms(loss, 0, "b"),
        uniforms(loss, 0, "a", RandomSource(bytes(31) + b"1", simulated=False)),
    ):
        assert (different != first).all()
    coordinate = CoordinateQuery(first=0, count=4)
    assert (uniforms(coordinate, 1, "a") == uniforms(coordinate, 5, "a")).all()
    assert (uniforms(coordinate, 1, "a") != uniforms(coordinate, 2, "a")).all()


@for_each("name", QUERIES.names())
def test_slots_of_the_same_part_are_asked_the_same(name):
    """The contract of ``parts``: where two slots have the same part, every record has the same value there."""
    for query in QUERIES[name].example():
        generator = np.random.default_rng(1)
        width = query.min_features
        features = generator.integers(0, 2, (200, width)).astype(np.float32)
        records = Records(features, (2 * generator.integers(0, 2, 200) - 1).astype(np.int8)).only(query.columns)
        slots = generator.integers(0, 50, 200)
        parts = query.parts(slots)
        for part in np.unique(parts):
            same = slots[parts == part]
            for slot in (same.min(), same.max()):
                np.testing.assert_array_equal(
                    query.evaluate(records, np.full(200, slot)), query.evaluate(records, np.full(200, same[0]))
                )


def test_copies_of_a_host_answer_alike_whoever_is_asked_beside_each_person():
    generator = np.random.default_rng(1)
    people = TableRecordSource(
        Records(generator.random((300, 8)).astype(np.float32), np.ones(300, dtype=np.int8))
    )  # fmt: skip
    secret = RandomSource(bytes(range(32)), simulated=False)
    query, mechanism = LossQuery.parse(LOSS), Warner(epsilon=0.5)
    everybody = np.arange(300)
    first = answer_together(query, mechanism, people, everybody, everybody, secret)
    order = generator.permutation(300)[:100]
    again = answer_together(query, mechanism, people, order, np.arange(100), secret)
    np.testing.assert_array_equal(again, first[order])
    other = answer_together(query, mechanism, people, everybody, everybody, RandomSource(bytes(32), simulated=False))
    assert 60 < (first != other).sum() < 240


def test_answers_of_real_hosts_have_the_mechanisms_law():
    """With noise for each person alone: of 20,000 people with loss 0, each says 1 with 1 - p, within 5 deviations."""
    people = TableRecordSource(Records(np.zeros((20_000, 8), dtype=np.float32), np.ones(20_000, dtype=np.int8)))
    mechanism, query = Warner(epsilon=1.0), LossQuery.parse(LOSS)
    value = float(query.evaluate(people.records(np.arange(1)), np.zeros(1, dtype=np.int64))[0])
    secret = RandomSource(bytes(range(32)), simulated=False)
    answers = answer_together(query, mechanism, people, np.arange(20_000), np.arange(20_000), secret)
    ones = (1 - mechanism.truth) + (2 * mechanism.truth - 1) * value
    assert abs(answers.mean() - ones) < 5 * np.sqrt(ones * (1 - ones) / 20_000)


def test_an_answer_names_the_lifetime_budget_and_what_is_left(tmp_path):
    agent = Agent(PERSON, Policy(REFEREE.public, 5.0), tmp_path)
    assert "nothing is spent of the lifetime budget, epsilon 5" in agent.spent
    agreed = configuration()
    agent.answer(assignment(agreed), seal(REFEREE, agreed))
    assert "cost epsilon 2 of the lifetime budget 5; 3 is left" in agent.spent
    agent.close()
