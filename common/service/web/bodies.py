"""Bodies of requests: limited in bytes, in time and all together; who sends a large one says first who they are."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

from common.core.errors import BadMessage, Busy, Forged, TooLarge, TooSlow

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

TINY = 1 << 12
"""Bytes of a body that is never kept waiting for others; as many for each connection are always there."""
SMALL = 1 << 16
"""Bytes of a body where nothing else is said."""
LARGE = 64 << 20
"""Bytes of the largest body that any service reads."""
UNFINISHED = {SMALL: 64 << 20, LARGE: 256 << 20}
"""Bytes that are in memory of all bodies above 4 KiB and up to 64 KiB, and of all larger ones."""
PATIENCE = 20.0
"""Seconds that a body of 64 KiB may take to come; a larger one has a second more for each 64 KiB."""


@dataclass(frozen=True)
class Opening:
    """What has come of a request before its body: method, path, headers; and the body's first line, if it is wanted."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    line: bytes = b""

    @property
    def tail(self) -> str:
        """What stands behind the last slash of the path."""
        return self.path.rpartition("/")[2]

    @property
    def length(self) -> int:
        """Bytes of the body, as declared."""
        return int(self.headers.get(b"content-length", b"0"))

    @property
    def token(self) -> str:
        """The bearer token, empty if there is none."""
        scheme, _, token = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True)
class Admitted:
    """That a body may come: with so many bytes at most, behind the first line, and with this SHA-256 if it is known."""

    most: int
    sha256: str = ""


@dataclass(frozen=True)
class Guarded:
    """A resource of which no body is read before somebody has said that it may come.

    Attributes
    ----------
    most
        Bytes of the largest body, whoever sends it.
    admit
        Judges what opens a request. It raises what is wrong; nothing more is read then.
    line
        Bytes that the body's first line may have; 0: ``admit`` judges by the headers alone.
    """

    most: int
    admit: Callable[[Opening], Awaitable[Admitted]]
    line: int = 0


@dataclass
class Bodies:
    """All bodies that are on their way to a service.

    Attributes
    ----------
    limits
        Largest bodies by the beginning of their paths; elsewhere :data:`SMALL`. The first that fits counts.
    """

    limits: dict[str, int | Guarded] = field(default_factory=dict)
    unfinished: dict[int, int] = field(default_factory=lambda: dict.fromkeys(UNFINISHED, 0))

    def expect(self, opening: Opening, receive: Receive) -> Arriving:
        """Return a request's body, of which nothing has been read yet."""
        return Arriving(self.unfinished, opening, self.limit(opening.path), receive)

    def limit(self, path: str) -> int | Guarded:
        """Return the limit of the bodies of a resource."""
        return next((kind for start, kind in self.limits.items() if path.startswith(start)), SMALL)


class Arriving:
    """One body on its way; what it holds of memory counts until it is forgotten."""

    def __init__(self, unfinished: dict[int, int], opening: Opening, kind: int | Guarded, receive: Receive) -> None:
        self._unfinished = unfinished
        self._opening = opening
        self._guard = kind if isinstance(kind, Guarded) else None
        self._most = kind.most if isinstance(kind, Guarded) else kind
        self._receive = receive
        self._parts: list[bytes] = []
        self._pool = self._held = self._left = 0
        self._more = True

    async def whole(self) -> tuple[bytes, bytes]:
        """Read it; returns the first line, where the resource wants it apart, and the rest.

        Raises
        ------
        TooLarge, TooSlow, Busy
            If it has too many bytes, takes too long, or too many others are there.
        BadMessage, Forged
            If its first line does not end, or it is not the one that was announced.
        ConnectionError
            If who sends it has gone.
        TandemError
            What the resource says of its opening.
        """
        headers = self._opening.headers
        declared = headers.get(b"content-length", b"0")
        whole = len(declared) < 20 and declared.isdigit() and b"transfer-encoding" not in headers
        if not whole or int(declared) > self._most:
            raise TooLarge(f"a request body must declare its length and have at most {self._most} bytes here")
        self._left = length = int(declared)
        if length == 0:
            return b"", b""
        self._pool = next(size for size in (TINY, *UNFINISHED) if length <= size)
        try:
            async with asyncio.timeout(PATIENCE + length / SMALL):
                if self._guard is None:
                    return b"", await self._rest("")
                line = await self._line(self._guard.line) if self._guard.line else b""
                admitted = await self._guard.admit(replace(self._opening, line=line))
                if self._left > admitted.most:
                    raise TooLarge(f"this body may have at most {admitted.most} bytes, found {self._left}")
                return line, await self._rest(admitted.sha256)
        except TimeoutError:
            raise TooSlow("the request's body did not come in time") from None

    async def _line(self, most: int) -> bytes:
        """Read the first line, which ends with a newline."""
        raw = b""
        while b"\n" not in raw and len(raw) <= most and self._more:
            raw += await self._next()
        found, newline, behind = raw.partition(b"\n")
        if not newline or len(found) > most:
            raise BadMessage(f"the first line of this body must end within {most} bytes")
        self._parts = [behind]
        self._left -= len(found) + 1
        return found

    async def _rest(self, sha256: str) -> bytes:
        """Read what is left; its SHA-256 must be the given one, if one is given."""
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
            self._held += len(part)
            self._unfinished[self._pool] += len(part)
            if self._unfinished[self._pool] > UNFINISHED[self._pool]:
                raise Busy("too many large requests are on their way; ask again later")
        return part

    def forget(self) -> None:
        """Let go of what it holds."""
        if self._held:
            self._unfinished[self._pool] -= self._held
        self._parts, self._held = [], 0
