"""What every request passes before a service sees it: raw limits, and a short way for what comes by the million.

A body is limited in bytes by what its resource can need, in the time that it may take, and together with all other
bodies that are on their way. Resources on the short way are answered without routing or validation by a framework;
the app describes them all the same, and problem documents are those of the app.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from common.core.errors import Busy, CannotWrite, TandemError, TooLarge, TooSlow

log = logging.getLogger("tandem")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SMALL = 1 << 16
"""Bytes of a body where nothing else is said."""
LARGE = 64 << 20
"""Bytes of the largest body that any service reads."""
UNFINISHED = 256 << 20
"""Bytes that have come of all bodies above 64 KiB that are on their way."""
PATIENCE = 20.0
"""Seconds that a body of 64 KiB may take to come; a larger one has a second more for each 64 KiB."""


@dataclass(frozen=True)
class Reply:
    """An answer on the short way."""

    status: int
    body: bytes = b""
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True)
class Call:
    """A request on the short way: what stands behind the resource's path, the headers, the body."""

    tail: str
    headers: Mapping[bytes, bytes]
    body: bytes

    @property
    def token(self) -> str:
        """The bearer token, empty if there is none."""
        scheme, _, token = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass
class Edge:
    """An ASGI app before another one.

    Attributes
    ----------
    app
        The service behind it.
    limits
        Largest bodies by the beginning of their paths; elsewhere :data:`SMALL`.
    short
        Handlers by method and path; a path that ends with a slash takes one further part.
    """

    app: App
    limits: dict[str, int] = field(default_factory=dict)
    short: dict[tuple[str, str], Handler] = field(default_factory=dict)
    _unfinished: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on with its whole body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            body = await self._body(scope["path"], headers, receive)
        except TandemError as error:
            # What is still on its way is not read: nothing else can come on this connection.
            await _send(problem(error), send, (b"connection", b"close"))
            return
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            return
        path = scope["path"]
        handler, tail = self.short.get((scope["method"], path)), ""
        if handler is None:
            place, _, tail = path.rpartition("/")
            handler = self.short.get((scope["method"], place + "/"))
        if handler is None:
            await self.app(scope, _again(body, receive), send)
            return
        try:
            reply = await handler(Call(tail, headers, body))
        except TandemError as error:
            reply = problem(error)
        except Exception as error:  # noqa: BLE001 - a fault of ours, which shows nothing
            reply = problem(fault(scope["method"], path, error))
        await _send(reply, send)

    async def _body(self, path: str, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        declared = headers.get(b"content-length", b"0")
        most = next((most for start, most in self.limits.items() if path.startswith(start)), SMALL)
        if not declared.isdigit() or int(declared) > most or b"transfer-encoding" in headers:
            raise TooLarge(f"a request body must declare its length and have at most {most} bytes here")
        length = int(declared)
        if length == 0:
            return b""
        held = 0
        try:
            async with asyncio.timeout(PATIENCE + length / SMALL):
                parts, more = [], True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    parts.append(_part(message))
                    if length > SMALL:  # the small ones are bounded by the number of connections
                        held += len(parts[-1])
                        self._unfinished += len(parts[-1])
                        if self._unfinished > UNFINISHED:
                            raise Busy("too many large requests are on their way; ask again later")
                    more = message.get("more_body", False)
            return b"".join(parts)
        except TimeoutError:
            raise TooSlow("the request's body did not come in time") from None
        finally:
            self._unfinished -= held


def _part(message: MutableMapping[str, Any]) -> bytes:
    part: bytes = message.get("body", b"")
    return part


def fault(method: str, path: str, error: Exception) -> TandemError:
    """Log a fault of the service, and return what is said of it: nothing, since a detail might hold somebody's data."""
    log.error("bug while handling %s %s", method, path, exc_info=error)
    return TandemError("this is a fault of the service; its log says more")


def problem(error: TandemError) -> Reply:
    """Return an error as an RFC 9457 problem document."""
    later = ((b"retry-after", str(error.retry_after).encode()),) if isinstance(error, Busy | CannotWrite) else ()
    # What a peer sent may be quoted here, and may hold lone surrogates, which UTF-8 cannot say.
    sayable = {
        k: v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v
        for k, v in error.document().items()
    }
    document = json.dumps({**sayable, "status": error.status}).encode()
    return Reply(error.status, document, b"application/problem+json", later)


async def _send(reply: Reply, send: Send, *further: tuple[bytes, bytes]) -> None:
    headers = [(b"content-length", str(len(reply.body)).encode()), *reply.headers, *further]
    if reply.body:
        headers.append((b"content-type", reply.kind))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _again(body: bytes, receive: Receive) -> Receive:
    """Give the body once more to who reads it next."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await receive()

    return given
