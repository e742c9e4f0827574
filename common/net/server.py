"""An HTTP/1.1 server on asyncio that holds its connections within limits.

A connection *waits* until a complete request has come on it. If all places are taken, the connection that has waited
longest is closed. Heads, idle times, TLS handshakes and answers that a client does not read have limits as well. For
the existing servers that were measured, and what they lack, see ``docs/decisions.md``.
"""

import asyncio
import logging
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from common.core.errors import BadInput
from common.core.terminal import say
from common.net.app import Service
from common.net.connection import MAX_UNSENT, HttpConnection, Limits, ServerState
from common.net.tls import bare_host, host_port, is_loopback

log = logging.getLogger("tandem")

MOST_CONNECTIONS = 1 << 17  # most open connections, however many descriptors are available
OTHER_DESCRIPTORS = 128  # descriptors reserved for files, databases and libraries
FEW_CONNECTIONS = 1000  # with room for fewer connections a service logs a warning when it starts
UNTAKEN_SECONDS = 30  # seconds after which the system closes a connection whose peer acknowledges no sent data
GRACE = 5.0  # seconds for requests under way when the server stops


def raise_descriptors() -> int:
    """Raise this process's limit of descriptors; return the possible number of connections (BadInput if none)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS reports no limit, but has one
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


class Server:
    """Serves an app on one socket; requests under way have ``grace`` seconds when it stops."""

    def __init__(
        self, app: Service, limits: Limits, tls: ssl.SSLContext | None = None, *, grace: float = GRACE
    ) -> None:
        self._app = app
        self._state = ServerState(app, app.edge, limits, tls)
        self._grace = grace
        self._stopping = threading.Event()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def run(self, listener: socket.socket) -> None:
        """Serve until :meth:`stop` or, in the main thread, SIGINT or SIGTERM, which is then raised again."""
        with self._stopped_by_signals(), asyncio.Runner(loop_factory=faster_loop()) as runner:
            runner.run(self._serve(listener))

    def stop(self) -> None:
        """Accept no further connection, answer requests under way, and stop; may be called from any thread."""
        self._stopping.set()
        if self._wake is not None:
            loop, event = self._wake
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)

    async def _serve(self, listener: socket.socket) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._wake = loop, event
        async with self._app.router.lifespan_context(self._app):
            serving = await loop.create_server(lambda: HttpConnection(self._state, loop), sock=listener, backlog=4096)
            if not self._stopping.is_set():
                await event.wait()
            serving.close()
            await self._finish(loop)

    async def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        connections, tasks = self._state.connections, self._state.tasks
        for connection in list(connections):
            connection.finish()
        until = loop.time() + self._grace
        while (connections or tasks) and loop.time() < until:
            await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        for connection in list(connections):
            connection.abort()

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """Stop at the first SIGINT or SIGTERM; raise it again once all requests are answered."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        received: list[int] = []

        def note(number: int, frame: object) -> None:
            received.append(number)
            self.stop()

        numbers = (signal.SIGINT, signal.SIGTERM)
        handlers = [signal.signal(number, note) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, handlers, strict=True):
                signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def faster_loop() -> Any:
    """Return the factory of the faster event loop; None, for Python's own, where it is not installed, as on Windows."""
    with suppress(ImportError):
        from uvloop import new_event_loop

        return new_event_loop
    return None


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port (0: any free one) of a local address or name; BadInput with the reason if that fails."""
    host = bare_host(host)
    refusal = f"cannot listen on {host_port(host, port)}"
    if not 0 <= port <= 65535:
        raise BadInput(
            f"{refusal}: a port is a number from 1 to 65535, or 0 for any free one; choose another with --port"
        )
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(addresses, key=lambda each: each[0] != socket.AF_INET)
        listener = socket.socket(family)
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{refusal}: {getattr(error, 'strerror', None) or error}; choose another with --host") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Without it the system buffers megabytes of answers for each client that reads none.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # A closed connection waits until the peer has received the rest, which the server does not monitor.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNTAKEN_SECONDS)
        listener.bind(address)
        listener.listen(4096)
    except OSError as error:
        listener.close()
        raise BadInput(f"{refusal}: {error.strerror or error}; choose another with --port") from None
    return listener


def serve(app: Service, listener: socket.socket, name: str, tls: ssl.SSLContext | None = None) -> None:
    """Serve until SIGINT or SIGTERM; print one line with the address when ready to accept connections."""
    host, port = listener.getsockname()[:2]
    if tls is None and not is_loopback(host):
        log.warning(
            "%s listens on %s without TLS: every machine on the way can read tokens and answers. Start it with "
            "--tls-cert (referee certificates makes one), or put a proxy that ends TLS in front",
            name,
            host,
        )
    scheme = "http" if tls is None else "https"
    say(f"{name} listens on {scheme}://{host_port(host, port)}")
    Server(app, Limits(raise_descriptors()), tls).run(listener)
    sys.stdout.flush()
