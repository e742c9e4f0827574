"""HTTP to a peer that may be hostile: every exchange ends, whatever the peer sends and however slowly.

The socket wrappers enforce the deadline of the whole exchange (httpx limits only each single read), and check regularly
whether the exchange is still wanted.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import httpcore
import httpx

from common.core.errors import PeerMisbehaved

LOOK = 0.5  # seconds between two checks of whether an exchange is still wanted
DIAL = 10.0  # timeout in seconds for connecting, and again for the TLS handshake
SLOWEST = 1 << 16  # bytes for which an exchange gets one more second, as a server allows for a request's body
CARRYING = 1 << 20  # most bytes beyond twice the limit of the body: heads, and the framing of chunks
HEADERS = 100  # most header fields of one response
MAX_FAULT = 500  # most characters of a library's error about a failed exchange: it may quote the peer


class DeadlinePassed(Exception):
    """The deadline that the caller of :func:`time_limit` has set has passed."""


class _Limit:
    """One time limit, nested in those around it."""

    def __init__(self, seconds: float, look: Callable[[], None], outer: _Limit | None) -> None:
        self.until = time.monotonic() + seconds
        self.look, self.outer = look, outer

    def __iter__(self) -> Iterator[_Limit]:
        limit: _Limit | None = self
        while limit is not None:
            yield limit
            limit = limit.outer


_PRESENT: ContextVar[_Limit | None] = ContextVar("time limit", default=None)


@contextmanager
def time_limit(seconds: float, look: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Limit the total time of all requests sent in this context, in this thread.

    Args:
        look: Called at least every :data:`LOOK` seconds while a request waits; it ends the wait by raising. Only while
            connecting may the interval be longer (:data:`DIAL`).

    Raises:
        Overdue: From the request that waits when the time is over.
    """
    limit = _Limit(seconds, look, _PRESENT.get())
    token = _PRESENT.set(limit)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def pause(seconds: float) -> None:
    """Sleep for ``seconds``, subject to the time limits of this context."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0.0:
        time.sleep(min(left, _remaining(None), LOOK))
    _remaining(None)


def send(
    transport: Callable[[httpx.Request], httpx.Response],
    request: httpx.Request,
    *,
    seconds: float,
    most: int,
    peer: str,
) -> httpx.Response:
    """Send a request and return its whole response; ``peer`` is the name of the peer in messages.

    Args:
        seconds: Time limit for the whole response; each :data:`SLOWEST` bytes sent or received add one second.
        most: Most bytes of the response's body.

    Raises:
        httpx.TransportError: If there is no complete response in time.
        PeerMisbehaved: If it has more bytes or headers, or is compressed: a small body could become a huge one.
        Overdue: If the caller's own deadline has passed.
    """
    exchange = _Exchange(seconds, lambda: None, _PRESENT.get())
    exchange.left = 2 * most + CARRYING
    token = _PRESENT.set(exchange)
    try:
        response, body = transport(request), bytearray()
        try:
            if (count := len(response.headers.raw)) > HEADERS:
                raise _unusable(peer, f"with {count} header fields, and may with {HEADERS}")
            if (coding := response.headers.get("content-encoding", "identity").strip().lower()) != "identity":
                raise _unusable(peer, f"with a compressed body ({coding[:20]}), which was not asked for")
            declared = response.headers.get("content-length", "")
            too_long = declared.isdecimal() and int(declared[:20]) > most
            for chunk in () if too_long else cast(httpx.SyncByteStream, response.stream):
                body += chunk
                if too_long := len(body) > most:
                    break
            if too_long:
                raise _LimitExceeded
        finally:
            response.close()
    except _LimitExceeded:
        raise _unusable(peer, f"{request.method} {request.url.path} with more than {most:,} bytes") from None
    finally:
        _PRESENT.reset(token)
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_CONNECTION]
    return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=request)


_OF_THE_CONNECTION = frozenset((b"content-encoding", b"content-length", b"transfer-encoding"))


def _unusable(peer: str, what: str) -> PeerMisbehaved:
    return PeerMisbehaved(f"{peer} answers {what}: the answer is not used. Check the address, or ask who runs it")


class _Exchange(_Limit):
    """The limits of one exchange; exceeding them is the peer's fault, not the caller's."""

    left = 0  # bytes that may still come, including heads and chunk framing, which are no part of the body


class _LimitExceeded(Exception):
    """More bytes have come than the exchange allows."""


def _remaining(timeout: float | None) -> float:
    """Return the seconds that are left, at most ``timeout``; call :attr:`_Limit.look` first."""
    now = time.monotonic()
    seconds = float("inf") if timeout is None else timeout
    for limit in _PRESENT.get() or ():
        limit.look()
        if limit.until <= now:
            raise TimeoutError("no whole answer in time") if isinstance(limit, _Exchange) else DeadlinePassed
        seconds = min(seconds, limit.until - now)
    return seconds


def _count_bytes(count: int, *, received: bool) -> None:
    """Give the exchange more time for bytes sent or received, and count those received."""
    for limit in _PRESENT.get() or ():
        if isinstance(limit, _Exchange):
            limit.until += count / SLOWEST
            limit.left -= count if received else 0
            if limit.left < 0:
                raise _LimitExceeded


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes respect the time limits of their context."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as_httpcore(httpcore.ReadTimeout, httpcore.ReadError):
            data: bytes = self._repeated(lambda: self._socket.recv(max_bytes), timeout)
            _count_bytes(len(data), received=True)
            return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        with _as_httpcore(httpcore.WriteTimeout, httpcore.WriteError):
            while left:
                count = self._repeated(lambda: self._socket.send(left[:SLOWEST]), timeout)  # noqa: B023 - called at once
                _count_bytes(count, received=False)
                left = left[count:]

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _as_httpcore(httpcore.ConnectTimeout, httpcore.ConnectError):
            try:
                self._socket.settimeout(_remaining(DIAL))
                return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname))
            except BaseException:
                self._socket.close()
                raise

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "is_readable":  # a kept connection that is readable was closed by the peer
            poll = select.poll()
            if self._socket.fileno() >= 0:
                poll.register(self._socket, select.POLLIN)
            return self._socket.fileno() < 0 or bool(poll.poll(0))
        return None

    def _repeated(self, call: Callable[[], Any], timeout: float | None) -> Any:
        """Repeat a call until it succeeds: a socket that was not ready can be tried again, also under TLS."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            left = min(_remaining(None), until - time.monotonic())
            if left <= 0.0:
                raise TimeoutError("no whole answer in time")
            self._socket.settimeout(min(left, LOOK))
            try:
                return call()
            except TimeoutError:
                continue


class _Backend(httpcore.NetworkBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        with _as_httpcore(httpcore.ConnectTimeout, httpcore.ConnectError):
            connection = socket.create_connection((host, port), _remaining(DIAL))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(connection)


class Transport(httpx.BaseTransport):
    """Sends requests over HTTP/1.1, each within the time limits of its context (:func:`send`)."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._pool = httpcore.ConnectionPool(ssl_context=tls, network_backend=_Backend(), keepalive_expiry=5.0)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        core_request = httpcore.Request(
            request.method,
            url,
            headers=request.headers.raw,
            content=cast(httpx.SyncByteStream, request.stream),
            extensions=request.extensions,
        )
        with _as_httpx():
            response = self._pool.handle_request(core_request)
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


@contextmanager
def _as_httpcore(timeout: type[Exception], error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as why:
        raise timeout(str(why) or "no answer in time") from why
    except OSError as why:
        raise error(str(why)) from why


@contextmanager
def _as_httpx() -> Iterator[None]:
    try:
        yield
    except httpcore.ConnectTimeout as why:
        raise httpx.ConnectTimeout(str(why)) from why
    except httpcore.TimeoutException as why:
        raise httpx.ReadTimeout(str(why)) from why
    except httpcore.ConnectError as why:
        raise httpx.ConnectError(str(why)) from why
    except (httpcore.NetworkError, httpcore.ProtocolError) as why:
        raise httpx.RemoteProtocolError(str(why)[:MAX_FAULT]) from why
