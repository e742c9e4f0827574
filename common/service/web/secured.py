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

_PIECE = 1 << 16
"""Bytes that are taken out of TLS at once."""
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
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = self._ended = False

    def open(self, data: bytes) -> bytes:
        """Return what encrypted bytes say, so far as it is whole: nothing while the handshake lasts.

        Raises
        ------
        ssl.SSLError
            If they are no TLS, or not such as the context accepts; the alert has been sent then.
        """
        self._incoming.write(data)
        said: list[bytes] = []
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
            while piece := self._tls.read(_PIECE):
                said.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        finally:
            self._flush()
        return b"".join(said)

    @property
    def ended(self) -> bool:
        """Whether the other side has said that nothing more comes."""
        return self._ended

    def end(self, last: bytes = b"") -> None:
        """Say nothing more, and leave the rest of the connection to whoever closes it.

        Closing at once would throw away what was sent last, if the other side is still sending.
        """
        if last:
            self._raw.write(last)
        with suppress(OSError):
            self._raw.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    # A transport, as the server uses one -----------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send."""
        if data and self._shaken and not self._raw.is_closing():
            self._tls.write(data)
            self._flush()

    def close(self) -> None:
        """End the connection when all is sent, and say so."""
        if not self._raw.is_closing():
            if self._shaken:
                with suppress(ssl.SSLError):
                    self._tls.unwrap()
                self._flush()
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
    """

    tls: ssl.SSLContext

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows the type
        """Take a place; the handshake begins with what the other side sends."""
        super().connection_made(Sealed(transport, self.tls))

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Close a connection for which there is no place: nothing can be said before the handshake."""
        transport.close()

    def data_received(self, data: bytes) -> None:
        """Open what has come, and parse it."""
        if self._refused:
            return  # what is still on its way to a connection that has ended for us
        sealed = cast(Sealed, self.transport)
        try:
            said = sealed.open(data)
        except ssl.SSLError as error:
            log.info("a TLS connection is refused: %s", error.reason)
            self._refused = True
            sealed.end(written(BadInput(_IN_THE_CLEAR)) if error.reason == "HTTP_REQUEST" else b"")
            self.loop.call_later(self.limits.head, sealed.abort)
            return
        if said:
            super().data_received(said)
        if sealed.ended:
            sealed.close()
