"""What every request passes before a service sees it: raw limits, and a short way for what comes by the million.

A body is limited in bytes by what its resource can need, in the time that it may take, and together with all other
bodies that are on their way. Resources on the short way are answered without routing or validation by a framework;
the app describes them all the same, and problem documents are those of the app.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from common.core.errors import BadHost, Busy, CannotWrite, TandemError
from common.core.plain import plain
from common.service.web.bodies import TINY, Bodies, Opening, Receive
from common.wire.version import HEADER, check_stated, stated

log = logging.getLogger("tandem")
_STATES = HEADER.lower().encode()

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Reply(NamedTuple):
    """An answer on the short way."""

    status: int
    body: bytes = b""
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Return its headers with those of the body."""
        headers = [(b"content-length", b"%d" % len(self.body)), stating(), *self.headers]
        if self.body:
            headers.append((b"content-type", self.kind))
        return headers


@dataclass(frozen=True)
class Call(Opening):
    """A request on the short way, with its whole body (behind the first line, where that was read apart)."""

    body: bytes = b""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass
class Edge:
    """An ASGI app before another one.

    Attributes
    ----------
    app
        The service behind it.
    bodies
        What it reads.
    short
        Handlers by method and path; a path that ends with a slash takes one further part.
    statuses, problems
        How many requests were answered with which status, and with which problem.
    """

    app: App
    bodies: Bodies = field(default_factory=Bodies)
    short: dict[tuple[str, str], Handler] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    _small: dict[tuple[str, str], Handler | None] = field(default_factory=dict, init=False, repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on with its whole body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        send = self._stated(send)
        arriving = self.bodies.expect(Opening(method, path, headers), receive)
        try:
            try:
                check_host(scope["http_version"], scope["headers"])
                check_peer(headers)
                line, body = await arriving.whole()
            except ConnectionError:
                return
            except Exception as error:  # noqa: BLE001 - what is no problem of the body is a fault of ours
                refusal = error if isinstance(error, TandemError) else fault(method, path, error)
                self.problems[refusal.problem] += 1
                # What is still on its way is not read: nothing else can come on this connection.
                await _send(problem(refusal), send, (b"connection", b"close"))
                return
            handler = self._handler(method, path)
            if handler is None:
                await self.app(scope, _again(line + b"\n" + body if line else body, receive), send)
            else:
                await _send(await self.answer(handler, Call(method, path, headers, line, body)), send)
        finally:
            arriving.forget()

    def small(self, method: str, path: str) -> Handler | None:
        """Return who answers a request on the short way if its body never has more than :data:`TINY` bytes."""
        parent = (method, path.rpartition("/")[0] + "/")
        if parent in self.short and (method, path) not in self.short:
            # The resources below one path are of one kind, and have one limit: it is looked up once.
            if parent not in self._small:
                self._small[parent] = self.short[parent] if self.bodies.limit(path) == TINY else None
            return self._small[parent]
        handler = self._handler(method, path)
        return handler if handler is not None and self.bodies.limit(path) == TINY else None

    def _stated(self, send: Send) -> Send:
        """Let whatever is answered state the protocol."""

        async def stated(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
                if stating() not in message["headers"]:
                    message = {**message, "headers": [*message["headers"], stating()]}
            await send(message)

        return stated

    def _handler(self, method: str, path: str) -> Handler | None:
        return self.short.get((method, path)) or self.short.get((method, path.rpartition("/")[0] + "/"))

    async def answer(self, handler: Handler, call: Call) -> Reply:
        """Return a handler's answer, or the problem that it raises."""
        try:
            check_peer(call.headers)
            return await handler(call)
        except TandemError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - a fault of ours, which shows nothing
            refusal = fault(call.method, call.path, error)
        self.problems[refusal.problem] += 1
        return problem(refusal)


@cache
def stating() -> tuple[bytes, bytes]:
    """Return the header in which a service states its protocol."""
    return _STATES, stated().encode()


HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(:[0-9]*)?")
"""A host and, perhaps, a port (RFC 3986, 3.2.2)."""


def check_host(version: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a request whose Host header is missing, repeated or invalid; HTTP/1.0 has requests without one.

    Two servers that read such a request differently would answer it differently (RFC 9112, 3.2).

    Raises
    ------
    BadHost
        Naming what was found.
    """
    found = [value for name, value in headers if name == b"host"]
    if len(found) > 1 or (not found and version != "1.0"):
        raise BadHost(f"a request must have one Host header, found {len(found)}: send it with one")
    if found and HOST.fullmatch(found[0]) is None:
        raise BadHost(f"the Host header must be a host and perhaps a port, found {found[0][:80]!r}: name this service")


def check_peer(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a peer that states another protocol than this service's; who states none may be no party at all.

    Raises
    ------
    VersionSkew
        Naming both versions.
    """
    said = headers.get(_STATES)
    if said is not None:
        check_stated(said.decode("latin-1"), "whoever asks")


def fault(method: str, path: str, error: Exception) -> TandemError:
    """Log a fault of the service, and return what is said of it: nothing, since a detail might hold somebody's data."""
    if isinstance(error, (OSError, *_database_errors())):
        # No disk, no descriptor, no database at present: whoever asks may ask again.
        log.error("%s %s cannot be answered at present", method, path, exc_info=error)
        return CannotWrite("the service lacks a disk, a database or a descriptor at present: ask again")
    log.error("bug while handling %s %s", method, path, exc_info=error)
    return TandemError("this is a fault of the service; its log says more")


def _database_errors() -> tuple[type[Exception], ...]:
    loaded = sys.modules.get("sqlalchemy.exc")
    return () if loaded is None else (loaded.OperationalError,)


def problem(error: TandemError) -> Reply:
    """Return an error as an RFC 9457 problem document."""
    later = ((b"retry-after", str(error.retry_after).encode()),) if isinstance(error, Busy | CannotWrite) else ()
    # What a peer sent may be quoted here, and whoever reads it may show it.
    shown = {name: plain(value) if isinstance(value, str) else value for name, value in error.document().items()}
    document = json.dumps({**shown, "status": error.status}).encode()
    return Reply(error.status, document, b"application/problem+json", later)


async def _send(reply: Reply, send: Send, *further: tuple[bytes, bytes]) -> None:
    headers = [*reply.all_headers(), *further]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _again(body: bytes, receive: Receive) -> Receive:
    """Give the body once more to who reads it next."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await receive()

    return given
