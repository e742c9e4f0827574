"""Real processes of a curator, a referee, a witness and a host, each with a disk and a clock of its own."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import yaml

import curator
import local_agent
import referee
from common.core.errors import BadInput
from common.scenario.resolved import ResolvedScenario, settled
from common.wire.state import write_durably
from deploy.processes import Party, free_port
from deploy.remote import Remote
from referee.protocols.examples import small_ball

PARTIES = ("witness", "curator", "referee", "host")
DISK = "320m"
LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")
"""Where packages put what lets a process see another time."""


def scenario(rounds: int, people: int) -> ResolvedScenario:
    """Return a scenario of so many rounds, in each of which as many others of the hosted people are asked."""
    sizes = f"agents.count={rounds * people}", f"agents.batch={people}", f"curator.rounds={rounds}"
    return settled(small_ball(*sizes, "agents.deadline=3600", f"curator.epsilon={40 * rounds}"))


def clock_libraries(folder: Path) -> str | None:
    """Return the libraries under which a process sees another time; None if they cannot be had on this machine."""
    found = next((found for place in LIBRARIES for found in Path("/").glob(place.lstrip("/"))), None)
    compiler = shutil.which("cc")
    if found is None or compiler is None:
        return None
    made = folder / "sleep.so"
    source = Path(__file__).with_name("sleep.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return f"{made} {found}"


class Deployment:
    """The processes, each of which has a small disk and a clock of its own.

    Parameters
    ----------
    folder
        For states, logs and clocks.
    chosen
        The scenario.
    opened
        What ends when they do.
    hosted
        How many people the host has; by default all that the scenario wants.

    Raises
    ------
    BadInput
        If no disk can be mounted here: that needs root.
    """

    def __init__(self, folder: Path, chosen: ResolvedScenario, opened: ExitStack, hosted: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.chosen, self.token = folder, chosen, secrets.token_hex(16)
        self.parties: dict[str, Party] = {}
        self._libraries, self._opened = clock_libraries(folder), opened
        for name in PARTIES:
            self.equip(name)
        write_durably(folder / "scenario.yaml", yaml.safe_dump(chosen.wire()).encode())
        ports = {name: free_port() for name in PARTIES[:3]}
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        of = {name: ["--state", str(self.state(name))] for name in PARTIES}
        served = {name: [*of[name], "--port", str(ports[name])] for name in ports}
        opened.callback(self._stop)
        self._start("witness", f"{referee.__name__}.cli", "witness", *served["witness"])
        self._start(
            "curator",
            f"{curator.__name__}.cli",
            "serve",
            str(folder / "scenario.yaml"),
            "--seed",
            "1",
            *served["curator"],
        )
        self.parties["witness"].wait_for("listens on")
        ways = ["--curator", self.urls["curator"], "--witness", self.urls["witness"]]
        self._start("referee", f"{referee.__name__}.cli", "serve", *ways, *served["referee"])
        self.parties["referee"].wait_for("listens on")
        ways = [str(folder / "scenario.yaml"), "--seed", "1", "--referee", self.urls["referee"]]
        ways += [] if hosted is None else ["--agents", str(hosted)]
        self._start("host", f"{local_agent.__name__}.cli", "host", *ways, *of["host"])
        self.parties["curator"].wait_for("listens on")
        self.parties["host"].wait_for("hosts")
        self.remote = Remote(self.urls["referee"], self.token, patience=120.0)
        opened.callback(self.remote.close)

    def equip(self, name: str) -> None:
        """Give a party a disk and a clock.

        Raises
        ------
        BadInput
            If no disk can be mounted here.
        """
        self.state(name).mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "none", str(self.state(name))]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            raise BadInput("no disk can be mounted here: that needs root")
        self._opened.callback(subprocess.run, ["umount", "-l", str(self.state(name))], check=False)
        self.set_clock(name, "+0")

    def state(self, name: str) -> Path:
        """Return where a party's disk is."""
        return self.folder / name / "state"

    def set_clock(self, name: str, offset: str) -> None:
        """Let a party see a time that is so far from the true one, such as ``+1d``."""
        write_durably(self.folder / f"{name}.clock", f"{offset}\n".encode())

    def lacks(self, name: str) -> str:
        """Return what a service says that it lacks; nothing, if it is ready, and a word if it does not answer."""
        if name not in self.urls:
            return ""
        try:
            said = httpx.get(self.urls[name] + "/v1/ready", trust_env=False, timeout=3)
        except httpx.TransportError:
            return "does not answer"
        return "" if said.status_code == 200 else str(said.json().get("not_ready", "?"))

    def alive(self) -> list[str]:
        """Return the parties whose first process is still at work."""
        return [name for name, party in self.parties.items() if party.process.poll() is None]

    def environment(self, name: str) -> dict[str, str]:
        """Return what a party's process finds in its environment: the tokens, and what shows it its clock."""
        tokens = ("TANDEM_ENROLMENT_TOKEN", "TANDEM_OPERATOR_TOKEN", "TANDEM_WITNESS_TOKEN")
        environment = dict.fromkeys(tokens, self.token)
        if self._libraries is not None:
            clock = {"FAKETIME_TIMESTAMP_FILE": str(self.folder / f"{name}.clock"), "FAKETIME_CACHE_DURATION": "1"}
            environment |= {"LD_PRELOAD": self._libraries, "FAKETIME_DONT_FAKE_MONOTONIC": "1", **clock}
        return environment

    def _start(self, name: str, *arguments: str) -> None:
        self.parties[name] = Party(name, list(arguments), self.folder, self.environment(name))

    def _stop(self) -> None:
        for party in reversed(self.parties.values()):
            with suppress(OSError):
                party.stop()


@contextmanager
def deployment(folder: Path, chosen: ResolvedScenario, hosted: int | None = None) -> Iterator[Deployment]:
    """Start the parties, and end them; the host has so many people (default: all that the scenario wants)."""
    with ExitStack() as opened:
        yield Deployment(folder, chosen, opened, hosted)
