"""Metrics of a host for the monitoring of this machine: on loopback only, and only if a port is configured."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from common.core.errors import BadInput
from common.core.threads import Supervised
from common.net.monitoring import CONTENT_TYPE, Family, MetricSample, by_label, gauge, write
from local_agent.host import Host

LOOPBACK = "127.0.0.1"
AT_ONCE = 32  # connections; further ones are closed, since every user of this machine can open some
MOMENT = 2.0  # timeout in seconds for a client to send or receive


def of_host(host: Host, epsilon: float, answered: int) -> list[Family]:
    """Return the metrics of a host; ``epsilon``, the cost of one answer, is shown as the most that anyone has spent."""
    counts, prefix = dict(host.counts), "declined:"
    declined = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
    questions = [MetricSample(counts.get("answered", 0))]
    silent, spent = time.monotonic() - host.polled, epsilon if answered else 0
    refused = "Questions refused, by reason."
    return [
        Family("tandem_host_questions_answered_total", "counter", "Questions whose receipt is kept.", questions),
        by_label("counter", "tandem_host_questions_declined_total", refused, "reason", declined),
        gauge("tandem_host_epsilon_spent_max", "Most that anybody has spent of a lifetime.", spent),
        gauge("tandem_host_people_asked", "People who have been asked: the referee knows as well.", answered),
        gauge("tandem_host_seconds_since_poll", "Since the referee last answered a poll.", silent),
    ]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._places = threading.Semaphore(AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


@contextmanager
def exposed(host: Host, epsilon: float, port: int | None) -> Iterator[int | None]:
    """Answer GET /metrics on a loopback port while the block runs (BadInput if it is not available); None: do not."""
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        timeout = MOMENT

        def do_GET(self) -> None:
            served = self.path == "/metrics"
            body = write(of_host(host, epsilon, host.people_asked)).encode() if served else b""
            self.send_response(200 if served else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Write nothing to standard error."""

    try:
        server = _Server((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as error:
        why = f"metrics cannot be shown on {LOOPBACK}:{port}: {error}"
        raise BadInput(f"{why}; choose another --metrics-port") from None
    Supervised("metrics").start(server.serve_forever)
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
