"""One person: one answer in a life, on disk before it leaves, whatever happens."""

import json
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from common.core.errors import AlreadyAnswered, BadData, BadInput, BadMessage, Forged, TandemError
from common.crypto.identity import Identity, Signed, verify
from common.local.hypotheses.hypothesis import Linear
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from local_agent.answers import evaluate, randomize_one
from local_agent.host import Host
from local_agent.person import agent as agent_module
from local_agent.person.agent import Agent
from local_agent.person.receipts import held_receipts, leaf_of
from tests.local_agent.test_policy import LOSS, PERSON, POLICY, REFEREE, individual, question
from tests.support import Bench, tiny
from tests.tiers import for_each


@pytest.fixture
def agent(tmp_path):
    found = Agent(PERSON, POLICY, tmp_path)
    yield found
    found.close()


def answer_of(signed) -> float:
    return messages.Report.parse(verify(signed, messages.Report.KIND)).answer


def test_it_answers_once_in_its_life_and_then_repeats_itself(agent, tmp_path):
    assert (agent.answered, agent.report) == (False, None)
    assert "nothing is spent of the lifetime budget, epsilon 2" in agent.spent
    first = agent.answer(*question())
    assert (agent.answered, answer_of(first) in (0.0, 1.0)) == (True, True)
    agent.close()
    with closing(Agent(PERSON, POLICY, tmp_path)) as again:
        assert (again.identity.public, again.report) == (agent.identity.public, first)
        assert again.answer(*question()) == first
        for other in (question(question=2), question(slots=(4,)), question(run="second")):
            with pytest.raises(AlreadyAnswered):
                again.answer(*other)


@for_each(("mechanism", "lifetime", "cost", "words"), [
    ("{name: warner, epsilon: 2}", 5.0, (2.0, 0.0), "cost epsilon 2 of the lifetime budget 5; 3 is left"),
    ("{name: none}", math.inf, (math.inf, 1.0), "cost epsilon inf of the lifetime budget inf; 0 is left"),
])  # fmt: skip
def test_what_is_on_disk_is_all_that_an_answer_costs(tmp_path, mechanism, lifetime, cost, words):
    with closing(Agent(PERSON, replace(POLICY, epsilon=lifetime), tmp_path)) as agent:
        agent.answer(*question(f"agents.mechanism={mechanism}"))
        assert words in agent.spent
    path = tmp_path / agent_module.ANSWERED
    stored = json.loads(path.read_bytes())
    assert ((stored["epsilon"], stored["delta"]), path.stat().st_mode & 0o077) == (cost, 0)
    # An answer of before the lifetime budget was kept with it, and a policy that was lowered since.
    del stored["lifetime"], stored[agent_module.SEAL]
    path.write_text(json.dumps(stored))
    with closing(Agent(PERSON, replace(POLICY, epsilon=1.0), tmp_path)) as later:
        assert "of the lifetime budget 1; 0 is left" in later.spent


def test_a_crash_before_it_is_on_disk_sends_nothing_and_spends_nothing(agent, monkeypatch):
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(agent_module, "write_durably", full)
        with pytest.raises(OSError, match="no space"):
            agent.answer(*question())
    assert not agent.answered
    agent.answer(*question())


def test_an_assignment_names_exactly_this_person(agent):
    for people, slots in ((), ()), ((1,), (0,)), ((0, 0), (0, 1)), ((0, 1), (0, 1)), ((0,), (0, 1)), ((0,), ()):
        with pytest.raises(BadMessage, match="one person"):
            agent.answer(*question(people=people, slots=slots))
    asked, its = question()
    for text in ("%%%", "AAA", "AAAAAAA=", "AAAA" * 3 + "AA=="):
        with pytest.raises(TandemError):
            agent.answer(REFEREE.sign("assignment", {**asked.message, "people": text}), its)
    assert not agent.answered


@for_each("broken", ["raises", "nan", "shape", "huge"])
def test_a_query_that_goes_wrong_is_answered_like_any_other(tmp_path, monkeypatch, broken):
    def evaluate_badly(self: Any, records: Records, slots: Any) -> Any:
        if broken == "raises":
            raise ZeroDivisionError("this depends on the record")
        return {"nan": np.array([np.nan]), "shape": np.zeros((1, 3)), "huge": np.array([1e308])}[broken]

    monkeypatch.setattr(LossQuery, "evaluate", evaluate_badly)
    with closing(Agent(PERSON, POLICY, tmp_path)) as agent:
        assert answer_of(agent.answer(*question())) in (0.0, 1.0)


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


def forged(host: Host, match: str = ".") -> None:
    """Let a host find a forgery, and decline nothing."""
    with pytest.raises(Forged, match=match):
        host.step()
    assert not host.declined


LIES: dict[str, tuple[Callable[[Signed], Signed], str]] = {
    "another key": (lambda receipt: Identity.create().sign(receipt.kind, receipt.message), "signed by"),
    "another time": (lambda receipt: changed(receipt, time=1), "does not verify"),
}


def changed(signed: Signed, **message: object) -> Signed:
    return signed.model_copy(update={"message": {**signed.message, **message}})


@for_each("lie", [*LIES, "another report"])
def test_nobody_keeps_a_receipt_that_is_none_and_all_have_answered_all_the_same(tmp_path, lie):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench:
        signer = bench.referee.identity
        other = signer.sign("receipt", {"run": "run", "question": 1, "report": "ab" * 64, "time": 1})
        told, why = LIES.get(lie, (lambda receipt: other, "for another report"))
        many = Host(bench.population, Lying(bench, told), signer.public)
        with individual(bench, tmp_path / "agent", port=Lying(bench, told)) as one:
            bench.meanwhile(lambda: [forged(host, why) for host in (one, many)])
            bench.run()
            assert (one.finished, one.people_asked, many.people_asked) == (True, 1, 599)
    for folder in (tmp_path / "agent", tmp_path / "bench" / "agents"):
        with pytest.raises(BadData, match="there is no receipt in"):
            list(held_receipts(folder))


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


def test_a_configuration_that_was_changed_on_its_way_is_not_kept_and_nothing_is_declined(tmp_path):
    class Spoiling(Lying):
        left = 1

        def configuration(self, run: str) -> Signed:
            found: Signed = self._bench.referee.configuration(run)
            self.left, spoilt = 0, self.left
            return changed(found, time=1) if spoilt else found

    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        bench.host = Host(bench.population, Spoiling(bench, lambda receipt: receipt), bench.referee.identity.public)
        bench.meanwhile(lambda: forged(bench.host))
        result = bench.run()
    assert result["agents"]["answered"] == 600
    assert result["lost"] == {"silent": 0, "declined": {}}
