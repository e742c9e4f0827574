"""Receipts: what a referee gives is checked before it is kept, and nothing makes an agent answer again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from common.core.errors import BadData, Forged
from common.crypto.identity import Identity, Signed
from common.local.records import Records
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.person.receipts import held_receipts, leaf_of, read_receipt
from local_agent.policy import Policy
from tests.support import TOKEN, Bench, tiny
from tests.tiers import for_each

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


@pytest.mark.parametrize("lie", [stranger, changed], ids=["another key", "another time"])
def test_an_individual_keeps_no_receipt_that_is_none_and_has_answered_all_the_same(tmp_path, lie):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION), individuals=1) as bench:
        key = bench.referee.identity.public
        person = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        agent = Agent(person, Policy(key, 2.0), tmp_path / "agent")
        host = Host(agent, Lying(bench, lie), key)
        host.enrol(TOKEN)

        def answers() -> None:
            with pytest.raises(Forged):
                host.step()

        bench.meanwhile(answers)
        bench.run()
        assert host.finished
        assert agent.answered
        with pytest.raises(BadData, match="there is no receipt in"):
            list(held_receipts(tmp_path / "agent"))
        agent.close()


def test_a_receipt_for_another_report_is_none_for_this(tmp_path):
    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        host = Host(bench.population, Lying(bench, lambda receipt: other), bench.referee.identity.public)
        message = {"run": "run", "question": 1, "report": "ab" * 64, "time": 1}
        other = bench.referee.identity.sign("receipt", message)

        def answers() -> None:
            with pytest.raises(Forged, match="for another report"):
                host.step()

        bench.meanwhile(answers)
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
    """It would not verify, for this question and all later ones of the run: the agents would be lost."""

    class Spoiling(Lying):
        left = 1

        def configuration(self, run: str) -> Signed:
            found: Signed = self._bench.referee.configuration(run)
            self.left, spoilt = 0, self.left
            return changed(found) if spoilt else found

    with Bench(tmp_path / "bench", tiny(*ONE_QUESTION)) as bench:
        bench.host = Host(bench.population, Spoiling(bench, lambda receipt: receipt), bench.referee.identity.public)

        def asked_first() -> None:
            with pytest.raises(Forged):
                bench.host.step()
            assert not bench.host.declined

        bench.meanwhile(asked_first)
        result = bench.run()
    assert result["agents"]["answered"] == 600
    assert result["lost"] == {"silent": 0, "declined": {}}
