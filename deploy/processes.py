"""Run each party as a real process on this machine, over HTTP on loopback; restart a party that dies."""

import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

import curator
import local_agent
import referee
from common.core.durable import write_durably
from common.core.errors import PeerUnavailable
from common.core.machine import python_environment, python_module
from common.core.threads import Supervised
from common.crypto.identity import Identity
from common.lifetime.charging import USERS_OWN, Charging
from common.net.cli import ENDS_WITH_STDIN, EXIT_STATUSES
from common.net.tls import OF_SERVICES
from common.scenario.scenario import ResolvedScenario
from curator.startup import check_room
from deploy.deployment import OnProgress, RunOutput, spent_over_all_runs
from deploy.remote import Remote

START = 300.0  # seconds that a party may take to start, including drawing or loading its people
LIVES = 5  # how often a party is started before the deployment gives up


class PartyProcess:
    """One child process that is restarted when it dies.

    Args:
        arguments: A module of Tandem's, and its arguments.
        folder: Working directory; its standard error goes to a file there.
        environment: Additional environment. This process's settings for a service's own TLS are not passed on.
        lives: How often it is started at most.
    """

    def __init__(
        self, name: str, arguments: list[str], folder: Path, environment: dict[str, str], lives: int = LIVES
    ) -> None:
        self.name = name
        self._arguments = arguments
        self._folder = folder
        # Its standard input is a pipe that nothing is written to, which closes when this process ends in any way.
        inherited = {name: value for name, value in python_environment().items() if name not in OF_SERVICES}
        self._environment = {**inherited, **environment, ENDS_WITH_STDIN: "1"}
        self._stopping = False
        self._changing = threading.Lock()
        self._printed = threading.Condition()
        self._lines: list[str] = []
        self._threads = Supervised(f"watch-{name}")
        self.process = self._start()
        self._lives = lives
        self._watcher = self._threads.start(self._watch)

    def wait_for(self, text: str) -> str:
        """Return the first line on its standard output that contains a text.

        PeerUnavailable, with the last line of its standard error, if the process ended or does not print it in time.
        """
        deadline = time.monotonic() + START
        with self._printed:
            while True:
                match = next((line for line in self._lines if text in line), None)
                if match is not None:
                    return match
                if self._lives == 0 or time.monotonic() > deadline:
                    raise PeerUnavailable(f"the {self.name} did not start: {self.complaint()}")
                self._printed.wait(0.5)

    def complaint(self) -> str:
        return (self.logged().strip().splitlines() or ["it printed nothing"])[-1]

    @property
    def printed(self) -> list[str]:
        """The lines on its standard output so far, over all restarts."""
        with self._printed:
            return list(self._lines)

    @property
    def dead(self) -> bool:
        """Whether it has died and is not restarted."""
        return self._lives == 0

    def let_die(self, *, for_good: bool) -> None:
        self._stopping = for_good

    def logged(self) -> str:
        return (self._folder / f"{self.name}.log").read_text("utf-8", errors="replace")

    def stop(self) -> None:
        with self._changing:  # no new process is being started now, and none will be
            self._stopping = True
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._watcher.join(10)
        self._close_input()

    def _close_input(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _start(self) -> subprocess.Popen[str]:
        with (self._folder / f"{self.name}.log").open("ab") as errors:
            process = subprocess.Popen(  # noqa: S603 - Tandem's own modules, arguments as a list
                [*python_module(self._arguments[0]), *self._arguments[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                env=self._environment,
            )
        self._threads.start(lambda: self._read(process), "output")
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            return
        for line in process.stdout:
            with self._printed:
                self._lines.append(line.rstrip("\n"))
                self._printed.notify_all()
        process.stdout.close()

    def _watch(self) -> None:
        while self._lives:
            began = time.monotonic()
            self.process.wait()
            if self._stopping:
                return
            self._close_input()
            # A process that ends at once, or with a reason, has wrong arguments: a restart would not help.
            reasoned = self.process.returncode in EXIT_STATUSES
            early = (reasoned or time.monotonic() - began < 5) and not self._lines
            with self._printed:
                self._lives = 0 if early else self._lives - 1
                self._printed.notify_all()
            with self._changing:
                if self._lives and not self._stopping:
                    self.process = self._start()


Parties = dict[str, PartyProcess]


def new_tokens() -> dict[str, str]:
    """Return new tokens for a referee's operator and enrolments, as environment variables."""
    return {f"TANDEM_{kind}_TOKEN": secrets.token_hex(16) for kind in ("ENROLMENT", "OPERATOR")}


@contextmanager
def services(
    folder: Path, tokens: dict[str, str], of_curator: Sequence[str], of_referee: Sequence[str]
) -> Iterator[tuple[Parties, list[str]]]:
    """Start a curator and a referee on loopback; the folders with their names hold their state.

    Yields the parties, which are all stopped at the end, including those added later, and the options for the referee.
    """
    curator_port, referee_port = free_port(), free_port()
    key = ["--referee-key", Identity.load_or_create(folder / "referee" / "identity.key").public]
    parties: Parties = {}
    try:
        for name, module, port, arguments in (
            ("curator", curator, curator_port, [*of_curator, *key]),
            ("referee", referee, referee_port, [*of_referee, "--curator", f"http://127.0.0.1:{curator_port}"]),
        ):
            own = ["--port", str(port), "--state", str(folder / name)]
            parties[name] = PartyProcess(name, [f"{module.__name__}.cli", "serve", *arguments, *own], folder, tokens)
        yield parties, ["--referee", f"http://127.0.0.1:{referee_port}", *key]
    finally:
        for party in reversed(parties.values()):
            party.stop()


class Processes:
    """A deployment of real processes on loopback; ``started`` is called with the parties once they run."""

    def __init__(
        self, state: Path, *, started: Callable[[Parties], None] = lambda parties: None, charging: Charging = USERS_OWN
    ) -> None:
        self._state = state
        self._started = started
        self._charging = replace(charging, both=True)

    def check(self, scenario: ResolvedScenario) -> None:
        check_room(scenario, self._state / "curator")

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> RunOutput:
        self._state.mkdir(parents=True, exist_ok=True)
        chosen = self._state / "scenario.yaml"
        write_durably(chosen, yaml.safe_dump(scenario.wire()).encode())
        tokens = new_tokens()
        seeds = [] if seed is None else ["--seed", str(seed)]
        own = ["--ephemeral"] if self._charging.ephemeral else []
        if self._charging.folder is not None:
            own += ["--ledger", str(self._charging.folder)]
        own += [*(f"--ledger-witness={place}" for place in self._charging.witnesses), *seeds]
        with services(self._state, tokens, [str(chosen), *own], []) as (parties, referee_options):
            parties["referee"].wait_for("listens on")
            agents = ["host", str(chosen), "--state", str(self._state / "agents"), *referee_options, *own]
            parties["agents"] = PartyProcess("agents", [f"{local_agent.__name__}.cli", *agents], self._state, tokens)
            parties["agents"].wait_for("hosts")
            parties["curator"].wait_for("listens on")
            self._started(parties)
            with closing(Remote(referee_options[1], tokens["TANDEM_OPERATOR_TOKEN"])) as remote:
                finished = remote.run(scenario, seed, run, on_progress, lambda: _check_alive(parties))
            return replace(finished, all_runs=spent_over_all_runs(finished.transcript, scenario, self._charging))


def _check_alive(parties: Parties) -> None:
    """Raise PeerUnavailable, with the last line of its standard error, if a party is dead and not restarted.

    Otherwise the run would wait for it forever.
    """
    for name, party in parties.items():
        if party.dead:
            raise PeerUnavailable(f"the {name} died again and again: {party.complaint()}")


def free_port() -> int:
    """Return a free loopback port for a service to listen on.

    On Linux a socket stays bound to the port until this process ends. So the system does not assign it to a process
    that asks for any free port, while a service that names it can listen on it.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":
        holder.detach()
    else:
        holder.close()
    return port
