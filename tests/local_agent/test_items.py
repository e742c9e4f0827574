"""Questions about items: what an agent refuses before it looks, and what becomes of items that go wrong."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import local_agent.hosted.population as population_module
import local_agent.person.agent as agent_module
from common.core.errors import PolicyRefused
from common.data.population import TableRecordSource
from common.local.mechanisms.mechanism import Warner, parse_mechanism
from common.local.queries.features import CoordinateQuery, ItemQuery
from common.local.queries.query import LossQuery, parse_query
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answers import CONSTANT, answer_together, evaluate, noise_for, question_digest, randomize
from local_agent.hosted.population import Population
from local_agent.person.agent import Agent
from local_agent.policy import ALL_QUERIES, PersonalPolicy
from tests.local_agent.test_policy import LOSS, PERSON, POLICY, REFEREE, question
from tests.tiers import for_each

ITEM = {"kind": "item", "first": 1, "bits": 3, "public": 9}
ITEMS_POLICY = PersonalPolicy(REFEREE.public, 2.0, queries=ALL_QUERIES)
MISMATCHES = (
    ("name=warner", ITEM, "randomizes a value in .* the query says one of 8 items"),
    ("name=hadamard", LOSS, "randomizes an item, the query says a value"),
    ("name=krr", {**ITEM, "first": 0, "bits": 17}, "one of 2 to 65536 items"),
    ("name=olh", {**ITEM, "first": 22}, "needs 25 features, the record has 24"),
    ("epsilon=3", LOSS, "the lifetime budget is"),
)


def people(items: list[int]) -> Records:
    """People with 24 features, of which features 1 to 3 are the bits of their item; all others are ones."""
    features = np.ones((len(items), 24), dtype=np.uint8)
    features[:, 1:4] = [[item >> 2 & 1, item >> 1 & 1, item & 1] for item in items]
    return Records(features, np.ones(len(items), dtype=np.int8))


def test_what_a_mechanism_cannot_randomize_is_refused_before_anybody_is_looked_at(tmp_path, monkeypatch):
    def touched(*arguments: Any) -> Any:
        raise AssertionError("the record was touched")

    monkeypatch.setattr(agent_module, "evaluate", touched)
    monkeypatch.setattr(Records, "only", touched)
    monkeypatch.setattr(population_module, "answer_together", touched)
    both, source = TableRecordSource(people([5, 6])), RandomSource.seeded(1)
    with (
        closing(Agent(people([5]), ITEMS_POLICY, tmp_path / "agent")) as agent,
        closing(Population(both, ITEMS_POLICY, tmp_path / "people", source)) as population,
    ):
        for mechanism, query, why in MISMATCHES:
            for answerer in (agent, population):
                with pytest.raises(PolicyRefused, match=why):
                    answerer.answer(*question(f"agents.mechanism.{mechanism}", query=query))
                assert not answerer.answered


def test_nothing_is_randomized_by_what_cannot():
    for mechanism, query in (("warner", ITEM), ("krr", LOSS)):
        found = parse_mechanism({"name": mechanism, "epsilon": 1.0})
        with pytest.raises(PolicyRefused, match="cannot randomize what query"):
            randomize(parse_query(query), np.zeros(1), found, np.zeros(1, dtype=np.int64), RandomSource.secure())


@for_each("broken", ["raises", "floats", "negative", "shape", "text"])
def test_an_item_that_cannot_be_said_is_the_constant(monkeypatch, broken):
    def evaluate_badly(self: Any, records: Records, slots: Any) -> Any:
        if broken == "raises":
            raise ZeroDivisionError("this depends on the record")
        whole = {"floats": np.full(2, 3.0), "negative": np.full(2, -1), "shape": np.zeros((2, 3), dtype=np.uint64)}
        return whole.get(broken, np.array(["6", "7"]))[: len(records)]

    monkeypatch.setattr(ItemQuery, "evaluate", evaluate_badly)
    found = evaluate(parse_query(ITEM), people([5, 6]), np.arange(2))
    assert found.dtype == np.uint64
    assert found.tolist() == [CONSTANT, CONSTANT]
    beyond = np.array([7, (1 << 64) - 1], dtype=np.uint64)
    monkeypatch.setattr(ItemQuery, "evaluate", lambda self, records, slots: beyond)
    assert evaluate(parse_query(ITEM), people([5, 6]), np.arange(2)).tolist() == [7, 7]


COPIES = 20


def copies(folder: Path) -> list[Agent]:
    Agent(PERSON, POLICY, folder / "first").close()
    for number in range(COPIES):
        shutil.copytree(folder / "first", folder / f"copy-{number}")
    return [Agent(PERSON, POLICY, folder / f"copy-{number}") for number in range(COPIES)]


@for_each("asked", ["the same assignment", "other slots", "other runs"])
def test_copies_of_a_person_answer_alike(tmp_path, asked):
    """Independent answers at epsilon 2 would all agree with probability below 0.9^20 = 0.13; slots and runs are new."""
    answers, reports = set(), set()
    for number, agent in enumerate(copies(tmp_path)):
        run = f"run-{number}" if asked == "other runs" else "run"
        slots = (number,) if asked == "other slots" else (3,)
        with closing(agent):
            report = messages.Report.parse(agent.answer(*question(slots=slots, run=run)).message)
        answers.add(report.answer)
        reports.add(report.report_id)
    assert len(answers) == 1
    assert asked != "the same assignment" or len(reports) == 1


def uniforms(query, slot, person, secret=None):
    what, part = question_digest(query, Warner(epsilon=1.0)), int(query.parts(np.array([slot]))[0])
    return noise_for(what, part, person, secret or RandomSource(bytes(32), simulated=False)).words(2)


def test_noise_belongs_to_the_question_the_part_the_record_and_the_secret():
    loss, other = (LossQuery.parse({**LOSS, "loss": name}) for name in ("zero-one", "hinge"))
    first = uniforms(loss, 0, "a")
    assert (uniforms(loss, 9, "a") == first).all()
    another = RandomSource(bytes(31) + b"1", simulated=False)
    for different in (uniforms(other, 0, "a"), uniforms(loss, 0, "b"), uniforms(loss, 0, "a", another)):
        assert (different != first).all()
    coordinate = CoordinateQuery(first=0, count=4)
    assert (uniforms(coordinate, 1, "a") == uniforms(coordinate, 5, "a")).all()
    assert (uniforms(coordinate, 1, "a") != uniforms(coordinate, 2, "a")).all()


def test_copies_of_a_host_answer_alike_whoever_is_asked_beside_each_person():
    generator = np.random.default_rng(1)
    people = TableRecordSource(Records(generator.random((300, 8)).astype(np.float32), np.ones(300, dtype=np.int8)))
    secret, everybody = RandomSource(bytes(range(32)), simulated=False), np.arange(300)
    query, mechanism = LossQuery.parse(LOSS), Warner(epsilon=0.5)
    first = answer_together(query, mechanism, people, everybody, everybody, secret)
    order = generator.permutation(300)[:100]
    again = answer_together(query, mechanism, people, order, np.arange(100), secret)
    np.testing.assert_array_equal(again, first[order])
    other = answer_together(query, mechanism, people, everybody, everybody, RandomSource(bytes(32), simulated=False))
    assert 60 < (first != other).sum() < 240
