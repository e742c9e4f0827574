"""The real parties of one small run, each with its own state directory, on a clock that only the history moves."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.histories.determined import Clock, determined, quick
from benchmarks.histories.disk import Disk, Tree, moved
from benchmarks.histories.faults import Channel, Crash, Faults
from common.core.database import sqlite_url
from common.core.errors import BadInput, PeerUnavailable, Superseded, TandemError
from common.core.machine import Schedule
from common.local.records import Records
from common.log.witness import Witness
from common.scenario.scenario import ResolvedScenario, settled
from curator.startup import open_curator
from local_agent.host import Host
from local_agent.hosted.population import open_population
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.protocols.base import small_ball
from referee.service.referee import Referee, RefereeSettings

TOKEN = "a-token-for-histories"
RUN, SEED = "run", 1
REFEREES = ("referee", "standby")
"""The processes of the referee, on one database; whichever has the lease drives."""
LEASE = 10.0
FOLLOWS = 0.3
"""How likely a process looks at a wait what the other one has stored: else it goes on with what it remembers."""
HOSTED, INDIVIDUALS = 20, 4
AWAY = 9.0
"""Seconds for which nothing is heard of an agent that is away: longer than a question waits for the last ones."""
CURATOR_PATIENCE = 100.0
"""Seconds for which a run waits for one answer of its curator."""
MOST = 400
"""Waits after which a history that has not ended never will."""


class NeverEnds(Exception):
    """The run has neither ended nor said why it cannot."""


@cache
def scenario() -> ResolvedScenario:
    """Return the run of all histories: 24 people, three questions to eight of them each."""
    return settled(small_ball("agents.count=24", "agents.batch=8", "curator.n=400", "curator.learner.steps=40"))


class World:
    """Curator, referee, a host of 20 people and four individuals, who ask one another through faults.

    Args:
        folder: Their state directories, one below it for each.
        faults: What goes wrong.
        clock: The history's.
        disk: Where the folder is.

    Attributes:
        broken: What did not hold when something left a party.
    """

    def __init__(self, folder: Path, faults: Faults, clock: Clock, disk: Disk) -> None:
        self.folder, self.faults, self._clock, self.disk = folder, faults, clock, disk
        self.broken: list[str] = []
        self.waits = 0
        self._later: list[tuple[float | None, Callable[[], Any]]] = []
        self._away: dict[str, float] = {}
        self.dead: set[str] = set()
        self.driving: list[str] = []
        self.curator = self._open_curator()
        self.to_curator = Channel(
            faults, "referee", lambda: ("curator", self.curator), self._died, self._leaves, self._put_off, patient=True
        )
        self.referees = {name: self._open_referee(name) for name in REFEREES}
        self.key = self.referee.identity.public
        self.channels = {name: self._channel(name) for name in names()}
        self.hosts = {name: self._open_host(name) for name in names()}

    def close(self) -> None:
        """Let go of all state directories."""
        for party in (*self.hosts.values(), *self.referees.values(), self.curator):
            party.close()

    @property
    def referee(self) -> Referee:
        """One of the referee's processes; all of them have one database."""
        return self.referees[REFEREES[0]]

    def _channel(self, name: str) -> Channel:
        return Channel(self.faults, name, self._any_referee, self._died, self._leaves, self._put_off)

    @property
    def pinned(self) -> str | None:
        """The curator's key, as an auditor knows it; None: the auditor knows none."""
        return str(self.curator.key)

    def curator_port(self) -> Any:
        """Return how the referee reaches the curator."""
        return self.to_curator

    def referee_port(self, name: str) -> Any:
        """Return how an agent reaches the referee."""
        return self.channels[name]

    def witnesses(self) -> Sequence[Witness]:
        """Return who keeps checkpoints of the run; none here."""
        return ()

    def _any_referee(self) -> tuple[str, Referee]:
        """Return the process that a request reaches, as through a proxy."""
        name = self.faults.random.choice(REFEREES)
        if name in self.dead:
            raise PeerUnavailable("nobody listens there")
        return name, self.referees[name]

    def _open_curator(self) -> Any:
        return open_curator(scenario(), self.folder / "curator", SEED, None)

    def _open_referee(self, name: str) -> Referee:
        first = self.folder / REFEREES[0]
        referee = Referee(
            self.folder / name,
            self.curator_port(),
            settings=RefereeSettings(
                sqlite_url(first / "referee.sqlite"), first / "identity.key", LEASE, CURATOR_PATIENCE
            ),
            wait=lambda seconds: self.wait(name, seconds),
            clock=lambda: self._clock.now,
            witnesses=self.witnesses(),
        )
        try:
            referee.registrar.allow("enrolment", TOKEN)
        except BaseException:
            referee.close()
            raise
        return referee

    def _open_host(self, name: str) -> Host:
        schedule = Schedule(lambda: self._clock.now, lambda seconds: None)
        folder = self.folder / name
        answerer: Any
        if name == "host":
            answerer = open_population(scenario(), folder, SEED, self.key, HOSTED)
        else:
            record = Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
            answerer = Agent(record, PersonalPolicy(self.key, 2.0), folder)
        host = Host(answerer, self.referee_port(name), self.key, schedule=schedule)
        if name == "host":
            answerer.settle(0)
        return host

    def _died(self, party: str) -> None:
        """Open a party again whose process has ended; a driver is, once what it was at has ended."""
        if party in REFEREES:
            self.dead.add(party)
            self._lose(party)
            self._open_the_dead()
        elif party == "curator":
            self.curator.close()
            self._lose(party)
            self.curator = self._again(party, self._open_curator)
        else:
            self.hosts[party].close()
            self._lose(party)
            self.hosts[party] = self._again(party, lambda: self._open_host(party))

    def _open_the_dead(self) -> None:
        for name in REFEREES:
            if name in self.dead and name not in self.driving:
                self.referees[name].close()
                self.referees[name] = self._again(name, partial(self._open_referee, name))
                self.dead.discard(name)

    def _again(self, party: str, opening: Callable[[], Any]) -> Any:
        """Start a party again, as often as it takes: a start may be cut off, too."""
        for _ in range(20):
            with suppress(Crash, OSError, SQLAlchemyError), self.faults.working(party):
                try:
                    return opening()
                except TandemError as error:
                    if "disk" not in error.detail and "space" not in error.detail:
                        raise
            self._lose(party)
        raise NeverEnds(f"{party} cannot be opened again")

    def _lose(self, party: str) -> None:
        """Take from the disk of a party that has ended what a power cut takes; the referee's processes share one."""
        machine = REFEREES if party in REFEREES else (party,)
        if self.faults.unpowered.isdisjoint(machine):
            return
        self.faults.unpowered.difference_update(machine)
        if party in REFEREES:
            self.dead.update(REFEREES)
            for referee in self.referees.values():
                referee.close()
        lost = [what for name in machine for what in self.disk.cut(self.folder / name, self.faults.survives)]
        if lost:
            self.faults.log.append(f"{machine[0]} has lost {', '.join(lost)}")

    def _leaves(self, party: str, method: str, what: Any) -> None:
        """Check that what leaves a party is on its disk, and not only written."""
        machine = REFEREES[0] if party in REFEREES else party
        if not self.disk.committed(self.folder / machine):
            self.broken.append(
                f"on disk before it leaves: {machine} answers {method}, and may forget what it has stored"
            )
        if method == "report":
            stored = self.disk.holds(self.folder / party / "answered.json")
            answers = json.loads(stored or b"{}").get("answers", [])
            if what[0].wire() not in [answer["report"] for answer in answers]:
                self.broken.append(f"on disk before it leaves: {party} may forget that it has answered")
        if method == "report_packed":
            known = [self.disk.holds(path) or b"" for path in (self.folder / party / "answered").iterdir()]
            report = what[0].model_dump_json().encode() + b"\n" + what[1]
            if not any(stored.endswith(report) for stored in known):
                self.broken.append(f"on disk before it leaves: {party} may forget whom it has asked")

    # Working --------------------------------------------------------------------------------------------------------

    def wait(self, name: str, seconds: float) -> None:
        """Let everybody work who has something to do, or else a second pass; ``name`` drives, and waits."""
        self.waits += 1
        if self.waits > MOST:
            raise NeverEnds("the run waits for ever")
        with self.faults.idle():
            busy = self._all_work()
            if len(self.driving) == 1 and name not in self.dead and self.faults.stands_still(name):
                self._other_drives(name)
        if name in self.dead:
            raise Crash
        if not busy:
            self._clock.now += min(max(seconds, 0.01), 1.0)

    def _all_work(self) -> bool:
        self._open_the_dead()
        busy = self._deliver_late()
        for name in REFEREES:
            if self.faults.random.random() < FOLLOWS:
                self._follow(name)
        order = list(self.hosts)
        self.faults.random.shuffle(order)
        for name in order:
            busy |= self._step(name)
        return busy

    def _follow(self, name: str) -> None:
        """Learn what the other process has stored, as :mod:`referee.service.runner` does."""
        if name in self.dead:
            return
        try:
            with suppress(OSError, SQLAlchemyError), self.faults.working(name):
                self.referees[name].registrar.refresh()
                self.referees[name].collection.refresh()
        except Crash:
            self._died(name)

    def _other_drives(self, name: str) -> None:
        """Let the lease of a driver that stands still run out, and the other process drive while it does."""
        self._clock.now += LEASE + 1.0
        [other] = set(REFEREES) - {name}
        if other not in self.dead:
            self._drive(other)

    def _deliver_late(self) -> bool:
        now = self._clock.now
        due = [
            late for late in self._later if (self.faults.random.random() < 0.3 if late[0] is None else late[0] <= now)
        ]
        self._deliver(due)
        return bool(due)

    def _deliver(self, due: list[tuple[float | None, Callable[[], Any]]]) -> None:
        for late in due:
            self._later.remove(late)
            self.faults.log.append("a message that was late arrives")
            with suppress(TandemError):
                late[1]()

    def _put_off(self, party: str, away: bool, call: Callable[[], Any]) -> None:
        """Let a message come later: some time, or (``away``) when its sender is back."""
        until = self._clock.now + AWAY if away else None
        if until is not None:
            self._away[party] = until
        self._later.append((until, call))

    def _step(self, name: str) -> bool:
        host = self.hosts[name]
        if host.finished or self._clock.now < self._away.get(name, 0.0):
            return False
        try:
            with self.faults.working(name):
                return host.step()
        except TandemError as error:
            self.faults.log.append(f"{name}: {error.problem}")
        except (Crash, OSError):
            self._died(name)
        return False

    def _drive(self, name: str) -> dict[str, Any] | None:
        """Have a process carry the run on; None if it did not come to its end there."""
        self._open_the_dead()
        self.driving.append(name)
        try:
            with self.faults.working(name):
                self.referees[name].create(RUN, scenario().wire(), SEED)
                return self.referees[name].execute(RUN)
        except Superseded:
            self.faults.log.append(f"{name} does not drive")
        except Crash:
            self.dead.add(name)
            self._lose(name)
        except (OSError, SQLAlchemyError):
            self.faults.log.append(f"{name} tries again")  # as referee.service.runner does
        finally:
            self.driving.remove(name)
            self._open_the_dead()
        return None

    def run(self) -> dict[str, Any]:
        """Carry the run to its end, however often a process has to be started again, or another one drives."""
        for _ in range(MOST):
            result = self._drive(self.faults.random.choice(REFEREES))
            if result is not None:
                self._open_the_dead()
                with self.faults.over():
                    self._deliver([*self._later])
                return result
            self._clock.now += LEASE / 3
        raise NeverEnds("no process comes to the end of the run")


def names() -> tuple[str, ...]:
    """Return the agents of a history."""
    return ("host", *(f"agent-{number}" for number in range(INDIVIDUALS)))


@cache
def _prepared() -> tuple[Path, Tree]:
    """Return state directories in which all have enrolled, and what of them is on the disk.

    Keys are the same in every process.
    """
    folder = Path(tempfile.mkdtemp(prefix="tandem-histories-", dir=in_memory()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    clock, faults, disk = Clock(), Faults(0, 0.0, 0.0, 0.0), Disk(folder)
    with determined(0, clock), faults.installed(disk):
        world = World(folder, faults, clock, disk)
        for host in world.hosts.values():
            host.enrol(TOKEN)
        world.close()
    return folder, disk.tree


def in_memory() -> str | None:
    """Return a folder whose files are in memory; None where there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


Opening = Callable[[Path, Faults, Clock, Disk], World]


@contextmanager
def world(faults: Faults, kind: Opening = World) -> Iterator[World]:
    """Open the parties on fresh copies of directories in which all are enrolled."""
    (prepared, tree), clock = _prepared(), Clock()
    with tempfile.TemporaryDirectory(dir=in_memory()) as name, quick(), determined(faults.seed, clock):
        folder = Path(name) / "state"
        shutil.copytree(prepared, folder)
        disk = Disk(folder, moved(tree, prepared, folder))
        with faults.installed(disk), faults.over():
            opened = kind(folder, faults, clock, disk)
        try:
            with faults.installed(disk):
                yield opened
        finally:
            with suppress(BadInput):
                opened.close()
