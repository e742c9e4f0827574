"""Real processes, each with a disk and a clock of its own, at which faults can strike."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from common.core.durable import write_durably
from common.core.errors import BadInput, RunFailed
from deploy.processes import PartyProcess, free_port

DISK = "320m"
LIVES = 20
"""How often a party is started: more often than it is killed."""
PATIENCE = 120.0
"""Seconds in which something must happen once a fault is gone."""
LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")
"""Where packages put what lets a process see another time."""
TOKENS = (
    "TANDEM_ENROLMENT_TOKEN",
    "TANDEM_OPERATOR_TOKEN",
    "TANDEM_WITNESS_TOKEN",
    "TANDEM_CONTRIBUTION_TOKEN",
)


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


class Machines:
    """Processes by name, each of which has a small disk and a clock of its own.

    Args:
        folder: For states, logs and clocks.
        opened: What ends when they do.

    Attributes:
        parties: The processes.
        urls: Addresses of those that are services.
    """

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.token = folder, secrets.token_hex(16)
        self.parties: dict[str, PartyProcess] = {}
        self.urls: dict[str, str] = {}
        self._libraries, self._opened = clock_libraries(folder), opened

    def equip(self, name: str) -> Path:
        """Give a party a disk and a clock, and return where the disk is.

        Raises:
            BadInput: If no disk can be mounted here.
        """
        self.state(name).mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "none", str(self.state(name))]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            raise BadInput("no disk can be mounted here: that needs root")
        self._opened.callback(subprocess.run, ["umount", "-l", str(self.state(name))], check=False)
        self.set_clock(name, "+0")
        return self.state(name)

    def start(self, name: str, *arguments: str) -> PartyProcess:
        """Start a party, ``python -m`` with arguments; it ends when all do."""
        party = self.parties[name] = PartyProcess(
            name, list(arguments), self.folder, self.environment(name), lives=LIVES
        )
        self._opened.callback(_end, party)
        return party

    def serve(self, name: str, *arguments: str) -> PartyProcess:
        """Start a service at a port of its own, which it keeps when it has died and is started again."""
        port = free_port()
        self.urls[name] = f"http://127.0.0.1:{port}"
        return self.start(name, *arguments, "--port", str(port))

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

    def wait_until_ready(self, name: str) -> None:
        """Wait until a service lacks nothing.

        Raises:
            RunFailed: If it goes on lacking something.
        """
        until = time.monotonic() + PATIENCE
        while lacks := self.lacks(name):
            if time.monotonic() > until:
                raise RunFailed(f"the {name} is not ready again: {lacks}")
            time.sleep(0.05)

    def environment(self, name: str) -> dict[str, str]:
        """Return what a party's process finds in its environment: the tokens, and what shows it its clock."""
        environment = dict.fromkeys(TOKENS, self.token)
        if self._libraries is not None:
            clock = {"FAKETIME_TIMESTAMP_FILE": str(self.folder / f"{name}.clock"), "FAKETIME_CACHE_DURATION": "1"}
            environment |= {"LD_PRELOAD": self._libraries, "FAKETIME_DONT_FAKE_MONOTONIC": "1", **clock}
        return environment


def _end(party: PartyProcess) -> None:
    with suppress(OSError):
        party.stop()
