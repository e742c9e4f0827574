"""Connections under TLS, held as any other: the handshake stands before the first request and within its limits.

A connection takes its place when it is opened and not when its handshake is over, so whoever opens many and shakes no
hands waits among those that make room (:mod:`common.service.web.connections`). That is why the server's own TLS is not
used: it shows a connection only after the handshake. After it all is as without TLS, the short way included.

Whoever is refused is told why: the alert, and nothing after it, is sent before the connection ends.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import Any, cast

from common.core.errors import BadInput
from common.service.web.connections import written
from common.service.web.shortway import ShortWay

log = logging.getLogger("tandem")

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
