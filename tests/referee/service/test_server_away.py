"""A PostgreSQL server that crashes: requests are told to come again, and nothing that was acknowledged is lost."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from common.crypto.identity import Identity, Signed
from common.net import messages
from deploy.load.client import LightAgent
from referee.audit.audit import audit
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests import postgres, support
from tests.support import TOKEN, Bench, leave_folder, seal, served, tiny


@pytest.fixture
def server(postgresql):
    """A server of this test alone: the other tests' one is not for crashing."""
    own = postgres.start()
    yield own
    own.close()


def test_while_the_server_is_away_everybody_is_told_to_come_again_and_nothing_is_lost(tmp_path, server, monkeypatch):
    url = server.database()
    monkeypatch.setattr(support, "database_of", lambda folder: url)
    agents = [LightAgent.fresh() for _ in range(30)]
    stranger = Identity.create()
    enrolment = seal(stranger, messages.Enrolment(agents=1)).model_dump_json().encode()
    chosen = tiny("agents.count=100", "agents.batch=100", "curator.rounds=1")
    with Bench(tmp_path / "state", chosen, individuals=30) as bench:
        bench.referee.allow("operator", TOKEN)
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)

        def attack() -> None:
            app = referee_app(bench.referee, Runner(bench.referee))
            with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:

                def say(method: str, path: str, body: bytes = b"") -> httpx.Response:
                    headers = {"Authorization": f"Bearer {TOKEN}"}
                    return client.request(method, path, content=body, headers=headers)

                def report(agent: LightAgent, body: bytes) -> httpx.Response:
                    return say("PUT", f"/v1/reports/{agent.report_id.decode()}", body)

                bodies = [agent.answer(say("POST", "/v1/polls", agent.poll()).content) for agent in agents]
                ways: list[Any] = [
                    lambda: report(agents[20], bodies[20]),
                    lambda: say("POST", "/v1/enrolments", enrolment),
                    lambda: say("GET", "/v1/runs/run"),
                    lambda: say("POST", "/v1/polls", LightAgent.fresh().poll()),
                ]
                for agent, body in zip(agents[:20], bodies[:20], strict=True):
                    assert report(agent, body).status_code == 200
                server.stop(signal.SIGQUIT)
                for ask in ways:
                    refused = ask()
                    assert (refused.status_code, refused.headers.get("retry-after")) == (503, "2"), refused.text
                assert say("POST", "/v1/polls", agents[20].poll()).status_code == 200  # that is known without it
                server.start()
                for agent, body in zip(agents, bodies, strict=True):
                    assert report(agent, body).status_code == 200
                assert say("POST", "/v1/enrolments", enrolment).json()["message"]["first"] == 100

        bench.meanwhile(attack)
        result = bench.run()
        assert result["agents"] == {"enrolled": 101, "asked": 100, "answered": 100, "rejected": 0}
        assert audit(leave_folder(tmp_path / "run", chosen, 1, bench.finished())).reports == 31
