"""A request on a connection, from its head to the end of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from common.net.edge import Handler, Reply

Message = MutableMapping[str, Any]
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class RequestCarrier(Protocol):
    """What a request asks of the connection on which it came."""

    headers: list[tuple[bytes, bytes]]
    expects_continue: bool
    full: bool
    lost: bool

    @property
    def scheme(self) -> str: ...

    @property
    def peer(self) -> Any: ...

    @property
    def date(self) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    def regulate(self) -> None: ...

    async def drained(self) -> None: ...


class HttpRequest:
    """ASGI's ``scope``, ``receive`` and ``send`` of a request, and what its connection keeps of it."""

    __slots__ = (
        "_changed", "_chunked", "_connection", "_continue", "_head", "_read", "answered", "begun", "handler", "headers",
        "keep_alive", "method", "parts", "target", "unread", "version", "whole",
    )  # fmt: skip

    def __init__(self, connection: RequestCarrier, parser: httptools.HttpRequestParser, target: bytes) -> None:
        self._connection = connection
        self.method: bytes = parser.get_method()
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
        path = url.path.decode("ascii")
        return {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": self.version,
            "method": self.method.decode("ascii"), "scheme": self._connection.scheme, "root_path": "",
            "path": unquote(path) if "%" in path else path, "raw_path": url.path, "query_string": url.query or b"",
            "headers": self.headers, "client": self._connection.peer, "server": None,
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
        if self.method == b"HEAD":
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
        self._chunked = not (b"content-length" in names or self.method == b"HEAD" or status in (204, 304))
        lines = [_STATUS_LINES[status], self._connection.date]
        lines += [b"%s: %s\r\n" % header for header in headers]
        if self._chunked and self.version == "1.1":
            lines.append(b"transfer-encoding: chunked\r\n")
        elif self._chunked:
            self._chunked = self.keep_alive = False  # the end of the connection is the end of the body
        if names.get(b"connection") == b"close":
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self._head = [*lines, b"\r\n"]


def head_of(reply: Reply) -> Iterator[bytes]:
    """Return the status line and the headers, without the empty line behind them."""
    yield _STATUS_LINES[reply.status]
    for header in reply.all_headers():
        yield b"%s: %s\r\n" % header
