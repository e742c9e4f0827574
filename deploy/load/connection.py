"""The leanest HTTP/1.1 client that a load test needs: one connection, one request after the other, no redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast

_END = b"\r\n\r\n"


class Answer(NamedTuple):
    """Status, headers (lower case) as they came, and body."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes:
        """Return a header's value, empty if there is none."""
        at = self.head.lower().find(b"\r\n" + name + b":")
        if at < 0:
            return b""
        begin = at + len(name) + 3
        end = self.head.find(b"\r\n", begin)
        return self.head[begin : end if end >= 0 else None].strip()


class Connection(asyncio.Protocol):
    """One kept-alive connection to a service.

    Attributes
    ----------
    sent, received
        Bytes so far.
    """

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None

    @classmethod
    async def to(
        cls, host: str, port: int, source: tuple[str, int] | None = None, tls: ssl.SSLContext | None = None
    ) -> Connection:
        """Connect, from an address of this machine's and with TLS if these are given."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port, local_addr=source, ssl=tls)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that is on its way."""
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the service closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Gather an answer, and hand it over when it is whole."""
        self.received += len(data)
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0:
            return
        answer = Answer(int(self._buffer[9:12]), bytes(self._buffer[:end]), b"")
        length = int(answer.header(b"content-length") or 0)
        whole = end + len(_END) + length
        if len(self._buffer) >= whole and self._waiting is not None:
            body = bytes(self._buffer[end + len(_END) : whole])
            del self._buffer[:whole]
            if not self._waiting.done():
                self._waiting.set_result(answer._replace(body=body))

    async def request(self, raw: bytes) -> Answer:
        """Send a whole request and return its answer.

        Raises
        ------
        ConnectionError
            If the connection is closed before.
        """
        if self._transport is None:
            raise ConnectionResetError("the service closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        self.sent += len(raw)
        self._transport.write(raw)
        return await self._waiting

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


def request(method: str, path: str, host: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
