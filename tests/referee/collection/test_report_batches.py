"""Batches of individual reports are taken in part: each report stands for itself."""

import secrets
from typing import Any

import httpx
import numpy as np
import pytest

from common.crypto.identity import Signed
from common.local.records import Records
from common.log.receipts import Receipt
from common.net import messages
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import Policy
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, seal, served, tiny

pytestmark = pytest.mark.usefixtures("each_store")


def test_good_reports_are_taken_and_bad_ones_listed_with_their_reason(tmp_path):
    chosen = tiny("agents.count=600", "agents.batch=600", "curator.rounds=1")
    with Bench(tmp_path / "bench", chosen, individuals=2) as bench:
        referee, key = bench.referee, bench.referee.identity.public
        record = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        agents = [Agent(record, Policy(key, 2.0), tmp_path / f"agent-{n}") for n in range(2)]
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
