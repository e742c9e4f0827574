"""What many tests need: a tiny scenario, and the three parties side by side, to be interrupted at any point."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from fastapi import FastAPI

from common.crypto.identity import Identity, Signed
from common.crypto.vouching import IssuerKey
from common.lifetime.charging import USERS_OWN, Charging
from common.log.entries import Head
from common.log.witness import Witness
from common.net import messages
from common.net.app import Service
from common.net.connection import Limits
from common.net.server import Server, listen
from common.protocols.base import demands_of
from common.scenario import loading
from common.scenario.scenario import ResolvedScenario, settled
from curator.curator import Curator
from curator.startup import open_curator
from deploy.checking import checked
from deploy.deployment import RunOutput
from deploy.remote import Remote
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.audit.audit import Audit, audit
from referee.protocols.base import BALL, PROTOCOLS, small_ball
from referee.runs.curator import CuratorPort
from referee.service.app import referee_app
from referee.service.referee import LEASE, Referee, RefereeSettings
from referee.service.runner import Runner
from tests.clocks import Clock

TOKEN = "a-token-for-tests"
SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
"""Where the public data sets are: below ``TANDEM_DATA``, or in ``../shared/data`` beside the project."""
TINY = BALL
ONE_QUESTION = ("agents.count=600", "agents.batch=600", "curator.rounds=1")
"""A tiny run that asks all its agents one question."""
ABOUT = [name for name in PROTOCOLS.shipped() if PROTOCOLS[name].problem is not None]
"""The shipped protocols about a problem."""
WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: httpx would load the system's authorities for each of them, which takes 30 ms."""
ALONE = [(name, side) for name in ABOUT for side in demands_of(name).alone]
"""Those of which something remains where the other side is left out, with the side."""


def database_of(folder: Path) -> str | None:
    """Return the URL of the database of a bench's referee; None: a file in its folder. Fixtures may replace this."""
    return None


def tiny(*overrides: str) -> ResolvedScenario:
    """Return a scenario that runs in well under a second and uses all its three rounds."""
    return settled(small_ball(*overrides))


@cache
def small(protocol: str, *overrides: str, alone: str | None = None) -> ResolvedScenario:
    sides = [] if alone is None else [f"alone={alone}"]
    return checked(loading.altered(PROTOCOLS[protocol].example()[0], [*sides, *overrides]))


def seal(party: Identity, message: Any) -> Signed:
    """Sign a message value as its own kind."""
    return party.sign(message.KIND, message.wire())


def public_data(name: str = "") -> Path:
    """Return the folder of a public data set; skips where it is not here."""
    folder = SHELF / name
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}: set TANDEM_DATA to that of the public data sets")
    return folder


def quiet(what: object, more: object) -> None:
    """Watch no progress of a run."""


class Halted(BaseException):
    """Stops a referee where it is, as a crash does."""


class _Gate:
    """A curator that lets runs be opened, and can be shut before any operation."""

    def __init__(self, curator: CuratorPort) -> None:
        self.curator = curator
        self.shut = False

    def open_run(self, signed: Signed) -> Signed:
        return self.curator.open_run(signed)

    def open_share(self, signed: Signed) -> Signed:
        return self.curator.open_share(signed)

    def perform(self, signed: Signed) -> Signed:
        if self.shut:
            raise Halted
        return self.curator.perform(signed)

    def acknowledge(self, signed: Signed) -> None:
        self.curator.acknowledge(signed)


class Curators:
    """A curator for each run, since one has a budget for one run; ``opening`` opens it in a folder."""

    def __init__(self, folder: Path, opening: Callable[[Path], Curator]) -> None:
        self._folder, self._opening = folder, opening
        self.of: dict[str, Curator] = {}

    def _find(self, run: str) -> Curator:
        if run not in self.of:
            self.of[run] = self._opening(self._folder / run)
        return self.of[run]

    def open_run(self, signed: Signed) -> Signed:
        return self._find(signed.message["run"]).open_run(signed)

    def open_share(self, signed: Signed) -> Signed:
        return self._find(signed.message["run"]).open_share(signed)

    def perform(self, signed: Signed) -> Signed:
        return self._find(signed.message["run"]).perform(signed)

    def acknowledge(self, signed: Signed) -> None:
        self._find(signed.message["run"]).acknowledge(signed)

    def close(self) -> None:
        for curator in self.of.values():
            curator.close()


class Bench:
    """Curator, referee and hosted people in one process; ``close`` does what a crash does: nothing but let go.

    Deadlines pass by ``clock``, which moves on only where nobody in this process has anything to do.
    """

    def __init__(
        self,
        folder: Path,
        chosen: ResolvedScenario | None = None,
        *,
        seed: int | None = 1,
        individuals: int = 0,
        curator: Callable[[Curator], CuratorPort] = lambda curator: curator,
        witnesses: Sequence[Witness] = (),
        watching: Sequence[Witness] = (),
        beacon: bool = False,
        issuers: Sequence[IssuerKey] = (),
        charging: Charging = USERS_OWN,
        lease: float = LEASE,
    ) -> None:
        self.folder = folder
        self.chosen = chosen or tiny()
        self.seed = seed
        heads: dict[str, Any] = {"witnesses": witnesses, "charging": charging}
        self.clock = Clock()
        with ExitStack() as opened:  # where a party cannot be opened, those before it are let go
            self.curator = open_curator(self.chosen, folder / "curator", seed, None, **heads)
            opened.callback(lambda: self.curator.close())
            self._gate = _Gate(curator(self.curator))
            settings = RefereeSettings(database_of(folder), lease=lease)
            ways: dict[str, Any] = {"settings": settings, "wait": self.wait, "clock": self.clock, "issuers": issuers}
            self.referee = Referee(folder / "referee", self._gate, witnesses=watching, beacon=beacon, **ways)
            opened.callback(self.referee.close)
            for purpose in ("enrolment", "operator"):
                self.referee.registrar.allow(purpose, TOKEN)
            key = self.referee.identity.public
            hosted = self.chosen.agents.count - individuals if individuals else None
            self.population = open_population(self.chosen, folder / "agents", seed, key, hosted)
            opened.callback(self.population.close)
            self.host = Host(self.population, self.referee, key)
            self.host.enrol(TOKEN)
            self._opened = opened.pop_all()
        self._requests: dict[str, messages.Perform] = {}
        self.seen: Head | None = None
        self.hooks: list[Callable[[], object]] = []

    def poll(self, who: Identity) -> Signed | None:
        """Return what somebody is asked, if anything."""
        return self.referee.poll(seal(who, messages.Poll(participant=who.public)))

    def enrol(self, who: Identity, agents: int = 1) -> Signed:
        return self.referee.enrol(seal(who, messages.Enrolment(agents=agents)), TOKEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def use(self, curator: Curator) -> None:
        """Go on with another curator in the place of the one there was."""
        self.curator = self._gate.curator = curator

    def wait(self, seconds: float) -> None:
        """Let the hosted people work, or else the seconds pass."""
        if self.hooks:
            self.hooks.pop(0)()
        elif not self.host.step():
            self.clock.wait(seconds)

    def meanwhile(self, attack: Callable[[], object]) -> None:
        """While the next question is open and unanswered, do this."""
        self.hooks.append(attack)

    def during(self, attack: Callable[[], object]) -> dict[str, Any]:
        """Run to the end, with this at the first question, which must get to its own end."""
        ended: list[object] = []
        self.meanwhile(lambda: ended.append(attack()))
        result = self.run()
        assert ended
        return result

    def run(self, name: str = "run") -> dict[str, Any]:
        """Carry a run to its end (or on from where it was)."""
        self.referee.create(name, self.chosen.wire(), self.seed)
        return self.referee.execute(name)

    def open(self, name: str = "run") -> tuple[str, str]:
        """Begin a run as far as the curator is concerned; return its name and digest."""
        self.referee.create(name, self.chosen.wire(), self.seed)
        self._gate.shut = True
        try:
            self.referee.execute(name)
        except Halted:
            self._gate.shut = False
        return name, messages.Configuration.parse(self.referee.configuration(name).message).fingerprint()

    def perform(self, operation_id: int, operation: dict[str, Any], name: str = "run") -> messages.StoredRelease:
        """Ask the curator for an operation in the referee's name."""
        digest = messages.Configuration.parse(self.referee.configuration(name).message).fingerprint()
        seen = self.head(name)
        request = messages.Perform(
            run=name, digest=digest, operation_id=str(operation_id), operation=operation, seen=seen
        )
        known = self._requests.get(request.operation_id)
        if known is not None and known.operation == operation:
            request = known  # to ask again is to send the same again
        release = messages.StoredRelease.parse(self.curator.perform(seal(self.referee.identity, request)).message)
        self._requests[request.operation_id] = request
        self.seen = release.ledger.head
        return release

    def head(self, name: str = "run") -> Head:
        """Return the newest head of the curator's ledger that the referee has seen."""
        if self.seen is None:
            terms = self.curator.open_run(self.referee.configuration(name))
            self.seen = messages.Terms.parse(terms.message).ledger.head
        return self.seen

    def finished(self, name: str = "run") -> RunOutput:
        result = self.referee.store.run(name).result
        assert result is not None
        return RunOutput.of(result, self.referee, name)

    def app(self) -> Service:
        """Return the referee as a service that takes requests and drives nothing."""
        return referee_app(self.referee, Runner(self.referee))

    def leave(self, name: str = "run") -> Path:
        """Write the folder of a run that has ended, beside the bench's own folder."""
        return leave_folder(self.folder.parent / name, self.chosen, self.seed, self.finished(name))


def audited(bench: Bench, name: str = "run") -> Audit:
    """Audit what a run of the bench has left."""
    return audit(leave_folder(bench.folder / f"left-{name}", bench.chosen, bench.seed, bench.finished(name)))


def leave_folder(folder: Path, chosen: ResolvedScenario, seed: int, finished: RunOutput) -> Path:
    """Write the run folder that ``referee run`` writes."""
    finished.write(folder, chosen, truth=None, peak_memory_bytes=0, run=str(folder))
    return folder


@contextmanager
def operated(folder: Path, curator: Curator, *origins: str) -> Iterator[tuple[Referee, str, Remote]]:
    """Serve a referee that drives a curator; gives it, its address, and what its operator gives orders with.

    Pages of these origins may ask it.
    """
    with ExitStack() as opened:
        referee = opened.enter_context(closing(Referee(folder / "referee", curator)))
        referee.registrar.allow("enrolment", TOKEN)
        referee.registrar.allow("operator", TOKEN)
        runner = Runner(referee)
        runner.start()
        opened.callback(runner.stop)
        address = opened.enter_context(served(referee_app(referee, runner, origins=origins), Limits(2500)))
        yield referee, address, opened.enter_context(closing(Remote(address, TOKEN, patience=600)))


@contextmanager
def served(
    app: FastAPI,
    limits: Limits = Limits(1000),  # noqa: B008 - a value
    tls: ssl.SSLContext | None = None,
) -> Iterator[str]:
    """Serve an app on loopback from a thread; gives its address."""
    import threading

    listener = listen("127.0.0.1", 0)
    serving = Server(app, limits, tls, grace=1.0)
    thread = threading.Thread(target=serving.run, args=(listener,))
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        serving.stop()
        thread.join(120)
        listener.close()


@contextmanager
def asking(app: FastAPI, token: str = TOKEN) -> Iterator[httpx.Client]:
    """Serve an app; gives a client that shows a token (none where it is empty)."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    common: dict[str, Any] = {"trust_env": False, "verify": WITHOUT_TLS, "timeout": 600}
    with served(app) as url, httpx.Client(base_url=url, headers=headers, **common) as client:
        yield client


def fetch(method: str, url: str, **parts: Any) -> httpx.Response:
    """Send a request over plain HTTP."""
    return httpx.request(method, url, trust_env=False, verify=WITHOUT_TLS, timeout=60, **parts)
