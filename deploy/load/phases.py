"""One phase of a load test: every agent makes one request, on a schedule, and each request is measured."""

import asyncio
import heapq
import json
import random
import resource
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.core.errors import BadInput, RunFailed
from common.core.machine import cpu_seconds
from deploy.load.client import Answer, Connection, LightAgent, request
from referee.collection.roster import usual_pause
from referee.service.agents_edge import HOLD

TRIES = 100  # attempts of an agent that gets a retry response, or whose connection is lost
OTHERS = 256  # descriptors of a load generator beside its connections
Ask = Callable[[LightAgent], bytes]
Done = Callable[[LightAgent, Answer], None]


@dataclass
class Load:
    """How agents arrive.

    Attributes:
        schedule, rate: When they arrive; the rate (per second) is for ``poisson`` only.
        pid: The referee's process on this machine, if known.
        commits: Returns how many transactions the referee has committed so far, if it reports that.
        tls: TLS context for connections to the referee; None: unencrypted.
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
    """Measurements of the requests of a phase."""

    seconds: float = 0.0
    accepted: int = 0
    latencies: list[float] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    referee_cpu: float | None = None
    commits: int | None = None
    generator_cpu: float = 0.0
    sent: int = 0
    received: int = 0

    def document(self) -> dict[str, Any]:
        """Return the measurements as JSON; latencies in milliseconds, CPU time in microseconds per request."""
        count = max(1, len(self.latencies))
        p50, p99, p999 = np.quantile(self.latencies or [0.0], [0.5, 0.99, 0.999]) * 1e3
        referee = None if self.referee_cpu is None else round(self.referee_cpu / count * 1e6, 1)
        return {
            "requests": len(self.latencies),
            "per_second": round(self.accepted / self.seconds, 1) if self.seconds else 0.0,
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


async def phase(name: str, load: Load, agents: Sequence[LightAgent], ask: Ask, then: Done) -> Measured:
    """Have every agent make a request, and return the measurements; ``then`` gets each answer that is no problem."""
    allow_descriptors(load.connections)
    running = _Phase(name, load, len(agents), ask, then)
    for _ in range(min(load.connections, max(1, len(agents)))):
        await running.connect()
    committed = await asyncio.to_thread(load.commits)
    began, own, theirs = time.perf_counter(), time.process_time(), cpu_of(load.pid)
    await running.ask_all(agents)
    measured = running.measured
    measured.seconds = time.perf_counter() - began
    measured.generator_cpu = time.process_time() - own
    measured.referee_cpu = _difference(cpu_of(load.pid), theirs)
    now = await asyncio.to_thread(load.commits)
    measured.commits = None if committed is None or now is None else now - committed
    for connection in running.connections:
        measured.sent += connection.sent
        measured.received += connection.received
        connection.close()
    load.on_progress(name, len(measured.latencies), len(agents))
    return measured


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


class _Phase:
    """A phase in progress: its connections, and the measurements so far."""

    def __init__(self, name: str, load: Load, count: int, ask: Ask, then: Done) -> None:
        self._name, self._load, self._count, self._ask, self._then = name, load, count, ask, then
        self.measured = Measured()
        self.connections: list[Connection] = []
        self._reported = time.perf_counter()

    async def connect(self) -> Connection:
        connection = await Connection.to(self._load.host, self._load.port, tls=self._load.tls)
        self.connections.append(connection)
        return connection

    async def ask_all(self, agents: Sequence[LightAgent]) -> None:
        if self._load.schedule == "poisson":
            await self._as_they_come(agents)
            return
        rest = iter(agents)

        async def one_after_the_other(connection: Connection) -> None:
            for agent in rest:
                connection = await self._make(agent, connection)

        await asyncio.gather(*(one_after_the_other(connection) for connection in list(self.connections)))

    async def _as_they_come(self, agents: Sequence[LightAgent]) -> None:
        """Start requests at random times; an agent without an idle connection waits for one."""
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in self.connections:
            idle.put_nowait(connection)

        async def one(agent: LightAgent) -> None:
            idle.put_nowait(await self._make(agent, await idle.get()))

        due = time.perf_counter()
        async with asyncio.TaskGroup() as running:
            for agent in agents:
                due += random.expovariate(self._load.rate)
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                running.create_task(one(agent))

    async def _make(self, agent: LightAgent, connection: Connection) -> Connection:
        """Make a request, with retries if needed; return a connection that can be used."""
        measured, raw = self.measured, self._ask(agent)
        for _ in range(TRIES):
            start = time.perf_counter()
            try:
                answer = await connection.request(raw)
            except ConnectionError:
                # A repeated request changes nothing if the first one has arrived.
                measured.rejected["connection lost"] += 1
                await asyncio.sleep(random.uniform(0.5, 1.5))
                with suppress(ConnectionError):  # if this fails, the next request fails too, and is retried
                    connection = await self.connect()
                continue
            measured.latencies.append(time.perf_counter() - start)
            if answer.status != 503:
                break
            # Like a real agent, retry at about the time that the answer states.
            measured.rejected[_reason(answer)] += 1
            await asyncio.sleep(float(answer.header(b"retry-after") or 1.0) * random.uniform(0.5, 1.5))
        else:
            return connection
        if answer.status < 300:
            measured.accepted += 1
            self._then(agent, answer)
        else:
            measured.rejected[_reason(answer)] += 1
        if time.perf_counter() - self._reported > 0.5:
            self._reported = time.perf_counter()
            self._load.on_progress(self._name, len(measured.latencies), self._count)
        return connection


def cpu_of(pid: int | None) -> float | None:
    """Return the CPU seconds that all threads of a process of this machine have used; None if that is not known."""
    if pid is not None:
        with suppress(OSError, IndexError):
            return cpu_seconds(pid)
    return None


def _reason(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["type"]).rpartition(":")[2]
    except (ValueError, KeyError, TypeError):
        return str(answer.status)


def allow_descriptors(connections: int) -> None:
    """Raise the descriptor limit for so many open connections; BadInput if that is not allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < connections + OTHERS:
        raise BadInput(
            f"{connections:,} connections at once need more open files than this process may have, {hard:,}: raise "
            f"ulimit -n, or take at most {max(0, hard - OTHERS):,} (--connections; at-once: --individuals)"
        )
    if soft != resource.RLIM_INFINITY and soft < connections + OTHERS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (connections + OTHERS, hard))


SOURCES = 64
"""Loopback addresses used in turn for connections: each has 28,000 ports, and an edge limits each one separately."""
AT_ONCE = 4096  # most polls in progress at the same time
SLACK = 3.0  # seconds beyond the longest hold before a poll counts as held too long


@dataclass
class IdlePolls:
    """Measurements of the polls of idle agents."""

    agents: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    asked: int = 0
    late: int = 0
    referee_cpu: float | None = None
    peak_open: int = 0

    def document(self) -> dict[str, Any]:
        """Return as JSON how many agents polled, how often, how long polls were held, and the share of a core used."""
        p50, p99 = np.quantile(self.latencies or [0.0], [0.5, 0.99])
        share = None if self.referee_cpu is None else round(self.referee_cpu / max(self.seconds, 1e-9), 4)
        return {
            "agents": self.agents,
            "seconds": round(self.seconds, 2),
            "polls": len(self.latencies),
            "polls_per_second": round(len(self.latencies) / max(self.seconds, 1e-9), 1),
            "held_p50_seconds": round(float(p50), 3),
            "held_p99_seconds": round(float(p99), 3),
            "held_longest_seconds": round(max(self.latencies, default=0.0), 3),
            "held_too_long": self.late,
            "refused": self.refused,
            "asked": self.asked,
            "connections_at_once": self.peak_open,
            "referee_cores": share,
        }


async def poll_idly(agents: list[LightAgent], load: Load, seconds: float, name: str) -> IdlePolls:
    """Have agents poll for so many seconds, each at the times that it was given, and return the measurements.

    They are enrolled and are asked no question. ``name`` is the referee's host and port, for the Host header. RunFailed
    if no poll is answered.
    """
    allow_descriptors(min(len(agents), AT_ONCE))
    polling = _Polling(agents, load, name)
    before = cpu_of(load.pid)
    await polling.go_on(seconds)
    idle = polling.idle
    idle.seconds = time.perf_counter() - polling.began
    idle.referee_cpu = _difference(cpu_of(load.pid), before)
    await asyncio.gather(*polling.running)
    if not idle.latencies:
        raise RunFailed("no poll of an idle agent was answered")
    return idle


class _Polling:
    """Agents that poll: when each is due, and the measurements of its polls."""

    def __init__(self, agents: list[LightAgent], load: Load, name: str) -> None:
        self._agents, self._load, self._name = agents, load, name
        # Only on Linux are all addresses of 127.0.0.0/8 loopback addresses.
        self._loopback = sys.platform == "linux" and load.host in ("127.0.0.1", "localhost")
        self.idle, self._open = IdlePolls(len(agents)), 0
        # The first polls are spread over a usual pause, so that the rate is the same as later.
        self._due = [(random.uniform(0.0, usual_pause(len(agents))), i) for i in range(len(agents))]
        heapq.heapify(self._due)
        self.running: set[asyncio.Task[None]] = set()
        self.began = time.perf_counter()

    async def go_on(self, seconds: float) -> None:
        while (now := time.perf_counter() - self.began) < seconds:
            while self._due and self._due[0][0] <= now and len(self.running) < AT_ONCE:
                task = asyncio.ensure_future(self._poll(heapq.heappop(self._due)[1]))
                self.running.add(task)
                task.add_done_callback(self.running.discard)
            await asyncio.sleep(0.005)

    async def _poll(self, i: int) -> None:
        idle, agent, start = self.idle, self._agents[i], time.perf_counter()
        self._open += 1
        idle.peak_open = max(idle.peak_open, self._open)
        try:
            source = (f"127.0.1.{1 + i % SOURCES}", 0) if self._loopback else None
            connection = await Connection.to(self._load.host, self._load.port, source, self._load.tls)
            try:
                answer = await connection.request(request("POST", "/v1/polls", self._name, agent.poll()))
            finally:
                connection.close()
        except OSError:
            idle.refused += 1
            self._again_in(1.0, i)
            return
        finally:
            self._open -= 1
        took = time.perf_counter() - start
        idle.latencies.append(took)
        idle.late += took > HOLD + SLACK
        idle.asked += answer.status == 200
        idle.refused += answer.status not in (200, 204)
        self._again_in(_again(answer), i)

    def _again_in(self, seconds: float, i: int) -> None:
        heapq.heappush(self._due, (time.perf_counter() - self.began + seconds, i))


def _again(answer: Answer) -> float:
    try:
        return max(0.0, float(answer.header(b"retry-after") or b"0"))
    except ValueError:
        return 0.0
