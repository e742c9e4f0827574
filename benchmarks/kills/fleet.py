"""Real referee processes on one database beside a curator, each of which may be killed; and agents that insist."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import httpx
import yaml
from sqlalchemy import create_engine, text

import curator
import referee
from common.core.durable import write_durably
from common.core.errors import RunFailed
from common.crypto.identity import Identity
from common.net.transport import Transport
from common.scenario.scenario import ResolvedScenario
from deploy.load.client import LightAgent
from deploy.processes import PartyProcess, free_port

LEASE = "1.5"
"""Seconds after which another process drives, if the one that does is gone."""
ROLES = {"driver": "both", "standby": "both", "ingest-1": "ingest", "ingest-2": "ingest"}
PATIENCE = 300.0
"""Seconds in which anything that is waited for must come."""
_AGAIN = 0.05


class Fleet:
    """Four referee processes, of which two may drive, and a curator; whoever dies is started again.

    Args:
        folder: For their states and logs.
        database: SQLAlchemy URL, shared by the referees.
        chosen: The scenario that the curator serves.
        token: Enrols, and operates.
        lives: How often each is started.
    """

    def __init__(self, folder: Path, database: str, chosen: ResolvedScenario, token: str, lives: int = 5) -> None:
        self.database, self.chosen, self.token = database, chosen, token
        scenario = folder / "scenario.yaml"
        write_durably(scenario, yaml.safe_dump(chosen.wire()).encode())
        tokens = {"TANDEM_ENROLMENT_TOKEN": token, "TANDEM_OPERATOR_TOKEN": token}
        port = str(free_port())
        serve = [f"{curator.__name__}.cli", "serve", str(scenario), "--seed", "1", "--port", port]
        serve += ["--state", str(folder / "curator")]
        serve += ["--referee-key", Identity.load_or_create(folder / "key").public]
        self.parties = {"curator": PartyProcess("curator", serve, folder, tokens, lives)}
        self.urls: dict[str, str] = {}
        for name, role in ROLES.items():
            mine = str(free_port())
            serve = [f"{referee.__name__}.cli", "serve", "--curator", f"http://127.0.0.1:{port}", "--port", mine]
            serve += ["--state", str(folder / name), "--key", str(folder / "key"), "--database", database]
            self.parties[name] = PartyProcess(name, [*serve, "--role", role, "--lease", LEASE], folder, tokens, lives)
            self.urls[name] = f"http://127.0.0.1:{mine}"
            if name == "driver":
                self.parties[name].wait_for("listens on")  # it makes the key, and drives
                self.until(lambda: self.fence() == 1)
        for party in self.parties.values():
            party.wait_for("listens on")

    def fence(self) -> int:
        """Return the fencing token of whoever drives."""
        engine = create_engine(self.database)
        try:
            with engine.connect() as connection:
                return int(connection.execute(text("SELECT token FROM leases")).scalar() or 0)
        finally:
            engine.dispose()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds.

        Raises:
            RunFailed: If it does not, for as long as the patience lasts.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise RunFailed(f"what was waited for did not come in {PATIENCE:g} s")
            time.sleep(_AGAIN)

    def kill(self, name: str, *, for_good: bool = False) -> None:
        """Kill a process without a word; it is started again, or not."""
        party = self.parties[name]
        party.let_die(for_good=for_good)
        os.kill(party.process.pid, signal.SIGKILL)
        if for_good:
            party.process.wait()

    def close(self) -> None:
        """End all of them."""
        for party in self.parties.values():
            party.stop()


@contextmanager
def fleet(folder: Path, database: str, chosen: ResolvedScenario, token: str, lives: int = 5) -> Iterator[Fleet]:
    """Start a fleet, and end it."""
    made = Fleet(folder, database, chosen, token, lives)
    try:
        yield made
    finally:
        made.close()


class Sender:
    """Agents that say everything until it is acknowledged, one after the other, to whichever process answers.

    Attributes:
        acknowledged: The ids of the reports that a referee has acknowledged, hex.
        refused: What was said to reports that it has not.
        over: Set once nobody will be asked any more.
    """

    def __init__(self, urls: Sequence[str], agents: Sequence[LightAgent], token: str) -> None:
        self._urls = cycle(urls)
        self._url = next(self._urls)
        self._agents = agents
        self._headers = {"Authorization": f"Bearer {token}"}
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def enrol(self) -> None:
        """Enrol all of them."""
        with self._connected() as client:
            for agent in self._agents:
                answer = self._say(client, "POST", "/v1/enrolments", agent.enrolment())
                if answer.status_code != 200:
                    raise RunFailed(f"an agent was not enrolled: {answer.text}")

    def _work(self) -> None:
        self.enrol()  # again, where it was done before: that changes nothing
        waiting = list(self._agents)
        with self._connected() as client:
            while waiting and not self.over.is_set():
                waiting = [agent for agent in waiting if not self._answered(client, agent)]

    def _answered(self, client: httpx.Client, agent: LightAgent) -> bool:
        """Have an agent poll and, if it is asked something, report; tell whether it was."""
        asked = self._say(client, "POST", "/v1/polls", agent.poll())
        if asked.status_code == 204:
            return False
        report = agent.answer(asked.content)
        said = self._say(client, "PUT", f"/v1/reports/{agent.report_id}", report)
        if said.status_code == 200:
            self.acknowledged.append(agent.report_id)
        else:
            self.refused.append(said.text)
        return True

    def _say(self, client: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                said = client.request(method, self._url + path, content=body, headers=self._headers)
                if said.status_code != 503:
                    return said
            except httpx.TransportError:
                pass
            self._url = next(self._urls)
            time.sleep(_AGAIN)
        raise RunFailed(f"nobody answered {method} {path} in {PATIENCE:g} s")

    @staticmethod
    def _connected() -> httpx.Client:
        return httpx.Client(transport=Transport(), timeout=30, trust_env=False)
