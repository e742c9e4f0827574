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
        Seconds in which somebody who is sent an answer must take some of it.
    """

    connections: int
    head: float = 10.0
    idle: int = 30
    stalled: float = 30.0


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
    """

    limits: Limits
    waiting: dict[Guarded, None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head = 0  # bytes of the request's head so far; -1 once it is whole
        self._patience: asyncio.TimerHandle | None = None
        self._unsent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows the type
        """Take a place, and make room if there is none."""
        super().connection_made(transport)
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
        for timer in (self._patience, self._unsent):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # A request's head ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what has come, within the limits of a head."""
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
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
        """Watch whether anybody takes the answer."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop watching: it was taken."""
        super().resume_writing()
        if self._unsent is not None:
            self._unsent.cancel()
            self._unsent = None
        if not self.transport.is_closing():
            self._wait_if_sent()

    def _watch(self, unsent: int) -> None:
        self._unsent = self.loop.call_later(self.limits.stalled, self._taken, unsent)

    def _taken(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent < before:
            self._watch(unsent)
        else:
            self.transport.abort()
