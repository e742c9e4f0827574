"""Connections of a server, and requests on them: HTTP/1.1 by httptools, TLS by ``ssl.MemoryBIO``, within limits.

A small request goes from the parser directly to its handler (:meth:`common.net.edge.Edge.small`); any other passes
through the edge as an ASGI request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools

from common.core.errors import URN, BadInput, Busy, TandemError, TooSlow
from common.net.edge import HOST, PATIENCE, TINY, App, Call, Edge, Handler, Reply, problem
from common.net.tls import HANDSHAKE, TlsStream

log = logging.getLogger("tandem")

MAX_HEAD = 1 << 14  # bytes of a request's line and headers
MAX_HEADERS = 64
MAX_PIPELINED = 16  # requests that may wait on one connection for the answer to the one before them
MAX_UNREAD = 1 << 16  # bytes of a body that wait for the service; beyond them reading pauses
MAX_UNSENT = 1 << 14  # bytes of answers that may wait for one connection here, and as many in the system
MAX_UNTAKEN = 16 << 20  # unsent bytes on all connections, beyond which stalled connections are closed early
LEAST_TAKEN = 1 << 10  # bytes that a client must read between two checks, or the connection counts as stalled
LOOKS = 10  # checks within :attr:`Limits.stalled` of whether a client reads its answer
MAX_HANDSHAKES = 1024  # TLS handshakes under way, some 50 KiB each; beyond them the oldest is dropped
LINGER = 1.0  # seconds in which a client that is refused may read the reason
_IN_THE_CLEAR = "this service speaks TLS: dial it with https://, and name its authority with --tls-ca (TANDEM_TLS_CA)"
_PLAIN = re.compile(rb"/[a-zA-Z0-9/_.-]*")  # paths without query and percent-encoding


@dataclass(frozen=True)
class Limits:
    """The limits of connections.

    Attributes:
        connections: How many may be open at the same time.
        head: Seconds from the first byte of a request, or from the connection's beginning, to the end of its headers.
        idle: Seconds between an answer and the next request.
        stalled: Seconds within which a client must read some of its answer; a tenth of that if too many bytes wait on
            all connections together.
    """

    connections: int
    head: float = 10.0
    idle: int = 30
    stalled: float = 10.0


class ServerState:
    """The state that all connections of a server share.

    Attributes:
        connections: All open connections.
        waiting: Those without a complete request yet, the longest waiting first.
        handshakes: Those with a TLS handshake under way, the oldest first.
        untaken: Unsent bytes of answers on all connections whose buffers are full.
        tasks: Requests being answered.
    """

    def __init__(self, app: App, edge: Edge, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self.app, self.edge, self.limits, self.tls = app, edge, limits, tls
        self.connections: set[HttpConnection] = set()
        self.waiting: dict[HttpConnection, None] = {}
        self.handshakes: dict[HttpConnection, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.untaken = 0
        self._date = 0, b""

    def make_room(self, places: dict[HttpConnection, None]) -> bool:
        """Drop the connection that has waited longest in ``places``; return False if none waits."""
        longest = next(iter(places), None)
        if longest is None:
            return False
        del places[longest]
        longest.abort()
        return True

    @property
    def date(self) -> bytes:
        now = int(time.time())
        if now != self._date[0]:
            self._date = now, b"date: %s\r\n" % formatdate(now, usegmt=True).encode()
        return self._date[1]


class HttpConnection(asyncio.Protocol):
    """One connection; the parser calls the methods whose names begin with ``on_``."""

    def __init__(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self.state, self._loop = state, loop
        self._tls = None if state.tls is None else TlsStream(state.tls)
        self._parser = httptools.HttpRequestParser(self)
        self._requests: list[HttpRequest] = []  # the first is being answered, the others wait for it
        self._incoming: HttpRequest | None = None  # the request whose body is arriving
        self._url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.expects_continue = False
        self._head = 0  # bytes of a request's head so far; -1 once it is complete
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None
        self._unsent = 0  # its part of the state's ``untaken``
        self.full = self.lost = self._closing = self._paused = self._idle = False

    # The connection -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(MAX_UNSENT)
        self.state.connections.add(self)
        state, most = self.state, self.state.limits.connections
        if len(state.connections) > most and not state.make_room(state.waiting):
            self._reject(Busy("every connection is at work"))
            return
        state.waiting[self] = None
        self._start_timer(state.limits.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._closing = True
        for places in (self.state.waiting, self.state.handshakes):
            places.pop(self, None)
        self.state.connections.discard(self)
        self._stop_timer()
        self._stop_watching()
        for request in self._requests:
            request.changed()
        if self._drained is not None:
            self._drained.set()

    def abort(self) -> None:
        self._closing = True
        self.transport.abort()

    def finish(self) -> None:
        """End the connection once the requests under way are answered."""
        if not self._requests:
            self._close()
        for request in self._requests:
            request.keep_alive = False

    def write(self, data: bytes) -> None:
        if not self._closing:
            self.transport.write(data if self._tls is None else self._tls.encrypt(data))

    def _close(self, answer: bytes = b"") -> None:
        if not self._closing:
            if answer:
                self.write(answer)
            self._closing = True
            if self._tls is not None and (last := self._tls.end()):
                self.transport.write(last)
            self.transport.close()

    def _reject(self, error: TandemError) -> None:
        self._close(_encoded(problem(error), self.state.date))

    # Incoming data --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return  # the connection has ended
        if self._idle:
            self._idle = False
            self._stop_timer()
        if self._tls is not None:
            data = self._decrypted(self._tls, data)
        if data:
            self._parse(data)
        if self._tls is not None and self._tls.ended:
            self._close()

    def _parse(self, data: bytes) -> None:
        if self._head >= 0:
            self._head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # another protocol follows: the connection ends with the answer
        except httptools.HttpParserError:
            self._close(_no_request(HTTPStatus.BAD_REQUEST))
        if self._closing:
            return
        if self._head > MAX_HEAD:
            self._close(_no_request(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        elif self._head > 0 and not self._requests and self._timer is None:
            self._start_timer(self.state.limits.head)
        elif (request := self._incoming) is not None and request.handler is not None and self._timer is None:
            self._start_timer(PATIENCE)  # its body is small, so one time limit covers all of it

    def _decrypted(self, tls: TlsStream, data: bytes) -> bytes:
        if not tls.begun:
            if data[0] != HANDSHAKE:
                self._refuse(_encoded(problem(BadInput(_IN_THE_CLEAR))))
                return b""
            self.state.handshakes[self] = None
            if len(self.state.handshakes) > MAX_HANDSHAKES:
                self.state.make_room(self.state.handshakes)
        try:
            plain = tls.decrypt(data)
        except ssl.SSLError as error:
            log.info("a TLS connection is refused: %s", error.reason)
            self._refuse(tls.outgoing())
            return b""
        if tls.established:
            self.state.handshakes.pop(self, None)
        if out := tls.outgoing():
            self.transport.write(out)
        return plain

    def _refuse(self, last: bytes) -> None:
        """Send the reason unencrypted, and close the connection a little later, so that the reason arrives."""
        self.state.handshakes.pop(self, None)
        self.transport.write(last)
        self._closing = True
        if self._tls is not None:
            self._tls.end()
        self._start_timer(LINGER)

    def on_message_begin(self) -> None:
        self._url, self.headers, self.expects_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")
        name = name.lower()
        self.headers.append((name, value))
        if name == b"expect" and value.lower() == b"100-continue":
            self.expects_continue = True

    def on_headers_complete(self) -> None:
        if len(self._requests) > MAX_PIPELINED:
            raise ValueError("too many requests that wait for each other")
        self._head = -1
        self._stop_timer()
        request = HttpRequest(self, self._parser, self._url)
        request.handler = self._fast(request)
        self._incoming = request
        self._requests.append(request)
        self._advance()

    def on_body(self, body: bytes) -> None:
        if self._incoming is not None:
            self._incoming.parts.append(body)
            self._incoming.unread += len(body)
            self._incoming.changed()
            self.regulate()

    def on_message_complete(self) -> None:
        request, self._incoming, self._head = self._incoming, None, 0
        self.state.waiting.pop(self, None)
        self._stop_timer()
        if request is not None:
            request.whole = True
            request.changed()
            self._advance()
            self.regulate()

    def regulate(self) -> None:
        """Pause reading while requests or bytes of a body wait, or answers are unsent; resume it afterwards."""
        unread = 0 if self._incoming is None else self._incoming.unread
        pause = self.full or len(self._requests) > 1 or unread > MAX_UNREAD
        if pause != self._paused and not self._closing:
            self._paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # Requests and answers -------------------------------------------------------------------------------------------

    def _fast(self, request: HttpRequest) -> Handler | None:
        """Return the fast path's handler of a small request in the usual form; None for any other request."""
        if self.expects_continue or not request.keep_alive or request.version != "1.1":
            return None
        headers = dict(request.headers)
        if len(headers) < len(request.headers) or b"transfer-encoding" in headers:
            return None
        if headers.get(b"origin") in self.state.edge.origins:
            return None
        length = headers.get(b"content-length", b"0")
        if len(length) > 4 or not length.isdigit() or int(length) > TINY:
            return None
        if _PLAIN.fullmatch(request.target) is None or HOST.fullmatch(headers.get(b"host", b"")) is None:
            return None
        return self.state.edge.small(request.method, request.target.decode("ascii"))

    def _advance(self) -> None:
        """Begin to answer the first request; one of the fast path only once it is complete."""
        if not self._requests:
            return
        request = self._requests[0]
        if not request.begun and (request.whole or request.handler is None):
            request.begun = True
            work = self._pass(request) if request.handler is None else self._answer(request, request.handler)
            task = self._loop.create_task(work)
            self.state.tasks.add(task)
            task.add_done_callback(self.state.tasks.discard)

    async def _answer(self, request: HttpRequest, handler: Handler) -> None:
        headers, body = dict(request.headers), b"".join(request.parts)
        call = Call(request.method, request.target.decode("ascii"), headers, body=body)
        reply = await self.state.edge.answer(handler, call)
        self.state.edge.statuses[reply.status] += 1
        self.write(_encoded(reply, self.state.date, keep_alive=request.keep_alive))
        if self.full:
            await self.drained()  # send no further answer until the client has read this one
        request.answered = True
        self._answered(request)

    async def _pass(self, request: HttpRequest) -> None:
        try:
            await self.state.app(request.scope, request.receive, request.send)
        except httptools.HttpParserInvalidURLError:
            self._close(_no_request(HTTPStatus.BAD_REQUEST))
        except Exception as error:  # the app's own handler has answered and logged it, unless that failed
            if not (request.answered or self.lost):
                log.error("bug while handling %s", request.method, exc_info=error)
        if request.answered or self._closing:
            self._answered(request)
        else:
            self.abort()

    def _answered(self, request: HttpRequest) -> None:
        self._requests.remove(request)
        if self._closing:
            return
        if not (request.keep_alive and request.whole):
            self._close()
            return
        self._advance()
        self.regulate()
        if not self._requests:
            self._wait_if_sent()
            if self._timer is None:
                self._idle = self._head == 0
                self._start_timer(self.state.limits.idle if self._idle else self.state.limits.head)

    def _wait_if_sent(self) -> None:
        if not (self.full or self._requests or self._closing):
            self.state.waiting[self] = None

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._incoming is not None and not self._closing and self._incoming is self._requests[0]:
            self._reject(TooSlow("the request's body did not come in time"))
        else:
            self.abort()

    # Clients that do not read their answer --------------------------------------------------------------------------

    async def drained(self) -> None:
        """Wait until the client has read enough of what was sent, or the connection is lost."""
        while self.full and not self.lost:
            if self._drained is None or self._drained.is_set():
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause_writing(self) -> None:
        """Read no further request until the client has read its answers, and check regularly whether it does."""
        self.full = True
        self.regulate()
        self._stop_watching()
        self._watch(self.transport.get_write_buffer_size(), 0)

    def resume_writing(self) -> None:
        self.full = False
        self._stop_watching()
        if self._drained is not None:
            self._drained.set()
        self.regulate()
        self._wait_if_sent()

    def _watch(self, unsent: int, idle: int) -> None:
        self.state.untaken += unsent - self._unsent
        self._unsent = unsent
        self._watching = self._loop.call_later(self.state.limits.stalled / LOOKS, self._look, idle)

    def _look(self, idle: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        idle = idle + 1 if self._unsent - unsent < LEAST_TAKEN else 0
        if idle >= LOOKS or (idle and self.state.untaken > MAX_UNTAKEN):
            self.abort()
        else:
            self._watch(unsent, idle)

    def _stop_watching(self) -> None:
        self.state.untaken -= self._unsent
        self._unsent = 0
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


Message = MutableMapping[str, Any]
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class HttpRequest:
    """ASGI's ``scope``, ``receive`` and ``send`` of a request, and its state for the connection."""

    def __init__(self, connection: HttpConnection, parser: httptools.HttpRequestParser, target: bytes) -> None:
        self._connection = connection
        self.method = parser.get_method().decode("ascii")
        self.version: str = parser.get_http_version()
        self.keep_alive: bool = parser.should_keep_alive() and not parser.should_upgrade()
        self.target, self.headers = target, connection.headers
        self.handler: Handler | None = None
        self.parts: list[bytes] = []
        self.unread = 0
        self.whole = self.begun = self.answered = False
        self._changed: asyncio.Event | None = None
        self._continue = connection.expects_continue
        self._read = False
        self._head: list[bytes] | None = None
        self._chunked = False

    @property
    def scope(self) -> Message:
        url = httptools.parse_url(self.target)
        raw: bytes = url.path or b"/"  # an absolute URL may have no path (RFC 9112, 3.2.2)
        path = raw.decode("ascii")
        peer = self._connection.transport.get_extra_info("peername")
        return {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": self.version,
            "method": self.method, "root_path": "", "scheme": "http" if self._connection.state.tls is None else "https",
            "path": unquote(path) if "%" in path else path, "raw_path": raw, "query_string": url.query or b"",
            "headers": self.headers, "client": peer[:2] if isinstance(peer, tuple) else None, "server": None,
        }  # fmt: skip

    def changed(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def receive(self) -> Message:
        if self._continue and not (self.parts or self.whole):
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._continue = False
        while not (self._connection.lost or self.answered or (not self._read and (self.parts or self.whole))):
            self._changed = asyncio.Event()
            await self._changed.wait()
        if self._connection.lost or self.answered:
            return {"type": "http.disconnect"}
        body, self.parts, self.unread, self._read = b"".join(self.parts), [], 0, self.whole
        self._connection.regulate()
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    async def send(self, message: Message) -> None:
        if self._connection.full:
            await self._connection.drained()
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
            return
        if self._head is None or self.answered:
            raise RuntimeError("an answer has one head, and a body behind it")
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.method == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        self._connection.write(b"".join([*self._head, body]))
        self._head = []
        if not more:
            if self._connection.full:
                await self._connection.drained()
            self.answered = True
            self.changed()

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        names = {name.lower(): value.lower() for name, value in headers}
        self._chunked = not (b"content-length" in names or self.method == "HEAD" or status in (204, 304))
        lines = [_STATUS_LINES[status], self._connection.state.date]
        lines += [b"%s: %s\r\n" % header for header in headers]
        if self._chunked and self.version == "1.1":
            lines.append(b"transfer-encoding: chunked\r\n")
        elif self._chunked:
            self._chunked = self.keep_alive = False  # the end of the connection ends the body
        if names.get(b"connection") == b"close":
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self._head = [*lines, b"\r\n"]


def _no_request(status: HTTPStatus) -> bytes:
    """Return the answer to an invalid request: a problem document, as for all errors that no resource raises."""
    document = {"type": URN + "http", "title": status.phrase, "status": status.value, "detail": status.phrase}
    return _encoded(Reply(status.value, json.dumps(document).encode(), b"application/problem+json"))


def _encoded(reply: Reply, date: bytes = b"", *, keep_alive: bool = False) -> bytes:
    headers = [b"%s: %s\r\n" % header for header in reply.all_headers()]
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    return b"".join([_STATUS_LINES[reply.status], *headers, date, end, reply.body])
