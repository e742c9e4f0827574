"""Whom the load falls on: a referee that runs somewhere, or one that is started here, with a simulated curator."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

import curator
import local_agent
import referee
from common.core.database import database_bytes
from common.core.durable import write_durably
from common.core.errors import BadInput
from common.crypto.identity import Identity
from common.scenario.resolved import ResolvedScenario
from deploy.processes import PartyProcess, free_port

_ALL = ("--max-individuals", "1000000000")
"""A load test enrols as many as it wants, with its own token."""


@dataclass
class LoadTarget:
    """A referee under load; ``process``, ``folder`` and ``database`` (a URL) are None where it runs somewhere else."""

    url: str
    operator: str
    enrolment: str
    process: PartyProcess | None = None
    folder: Path | None = None
    database: str | None = None

    def host_population(self, people: int, number: int) -> PartyProcess:
        """Start a host of so many simulated people beside the load."""
        if self.folder is None:
            raise BadInput("hosted people are started only beside a referee that is started here")
        name = f"agents-{number}"
        scenario = self.folder / "scenario.yaml"
        arguments = ["host", str(scenario), "--state", str(self.folder / name), "--referee", self.url, "--seed", "1"]
        arguments += ["--agents", str(people)]
        host = PartyProcess(name, [f"{local_agent.__name__}.cli", *arguments], self.folder, self.tokens)
        host.wait_for("hosts")
        return host

    @property
    def tokens(self) -> dict[str, str]:
        """The environment of the parties."""
        return {"TANDEM_ENROLMENT_TOKEN": self.enrolment, "TANDEM_OPERATOR_TOKEN": self.operator}

    def database_bytes(self) -> int | None:
        """Return the size of the referee's database."""
        return None if self.database is None else database_bytes(self.database)

    def peak_memory(self) -> int | None:
        """Return the most memory that the referee has had, in bytes."""
        if self.process is None:
            return None
        status = Path(f"/proc/{self.process.process.pid}/status")
        lines = status.read_text("utf-8").splitlines() if status.exists() else []
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), None)


@contextmanager
def started(
    scenario: ResolvedScenario, folder: Path, database: str | None = None, referee_options: Sequence[str] = ()
) -> Iterator[LoadTarget]:
    """Start a referee and a curator on loopback, and stop them; what the folders of their names hold is their state."""
    chosen = folder / "scenario.yaml"
    write_durably(chosen, yaml.safe_dump(scenario.wire()).encode())
    ports = [free_port(), free_port()]
    tokens = (secrets.token_hex(16), secrets.token_hex(16))
    store = database or f"sqlite:///{folder}/referee/referee.sqlite"
    target = LoadTarget(f"http://127.0.0.1:{ports[1]}", *tokens, folder=folder, database=store)
    options = [*_ALL, *([] if database is None else ["--database", database]), *referee_options]
    key = Identity.load_or_create(folder / referee.__name__ / "identity.key").public
    parties: list[PartyProcess] = []
    try:
        for name, arguments in (
            (curator.__name__, [str(chosen), "--seed", "1", "--port", str(ports[0]), "--referee-key", key]),
            (
                referee.__name__,
                ["--curator", f"http://127.0.0.1:{ports[0]}", "--port", str(ports[1]), *options],
            ),
        ):
            state = ["--state", str(folder / name)]
            parties.append(PartyProcess(name, [f"{name}.cli", "serve", *arguments, *state], folder, target.tokens))
        target.process = parties[1]
        for party in parties:
            party.wait_for("listens on")
        yield target
    finally:
        for party in reversed(parties):
            party.stop()
