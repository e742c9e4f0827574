"""Floods of hostile connections against real services: what becomes of honest requests and of memory.

    python -m benchmarks.floods [--services referee curator issuer relay witness] [--floods NAME ...] [--seconds 10]
                                [--connections 500] [--plain | --tls] [--json]

Each service is a real process, without TLS and with it. One flood after the other comes from a process of its own,
over plain sockets. Meanwhile an honest client opens a connection ten times a second and asks whether the service is
alive. Printed are the slowest honest answer, the most memory that the service took, its memory before the flood and
some seconds after it, and the lines that it wrote to its log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import secrets
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common.net.certificates import make_all, names_of
from common.net.tls import CA, CERT, CLIENT_CERT, client_context
from deploy.load.client import Connection, request
from deploy.load.phases import allow_descriptors
from deploy.processes import PartyProcess, free_port

AFTER = 12.0
"""Seconds after a flood at which the remaining memory is measured."""
EVERY = 0.1
"""Seconds between two honest requests."""
HEALTH = request("GET", "/v1/health", "service")
LARGE = request("GET", "/openapi.json", "service")
"""A request for the largest answer that every service gives to unknown clients."""
BODY = request("POST", "/v1/polls", "service", bytes(1000))


@cache
def _context(ca: str) -> ssl.SSLContext:
    return client_context(Path(ca))


@dataclass(frozen=True)
class Place:
    """The target of a flood, the number of connections, and the TLS context (None: no TLS)."""

    port: int
    connections: int
    until: float
    ca: str | None = None

    def connect(self, receive: int | None = None) -> socket.socket:
        """Open a connection; with a receive buffer of so many bytes, if that is given."""
        made = socket.socket()
        if receive is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        made.settimeout(5.0)
        made.connect(("127.0.0.1", self.port))
        return made

    def secured(self, connection: socket.socket) -> socket.socket:
        """Do the TLS handshake, if there is TLS."""
        if self.ca is None:
            return connection
        return _context(self.ca).wrap_socket(connection, server_hostname="127.0.0.1")

    def lasts(self) -> bool:
        """Whether the flood goes on."""
        return time.monotonic() < self.until


def _churn(place: Place, sent: bytes, *, read: bool = False) -> None:
    """Open connections one after the other, send something on each, and close it."""
    while place.lasts():
        with suppress(OSError), place.connect() as connection:
            connection.sendall(sent)
            if read:
                connection.recv(1 << 16)


def _hold(place: Place, say: Callable[[socket.socket], None], receive: int | None = None, secured: bool = True) -> None:
    """Hold many connections, send something on each repeatedly, and read nothing; reopen dropped ones."""
    held: list[socket.socket | None] = [None] * place.connections
    while place.lasts():
        for i, found in enumerate(held):
            if not place.lasts():
                return
            connection = found
            try:
                if connection is None:
                    connection = place.connect(receive)
                    if secured:
                        connection = place.secured(connection)
                    connection.settimeout(0)
                    held[i] = connection
                say(connection)
            except (BlockingIOError, ssl.SSLWantWriteError):
                pass
            except OSError:
                if connection is not None:
                    connection.close()
                held[i] = None
        time.sleep(0.01)


def _hello(context: ssl.SSLContext) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaking = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    return outgoing.read()


def unread_large(place: Place) -> None:
    """Request a large answer repeatedly, and read none."""
    _hold(place, lambda connection: connection.sendall(LARGE), receive=1024)


def unread_small(place: Place) -> None:
    """Request small answers endlessly, and read none."""
    _hold(place, lambda connection: connection.sendall(HEALTH * 100), receive=1024)


def unread_pipelined(place: Place) -> None:
    """Request sixteen large answers at once, and read none."""
    _hold(place, lambda connection: connection.sendall(LARGE * 16), receive=1024)


def unread_default_window(place: Place) -> None:
    """Request sixteen large answers at once with the default receive window, and read none."""
    _hold(place, lambda connection: connection.sendall(LARGE * 16))


def slow_reading(place: Place) -> None:
    """Request large answers, and read some bytes now and then."""

    def say(connection: socket.socket) -> None:
        with suppress(BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            connection.sendall(LARGE * 2)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            if not connection.recv(64):
                raise ConnectionResetError

    _hold(place, say, receive=1024)


def pipelined_read(place: Place) -> None:
    """Request sixteen large answers at once, read them, and repeat."""

    def say(connection: socket.socket) -> None:
        with suppress(BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            connection.sendall(LARGE * 16)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while part := connection.recv(1 << 20):
                pass
            if not part:
                raise ConnectionResetError

    _hold(place, say)


def asked_and_left(place: Place) -> None:
    """Request large answers and disconnect before they come."""
    while place.lasts():
        with suppress(OSError), place.connect() as connection:
            place.secured(connection).sendall(LARGE * 16)


def closing_unread(place: Place) -> None:
    """Request a large answer with ``Connection: close``, read nothing, and repeat on another connection."""
    held: list[socket.socket] = []
    while place.lasts():
        with suppress(OSError):
            held.append(place.secured(place.connect(1024)))
            held[-1].sendall(LARGE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        del held[: -10 * place.connections]
        time.sleep(0.001)


def silent(place: Place) -> None:
    """Open connections and send nothing."""
    _hold(place, lambda connection: connection.sendall(b""), secured=False)


def half_heads(place: Place) -> None:
    """Send heads byte by byte."""
    _hold(place, lambda connection: connection.sendall(b"G"))


def half_bodies(place: Place) -> None:
    """Send heads whose bodies do not come."""
    _hold(place, lambda connection: connection.sendall(BODY[:-500]))


def connects(place: Place) -> None:
    """Open connections and close them."""
    _churn(place, b"")


def invalid(place: Place) -> None:
    """Send data that is not HTTP."""

    def say(connection: socket.socket) -> None:
        connection.sendall(b"\x00\x01\x02 nonsense\r\n\r\n" * 20)

    _hold(place, say)


def plain_reset(place: Place) -> None:
    """Send plain HTTP, wait for a moment, and reset the connection."""
    while place.lasts():
        with suppress(OSError), place.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(HEALTH)
            time.sleep(0.0002)


def plain_left(place: Place) -> None:
    """Send plain HTTP, and disconnect at once."""
    _churn(place, HEALTH)


def plain_read(place: Place) -> None:
    """Send plain HTTP, read the response, and disconnect."""
    _churn(place, HEALTH, read=True)


def plain_held(place: Place) -> None:
    """Send plain HTTP again and again on connections that stay open."""
    _hold(place, lambda connection: connection.sendall(HEALTH), secured=False)


def garbage(place: Place) -> None:
    """Send data that is not TLS, and disconnect."""
    _churn(place, b"\x16\x03\x01" + secrets.token_bytes(500))


def hellos_left(place: Place) -> None:
    """Begin handshakes, and disconnect."""
    _churn(place, _hello(_context(str(place.ca))))


def hellos_read(place: Place) -> None:
    """Begin handshakes, read the response, and disconnect."""
    _churn(place, _hello(_context(str(place.ca))), read=True)


def hellos_held(place: Place) -> None:
    """Begin handshakes, and go no further."""
    hello = _hello(_context(str(place.ca)))
    begun: set[int] = set()

    def say(connection: socket.socket) -> None:
        if id(connection) in begun:
            connection.sendall(b"")
        else:
            connection.sendall(hello)
            begun.add(id(connection))

    _hold(place, say, secured=False)


def hellos_dripped(place: Place) -> None:
    """Begin handshakes, and send their first message byte by byte."""
    hello = _hello(_context(str(place.ca)))
    at: dict[int, int] = {}

    def say(connection: socket.socket) -> None:
        here = at.get(id(connection), 0)
        connection.sendall(hello[here : here + 1])
        at[id(connection)] = min(here + 1, len(hello) - 1)

    _hold(place, say, secured=False)


def hellos_stuffed(place: Place) -> None:
    """Begin handshakes, and send endless records instead of completing them."""
    hello = _hello(_context(str(place.ca)))
    begun: set[int] = set()
    record = b"\x17\x03\x03\x40\x00" + bytes(1 << 14)

    def say(connection: socket.socket) -> None:
        if id(connection) not in begun:
            connection.sendall(hello)
            begun.add(id(connection))
        connection.sendall(record * 16)

    _hold(place, say, secured=False)


def handshakes(place: Place) -> None:
    """Complete handshakes, and disconnect."""
    while place.lasts():
        with suppress(OSError), place.connect() as connection:
            place.secured(connection).close()


def handshakes_held(place: Place) -> None:
    """Complete handshakes, and send nothing more."""
    _hold(place, lambda connection: connection.sendall(b""))


ANYWHERE: tuple[Callable[[Place], None], ...] = (
    unread_large,
    unread_small,
    unread_pipelined,
    unread_default_window,
    slow_reading,
    pipelined_read,
    asked_and_left,
    closing_unread,
    silent,
    half_heads,
    half_bodies,
    connects,
    invalid,
)
ON_TLS: tuple[Callable[[Place], None], ...] = (
    plain_left,
    plain_reset,
    plain_read,
    plain_held,
    garbage,
    hellos_left,
    hellos_read,
    hellos_held,
    hellos_dripped,
    hellos_stuffed,
    handshakes,
    handshakes_held,
)
FLOODS = {flood.__name__.replace("_", "-"): flood for flood in (*ANYWHERE, *ON_TLS)}
SERVICES = ("referee", "curator", "issuer", "relay", "witness")


@contextmanager
def running(name: str, folder: Path, certificates: Path | None) -> Iterator[tuple[PartyProcess, int]]:
    """Start a service; yield its process and port."""
    port = free_port()
    state = ["--state", str(folder / name)]
    command = {
        "referee": ["referee.cli", "serve", *state],
        "curator": ["curator.cli", "serve", "ball", "--seed", "1", "--ephemeral", "--trust-first-contact", *state],
        "issuer": ["issuer.cli", "serve", *state],
        "relay": ["local_agent.cli", "relay"],
        "witness": ["referee.cli", "witness", *state],
    }[name]
    environment = dict.fromkeys(_TOKENS, "a-token-of-floods")
    if certificates is not None:
        shown = "curator" if name == "curator" else "referee"
        environment |= {CERT: str(certificates / shown / "server.pem"), CA: str(certificates / "public" / "ca.pem")}
        environment |= {CLIENT_CERT: str(certificates / "referee" / "client.pem")}
    if name == "issuer":
        (folder / name).mkdir(parents=True, exist_ok=True)
    party = PartyProcess(name, [*command, "--port", str(port)], folder, environment, lives=1)
    try:
        party.wait_for("listens on")
        yield party, port
    finally:
        party.stop()


_TOKENS = ("TANDEM_ENROLMENT_TOKEN", "TANDEM_OPERATOR_TOKEN", "TANDEM_WITNESS_TOKEN", "TANDEM_INDIVIDUAL_TOKEN")


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


@dataclass
class Honest:
    """Measurements of an honest client and of the service's memory during a flood."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    most: int = 0


async def _honest(place: Place, pid: int, found: Honest) -> None:
    """Send a request every tenth of a second, whether or not earlier ones are answered."""
    context = None if place.ca is None else _context(place.ca)
    asked: set[asyncio.Task[None]] = set()

    async def one() -> None:
        began = time.monotonic()
        try:
            connection = await Connection.to("127.0.0.1", place.port, tls=context)
            with closing(connection):
                answer = await connection.request(HEALTH)
            found.failed += answer.status != 200
        except OSError:
            found.failed += 1
        found.seconds.append(time.monotonic() - began)

    while place.lasts():
        task = asyncio.ensure_future(one())
        asked.add(task)
        task.add_done_callback(asked.discard)
        found.most = max(found.most, resident(pid))
        await asyncio.sleep(EVERY)
    await asyncio.gather(*asked)


def measure(
    party: PartyProcess, port: int, name: str, seconds: float, connections: int, ca: Path | None
) -> dict[str, Any]:
    """Flood a service, and return measurements of honest requests, memory and the log."""
    pid, logged = party.process.pid, len(party.logged().splitlines())
    before = resident(pid)
    place = Place(port, connections, time.monotonic() + seconds, None if ca is None else str(ca))
    flood = multiprocessing.get_context("spawn").Process(target=FLOODS[name], args=(place,), daemon=True)
    flood.start()
    found = Honest()
    asyncio.run(_honest(place, pid, found))
    flood.join(30)
    flood.kill()
    at_end = resident(pid)
    time.sleep(AFTER)
    lines = party.logged().splitlines()[logged:]
    p50, p99 = np.quantile(found.seconds, [0.5, 0.99])
    return {
        "service": party.name,
        "tls": ca is not None,
        "flood": name,
        "honest": len(found.seconds),
        "failed": found.failed,
        "p50_seconds": round(float(p50), 3),
        "p99_seconds": round(float(p99), 3),
        "slowest_seconds": round(max(found.seconds), 3),
        "memory_before": before,
        "memory_most": max(found.most, at_end),
        "memory_after": resident(pid),
        "log_lines": len(lines),
        "tracebacks": sum("Traceback" in line for line in lines),
        "log": lines[:5],
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--services", nargs="+", choices=SERVICES, default=list(SERVICES))
    parser.add_argument("--floods", nargs="+", choices=FLOODS, default=list(FLOODS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=500)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--plain", action="store_true", help="without TLS only")
    ways.add_argument("--tls", action="store_true", help="with TLS only")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    allow_descriptors(4 * wanted.connections)
    with tempfile.TemporaryDirectory(prefix="floods-") as name:
        made = Path(name) / "certificates"
        make_all(made, names_of([]))
        for service in wanted.services:
            for secured in (False, True):
                if wanted.plain if secured else wanted.tls:
                    continue
                for flood in wanted.floods:
                    if not secured and FLOODS[flood] in ON_TLS:
                        continue
                    folder = Path(name) / f"{service}-{secured}-{flood}"
                    folder.mkdir()
                    with running(service, folder, made if secured else None) as (party, port):
                        ca = made / "public" / "ca.pem" if secured else None
                        found = measure(party, port, flood, wanted.seconds, wanted.connections, ca)
                    print(json.dumps(found) if wanted.json else show(found), flush=True)


def show(found: dict[str, Any]) -> str:
    """Return a line about a flood."""
    memory = "/".join(f"{found[key] >> 20}" for key in ("memory_before", "memory_most", "memory_after"))
    return (
        f"{found['service']:8s} {'tls' if found['tls'] else 'plain':6s} {found['flood']:22s} honest: {found['honest']} "
        f"p50 {found['p50_seconds']:.3f} p99 {found['p99_seconds']:.3f} slowest {found['slowest_seconds']:.3f} s, "
        f"{found['failed']} failed; memory before/most/after {memory} MiB; log: {found['log_lines']} lines, "
        f"{found['tracebacks']} tracebacks"
    )


if __name__ == "__main__":
    main()
