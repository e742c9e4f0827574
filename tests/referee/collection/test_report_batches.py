"""Batches of individual reports are taken in part: each report stands for itself."""

import secrets
import threading
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from common.core.errors import CannotWrite
from common.crypto.identity import Identity, Signed
from common.local.records import Records
from common.log.receipts import Receipt
from common.net import messages
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, seal, served, tiny
from tests.tiers import for_each


@pytest.mark.usefixtures("each_store")
def test_good_reports_are_taken_and_bad_ones_listed_with_their_reason(tmp_path):
    chosen = tiny("agents.count=600", "agents.batch=600", "curator.rounds=1")
    with Bench(tmp_path / "bench", chosen, individuals=2) as bench:
        referee, key = bench.referee, bench.referee.identity.public
        record = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        agents = [Agent(record, PersonalPolicy(key, 2.0), tmp_path / f"agent-{n}") for n in range(2)]
        for agent in agents:
            Host(agent, referee, key).enrol(TOKEN)
        outcomes: list[dict[str, Any]] = []
        sent: list[Signed] = []

        def hand_in() -> None:
            reports = sent
            for agent in agents:
                assignment = referee.poll(seal(agent.identity, messages.Poll(participant=agent.identity.public)))
                reports.append(agent.answer(assignment, referee.configuration("run")))
            fresh_id = {**reports[0].message, "report_id": secrets.token_hex(16)}
            again = agents[0].identity.sign("report", fresh_id)
            forged = reports[1].model_copy(update={"signature": "00" * 64})
            batch = [report.wire() for report in (reports[0], again, forged, reports[1], reports[0])]
            token = {"Authorization": f"Bearer {TOKEN}"}
            with served(referee_app(referee, Runner(referee))) as address:
                url = f"{address}/v1/report-batches"
                outcomes.append(httpx.post(url, json=batch, headers=token, trust_env=False, timeout=60).json())

        bench.meanwhile(hand_in)
        result = bench.run()
        for agent in agents:
            agent.close()
    receipts = [Receipt.parse(Signed.parse(wire).message) for wire in outcomes[0].pop("receipts")]
    assert [receipt.report for receipt in receipts] == [sent[0].signature, sent[1].signature, sent[0].signature]
    assert outcomes == [
        {
            "accepted": 3,
            "rejected": [{"position": 1, "reason": "already-answered"}, {"position": 2, "reason": "forged"}],
        }
    ]
    assert result["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 2}


class Slept(Exception):
    """Somebody would have slept now."""


class Sleepless(threading.Condition):
    """Says so instead of sleeping."""

    def wait(self, timeout: float | None = None) -> bool:
        raise Slept(timeout)


@pytest.fixture
def questions(bench):
    found = bench.referee.collection.questions
    found._arrived = Sleepless()
    return found


def test_a_question_that_everybody_has_answered_is_counted_at_once(bench, questions):
    """Neither before nor behind the last report, as long as the question is open; then the next news is waited for."""
    seen = []

    def answered() -> None:
        assert bench.host.step()
        questions.wait(60.0)
        seen.append(questions.open)
        with pytest.raises(Slept):
            questions.wait(60.0)

    bench.meanwhile(answered)
    bench.run()
    assert seen == [[("run", 1)]]


def test_what_came_before_the_wait_is_not_slept_through(bench, questions):
    """With nobody's question complete a moment is left for further reports, and no second."""
    questions.announce()
    with pytest.raises(Slept) as moment:
        questions.wait(60.0)
    assert moment.value.args[0] <= 0.01


def failing(real: Callable[..., Any], stored: bool) -> Callable[..., Any]:
    """Return what does its work or leaves it, and then fails; the second time it does its work."""
    calls: list[int] = []

    def work(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 1 or stored:
            real(*arguments)
        if len(calls) == 1:
            raise OperationalError("INSERT", {}, OSError("disk full"))

    return work


@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize("stored", [True, False])
def test_a_report_is_not_acknowledged_and_said_again_it_counts_once(bench, undisturbed, stored, monkeypatch):
    def attack() -> None:
        store = bench.referee.store
        monkeypatch.setattr(store, "add_reports", failing(store.add_reports, stored))
        with pytest.raises(CannotWrite):
            bench.host.step()
        bench.host.step()

    bench.meanwhile(attack)
    result = bench.run()
    assert result["answer"] == undisturbed[1].result["answer"]
    assert result["agents"] == undisturbed[1].result["agents"]


@pytest.mark.usefixtures("each_store")
@for_each("stored", [True, False])
def test_an_enrolment_is_not_confirmed_and_said_again_has_one_number(tmp_path, stored, monkeypatch):
    with Bench(tmp_path) as bench:
        store, roster = bench.referee.store, bench.referee.registrar.roster
        somebody, another = (seal(Identity.create(), messages.Enrolment(agents=3)) for _ in range(2))
        before = roster.agents
        monkeypatch.setattr(store, "add_participants", failing(store.add_participants, stored))
        with pytest.raises(CannotWrite):
            bench.referee.enrol(somebody, TOKEN)
        numbers = [bench.referee.enrol(request, TOKEN).message["first"] for request in (another, somebody, another)]
        assert sorted(numbers[:2]) == [before, before + 3]
        assert numbers[2] == numbers[0]
        assert list(store.participants()) == list(roster)
