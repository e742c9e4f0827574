"""Several real referee processes on one database, killed under load: no acknowledged report is lost or counts twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, text

import curator
import referee
from common.scenario.resolved import ResolvedScenario
from deploy.base import Finished
from deploy.load.light import LightAgent
from deploy.load.testing import Options
from deploy.processes import Party, free_port
from deploy.remote import Remote
from referee.audit.audit import Audit, audit
from referee.service.referee import public
from referee.state.runfolder import unpack_reports, write_run
from tests.support import TOKEN

AGENTS = 240
FEW = 40
LEASE = "1.5"
ROLES = {"driver": "both", "standby": "both", "ingest-1": "ingest", "ingest-2": "ingest"}


class Fleet:
    """Four referee processes and a curator; agents talk to the two that only take requests, whichever answers."""

    def __init__(self, folder: Path, database: str, agents: int) -> None:
        self.database = database
        self.chosen = Options(individuals=agents, seconds=300.0).scenario()
        scenario = folder / "scenario.yaml"
        scenario.write_text(yaml.safe_dump(self.chosen.wire()))
        tokens = {"TANDEM_ENROLMENT_TOKEN": TOKEN, "TANDEM_OPERATOR_TOKEN": TOKEN}
        port = str(free_port())
        serve = [f"{curator.__name__}.cli", "serve", str(scenario), "--seed", "1", "--port", port, "--ephemeral"]
        self.parties = {"curator": Party("curator", [*serve, "--state", str(folder / "curator")], folder, tokens)}
        self.urls: dict[str, str] = {}
        for name, role in ROLES.items():
            mine = str(free_port())
            serve = [f"{referee.__name__}.cli", "serve", "--curator", f"http://127.0.0.1:{port}", "--port", mine]
            serve += ["--state", str(folder / name), "--key", str(folder / "key"), "--database", database]
            self.parties[name] = Party(name, [*serve, "--role", role, "--lease", LEASE], folder, tokens)
            self.urls[name] = f"http://127.0.0.1:{mine}"
            if name == "driver":
                self.parties[name].wait_for("listens on")  # it makes the key, and drives
                self.until(lambda: self.token() == 1)
        for party in self.parties.values():
            party.wait_for("listens on")

    def token(self) -> int:
        engine = create_engine(self.database)
        try:
            with engine.connect() as connection:
                return int(connection.execute(text("SELECT token FROM leases")).scalar() or 0)
        finally:
            engine.dispose()

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            assert time.monotonic() < deadline, "the event did not come"
            time.sleep(0.05)

    def kill(self, name: str, *, for_good: bool) -> None:
        """Kill a process without a word; it is started again, or not."""
        self.parties[name]._stopping = for_good
        os.kill(self.parties[name].process.pid, signal.SIGKILL)
        if for_good:
            self.parties[name].process.wait()

    def said(self, name: str) -> str:
        """Return what a process has logged."""
        return self.parties[name]._errors.read_text("utf-8")

    def close(self) -> None:
        for party in self.parties.values():
            party.stop()


@contextmanager
def fleet(folder: Path, database: str, agents: int = AGENTS) -> Iterator[Fleet]:
    made = Fleet(folder, database, agents)
    try:
        yield made
    finally:
        made.close()


class Sender:
    """Agents that say everything until it is acknowledged, to one ingest process or, if it is away, to the other."""

    def __init__(self, urls: list[str], agents: list[LightAgent]) -> None:
        self._urls = cycle(urls)
        self._url = next(self._urls)
        self._agents = agents
        self.acknowledged: list[str] = []
        self.refused: list[Any] = []
        self.thread = threading.Thread(target=self._work)

    def _say(self, method: str, path: str, body: bytes) -> httpx.Response:
        deadline = time.monotonic() + 300
        headers = {"Authorization": f"Bearer {TOKEN}"}
        while True:
            assert time.monotonic() < deadline
            try:
                said = self._client.request(method, self._url + path, content=body, headers=headers)
                if said.status_code != 503:
                    return said
            except httpx.TransportError:
                pass
            self._url = next(self._urls)
            time.sleep(0.05)

    def enrol(self) -> None:
        with httpx.Client(trust_env=False, timeout=30) as self._client:
            for agent in self._agents:
                assert self._say("POST", "/v1/enrolments", agent.enrolment()).status_code == 200

    def _work(self) -> None:
        self.enrol()  # again, where it was done before: that changes nothing
        with httpx.Client(trust_env=False, timeout=30) as self._client:
            for agent in self._agents:
                while (asked := self._say("POST", "/v1/polls", agent.poll())).status_code == 204:
                    pass
                report = agent.answer(asked.content)
                said = self._say("PUT", f"/v1/reports/{agent.report_id.decode()}", report)
                if said.status_code == 200:
                    self.acknowledged.append(agent.report_id.decode())
                else:
                    self.refused.append(said.text)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that all processes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.sqlite"
    return str(request.getfixturevalue("postgresql").database())


def audited(folder: Path, chosen: ResolvedScenario, finished: Finished) -> Audit:
    """Leave a run's folder, and audit it."""
    left = finished.transcript, finished.participants, finished.reports, finished.checkpoints
    write_run(folder, public(chosen), finished.result, *left)
    return audit(folder)


@pytest.mark.slow
def test_killed_processes_lose_no_acknowledged_report_and_count_none_twice(tmp_path, database):
    agents = [LightAgent.fresh() for _ in range(AGENTS)]
    with fleet(tmp_path, database) as parties:
        urls = [parties.urls["ingest-1"], parties.urls["ingest-2"]]
        senders = [Sender(urls if n % 2 else urls[::-1], agents[n::8]) for n in range(8)]
        remote = Remote(parties.urls["ingest-2"], TOKEN)
        remote.create(parties.chosen, 1, "run")  # given to a process that does not drive
        for sender in senders:
            sender.thread.start()

        def acknowledged(share: float) -> bool:
            return sum(len(sender.acknowledged) for sender in senders) >= share * AGENTS

        parties.until(lambda: acknowledged(0.1))
        parties.kill("driver", for_good=True)
        parties.until(lambda: acknowledged(0.4))
        parties.kill("ingest-1", for_good=False)
        parties.until(lambda: parties.token() == 2)
        for sender in senders:
            sender.thread.join(300)
        finished = remote.follow("run", lambda text, numbers: None)
        remote.close()
    assert [problem for sender in senders for problem in sender.refused] == []
    said = sorted(report for sender in senders for report in sender.acknowledged)
    stored = sorted(report.report_id.hex() for _, raw in finished.reports for report in unpack_reports(raw))
    assert stored == said
    assert len(said) == AGENTS
    assert finished.result["agents"]["answered"] == AGENTS
    assert audited(tmp_path / "run", parties.chosen, finished).answers == AGENTS


@pytest.mark.slow
def test_a_driver_that_was_stopped_beyond_its_lease_and_goes_on_writes_nothing(tmp_path, database):
    """SIGSTOP while a question is open; another drives; SIGCONT before it ends: the first one's writes are refused."""
    agents = [LightAgent.fresh() for _ in range(FEW)]
    with fleet(tmp_path, database, FEW) as parties:
        urls = [parties.urls["ingest-1"], parties.urls["ingest-2"]]
        first, rest = Sender(urls, agents[: FEW // 2]), Sender(urls[::-1], agents[FEW // 2 :])
        everybody = Sender(urls, agents)
        everybody.enrol()
        remote = Remote(parties.urls["ingest-2"], TOKEN)
        remote.create(parties.chosen, 1, "run")
        first.thread.start()
        first.thread.join(300)
        assert len(first.acknowledged) == FEW // 2
        stopped = parties.parties["driver"].process.pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            parties.until(lambda: parties.token() == 2)
        finally:
            os.kill(stopped, signal.SIGCONT)
        # It holds token 1 in memory, and has a run under way whose question is open.
        parties.until(lambda: "another process has taken the lease" in parties.said("driver"))
        rest.thread.start()
        rest.thread.join(300)
        finished = remote.follow("run", lambda text, numbers: None)
        remote.close()
        assert "another process has taken the lease" in parties.said("driver")
        assert parties.parties["driver"].process.pid == stopped  # it goes on, and takes requests
        assert httpx.get(parties.urls["driver"] + "/v1/referee", trust_env=False).status_code == 200
        assert parties.token() == 2
    kinds = [json.loads(line)["kind"] for line in finished.transcript.splitlines()]
    assert kinds == ["configuration", "terms", "operation", "question", "answers", "result"]
    assert finished.result["agents"]["answered"] == FEW
    stored = sorted(report.report_id.hex() for _, raw in finished.reports for report in unpack_reports(raw))
    assert stored == sorted(first.acknowledged + rest.acknowledged)
    assert audited(tmp_path / "run", parties.chosen, finished).answers == FEW
