"""Ten times what may wait, at once: some are told to come again, the service answers, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from urllib.parse import urlsplit

import httpx
import pytest

from common.net import batching
from deploy.load.client import Connection, LightAgent, request
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, served

WAITING = 100


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_flood_is_shed_and_what_was_acknowledged_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(batching, "WAITING", WAITING)
    monkeypatch.setattr(batching, "MOST", 20)
    with Bench(tmp_path) as bench, served(referee_app(bench.referee, Runner(bench.referee))) as address:
        parts = urlsplit(address)
        agents = [LightAgent.fresh() for _ in range(10 * WAITING)]
        everyone = [await Connection.to(str(parts.hostname), int(parts.port or 0)) for _ in agents[:900]]
        connections: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in everyone:
            connections.put_nowait(connection)

        async def enrol(agent: LightAgent) -> tuple[int, bytes]:
            connection = await connections.get()
            token = {"Authorization": f"Bearer {TOKEN}"}
            answer = await connection.request(request("POST", "/v1/enrolments", "x", agent.enrolment(), token))
            connections.put_nowait(connection)
            return answer.status, answer.header(b"retry-after")

        flood = asyncio.gather(*map(enrol, agents))
        health = await asyncio.to_thread(httpx.get, f"{address}/v1/health", trust_env=False, timeout=60)
        assert health.status_code == 200
        first = await flood
        found = Counter(status for status, _ in first)
        assert set(found) == {200, 503}
        assert {later for status, later in first if status == 503} == {b"2"}
        assert len(bench.referee.registrar.roster) == 1 + found[200]
        rest = [agent for agent, (status, _) in zip(agents, first, strict=True) if status == 503]
        while rest:  # who comes again is taken in the end
            await asyncio.sleep(0.2)
            again = await asyncio.gather(*map(enrol, rest))
            rest = [agent for agent, (status, _) in zip(rest, again, strict=True) if status == 503]
        assert len(list(bench.referee.store.participants())) == 1 + len(agents)
        for connection in everyone:
            connection.close()
