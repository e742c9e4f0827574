"""One phase of a load test: every agent makes one request, on a schedule; what each took is written down."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.core.errors import BadInput
from deploy.load.client import Answer, Connection, LightAgent

SCHEDULES = ("closed", "poisson", "at-once")
"""Closed: a request follows an answer, on each connection. Poisson: as they come, at a rate. At once: all of them."""
TRIES = 100
"""How often an agent asks that is told to come again later, or whose connection is lost."""
OTHERS = 256
"""Descriptors of a generator beside its connections."""
Ask = Callable[[LightAgent], bytes]
Done = Callable[[LightAgent, Answer], None]


@dataclass
class Load:
    """How agents come.

    Attributes:
        host, port: The referee's.
        schedule, rate: When they come; the rate (a second) is for ``poisson`` only.
        connections: How many are open, at most.
        pid: The referee's process on this machine, if it is known.
        commits: Returns how many transactions the referee has committed so far, if it says so.
        on_progress: Called with the phase, how many are done, and how many there are.
        tls: How the referee is dialled; None: in the clear.
    """

    host: str
    port: int
    schedule: str = "closed"
    rate: float = 0.0
    connections: int = 128
    pid: int | None = None
    commits: Callable[[], int | None] = lambda: None
    on_progress: Callable[[str, int, int], None] = lambda phase, done, all_of_them: None
    tls: ssl.SSLContext | None = None


@dataclass
class Measured:
    """What the requests of a phase took."""

    seconds: float = 0.0
    taken: int = 0
    latencies: list[float] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    referee_cpu: float | None = None
    commits: int | None = None
    generator_cpu: float = 0.0
    sent: int = 0
    received: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as JSON; latencies in milliseconds, CPU time in microseconds a request."""
        count = max(1, len(self.latencies))
        p50, p99, p999 = np.quantile(self.latencies or [0.0], [0.5, 0.99, 0.999]) * 1e3
        referee = None if self.referee_cpu is None else round(self.referee_cpu / count * 1e6, 1)
        return {
            "requests": len(self.latencies),
            "per_second": round(self.taken / self.seconds, 1) if self.seconds else 0.0,
            "p50_ms": round(float(p50), 2),
            "p99_ms": round(float(p99), 2),
            "p999_ms": round(float(p999), 2),
            "cpu_us_referee": referee,
            "cpu_us_generator": round(self.generator_cpu / count * 1e6, 1),
            "commits": self.commits,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "rejected": dict(self.rejected),
        }


async def phase(name: str, load: Load, agents: Iterable[LightAgent], count: int, ask: Ask, then: Done) -> Measured:
    """Have every agent make a request, and return what that took.

    Args:
        ask: Makes the request.
        then: Called with each answer that is none of a problem.
    """
    allow_descriptors(load.connections)
    going = _Phase(name, load, count, ask, then)
    await going.connect(min(load.connections, max(1, count)))
    committed = await asyncio.to_thread(load.commits)
    began, own, theirs = time.perf_counter(), time.process_time(), cpu_of(load.pid)
    await going.ask_all(agents)
    measured = going.measured
    measured.seconds = time.perf_counter() - began
    measured.generator_cpu = time.process_time() - own
    after = cpu_of(load.pid)
    measured.referee_cpu = None if theirs is None or after is None else after - theirs
    now = await asyncio.to_thread(load.commits)
    measured.commits = None if committed is None or now is None else now - committed
    going.close()
    load.on_progress(name, len(measured.latencies), count)
    return measured


class _Phase:
    """A phase under way: its connections, and what was measured so far."""

    def __init__(self, name: str, load: Load, count: int, ask: Ask, then: Done) -> None:
        self._name, self._load, self._count, self._ask, self._then = name, load, count, ask, then
        self.measured = Measured()
        self._connections: list[Connection] = []
        self._reported = time.perf_counter()

    async def connect(self, count: int) -> None:
        for _ in range(count):
            await self._connection()

    async def _connection(self) -> Connection:
        made = await Connection.to(self._load.host, self._load.port, tls=self._load.tls)
        self._connections.append(made)
        return made

    async def ask_all(self, agents: Iterable[LightAgent]) -> None:
        """Have the agents make their requests, by the schedule of the load."""
        if self._load.schedule == "poisson":
            idle: asyncio.Queue[Connection] = asyncio.Queue()
            for connection in self._connections:
                idle.put_nowait(connection)
            await _as_they_come(self._load.rate, agents, idle, self._make)
            return
        rest = iter(agents)

        async def one_after_the_other(connection: Connection) -> None:
            for agent in rest:
                connection = await self._make(agent, connection)

        await asyncio.gather(*(one_after_the_other(connection) for connection in list(self._connections)))

    async def _make(self, agent: LightAgent, connection: Connection) -> Connection:
        """Make a request, again where it must be; return a connection that can be used."""
        measured, raw = self.measured, self._ask(agent)
        for _ in range(TRIES):
            start = time.perf_counter()
            try:
                answer = await connection.request(raw)
            except ConnectionError:
                # The same request again changes nothing if the first one has come.
                measured.rejected["connection lost"] += 1
                await asyncio.sleep(random.uniform(0.5, 1.5))
                connection = await self._connection()
                continue
            measured.latencies.append(time.perf_counter() - start)
            if answer.status != 503:
                break
            # As a real agent does: it comes again, at about the time that it was told.
            measured.rejected[_reason(answer)] += 1
            await asyncio.sleep(float(answer.header(b"retry-after") or 1.0) * random.uniform(0.5, 1.5))
        else:
            return connection
        if answer.status < 300:
            measured.taken += 1
            self._then(agent, answer)
        else:
            measured.rejected[_reason(answer)] += 1
        if time.perf_counter() - self._reported > 0.5:
            self._reported = time.perf_counter()
            self._load.on_progress(self._name, len(measured.latencies), self._count)
        return connection

    def close(self) -> None:
        """Close all connections, and add up what they carried."""
        for connection in self._connections:
            self.measured.sent += connection.sent
            self.measured.received += connection.received
            connection.close()


async def _as_they_come(rate: float, agents: Iterable[LightAgent], idle: asyncio.Queue[Connection], make: Any) -> None:
    """Start requests at random moments; who finds no idle connection waits for one."""
    running: set[asyncio.Task[None]] = set()
    due = time.perf_counter()

    async def one(agent: LightAgent) -> None:
        idle.put_nowait(await make(agent, await idle.get()))

    for agent in agents:
        due += random.expovariate(rate)
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.ensure_future(one(agent))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


def cpu_of(pid: int | None) -> float | None:
    """Return the seconds of CPU that a process of this machine has used, all threads; None if that is not known."""
    if pid is None:
        return None
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / 100.0


def _reason(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["type"]).rpartition(":")[2]
    except (ValueError, KeyError, TypeError):
        return str(answer.status)


def allow_descriptors(connections: int) -> None:
    """Let this process have so many connections open.

    Raises:
        BadInput: If it may not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < connections + OTHERS:
        raise BadInput(
            f"{connections:,} connections at once need more open files than this process may have, {hard:,}: raise "
            f"ulimit -n, or take at most {max(0, hard - OTHERS):,} (--connections; at-once: --individuals)"
        )
    if soft != resource.RLIM_INFINITY and soft < connections + OTHERS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (connections + OTHERS, hard))
