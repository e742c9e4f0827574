"""A small load test against real processes: every count agrees, on every schedule, and what is silent is said."""

import asyncio
import json
import resource
import socket
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import BadInput, RunFailed
from common.net import batching
from common.scenario import loading
from common.scenario.loading import load
from deploy.checking import checked
from deploy.load import phases, show, testing
from deploy.load.client import Connection, LightAgent, request
from deploy.load.testing import LoadTarget, Options, _Test, load_test, started
from referee.cli import app
from tests.common.net.test_hostile_peers import hostile
from tests.referee.service.test_operating import running
from tests.support import TOKEN, Bench, served
from tests.tiers import for_each

ROOT = Path(__file__).parents[3]
PHASES = {"per_second", "p50_ms", "p99_ms", "cpu_us_referee", "cpu_us_generator", "rejected"}


def loaded(*arguments: str) -> Any:
    ended = CliRunner().invoke(app, ["load-test", "--json", *arguments])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


@pytest.mark.slow  # it starts a deployment, and agents in a process of their own
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def test_what_is_acknowledged_is_stored_and_counted(kind, request, capsys):
    store = [] if kind == "sqlite" else ["--database", request.getfixturevalue("postgresql").database()]
    found = loaded("--individuals", "300", "--hosted", "500", "--hosts", "2", *store)
    assert (found["acknowledged"], found["stored"], found["counted"], found["agree"]) == (800, 800, 800, True)
    assert set(found["phases"]) == {"enrol", "poll", "report", "audit"}
    for name, phase in found["phases"].items():
        assert set(phase) >= PHASES
        assert (phase["rejected"], phase["requests"]) == ({}, 302 if name == "audit" else 300)
    measured = [found["machine"][f"{what}_per_second"] for what in ("verify", "requests", "commits")]
    assert min(*measured, found["peak_memory_bytes"]) > 0
    assert found["database_bytes_per_report"] > 100
    show.result(found)
    assert "800 acknowledged, 800 stored, 800 counted: they agree" in capsys.readouterr().out


@pytest.mark.thorough
def test_all_agents_may_come_at_once():
    found = loaded("--individuals", "400", "--schedule", "at-once", "--silent", "0.25", "--seconds", "10")
    assert (found["acknowledged"], found["stored"], found["counted"]) == (300, 300, 300)


@pytest.mark.slow
def test_more_hosted_people_than_can_be_listed_are_asked_and_idle_agents_poll_and_are_not():
    """Five million of two hosts, who can be listed no more: every one is counted, in half a byte on the wire."""
    hosted = ("--individuals", "10", "--hosted", "5000000", "--hosts", "2")
    found = loaded(*hosted, "--idle", "300", "--idle-seconds", "4")
    assert (found["acknowledged"], found["stored"], found["counted"]) == (5_000_010, 5_000_010, 5_000_010)
    assert found["database_bytes_per_report"] * 12 < 5_000_000 / 2
    assert found["peak_memory_bytes"] < 1 << 30
    idle = found["idle"]
    assert (idle["agents"], idle["asked"], idle["refused"], idle["held_too_long"]) == (300, 0, 0, 0)
    assert idle["polls"] >= 300
    assert idle["referee_cores"] > 0
    assert found["phases"]["report"]["commits"] > 0


@pytest.mark.slow
def test_a_deployment_elsewhere_serves_the_printed_scenario_and_counts_none_of_the_silent(tmp_path):
    """They are waited for; the others come as they like."""
    asked = ["--individuals", "200", "--silent", "0.25", "--seconds", "10", "--schedule", "poisson", "--rate", "500"]
    printed = CliRunner().invoke(app, ["load-test", *asked, "--print-scenario"])
    assert printed.exit_code == 0
    served = tmp_path / "load.yaml"
    served.write_text(printed.stdout)
    with started(checked(loading.load(str(served), [])), tmp_path) as there:
        found = loaded(*asked, "--url", there.url, "--token", there.operator, "--enrolment", there.enrolment)
    assert (found["acknowledged"], found["stored"], found["counted"]) == (150, 150, 150)
    assert found["peak_memory_bytes"] is None


@for_each(("wrong", "why"), [
    ({"schedule": "poisson"}, "rate"),
    ({"rate": 5.0}, "rate"),
    ({"schedule": "sometimes"}, "sometimes"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_started(wrong, why):
    with pytest.raises(BadInput, match=why):
        Options(**wrong)


@pytest.mark.asyncio
async def test_who_is_told_to_come_again_or_loses_the_connection_does_come_again(monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: 0.01)
    answers = [b"HTTP/1.1 503 x\r\nretry-after: 1\r\ncontent-length: 17\r\n\r\n" + b'{"type":"x:busy"}', b""]
    answers.append(b"HTTP/1.1 204 x\r\n\r\n")
    asked: list[bytes] = []
    connect, refusals = Connection.to, iter([False, True, False])

    async def refused_once(*given: Any, **ways: Any) -> Connection:
        if next(refusals):
            raise ConnectionRefusedError("it is started again")
        return await connect(*given, **ways)

    monkeypatch.setattr(Connection, "to", refused_once)

    def answer(connection: socket.socket) -> None:
        connection.sendall(answers[0])
        if not answers.pop(0):
            raise ConnectionError("it is lost")

    with hostile(answer, asked.append) as url:
        load = phases.Load("127.0.0.1", int(url.rpartition(":")[2]), connections=1)
        agents = [LightAgent.fresh()]
        ask = lambda agent: request("GET", "/", "x")  # noqa: E731
        found = await phases.phase("x", load, agents, ask, lambda agent, answer: None)
    assert len(asked) == 3
    assert (found.accepted, dict(found.rejected)) == (1, {"busy": 1, "connection lost": 2})


@for_each(("hosted", "hosts", "expected"), [(0, 2, []), (10, 6, [2, 2, 2, 2, 1, 1]), (3, 2, [2, 1]), (2, 5, [1, 1])])
def test_hosted_people_are_shared_out_and_no_host_has_none(hosted, hosts, expected):
    started: list[tuple[int, int]] = []

    class Target(LoadTarget):
        def host_population(self, people: int, number: int) -> Any:
            started.append((people, number))

    options = Options(1, hosted=hosted, hosts=hosts)
    _Test(options, options.scenario(), Target("http://127.0.0.1:9", "", ""), lambda *told: None)._hosts()
    assert started == [(people, number) for number, people in enumerate(expected)]


@pytest.mark.asyncio
async def test_idle_agents_that_were_told_to_come_again_and_were_taken_then_are_enrolled(monkeypatch):
    options = Options(1, idle=2)
    going = _Test(options, options.scenario(), LoadTarget("http://127.0.0.1:9", "", ""), lambda *told: None)
    enrolled = phases.Measured(accepted=2, rejected=Counter(busy=1))
    monkeypatch.setattr(testing, "phase", AsyncMock(return_value=enrolled))
    monkeypatch.setattr(testing, "poll_idly", AsyncMock(return_value=phases.IdlePolls(2)))
    assert (await going._idle())["agents"] == 2
    enrolled.accepted = 1
    with pytest.raises(RunFailed, match="idle agents were not enrolled"):
        await going._idle()


def test_a_run_elsewhere_that_ends_before_it_asks_or_waits_too_long_says_why(tmp_path, monkeypatch):
    """The curator there serves another scenario; the hosts there have not come."""
    with Bench(tmp_path) as bench, running(bench) as address:
        there = LoadTarget(address, TOKEN, TOKEN)
        with pytest.raises(RunFailed, match=r"the run ended refused: .*start both from the same scenario"):
            load_test(Options(6), lambda *told: None, there)
        monkeypatch.setattr(testing, "PATIENCE", 0.0)
        with pytest.raises(RunFailed, match=r"run load-\d+ waits for agents: 1,000,006 wanted"):
            load_test(Options(6, hosted=1_000_000), lambda *told: None, there)


def test_connections_that_no_process_may_have_are_refused_before_anything_is_started(monkeypatch):
    """Also those of the idle agents, who poll at once when all else is done."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1000, 1000))
    watched: list[str] = []
    for options in (Options(10, connections=1000), Options(10, idle=4000)):
        with pytest.raises(BadInput, match=f"1,000: raise ulimit -n, or take at most {1000 - phases.OTHERS:,}"):
            load_test(options, lambda name, done, count: watched.append(name))
    assert watched == []


def test_the_load_of_the_compose_file_is_that_of_the_command():
    lines = (ROOT / "deploy" / "docker" / "load.env").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    served = checked(load(values["TANDEM_SCENARIO"], values["TANDEM_SET"].split()))
    options = Options(int(values["TANDEM_INDIVIDUALS"]), int(values["TANDEM_HOSTED"]))
    assert served.wire() == options.scenario().wire()


WAITING = 100


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_flood_is_shed_and_what_was_acknowledged_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(batching, "WAITING", WAITING)
    monkeypatch.setattr(batching, "MOST", 20)
    with Bench(tmp_path) as bench, served(bench.app()) as address:
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
