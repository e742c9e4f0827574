"""Connections that hold nobody up: who keeps silent is dropped, and there is always room for the next one.

A connection *waits* until a whole request has come on it. If all places are taken, the one that has waited longest
makes room. So whoever opens connections and sends nothing, or sends slowly, keeps nobody out who sends a request at
once.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from common.core.errors import BadInput, Busy, TandemError
from common.service.web.edge import problem

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


class Guarded(HttpToolsProtocol):
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
    waiting: dict[Guarded, None]
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
