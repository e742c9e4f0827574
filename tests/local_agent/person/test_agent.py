"""One person: one answer in a life, on disk before it leaves, whatever happens."""

import json
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from common.core.errors import AlreadyAnswered, BadData, BadInput, BadMessage, Forged, PolicyRefused, TandemError
from common.crypto.identity import Identity, Signed, verify
from common.local.hypotheses.linear import Linear
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answers import evaluate, randomize_one
from local_agent.host import Host
from local_agent.person import agent as agent_module
from local_agent.person.agent import Agent
from local_agent.person.receipts import held_receipts, leaf_of, read_receipt
from local_agent.policy import PersonalPolicy
from tests.local_agent.test_policy import LOSS, POLICY, REFEREE, assignment, configuration
from tests.support import TOKEN, Bench, seal, tiny
from tests.tiers import for_each

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
    agreed = configuration("agents.mechanism={name: none}")
    with closing(Agent(PERSON, replace(POLICY, epsilon=math.inf), tmp_path)) as frank:
        frank.answer(assignment(agreed), seal(REFEREE, agreed))
    stored = json.loads((tmp_path / "answered.json").read_bytes())
    assert (stored["epsilon"], stored["delta"]) == (math.inf, 1.0)


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
    its = seal(REFEREE, agreed)
    with pytest.raises(BadMessage, match="one person"):
        agent.answer(assignment(agreed, people, slots), its)
    for text in ("%%%", "AAA", "AAAAAAA=", "AAAA" * 3 + "AA=="):
        with pytest.raises(TandemError):
            agent.answer(REFEREE.sign("assignment", {**assignment(agreed).message, "people": text}), its)
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
    slots, source = np.zeros(1, dtype=np.int64), RandomSource.seeded(1)
    values, mechanism = evaluate(query, PERSON, slots), parse_mechanism({"name": "warner", "epsilon": 2.0})
    assert values.tolist() == [0.0]
    ones = sum(randomize_one(query, values, mechanism, slots, source) for _ in range(4000)) / 4000
    lie = 1 / (1 + np.exp(2))
    assert abs(ones - lie) < 6 * np.sqrt(lie * (1 - lie) / 4000)
    for value, clamped in ((-7.0, 0.0), (0.25, 0.25), (9.0, 1.0), (np.inf, 1.0)):
        monkeypatch.setattr(LossQuery, "evaluate", lambda self, records, slots, value=value: np.array([value]))
        assert evaluate(query, PERSON, slots).tolist() == [clamped]


def test_it_has_exactly_one_acceptable_record_and_one_process(agent, tmp_path):
    cases = (0.0, 2, 1, "exactly one record, found 2"), (np.nan, 1, 1, "NaN"), (0.0, 1, 0, "label outside")
    for feature, count, label, why in cases:
        record = Records(np.full((count, 8), feature, dtype=np.float32), np.full(count, label, dtype=np.int8))
        with pytest.raises(BadData, match=why):
            Agent(record, POLICY, tmp_path / "another")
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


ONE_QUESTION = ("agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=600")


class Lying:
    """A referee that takes every report, and gives another receipt than its own."""

    def __init__(self, bench: Bench, lie: Callable[[Signed], Signed]) -> None:
        self._bench, self._lie = bench, lie

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.referee, name)

    def report(self, signed: Signed) -> Signed:
        return self._lie(self._bench.referee.report(signed))

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        return self._lie(self._bench.referee.report_packed(signed, body))


def stranger(receipt: Signed) -> Signed:
    return Identity.create().sign(receipt.kind, receipt.message)


def changed(receipt: Signed) -> Signed:
    return receipt.model_copy(update={"message": {**receipt.message, "time": 1}})


def forged(host: Host, match: str = ".") -> Callable[[], None]:
    """Return a step of a host that must find a forgery, and declines nothing."""

    def step() -> None:
        with pytest.raises(Forged, match=match):
            host.step()
        assert not host.declined

    return step


@pytest.mark.parametrize("lie", [stranger, changed], ids=["another key", "another time"])
def test_an_individual_keeps_no_receipt_that_is_none_and_has_answered_all_the_same(tmp_path, lie):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench:
        key = bench.referee.identity.public
        person = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        with closing(Agent(person, PersonalPolicy(key, 2.0), tmp_path / "agent")) as agent:
            host = Host(agent, Lying(bench, lie), key)
            host.enrol(TOKEN)
            bench.meanwhile(forged(host))
            bench.run()
            assert (host.finished, agent.answered) == (True, True)
        with pytest.raises(BadData, match="there is no receipt in"):
            list(held_receipts(tmp_path / "agent"))


def test_a_receipt_for_another_report_is_none_for_this(tmp_path):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        message = {"run": "run", "question": 1, "report": "ab" * 64, "time": 1}
        other = bench.referee.identity.sign("receipt", message)
        host = Host(bench.population, Lying(bench, lambda receipt: other), bench.referee.identity.public)
        bench.meanwhile(forged(host, "for another report"))
        bench.run()
        assert bench.population.answered == 600


def test_a_host_keeps_one_receipt_a_question_with_what_stands_for_its_report(tmp_path):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        bench.run()
        (kept,) = held_receipts(tmp_path / "bench" / "agents")
        (question,) = bench.referee.store.questions("run")
        (report,) = bench.referee.store.reports(question)
    assert (kept.run, kept.question) == ("run", 1)
    assert kept.report.signature == report.signature.hex()
    assert kept.leaf == leaf_of(kept.report, report.body).hex()
    assert kept.path.stat().st_mode & 0o077 == 0


@for_each("content", [b"", b"{}", b"[]", b'{"receipt": 1, "report": 2, "leaf": 3}'])
def test_what_is_no_receipt_is_said_so(tmp_path, content):
    (tmp_path / "some.json").write_bytes(content)
    with pytest.raises(BadData, match="is no receipt"):
        read_receipt(tmp_path / "some.json")


def test_a_configuration_that_was_changed_on_its_way_is_not_kept_and_nothing_is_declined(tmp_path):
    class Spoiling(Lying):
        left = 1

        def configuration(self, run: str) -> Signed:
            found: Signed = self._bench.referee.configuration(run)
            self.left, spoilt = 0, self.left
            return changed(found) if spoilt else found

    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        bench.host = Host(bench.population, Spoiling(bench, lambda receipt: receipt), bench.referee.identity.public)
        bench.meanwhile(forged(bench.host))
        result = bench.run()
    assert result["agents"]["answered"] == 600
    assert result["lost"] == {"silent": 0, "declined": {}}
