"""Connections on which small requests of the short way are answered without the server's own machinery.

A whole request in the usual form (HTTP/1.1, no query, a small body of a declared length, kept alive, no other one under
way on its connection) goes from the parser to its handler and back. The server makes no scope, no events and no
messages of it, which take three times as long as everything that a report needs. Whatever differs in any way goes the
usual way, where the same handler answers it, or it is refused.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from common.service.web.bodies import TINY
from common.service.web.connections import Guarded
from common.service.web.edge import HOST, Call, Edge, Handler, Reply

PROMPT = 1.0
"""Seconds in which a body may follow its head here; what comes later goes the usual way, and is timed there."""


class ShortWay(Guarded):
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
