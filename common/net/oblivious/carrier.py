"""Kept connections from a relay to its one service: each is taken by one request at a time, and nothing is sent twice.

A pool that serves any number of origins looks through all of its connections for each request, which a relay with
hundreds of held polls would do all day: for one origin a stack of idle ones is enough.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import cast

import httptools
import httpx

from common.core.errors import Busy, PeerMisbehaved
from common.net.oblivious.encapsulation import MAX_RESPONSE, RELAY_PATIENCE

RESPONSES = 1 << 28
"""Bytes of all responses that are on their way at the same time."""
IDLE = 20.0
"""Seconds for which a connection is kept: shorter than the service keeps it, so that none is cut off in use."""


class Carrier(httpx.AsyncBaseTransport):
    """Carries requests to one origin, over HTTP/1.1.

    Args:
        tls: How it is encrypted; None: not at all.
        source: The address of this machine from which it is dialled; None: any.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, source: str | None = None) -> None:
        self._tls, self._source = tls, source
        self._idle: list[tuple[float, _Connection]] = []
        self.held = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request on a connection of its own, kept or new, and return the whole response.

        Raises:
            httpx.TransportError: If nobody answers in time, or no whole response comes.
            PeerMisbehaved: If the response has too many bytes.
            Busy: If all responses on their way have.
        """
        connection = self._kept()
        try:
            async with asyncio.timeout(RELAY_PATIENCE):
                connection = connection or await self._connected(request.url)
                response = await connection.exchange(_raw(request))
        except TimeoutError:
            self._drop(connection)
            raise httpx.ReadTimeout("no whole response in time") from None
        except OSError as error:
            self._drop(connection)
            raise httpx.ConnectError(str(error)) from error
        except BaseException:
            self._drop(connection)
            raise
        if connection.reusable:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()
        return response

    async def aclose(self) -> None:
        """Close all connections that are kept."""
        while self._idle:
            self._idle.pop()[1].close()

    def _kept(self) -> _Connection | None:
        """Return the connection that was used last; those that are too old go."""
        now = time.monotonic()
        while self._idle and self._idle[0][0] < now - IDLE:
            self._idle.pop(0)[1].close()
        while self._idle:
            connection = self._idle.pop()[1]
            if connection.reusable:
                return connection
        return None

    async def _connected(self, url: httpx.URL) -> _Connection:
        source = None if self._source is None else (self._source, 0)
        port = url.port or (80 if self._tls is None else 443)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self), url.host, port, ssl=self._tls, local_addr=source
        )
        return connection

    @staticmethod
    def _drop(connection: _Connection | None) -> None:
        if connection is not None:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection; :mod:`httptools` calls the methods that begin with ``on_``."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[httpx.Response] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._held = 0
        self._begin()

    @property
    def reusable(self) -> bool:
        """Whether a further request may be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._keep and not self._held

    async def exchange(self, raw: bytes) -> httpx.Response:
        """Send a whole request; return the whole response."""
        if self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._begin()
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        try:
            return await self._waiting
        finally:
            self._waiting = None
            self._let_go()

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(ConnectionResetError("the connection was closed before the response was whole"))

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self._keep = False  # nobody asked: whatever comes next here belongs to no request
            self.close()
            return
        self._held += len(data)
        self._carrier.held += len(data)
        if self._held > MAX_RESPONSE:
            self._fail(PeerMisbehaved("what is behind this relay answers without an end"))
        elif self._carrier.held > RESPONSES:
            self._fail(Busy("too many long responses are on their way; ask again later"))
        else:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, ValueError):
                self._fail(httpx.RemoteProtocolError("what is behind this relay does not speak HTTP/1.1"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._headers, self._parts = [], []
            return
        self._keep = self._parser.should_keep_alive()
        if any(name.lower() == b"content-encoding" for name, _ in self._headers):
            self._fail(
                PeerMisbehaved("what is behind this relay answers with a compressed body, which was not asked for")
            )
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(httpx.Response(status, headers=self._headers, content=b"".join(self._parts)))

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._parts = [], []
        self._held = 0
        self._keep = True

    def _let_go(self) -> None:
        self._carrier.held -= self._held
        self._held, self._parts = 0, []

    def _fail(self, error: Exception) -> None:
        self._keep = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.close()


def _raw(request: httpx.Request) -> bytes:
    head = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    head += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join([*head, b"", request.content])
