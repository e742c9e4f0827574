"""Questions about items: what an agent refuses before it looks, and what becomes of items that go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import local_agent.hosted.population as population_module
import local_agent.person.agent as agent_module
from common.core.errors import PolicyRefused
from common.data.population import TableRecordSource
from common.local.mechanisms.frequency import public_words
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.item import ItemQuery
from common.local.queries.query import parse_query
from common.local.records import Records
from common.numerics.randomness import RandomSource
from local_agent.answering import CONSTANT, evaluate, randomize, randomize_one
from local_agent.hosted.answers import answer_together
from local_agent.hosted.population import Population
from local_agent.person.agent import Agent
from local_agent.policy import ALL_QUERIES, Policy
from tests.local_agent.test_policy import LOSS, REFEREE, assignment, configuration
from tests.support import seal
from tests.tiers import for_each

ITEM = {"kind": "item", "first": 1, "bits": 3, "public": 9}
POLICY = Policy(REFEREE.public, 2.0, queries=ALL_QUERIES)
ORACLES = ["krr", "olh", "hadamard"]
MISMATCHES = {
    "an item, for a mechanism of values": ("warner", ITEM, "randomizes a value in .* the query says one of 8 items"),
    "an item, for noise": ("laplace", ITEM, "the query says one of 8 items"),
    "a loss, for an oracle": ("krr", LOSS, "randomizes an item, the query says a value"),
    "a loss, for another oracle": ("hadamard", LOSS, "randomizes an item, the query says a value"),
    "more items than an answer can name": ("krr", {**ITEM, "first": 0, "bits": 17}, "one of 2 to 65536 items"),
    "more features than the record has": ("olh", {**ITEM, "first": 22}, "needs 25 features, the record has 24"),
}


def people(items: list[int]) -> Records:
    """People with 24 features, of which features 1 to 3 are the bits of their item; all others are ones."""
    features = np.ones((len(items), 24), dtype=np.uint8)
    features[:, 1:4] = [[item >> 2 & 1, item >> 1 & 1, item & 1] for item in items]
    return Records(features, np.ones(len(items), dtype=np.int8))


@for_each("name", sorted(MISMATCHES))
def test_what_a_mechanism_cannot_randomize_is_refused_before_anybody_is_looked_at(name, tmp_path, monkeypatch):
    mechanism, query, why = MISMATCHES[name]

    def touched(*arguments: Any) -> Any:
        raise AssertionError("the record was touched")

    monkeypatch.setattr(agent_module, "evaluate", touched)
    monkeypatch.setattr(Records, "only", touched)
    monkeypatch.setattr(population_module, "answer_together", touched)
    agreed = configuration(f"agents.mechanism.name={mechanism}")
    its, asked = seal(REFEREE, agreed), assignment(agreed, query=query)
    agent = Agent(people([5]), POLICY, tmp_path / "agent")
    population = Population(TableRecordSource(people([5, 6])), POLICY, tmp_path / "people", RandomSource.seeded(1))
    for answerer in (agent, population):
        with pytest.raises(PolicyRefused, match=why):
            answerer.answer(asked, its)
        assert not answerer.answered
        answerer.close()


def test_an_agent_that_accepts_losses_alone_is_not_asked_for_its_item(tmp_path):
    agreed = configuration("agents.mechanism.name=krr")
    agent = Agent(people([5]), Policy(REFEREE.public, 2.0, queries=frozenset({"loss"})), tmp_path)
    with pytest.raises(PolicyRefused, match="questions of kind 'item' are not accepted; accepted: loss "):
        agent.answer(assignment(agreed, query=ITEM), seal(REFEREE, agreed))
    assert not agent.answered
    agent.close()


@pytest.mark.parametrize(("mechanism", "query"), [("warner", ITEM), ("krr", LOSS)])
def test_nothing_is_randomized_by_what_cannot(mechanism, query):
    """The second line of defence: whoever calls the randomizer without having checked gets nothing."""
    asked, found = parse_query(query), parse_mechanism({"name": mechanism, "epsilon": 1.0})
    for call in (randomize, randomize_one):
        with pytest.raises(PolicyRefused, match="cannot randomize what query"):
            call(asked, np.zeros(1), found, np.zeros(1, dtype=np.int64), RandomSource.secure())


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


def test_one_persons_failure_changes_nobody_elses_item(monkeypatch):
    honest = ItemQuery.evaluate

    def touchy(self: Any, records: Records, slots: Any) -> Any:
        items = honest(self, records, slots)
        if 6 in items:
            raise ArithmeticError("six")
        return items

    monkeypatch.setattr(ItemQuery, "evaluate", touchy)
    query = parse_query(ITEM)
    records = people([5, 6, 7, 6, 1]).only(query.columns)
    assert evaluate(query, records, np.arange(5)).tolist() == [5, CONSTANT, 7, CONSTANT, 1]


def test_items_beyond_the_domain_are_clamped(monkeypatch):
    beyond = np.array([7, 8, (1 << 64) - 1], dtype=np.uint64)
    monkeypatch.setattr(ItemQuery, "evaluate", lambda self, records, slots: beyond)
    assert evaluate(parse_query(ITEM), people([0, 0, 0]), np.arange(3)).tolist() == [7, 7, 7]


@for_each("mechanism", ORACLES)
def test_the_public_word_is_that_of_the_question_and_the_slot(mechanism):
    """1000 people together and one by one: own items are supported with p, not q, within 5.5 standard errors."""
    oracle: Any = parse_mechanism({"name": mechanism, "epsilon": 3.0})
    query, items = parse_query(ITEM), [5, 6, 0, 7, 3] * 200
    slots, records, source = np.random.default_rng(1).permutation(1000), people(items), RandomSource.seeded(1)
    together = answer_together(query, oracle, TableRecordSource(records), np.arange(1000), slots, source)
    said = evaluate(query, records.only(query.columns), slots)
    assert said.tolist() == items
    alone = [randomize_one(query, said[i : i + 1], oracle, slots[i : i + 1], source) for i in range(1000)]
    words, (p, q) = public_words(9, slots), oracle.rates(query.domain)
    error = 5.5 * np.sqrt(p * (1 - p) / 1000)
    assert q < p - 2 * error
    for answers in (together, np.array(alone).astype(together.dtype)):
        own = [
            oracle.supports(answers[i : i + 1], query.domain, words[i : i + 1], said[i : i + 1])[0] for i in range(1000)
        ]
        assert abs(np.mean(own) - p) < error
