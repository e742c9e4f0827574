"""What a host tells whoever watches this machine: on loopback alone, and only if it is asked to."""

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
AT_ONCE = 32  # connections; further ones are closed: every user of this machine may open some
MOMENT = 2.0  # seconds in which a client says something, or takes something


def of_host(host: Host, epsilon: float, answered: int) -> list[Family]:
    """Return the metrics of a host; ``epsilon`` is what one answer costs: the most that anybody here has spent."""
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
    """Answer GET /metrics on a port of loopback (BadInput: not to be had) while the block runs; None: nowhere."""
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        timeout = MOMENT

        def do_GET(self) -> None:
            found = self.path == "/metrics"
            body = write(of_host(host, epsilon, host.people_asked)).encode() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing on standard error."""

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
