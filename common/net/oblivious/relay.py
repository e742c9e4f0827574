"""A relay: it forwards encapsulated requests to one service, and the responses back; it reads and stores none.

The service sees the relay's address instead of the client's. Only the body of a client's request is forwarded: no
header, no address. The relay serves one service, logs no address, and sends nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Sequence
from typing import cast

import httptools
import httpx

from common.core.errors import BadMessage, Busy, PeerMisbehaved, PeerUnavailable
from common.net.app import Service, add_handled, body_of, create_app
from common.net.edge import Call, Reply
from common.net.oblivious import encapsulation as ohttp
from common.net.tls import base_address, context_for, fault_of

log = logging.getLogger("tandem.relay")

UNDER_WAY = 1024  # most requests that wait for the service at the same time: it holds a poll for some seconds
_JSON, _PROBLEM = "application/json", "application/problem+json"


class Relay:
    """Forwards requests to one service with ``carrier``, by default over HTTP from the local address ``source``."""

    def __init__(
        self, service: str, source: str | None = None, carrier: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.service = base_address(service)
        self._carrier = carrier or Carrier(context_for(self.service, party="referee", shows=False), source)
        self._under_way = 0

    async def carry(self, call: Call) -> Reply:
        """Forward an encapsulated request; raises BadMessage, Busy, PeerUnavailable or PeerMisbehaved."""
        if call.headers.get(b"content-type") != ohttp.REQUEST_TYPE.encode():
            raise BadMessage(f"a relay takes {ohttp.REQUEST_TYPE}")
        return await self._forward("POST", ohttp.GATEWAY, call.body, ohttp.RESPONSE_TYPE)

    async def keys(self, call: Call) -> Reply:
        return await self._forward("GET", ohttp.SIGNED_KEYS, b"", _JSON)

    async def close(self) -> None:
        await self._carrier.aclose()

    async def _forward(self, method: str, path: str, body: bytes, kind: str) -> Reply:
        if self._under_way >= UNDER_WAY:
            raise Busy(f"{UNDER_WAY} requests are under way already")
        headers = {"Content-Type": ohttp.REQUEST_TYPE} if body else {}
        request = httpx.Request(method, self.service + path, headers=headers, content=body or None)
        self._under_way += 1
        try:
            response = await self._carrier.handle_async_request(request)
            content = await response.aread()
        except httpx.TransportError as error:
            log.warning("the referee does not answer: %s", fault_of(error) or type(error).__name__)
            raise PeerUnavailable("the referee behind this relay does not answer") from None
        finally:
            self._under_way -= 1
        content_type = response.headers.get("content-type", "")
        if content_type != (kind if response.status_code == 200 else _PROBLEM):
            raise PeerMisbehaved(f"what listens behind this relay is no gateway: it answers {response.status_code}")
        return Reply(response.status_code, content, content_type.encode())


FOR_PAGES = re.compile(f"POST {ohttp.RELAY}|GET {ohttp.SIGNED_KEYS}".encode())
"""The requests that a page of an allowed origin may make."""


def relay_app(
    service: str,
    source: str | None = None,
    carrier: httpx.AsyncBaseTransport | None = None,
    origins: Sequence[str] = (),
) -> Service:
    """Return the service of a relay before one other service (:class:`Relay` takes the same).

    Pages of these ``origins`` may ask it.
    """
    relay = Relay(service, source, carrier)
    app = create_app(
        "Tandem relay",
        "Carries encapsulated requests (RFC 9458) to one referee, which does not see whose they are.",
    )
    app.allow_origins(origins, FOR_PAGES)
    app.router.add_event_handler("shutdown", relay.close)

    add_handled(app, "POST", ohttp.RELAY, relay.carry, "Carry an encapsulated request", openapi_extra=ENCAPSULATED_BODY)
    summary = "The referee's keys for encapsulated requests, under its signature"
    add_handled(app, "GET", ohttp.SIGNED_KEYS, relay.keys, summary)
    return app


ENCAPSULATED_BODY = body_of("An encapsulated request (RFC 9458, section 4.3)", ohttp.REQUEST_TYPE)
"""The OpenAPI description of a body that is an encapsulated request."""
RESPONSES = 1 << 28  # most bytes of all responses that are arriving at the same time
IDLE = 20.0  # seconds for which an idle connection is kept: less than at the service, which so closes none in use


class Carrier(httpx.AsyncBaseTransport):
    """Sends requests to one origin from the address ``source``: each kept connection has one request at a time.

    A pool for any number of origins would search all connections for each request; here a stack of idle ones suffices.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, source: str | None = None) -> None:
        self._tls, self._source = tls, source
        self._idle: list[tuple[float, _Connection]] = []
        self.held = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request on a connection of its own, kept or new, and return the whole response.

        Raises:
            httpx.TransportError: If no complete response comes in time.
            PeerMisbehaved, Busy: If the response has too many bytes, or all arriving responses together have.
        """
        connection = self._idle_connection()
        try:
            async with asyncio.timeout(ohttp.RELAY_PATIENCE):
                connection = connection or await self._connected(request.url)
                response = await connection.exchange(_raw(request))
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                raise httpx.ReadTimeout("no whole response in time") from None
            if isinstance(error, OSError):
                raise httpx.ConnectError(str(error)) from error
            raise
        if connection.reusable:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()
        return response

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def _idle_connection(self) -> _Connection | None:
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


class _Connection(asyncio.Protocol):
    """One connection; ``httptools`` calls the methods that begin with ``on_``."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[httpx.Response] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._buffered = 0
        self._begin()

    @property
    def reusable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._keep and not self._buffered

    async def exchange(self, raw: bytes) -> httpx.Response:
        if self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._begin()
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        try:
            return await self._waiting
        finally:
            self._waiting = None
            self._carrier.held -= self._buffered
            self._buffered, self._parts = 0, []

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(ConnectionResetError("the connection was closed before the response was whole"))

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self._keep = False  # unsolicited data: later bytes on this connection could belong to no request
            self.close()
            return
        self._buffered += len(data)
        self._carrier.held += len(data)
        if self._buffered > ohttp.MAX_RESPONSE:
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
        self._buffered = 0
        self._keep = True

    def _fail(self, error: Exception) -> None:
        self._keep = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.close()


def _raw(request: httpx.Request) -> bytes:
    head = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    head += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join([*head, b"", request.content])
