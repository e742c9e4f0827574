"""Very many agents that have nothing to answer and keep asking: what they cost a referee, and how long it holds them.

Each is a key of its own, enrolled, that polls, is held or told when to come again, and comes again then, as agents do.
A connection ends with its answer, and the next poll opens another one: an agent that is told to come again in minutes
does not hold a connection meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import ssl
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.core.errors import RunFailed
from deploy.load.client import Answer, Connection, LightAgent, request
from deploy.load.phases import allow_descriptors, cpu_of
from referee.collection.roster import usual_pause
from referee.service.agents_edge import HOLD

SOURCES = 64
"""Loopback addresses that connections come from in turn: each has 28,000 ports, and an edge limits each by itself."""
AT_ONCE = 4096
"""Polls that are on their way at the same time, at most."""
SLACK = 3.0
"""Seconds more than that before a poll counts as held too long."""


@dataclass
class Idle:
    """What the idle pollers' polls took."""

    agents: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    asked: int = 0
    late: int = 0
    referee_cpu: float | None = None
    peak_open: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as JSON: how many polled, how often, how long each was held, and what share of a core that took."""
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


async def poll_idly(
    agents: list[LightAgent],
    host: str,
    port: int,
    seconds: float,
    pid: int | None,
    name: str,
    tls: ssl.SSLContext | None = None,
) -> Idle:
    """Have agents poll for so many seconds, each when it was told to, and return what that took.

    Args:
        agents: Enrolled, and asked nothing.
        name: The referee's host and port, for the requests' header.
        tls: How it is dialled; None: in the clear.

    Raises:
        RunFailed: If not one poll is answered.
    """
    allow_descriptors(AT_ONCE)
    polling = _Polling(agents, host, port, name, tls)
    before = cpu_of(pid)
    await polling.go_on(seconds)
    found, after = polling.found, cpu_of(pid)
    found.seconds = time.perf_counter() - polling.began
    found.referee_cpu = None if before is None or after is None else after - before
    await polling.finish()
    if not found.latencies:
        raise RunFailed("no poll of an idle agent was answered")
    return found


class _Polling:
    """Agents that poll: when each is due, and what its polls took."""

    def __init__(self, agents: list[LightAgent], host: str, port: int, name: str, tls: ssl.SSLContext | None) -> None:
        self._agents, self._host, self._port, self._name, self._tls = agents, host, port, name, tls
        # Only on Linux all of 127.0.0.0/8 is the loopback.
        self._loopback = sys.platform == "linux" and host in ("127.0.0.1", "localhost")
        self.found, self._open = Idle(len(agents)), 0
        # In the beginning they come as if they had been told to before: as many a second as later.
        self._due = [(random.uniform(0.0, usual_pause(len(agents))), i) for i in range(len(agents))]
        heapq.heapify(self._due)
        self._running: set[asyncio.Task[None]] = set()
        self.began = time.perf_counter()

    async def go_on(self, seconds: float) -> None:
        """Poll for so many seconds."""
        while (now := time.perf_counter() - self.began) < seconds:
            while self._due and self._due[0][0] <= now and len(self._running) < AT_ONCE:
                task = asyncio.ensure_future(self._poll(heapq.heappop(self._due)[1]))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await asyncio.sleep(0.005)

    async def finish(self) -> None:
        """Wait for the polls that are under way."""
        await asyncio.gather(*self._running)

    async def _poll(self, i: int) -> None:
        found, agent, start = self.found, self._agents[i], time.perf_counter()
        self._open += 1
        found.peak_open = max(found.peak_open, self._open)
        try:
            source = (f"127.0.1.{1 + i % SOURCES}", 0) if self._loopback else None
            connection = await Connection.to(self._host, self._port, source, self._tls)
            try:
                answer = await connection.request(request("POST", "/v1/polls", self._name, agent.poll()))
            finally:
                connection.close()
        except OSError:
            found.refused += 1
            self._again_in(1.0, i)
            return
        finally:
            self._open -= 1
        took = time.perf_counter() - start
        found.latencies.append(took)
        found.late += took > HOLD + SLACK
        found.asked += answer.status == 200
        found.refused += answer.status not in (200, 204)
        self._again_in(_again(answer), i)

    def _again_in(self, seconds: float, i: int) -> None:
        heapq.heappush(self._due, (time.perf_counter() - self.began + seconds, i))


def _again(answer: Answer) -> float:
    try:
        return max(0.0, float(answer.header(b"retry-after") or b"0"))
    except ValueError:
        return 0.0
