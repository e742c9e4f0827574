"""Measure the limits of this machine alone, in the same minute; a load test gives its figures as shares of them."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from nacl import bindings

from common.core.machine import processors, python_environment, python_module
from common.net.server import faster_loop
from deploy.load.client import Connection, request
from referee.collection.judging import verified

GROUP = 256  # signatures per group, and rows per commit
SECONDS = 0.5  # duration of each measurement


def limits(folder: Path) -> dict[str, Any]:
    """Measure this machine, and the disk of a folder, for half a second per figure.

    ``verify_per_second`` is for Ed25519 on one core, ``commits_per_second`` for durable commits of one row each,
    ``rows_per_second`` for commits of 256 rows, ``requests_per_second`` over loopback, to a server that does nothing.
    """
    return {
        "cores": processors(),
        "load_average": round(os.getloadavg()[0], 2),
        "verify_per_second": round(_verifications()),
        "commits_per_second": round(_commits(folder, 1)),
        "rows_per_second": round(_commits(folder, GROUP)),
        "requests_per_second": round(requests_per_second()),
    }


def _verifications() -> float:
    public, secret = bindings.crypto_sign_keypair()
    payloads = [os.urandom(400) for _ in range(GROUP)]
    signed = [bindings.crypto_sign(payload, secret)[:64] for payload in payloads]
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        if not verified([public] * GROUP, payloads, signed).all():
            raise AssertionError("a signature of our own does not verify")
        done += GROUP
    return done / (time.perf_counter() - began)


def _commits(folder: Path, rows: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        database = sqlite3.connect(Path(place) / "limits.sqlite")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, row BLOB)")
        row, done, began = os.urandom(120), 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            with database:
                database.executemany("INSERT INTO t (row) VALUES (?)", [(row,)] * rows)
            done += rows
        took = time.perf_counter() - began
        database.close()
    return done / took


CONNECTIONS = 128
_REQUEST = request("PUT", "/", "127.0.0.1", b"x" * 600)  # about as long as a report
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class _EchoServer(asyncio.Protocol):
    """Answers every request of a known length."""

    def __init__(self) -> None:
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        count, self._received = divmod(self._received + len(data), len(_REQUEST))
        if count:
            self._transport.write(_ANSWER * count)


def requests_per_second() -> float:
    """Return how many requests per second are answered."""
    command = python_module(__name__)
    with subprocess.Popen(  # noqa: S603 - our own
        command, env=python_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            if server.stdout is None:
                raise AssertionError("the server's standard output is a pipe")
            port = int(server.stdout.readline())
            with asyncio.Runner(loop_factory=faster_loop()) as runner:
                return runner.run(_measured(port))
        finally:
            server.kill()


async def _measured(port: int) -> float:
    connections = [await Connection.to("127.0.0.1", port) for _ in range(CONNECTIONS)]
    began = time.perf_counter()

    async def ask(connection: Connection) -> int:
        done = 0
        while done == 0 or time.perf_counter() - began < SECONDS:  # at least once, however busy the machine is
            await connection.request(_REQUEST)
            done += 1
        return done

    done = await asyncio.gather(*(ask(connection) for connection in connections))
    took = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return sum(done) / took


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_EchoServer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)  # until the measuring process ends
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=faster_loop()) as runner:
        runner.run(_serve())
