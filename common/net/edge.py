"""Limit request bodies in bytes, in time and in total memory; the sender of a large one identifies itself first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from common.core.errors import BadHost, BadMessage, Busy, CannotWrite, Forged, TandemError, TooLarge, TooSlow
from common.core.plain import plain
from common.core.version import HEADER, check_stated, stated

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

TINY = 1 << 12  # bytes of a body that counts against no pool, so that each connection always has room for it
SMALL = 1 << 16  # default limit of a body in bytes
LARGE = 64 << 20  # bytes of the largest body that any service reads
UNFINISHED = {SMALL: 64 << 20, LARGE: 256 << 20}  # pools by body size: most bytes in memory of arriving bodies
PATIENCE = 20.0  # seconds within which a body must arrive, plus one second for each 64 KiB


@dataclass(frozen=True)
class Opening:
    """A request before its body: method, path, headers, and the body's first line where the resource needs it."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    line: bytes = b""

    @property
    def tail(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def length(self) -> int:
        return int(self.headers.get(b"content-length", b"0"))

    @property
    def token(self) -> str:
        scheme, _, token = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True)
class Admitted:
    """The admission of a body: its most bytes after the first line, and its SHA-256 if that is known."""

    most: int
    sha256: str = ""


@dataclass(frozen=True)
class Guarded:
    """A resource whose request bodies are read only after ``admit`` has admitted them.

    Attributes:
        most: Bytes of the largest body from any sender.
        admit: Judges the opening of a request; if it raises, nothing more of the request is read.
        line: Most bytes of the body's first line; 0: ``admit`` judges by the headers alone.
    """

    most: int
    admit: Callable[[Opening], Awaitable[Admitted]]
    line: int = 0


class IncomingBody:
    """One arriving body; its memory counts against its pool until it is forgotten."""

    def __init__(self, edge: Edge, opening: Opening, receive: Receive) -> None:
        self._unfinished, self._opening, self._receive = edge.unfinished, opening, receive
        kind = edge.limit(opening.path)
        self._guard = kind if isinstance(kind, Guarded) else None
        self._limit = kind.most if isinstance(kind, Guarded) else kind
        self._parts: list[bytes] = []
        self._pool = self._buffered = self._remaining = 0
        self._more = True

    async def whole(self) -> tuple[bytes, bytes]:
        """Read the body; return its first line, if the resource needs that separately, and the rest.

        ConnectionError if the sender has disconnected; a TandemError for what is wrong, or that the resource raises.
        """
        headers = self._opening.headers
        declared = headers.get(b"content-length", b"0")
        valid = len(declared) < 20 and declared.isdigit() and b"transfer-encoding" not in headers
        if not valid or int(declared) > self._limit:
            raise TooLarge(f"a request body must declare its length and have at most {self._limit} bytes here")
        self._remaining = length = int(declared)
        if length == 0:
            return b"", b""
        self._pool = next(size for size in (TINY, *UNFINISHED) if length <= size)
        try:
            async with asyncio.timeout(PATIENCE + length / SMALL):
                if self._guard is None:
                    return b"", await self._read_rest("")
                line = await self._line(self._guard.line) if self._guard.line else b""
                admitted = await self._guard.admit(replace(self._opening, line=line))
                if self._remaining > admitted.most:
                    raise TooLarge(f"this body may have at most {admitted.most} bytes, found {self._remaining}")
                return line, await self._read_rest(admitted.sha256)
        except TimeoutError:
            raise TooSlow("the request's body did not come in time") from None

    async def _line(self, most: int) -> bytes:
        raw = b""
        while b"\n" not in raw and len(raw) <= most and self._more:
            raw += await self._next()
        line, newline, rest = raw.partition(b"\n")
        if not newline or len(line) > most:
            raise BadMessage(f"the first line of this body must end within {most} bytes")
        self._parts = [rest]
        self._remaining -= len(line) + 1
        return line

    async def _read_rest(self, sha256: str) -> bytes:
        digest = hashlib.sha256(b"".join(self._parts)) if sha256 else None
        while self._more:
            part = await self._next()
            self._parts.append(part)
            if digest is not None:
                digest.update(part)
        if digest is not None and digest.hexdigest() != sha256:
            raise Forged("this is another body than the one that was announced")
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        part: bytes = message.get("body", b"")
        self._more = message.get("more_body", False)
        if self._pool > TINY:
            self._buffered += len(part)
            self._unfinished[self._pool] += len(part)
            if self._unfinished[self._pool] > UNFINISHED[self._pool]:
                raise Busy("too many large requests are on their way; ask again later")
        return part

    def forget(self) -> None:
        if self._buffered:
            self._unfinished[self._pool] -= self._buffered
        self._parts, self._buffered = [], 0


log = logging.getLogger("tandem")
_STATES = HEADER.lower().encode()

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Reply(NamedTuple):
    """An answer on the fast path."""

    status: int
    body: bytes = b""
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-length", b"%d" % len(self.body)), stating(), *self.headers]
        if self.body:
            headers.append((b"content-type", self.kind))
        return headers


@dataclass(frozen=True)
class Call(Opening):
    """A request on the fast path, with its whole body (after the first line, if that was read separately)."""

    body: bytes = b""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass
class Edge:
    """An ASGI app that wraps another one.

    Attributes:
        limits: Largest bodies by path prefix, of which the first match counts; for other paths :data:`SMALL`.
        short: Handlers by method and path; a path that ends with a slash takes one further part.
        origins: Origins of web pages; their requests pass through the outer apps, so not through the fast path.
        unfinished: Bytes in memory of arriving bodies, by the largest body size of their pool.
        statuses, problems: How many requests were answered with each status, and with each problem.
    """

    app: App
    limits: dict[str, int | Guarded] = field(default_factory=dict)
    short: dict[tuple[str, str], Handler] = field(default_factory=dict)
    origins: frozenset[bytes] = frozenset()
    statuses: Counter[int] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    unfinished: dict[int, int] = field(default_factory=lambda: dict.fromkeys(UNFINISHED, 0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        send = self._with_version(send)
        arriving = IncomingBody(self, Opening(method, path, headers), receive)
        try:
            try:
                check_host(scope["http_version"], scope["headers"])
                check_peer(headers)
                line, body = await arriving.whole()
            except ConnectionError:
                return
            except Exception as error:  # noqa: BLE001 - other exceptions are faults of the service
                # The rest of the body is not read, so the connection cannot carry a further request.
                await _send(self._refusal(method, path, error), send, (b"connection", b"close"))
                return
            handler = self._handler(method, path)
            if handler is None:
                message = {"type": "http.request", "body": line + b"\n" + body if line else body, "more_body": False}
                pending = [message]

                async def replay() -> MutableMapping[str, Any]:
                    return pending.pop() if pending else await receive()

                await self.app(scope, replay, send)
            else:
                await _send(await self.answer(handler, Call(method, path, headers, line, body)), send)
        finally:
            arriving.forget()

    def small(self, method: str, path: str) -> Handler | None:
        """Return the handler of a request on the fast path if its body never has more than :data:`TINY` bytes."""
        handler = self._handler(method, path)
        return handler if handler is not None and self.limit(path) == TINY else None

    def limit(self, path: str) -> int | Guarded:
        return next((kind for start, kind in self.limits.items() if path.startswith(start)), SMALL)

    def _with_version(self, send: Send) -> Send:
        async def send_stated(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
                if stating() not in message["headers"]:
                    message = {**message, "headers": [*message["headers"], stating()]}
            await send(message)

        return send_stated

    def _handler(self, method: str, path: str) -> Handler | None:
        return self.short.get((method, path)) or self.short.get((method, path.rpartition("/")[0] + "/"))

    async def answer(self, handler: Handler, call: Call) -> Reply:
        """Return a handler's answer, or the problem that it raises."""
        try:
            check_peer(call.headers)
            return await handler(call)
        except Exception as error:  # noqa: BLE001 - other exceptions are faults of the service
            return self._refusal(call.method, call.path, error)

    def _refusal(self, method: str, path: str, error: Exception) -> Reply:
        refusal = error if isinstance(error, TandemError) else fault(method, path, error)
        self.problems[refusal.problem] += 1
        return problem(refusal)


@cache
def stating() -> tuple[bytes, bytes]:
    """Return the header in which a service states its protocol."""
    return _STATES, stated().encode()


HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(:[0-9]*)?")
"""A host and an optional port (RFC 3986, 3.2.2)."""


def check_host(version: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a Host header that is repeated, invalid or, except in HTTP/1.0, missing (BadHost; RFC 9112, 3.2)."""
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        raise BadHost(f"a request must have one Host header, found {len(hosts)}: send it with one")
    if hosts and HOST.fullmatch(hosts[0]) is None:
        raise BadHost(f"the Host header must be a host and perhaps a port, found {hosts[0][:80]!r}: name this service")


def check_peer(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a peer that states another protocol (VersionSkew); a client that states none need not be a party."""
    stated_by_peer = headers.get(_STATES)
    if stated_by_peer is not None:
        check_stated(stated_by_peer.decode("latin-1"), "the client")


def fault(method: str, path: str, error: Exception) -> TandemError:
    """Log a fault of the service; return an error without details for the client, as they might hold private data."""
    database = sys.modules.get("sqlalchemy.exc")  # if it is not loaded, no error comes from a database
    if isinstance(error, (OSError,) if database is None else (OSError, database.OperationalError)):
        # Disk, descriptors or database are unavailable at present: the client may retry.
        log.error("%s %s cannot be answered at present", method, path, exc_info=error)
        return CannotWrite("the service has no disk, database or descriptor at present: ask again")
    log.error("bug while handling %s %s", method, path, exc_info=error)
    return TandemError("this is a fault of the service; its log says more")


def problem(error: TandemError) -> Reply:
    """Return an error as an RFC 9457 problem document."""
    later = ((b"retry-after", str(error.retry_after).encode()),) if isinstance(error, Busy | CannotWrite) else ()
    # The detail may quote what a peer sent, and a client may display it.
    members = {name: plain(value) if isinstance(value, str) else value for name, value in error.document().items()}
    document = json.dumps({**members, "status": error.status}).encode()
    return Reply(error.status, document, b"application/problem+json", later)


async def _send(reply: Reply, send: Send, *further: tuple[bytes, bytes]) -> None:
    headers = [*reply.all_headers(), *further]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
