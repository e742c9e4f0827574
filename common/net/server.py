"""Connections that hold nobody up: who keeps silent is dropped, and there is always room for the next one.

A connection *waits* until a whole request has come on it. If all places are taken, the one that has waited longest
makes room. So whoever opens connections and sends nothing, or sends slowly, keeps nobody out who sends a request at
once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import socket
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from common.core.errors import BadInput, Busy, TandemError
from common.core.terminal import say
from common.net import addresses
from common.net.app import Service
from common.net.edge import HOST, TINY, Call, Edge, Handler, Reply, problem

log = logging.getLogger("tandem")

MOST_CONNECTIONS = 1 << 17
"""Connections that are open at the same time, however many descriptors there are."""
OTHER_DESCRIPTORS = 128
"""Descriptors that are kept for files, databases and libraries."""
FEW_CONNECTIONS = 1000
"""With fewer places than this a service says so when it starts."""
MAX_HEAD = 1 << 14
"""Bytes of a request's line and headers."""
MAX_HEADERS = 64
MAX_PIPELINED = 16
"""Requests that may wait on one connection for the answer to the one before them."""
MAX_UNSENT = 1 << 14
"""Bytes of answers that may wait for one connection, here and as many in the operating system, beside those sent."""
UNTAKEN_SECONDS = 30
"""Seconds after which the operating system ends a connection on which nothing of what waits is taken."""
MAX_UNTAKEN = 16 << 20
"""Bytes of answers that may wait on all connections before those are dropped on which none is taken."""
LEAST_TAKEN = 1 << 10
"""Bytes that must be taken from one look to the next, or nothing counts as taken."""
LOOKS = 10
"""Looks within :attr:`Limits.stalled` at whether an answer is taken."""
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class Limits:
    """How connections are held.

    Attributes
    ----------
    connections
        How many are open at the same time.
    head
        Seconds from the first byte of a request, or from the connection's beginning, to the end of its headers.
    idle
        Seconds between an answer and the next request.
    stalled
        Seconds in which somebody who is sent an answer must take some of it; a tenth of that
        where too much waits on all connections together.
    """

    connections: int
    head: float = 10.0
    idle: int = 30
    stalled: float = 10.0


@dataclass
class Untaken:
    """Bytes of answers that wait on all of a server's connections that are full."""

    total: int = 0


def raise_descriptors() -> int:
    """Raise this process's limit of descriptors as far as it may, and return how many connections that leaves room for.

    Raises
    ------
    BadInput
        If it leaves room for none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS says that there is no limit, and has one
            hard = soft
    most = MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, hard - OTHER_DESCRIPTORS)
    if most < 1:
        raise BadInput(
            f"this process may open {hard} files, a service needs more than {OTHER_DESCRIPTORS}: raise ulimit -n"
        )
    if most < FEW_CONNECTIONS:
        log.warning(
            "at most %d connections at the same time, since this process may open %d files: raise ulimit -n", most, hard
        )
    return most


def written(error: TandemError) -> bytes:
    """Return the whole answer, as bytes, to somebody whose request is not read: the connection ends with it."""
    reply = problem(error)
    head = [b"HTTP/1.1 %d %s" % (reply.status, HTTPStatus(reply.status).phrase.encode()), b"connection: close"]
    head += [b"content-length: %d" % len(reply.body), b"content-type: " + reply.kind]
    head += [name + b": " + value for name, value in reply.headers]
    return b"\r\n".join([*head, b"", reply.body])


class GuardedConnection(HttpToolsProtocol):
    """A connection of one server, which makes a class of its own of this one.

    Attributes
    ----------
    limits
        How connections are held.
    waiting
        All of the server's connections on which no whole request has come yet, the longest waiting first.
    untaken
        What waits on its connections because clients do not take it.
    """

    limits: Limits
    waiting: dict[GuardedConnection, None]
    untaken: Untaken

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head = 0  # bytes of the request's head so far; -1 once it is whole
        self._patience: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._unsent = 0  # what it adds to all that is untaken
        self._answered: Any = None  # the request that is answered at present, before those that wait for it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows the type
        """Take a place, and make room if there is none."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(MAX_UNSENT)
        if len(self.connections) > self.limits.connections:
            longest = next(iter(self.waiting), None)
            if longest is None:
                self.turn_away(transport)
                return
            del self.waiting[longest]
            longest.transport.abort()
        self._await_head()

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Answer somebody for whom there is no place."""
        transport.write(written(Busy("every connection is at work")))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place up."""
        self.waiting.pop(self, None)
        self._stop_waiting_for_head()
        self._stop_watching()
        if self._answered is not None:
            self._answered.disconnected = True  # the server notes that of the request that came last alone
        super().connection_lost(exc)

    # A request's head ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what has come, within the limits of a head."""
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
        if self.flow.write_paused and not self.transport.is_closing():
            self.transport.pause_reading()  # the server may have resumed it, for another reason than this one
        if self._head > 0 and self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(self.limits.head, self._give_up)
        if self._head > MAX_HEAD:
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count headers."""
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request whose head is whole."""
        self.begin_body()
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def begin_body(self) -> None:
        """Note that a request's head is whole.

        Raises
        ------
        ValueError
            If too many others wait already.
        """
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests that wait for each other")
        self._head = -1
        self._stop_waiting_for_head()

    def on_message_complete(self) -> None:
        """Note that a whole request has come."""
        self.waiting.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._answered = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self.parser is not None and not self.transport.is_closing() and self.cycle.response_complete:
            self._head = 0
            self._wait_if_sent()

    def _wait_if_sent(self) -> None:
        if not self.flow.write_paused and self.cycle is not None and self.cycle.response_complete:
            self.waiting[self] = None

    def _await_head(self) -> None:
        self.waiting[self] = None
        self._patience = self.loop.call_later(self.limits.head, self._give_up)

    def _stop_waiting_for_head(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self.transport.abort()

    # An answer that nobody takes -----------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Take no further request until what was answered is taken, and watch whether it is."""
        super().pause_writing()
        self.transport.pause_reading()
        self._stop_watching()
        self._watch(self.transport.get_write_buffer_size(), 0)

    def resume_writing(self) -> None:
        """Stop watching, and take requests again: it was taken."""
        super().resume_writing()
        self._stop_watching()
        if not self.transport.is_closing():
            if not self.flow.read_paused:
                self.transport.resume_reading()
            self._wait_if_sent()

    def _watch(self, unsent: int, idle: int) -> None:
        """Look again later; so many looks in a row have found nothing taken."""
        self.untaken.total += unsent - self._unsent
        self._unsent = unsent
        self._watching = self.loop.call_later(self.limits.stalled / LOOKS, self._look, idle)

    def _look(self, idle: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        idle = idle + 1 if self._unsent - unsent < LEAST_TAKEN else 0
        if idle >= LOOKS or (idle and self.untaken.total > MAX_UNTAKEN):
            self.transport.abort()
        else:
            self._watch(unsent, idle)

    def _stop_watching(self) -> None:
        self.untaken.total -= self._unsent
        self._unsent = 0
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


PROMPT = 1.0
"""Seconds in which a body may follow its head here; what comes later goes the usual way, and is timed there."""


class ShortWay(GuardedConnection):
    """A connection of a server before which an edge stands.

    Attributes
    ----------
    edge
        It knows the handlers and their limits.
    """

    edge: Edge

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._gathering: _Request | None = None
        self._prompt: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what has come of a request."""
        self._stop_gathering()
        super().connection_lost(exc)

    # From the parser ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what has come; if a body is not whole yet, wait for it for a moment."""
        super().data_received(data)
        if self._gathering is not None and self._prompt is None:
            self._prompt = self.loop.call_later(PROMPT, self._the_usual_way)

    def on_message_begin(self) -> None:
        """Begin a request; the usual way's scope is made only if it takes that way."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """Choose the way of a request whose head is whole."""
        request = self._short()
        if request is None:
            self._open_scope()
            super().on_headers_complete()
        else:
            self.begin_body()
            self._gathering = request

    def on_body(self, body: bytes) -> None:
        """Gather the body."""
        if self._gathering is None:
            super().on_body(body)
        else:
            self._gathering.parts.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that is whole."""
        request = self._gathering
        if request is None:
            super().on_message_complete()
            return
        self._stop_gathering()
        self.waiting.pop(self, None)
        # It stands where the server looks for what is under way: a further request waits for it, a shutdown too.
        self.cycle = request  # type: ignore[assignment]
        task = self.loop.create_task(self._answer(request))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # There and back -------------------------------------------------------------------------------------------------

    def _short(self) -> _Request | None:
        """Return the request whose head is whole, if it may go the short way."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        if under_way or self.pipeline or self.expect_100_continue:
            return None
        if self.parser.get_http_version() != "1.1" or not self.parser.should_keep_alive():
            return None
        if self.parser.should_upgrade() or _PLAIN.fullmatch(self.url) is None:
            return None
        headers = dict(self.headers)
        if len(headers) < len(self.headers) or HOST.fullmatch(headers.get(b"host", b"")) is None:
            return None
        length = headers.get(b"content-length", b"0")
        if b"transfer-encoding" in headers or len(length) > 4 or not length.isdigit() or int(length) > TINY:
            return None
        method, path = self.parser.get_method().decode("ascii"), self.url.decode("ascii")
        handler = self.edge.small(method, path)
        return None if handler is None else _Request(handler, method, path, headers)

    def _open_scope(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)

    def _the_usual_way(self) -> None:
        """Hand a request on of which only a part has come."""
        request = self._gathering
        self._stop_gathering()
        if request is not None:
            self._open_scope()
            super().on_headers_complete()
            for part in request.parts:
                super().on_body(part)

    def _stop_gathering(self) -> None:
        self._gathering = None
        if self._prompt is not None:
            self._prompt.cancel()
            self._prompt = None

    async def _answer(self, request: _Request) -> None:
        call = Call(request.method, request.path, request.headers, body=b"".join(request.parts))
        reply = await self.edge.answer(request.handler, call)
        self.edge.statuses[reply.status] += 1
        if not (request.disconnected or self.transport.is_closing()):
            self.transport.write(self._raw(reply, request.keep_alive))
            # Who takes no answer gets no further one: answers would pile up here as fast as requests come.
            if self.flow.write_paused:
                await self.flow.drain()
        request.response_complete = True
        if request.disconnected or self.transport.is_closing():
            return
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _raw(self, reply: Reply, keep_alive: bool) -> bytes:
        headers = [*self.server_state.default_headers, *reply.all_headers()]
        if not keep_alive:
            headers.append((b"connection", b"close"))
        return b"".join(
            [STATUS_LINE[reply.status], *(b"%s: %s\r\n" % header for header in headers), b"\r\n", reply.body]
        )


_PLAIN = re.compile(rb"/[a-zA-Z0-9/_.-]*")
"""Paths that are what they say: no query, nothing encoded."""


class _Request:
    """A request on the short way; for the server it stands where a cycle of its own would."""

    __slots__ = (
        "disconnected",
        "handler",
        "headers",
        "keep_alive",
        "message_event",
        "method",
        "parts",
        "path",
        "response_complete",
    )

    def __init__(self, handler: Handler, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        self.handler = handler
        self.method = method
        self.path = path
        self.headers = headers
        self.parts: list[bytes] = []
        self.response_complete = self.disconnected = False
        self.keep_alive = True
        self.message_event = _NOBODY


class _Nobody:
    """Whom no message wakes: nobody waits for one here."""

    def set(self) -> None:
        """Do nothing."""


_NOBODY = _Nobody()


MAX_HANDSHAKES = 1024
"""Handshakes that are under way at the same time, some 50 KiB each; the one that began first makes room."""
LINGER = 1.0
"""Seconds in which a client that is refused may read why."""
_PIECE = 1 << 12
"""Bytes that pass TLS at once, a record's: its buffers keep the size of the largest piece that ever was in them."""
_HANDSHAKE = 0x16
"""The first byte of every TLS connection (RFC 8446, 5.1)."""
_IN_THE_CLEAR = "this service speaks TLS: dial it with https://, and name its authority with --tls-ca (TANDEM_TLS_CA)"


class Sealed(asyncio.Transport):
    """What is written here leaves encrypted; what came encrypted is opened.

    Parameters
    ----------
    raw
        Where encrypted bytes go.
    context
        How a service speaks TLS.
    """

    def __init__(self, raw: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._raw = raw
        self._context = context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None  # some 50 KiB, so only once a handshake has begun
        self._shaken = self._ended = False

    def open(self, data: bytes) -> bytes:
        """Return what encrypted bytes say, so far as it is whole: nothing while the handshake lasts.

        Raises
        ------
        ssl.SSLError
            If they are no TLS, or not such as the context accepts; the alert has been sent then.
        """
        if self._tls is None:
            self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        said: list[bytes] = []
        try:
            for start in range(0, len(data), _PIECE):
                self._incoming.write(data[start : start + _PIECE])
                self._read(self._tls, said)
        finally:
            self._flush()
        return b"".join(said)

    def _read(self, tls: ssl.SSLObject, said: list[bytes]) -> None:
        try:
            if not self._shaken:
                tls.do_handshake()
                self._shaken = True
            while piece := tls.read(_PIECE):
                said.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True

    @property
    def begun(self) -> bool:
        """Whether a handshake has begun."""
        return self._tls is not None

    @property
    def shaken(self) -> bool:
        """Whether the handshake is over."""
        return self._shaken

    @property
    def ended(self) -> bool:
        """Whether the other side has said that nothing more comes."""
        return self._ended

    def give_up(self, last: bytes) -> None:
        """Encrypt and open nothing more; what is sent last is in the clear."""
        self._tls, self._shaken = None, False
        if last:
            self._raw.write(last)

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # A transport, as the server uses one -----------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send."""
        data = memoryview(data)
        if self._tls is not None and self._shaken:
            for start in range(0, len(data), _PIECE):
                self._tls.write(data[start : start + _PIECE])
                self._flush()

    def close(self) -> None:
        """End the connection when all is sent, and say so."""
        if not self._raw.is_closing():
            if self._tls is not None and self._shaken:
                with suppress(ssl.SSLError):
                    self._tls.unwrap()
                self._flush()
            self._tls, self._shaken = None, False  # what waits is encrypted already, and may wait for long
            self._raw.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._raw.abort()

    def is_closing(self) -> bool:
        """Tell whether it is about to end."""
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        """Take nothing in."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Take in again."""
        self._raw.resume_reading()

    def is_reading(self) -> bool:
        """Tell whether anything is taken in."""
        return self._raw.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say how many encrypted bytes may wait."""
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes nobody has taken yet."""
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self._context if name == "sslcontext" else self._raw.get_extra_info(name, default)


class Secured(ShortWay):
    """A connection of a server that speaks TLS.

    Attributes
    ----------
    tls
        How.
    beginning
        The server's connections on which a handshake is under way, the longest first.
    """

    tls: ssl.SSLContext
    beginning: dict[Secured, None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows the type
        """Take a place; the handshake begins with what the other side sends."""
        super().connection_made(Sealed(transport, self.tls))

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place up."""
        self.beginning.pop(self, None)
        super().connection_lost(exc)

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Close a connection for which there is no place: nothing can be said before the handshake."""
        transport.close()

    def data_received(self, data: bytes) -> None:
        """Open what has come, and parse it."""
        sealed = cast(Sealed, self.transport)
        if self._refused or sealed.is_closing():
            return  # what is still on its way to a connection that has ended for us
        if not sealed.begun:
            if data[0] != _HANDSHAKE:
                self._refuse(sealed, written(BadInput(_IN_THE_CLEAR)))
                return
            self._begin()
        try:
            said = sealed.open(data)
        except ssl.SSLError as error:
            log.info("a TLS connection is refused: %s", error.reason)
            self._refuse(sealed)
            return
        if sealed.shaken:
            self.beginning.pop(self, None)
        if said:
            super().data_received(said)
        if sealed.ended:
            sealed.close()

    def _begin(self) -> None:
        """Begin a handshake; the one that began first makes room if there are too many."""
        self.beginning[self] = None
        if len(self.beginning) > MAX_HANDSHAKES:
            first = next(iter(self.beginning))
            del self.beginning[first]
            first.transport.abort()

    def _refuse(self, sealed: Sealed, last: bytes = b"") -> None:
        """Read nothing more, and end the connection soon.

        Ending it at once would throw away what was sent last, if the other side is still sending.
        """
        self._refused = True
        self.beginning.pop(self, None)
        sealed.give_up(last)
        self._stop_waiting_for_head()
        self._patience = self.loop.call_later(LINGER, self._give_up)


def listen(host: str, port: int) -> socket.socket:
    """Take a port (0: any free one) of an address of this machine, or of one that a name means.

    Raises
    ------
    BadInput
        If it is in use or not ours to take, or is none; one line that says which.
    """
    host = addresses.bare(host)
    place = addresses.written(host, port)
    if not 0 <= port <= 65535:
        raise BadInput(
            f"cannot listen on {place}: a port is a number from 1 to 65535, or 0 for any free one; "
            "choose another with --port"
        )
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, at = min(found, key=lambda each: each[0] != socket.AF_INET)
        listener = socket.socket(family)
    except (OSError, UnicodeError) as error:
        raise BadInput(f"cannot listen on {place}: {error}; choose another with --host") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Without it the system takes megabytes of answers for each client that reads none.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # A connection that is closed waits for the rest of its answer to be taken, which the server does not watch.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNTAKEN_SECONDS)
        listener.bind(at)
        listener.listen(4096)
    except OSError as error:
        listener.close()
        raise BadInput(f"cannot listen on {place}: {error}; choose another with --port") from None
    return listener


def serve(app: Service, listener: socket.socket, name: str, tls: ssl.SSLContext | None = None) -> None:
    """Serve until SIGINT or SIGTERM; prints one line with the address when ready to accept connections.

    Parameters
    ----------
    tls
        How connections are encrypted (:func:`common.net.tls.server_context`); None: not here.
    """
    host, port = listener.getsockname()[:2]
    if tls is None and not ip_address(host).is_loopback:
        log.warning(
            "%s listens on %s without TLS: whoever carries the traffic can read tokens and answers. Start it with "
            "--tls-cert (referee certificates makes one), or put a proxy that ends TLS in front",
            name,
            host,
        )
    scheme = "http" if tls is None else "https"
    say(f"{name} listens on {scheme}://{addresses.written(host, port)}")
    server_of(app, Limits(raise_descriptors()), tls).run(sockets=[listener])
    sys.stdout.flush()


def server_of(app: Service, limits: Limits, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Return what serves an app, and holds its connections within limits."""
    known = {"limits": limits, "waiting": {}, "untaken": Untaken(), "beginning": {}, "edge": app.edge, "tls": tls}
    connection = type("Connection", (ShortWay if tls is None else Secured,), known)
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,  # its own would write an exception's text to the terminal as it is
        log_level="error",
        access_log=False,
        timeout_keep_alive=limits.idle,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)
