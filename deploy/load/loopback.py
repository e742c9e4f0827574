"""How many requests a second cross the loopback of this machine, to a server that does nothing but answer.

The server is a process of its own on one core, as a referee is, and the client is the load test's. What a referee
answers is a share of this; the rest of its time goes to signatures, the store and what it must check.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import cast

from common.core.machine import python_environment, python_module
from deploy.load.connection import Connection, request
from deploy.load.loops import faster

CONNECTIONS = 128
BODY = b"x" * 600
"""About as long as a report."""
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Nothing(asyncio.Protocol):
    """Answers every request of a known length."""

    def __init__(self) -> None:
        self._length = len(_request())
        self._came = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        whole, self._came = divmod(self._came + len(data), self._length)
        if whole:
            self._transport.write(_ANSWER * whole)


def requests_per_second(seconds: float) -> float:
    """Return how many requests a second are answered, measured for so many seconds."""
    command = python_module(__name__)
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=python_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            if server.stdout is None:
                raise AssertionError("the server's standard output is a pipe")
            port = int(server.stdout.readline())
            with asyncio.Runner(loop_factory=faster()) as runner:
                return runner.run(_measured(port, seconds))
        finally:
            server.kill()


async def _measured(port: int, seconds: float) -> float:
    connections = [await Connection.to("127.0.0.1", port) for _ in range(CONNECTIONS)]
    began, asked = time.perf_counter(), _request()

    async def ask(connection: Connection) -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            await connection.request(asked)
            done += 1
        return done

    done = await asyncio.gather(*(ask(connection) for connection in connections))
    took = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return sum(done) / took


def _request() -> bytes:
    return request("PUT", "/", "127.0.0.1", BODY)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Nothing, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever measures has ended
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=faster()) as runner:
        runner.run(_serve())
