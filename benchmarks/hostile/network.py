"""Connections of a history: no sockets, on a clock that only the history moves, so that waiting takes no time.

:func:`connected` puts them in the place of sockets below :class:`common.net.transport.Transport`. All of a client
above them is the real one: the limits of an exchange, the parser of HTTP, retries, and what reads an answer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import patch

from benchmarks.histories.determined import BEGAN, Clock
from common.net import transport

FOREVER = float("inf")
BYTES = 1 << 29
"""That are read of all peers of a history, at most: four times as many as the longest answer may have."""
SECONDS = 90 * 86_400.0
"""That a history lasts, at most."""
DIALS = 30_000
"""Connections of a history, at most."""

Script = Iterator[bytes | float]
"""What a peer sends: bytes, and seconds for which it sends nothing. Where it ends the peer closes the connection."""


class Unbounded(BaseException):
    """A history has gone beyond every limit: nothing of Tandem may catch this and go on."""


class Request(SimpleNamespace):
    """A request as a peer reads it: ``method``, ``path``, ``headers`` (names in lower case) and ``body``."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Listening(Protocol):
    """A peer, with what it has done."""

    log: list[str]

    def dialled(self) -> float | None:
        """Return how many seconds it takes to read each byte; None: it refuses the connection."""
        ...

    def answer(self, request: Request) -> Script:
        """Answer a request."""
        ...


class Network:
    """The peers of one history, by the host of their address.

    Args:
        clock: The history's.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.peers: dict[str, Listening] = {}
        self.dials = self.read = 0

    def dial(self, address: tuple[str, int], timeout: float | None = None) -> Connection:
        """Connect, as ``socket.create_connection`` does."""
        self.pass_time(0.001)
        self.dials += 1
        if self.dials > DIALS:
            raise Unbounded(f"more than {DIALS:,} connections")
        peer = self.peers[address[0]]
        each = peer.dialled()
        if each is None:
            raise ConnectionRefusedError("Connection refused")
        return Connection(self, peer, each)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds
        if self.clock.now > SECONDS:
            raise Unbounded(f"goes on after {SECONDS:,.0f} s")

    def count(self, read: int) -> None:
        """Count bytes that a party has read."""
        self.read += read
        if self.read > BYTES:
            raise Unbounded(f"more than {BYTES:,} bytes are read of a peer")


class Connection:
    """One connection, as far as a client uses it as a socket."""

    def __init__(self, network: Network, peer: Listening, each: float) -> None:
        self._network, self._peer, self._each = network, peer, each
        self._timeout = FOREVER
        self._sent, self._coming, self._script = bytearray(), b"", iter(())  # type: Any, bytes, Script
        self._asleep = 0.0

    def settimeout(self, seconds: float | None) -> None:
        """Set how long a call may take."""
        self._timeout = FOREVER if seconds is None else seconds

    def setsockopt(self, *options: Any) -> None:
        """Take an option."""

    def fileno(self) -> int:
        """Return no descriptor: a connection is used for one request, and no other."""
        return -1

    def close(self) -> None:
        """Close it."""
        self._script, self._coming, self._asleep = iter(()), b"", 0.0

    def send(self, data: bytes | memoryview) -> int:
        """Send bytes: as many as the peer takes at once."""
        taken = bytes(data) if not self._each else bytes(data[:1])
        if self._each:
            self._wait(self._each)
        self._sent += taken
        if (request := _request(bytes(self._sent))) is not None:
            self._sent.clear()
            self._script = self._peer.answer(request)
        return len(taken)

    def recv(self, most: int) -> bytes:
        """Receive bytes: at least one, or none where the peer has closed."""
        while not self._coming:
            if self._asleep:
                self._wait(self._asleep)
                self._asleep = 0.0
            step = next(self._script, None)
            if step is None:
                return b""
            if isinstance(step, float):
                self._asleep = step
            else:
                self._coming = step
        found, self._coming = self._coming[:most], self._coming[most:]
        self._network.count(len(found))
        return found

    def _wait(self, seconds: float) -> None:
        if seconds > self._timeout:
            self._asleep = seconds - self._timeout
            self._network.pass_time(self._timeout)
            raise TimeoutError("timed out")
        self._network.pass_time(seconds)


def _request(raw: bytes) -> Request | None:
    """Return a request, once it is whole."""
    head, end, body = raw.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = [line.partition(":") for line in lines]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if len(body) < int(headers.get("content-length", "0")):
        return None
    return Request(method=method, path=path, headers=headers, body=body)


@contextmanager
def connected(network: Network, moved: Callable[[float], None] | None = None) -> Iterator[None]:
    """Let all that is dialled in the block be the network's peers, and its clock be the time.

    Args:
        moved: Called in the place of a sleep; by default time passes.
    """
    clock = network.clock
    sockets: Any = SimpleNamespace(**{**vars(socket), "create_connection": network.dial})
    with (
        patch.object(transport, "socket", sockets),
        patch.object(time, "time", lambda: BEGAN + clock.now),
        patch.object(time, "monotonic", lambda: clock.now),
        patch.object(time, "sleep", moved or network.pass_time),
    ):
        yield
