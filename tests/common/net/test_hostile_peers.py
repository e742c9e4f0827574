"""What any service may do to those who dial it: each exchange ends, in few bytes, with one error in one line."""

import gzip
import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import httpx
import pytest

from common.core.errors import (
    NotFound,
    PeerError,
    PeerMisbehaved,
    PeerUnavailable,
    RelayUntrusted,
    RunCancelled,
    TandemError,
    VersionSkew,
)
from common.crypto.identity import Identity
from common.log.witness import last_head
from common.net import client as clients
from common.net.client import Client, HttpWitness, WitnessClient
from common.net.transport import LOOK, Overdue, time_limit
from curator.contributions.contributor import CollectorClient
from deploy.remote import RefereeAt, Remote
from local_agent.client import IssuerClient, RefereeClient, RelayedClient
from referee.service.referee import CuratorClient

Answer = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def hostile(answer: Answer, seen: Callable[[bytes], object] = len) -> Iterator[str]:
    """Serve connections on loopback, each in a thread: its request is read, then ``answer`` does what it likes."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while not over.is_set() and (request := connection.recv(1 << 16)):
                seen(request)
                answer(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.close()


def sends(*parts: bytes) -> Answer:
    return lambda connection: connection.sendall(b"".join(parts))


def whole(body: bytes, *, status: str = "200 OK", headers: bytes = b"") -> Answer:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n".encode()
    return sends(head, headers, b"\r\n", body)


def endless(head: bytes, part: bytes, pause: float = 0.0) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)
            time.sleep(pause)

    return answer


def silent(connection: socket.socket) -> None:
    connection.recv(1)


MIB = b"x" * (1 << 20)
BOMB = gzip.compress(b"0" * (8 << 20))
SLOW: dict[str, Answer] = {
    "never answers": silent,
    "sends its head a byte now and then": endless(b"HTTP/1.1 200 OK\r\n", b"x", 0.05),
    "sends its body a byte now and then": endless(OK + b"Content-Length: 60000\r\n\r\n", b" ", 0.05),
    "sends chunks of a byte now and then": endless(CHUNKED, b"1\r\n \r\n", 0.05),
    "informs for ever": endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.01),
}
LARGE: dict[str, Answer] = {
    "answers without end": endless(OK + b"Content-Length: 99999999999\r\n\r\n", MIB),
    "sends chunks without end": endless(CHUNKED, b"100000\r\n" + MIB + b"\r\n"),
    "answers until it closes, and never does": endless(OK + b"\r\n", MIB),
    "refuses without end": endless(b"HTTP/1.1 403 No\r\nContent-Length: 99999999999\r\n\r\n", MIB),
    "answers a bomb": whole(BOMB, headers=b"Content-Encoding: gzip\r\n"),
    "refuses with a bomb": whole(BOMB, status="403 No", headers=b"Content-Encoding: deflate, gzip\r\n"),
    "is at work for ever": whole(b"{}", status="202 Accepted"),
    "sends 50,000 header fields": whole(b"{}", headers=b"a: b\r\n" * 15_000),
    "redirects": whole(b"", status="302 Found", headers=b"Location: /v1/x\r\n"),
    "nests 100,000 lists": whole(b"[" * 30_000 + b"]" * 30_000),
    "repeats a key": whole(b'{"a": 1, "a": 2}'),
    "is no HTTP": sends(b"SSH-2.0-x\r\n\r\n"),
    "informs without end": endless(b"", b"HTTP/1.1 103 Early Hints\r\na: " + b"x" * 900 + b"\r\n\r\n"),
    "has chunks that are nearly all extensions": endless(CHUNKED, b"1;" + b"x" * 900 + b"\r\n \r\n"),
    "closes in the middle": lambda connection: (
        connection.sendall(OK + b"Content-Length: 9\r\n\r\n{"),
        connection.shutdown(2),
    )[0],
}


@pytest.mark.slow
def test_no_peer_holds_or_fills_a_client():
    for name, answer in {**SLOW, **LARGE}.items():
        with hostile(answer) as url, closing(Client(url, patience=0.3, timeout=0.5)) as client:
            with pytest.raises(PeerError, match=r"127\.0\.0\.1") as caught:
                client.document("GET", "/v1/x")
            assert len(str(caught.value)) < 500, name
            assert "\n" not in str(caught.value), name
            assert isinstance(caught.value, PeerUnavailable) or name not in SLOW, name


@pytest.mark.slow
def test_all_kinds_of_clients_have_the_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients, "PAUSES", (0.01,))
    key = Identity.create()
    signed = key.sign("kind", {"run": "r", "operation_id": "o", "report_id": "00", "digest": "d"})

    def calls(url: str) -> Iterator[tuple[Any, Mapping[str, Callable[[], object]]]]:
        for kind, more in ((RefereeClient, ()), (RelayedClient, (key.public,))):
            agent = kind(url, *more, patience=0.2)
            yield agent, {"key": agent.key, "enrol": partial(agent.enrol, signed, "token")}
            yield (
                agent,
                {name: partial(getattr(agent, name), signed) for name in ("poll", "decline", "report", "proof")},
            )
            yield agent, {"configuration": partial(agent.configuration, "r")}
            yield agent, {"packed": partial(agent.report_packed, signed, b"x")}
        issuer, curator = IssuerClient(url, patience=0.2), CuratorClient(url, patience=0.2)
        yield issuer, {"key": issuer.key, "issue": lambda: issuer.issue("code", b"x")}
        asks = ("open_run", "open_share", "perform")
        yield curator, {name: partial(getattr(curator, name), signed) for name in asks}
        collector = CollectorClient(url, patience=0.2)
        yield collector, {"offer": lambda: collector.offer(key.public), "withdraw": lambda: collector.withdraw(signed)}
        yield collector, {"contribute": lambda: collector.contribute(signed, "t")}
        witness, head = WitnessClient(url, patience=0.2), HttpWitness(f"{url}/v1/heads/name")
        yield witness, {"key": witness.key, "keep": lambda: witness.keep(signed)}
        yield witness, {"kept": lambda: witness.kept(key.public, "r"), "runs": lambda: witness.runs(key.public)}
        last = {"last": lambda: last_head(head), "put": lambda: head.keep(signed), "writable": head.check_writable}
        yield None, last
        remote, operator = Remote(url, "token", patience=0.2), RefereeAt(url, patience=0.2)
        yield remote, {"follow": lambda: remote.follow("r", lambda text, numbers: None)}
        yield operator, {"state": lambda: operator.document("GET", "/v1/runs/r")}

    for name in ("answers without end", "answers a bomb", "refuses with a bomb", "nests 100,000 lists"):
        with hostile(LARGE[name]) as url:
            opened = set()
            for client, named in calls(url):
                opened.add(client)
                for what, call in named.items():
                    if name == "nests 100,000 lists" and what in ("decline", "issue", "writable", "put"):
                        continue  # no JSON of its answer is read
                    with pytest.raises((PeerError, RelayUntrusted, VersionSkew), match=r"\A[^\n]*\Z"):
                        call()
            for client in opened - {None}:
                client.close()


def test_pages_without_end_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("common.net.client._BYTES", 1 << 16)
    numbers = itertools.count()

    def handle(request: httpx.Request) -> httpx.Response:
        first = next(numbers) * 100
        return httpx.Response(200, json=[{"run": f"run-{first + at}", "entries": 1, "time": 1} for at in range(100)])

    with closing(WitnessClient("http://witness")) as witness:
        witness._carrier = httpx.MockTransport(handle)
        with pytest.raises(PeerMisbehaved, match=r"witness at http://witness .*pages of more than"):
            witness.runs(Identity.create().public)


@pytest.mark.slow
def test_a_wait_ends_when_its_caller_wants():
    def cancelled() -> None:
        raise RunCancelled("by the operator")

    signed = Identity.create().sign("kind", {"run": "r", "operation_id": "o"})
    for answer in (*SLOW.values(), LARGE["is at work for ever"]):
        with hostile(answer) as url, closing(CuratorClient(url)) as client:
            with pytest.raises(RunCancelled), time_limit(60.0, cancelled):
                client.perform(signed)
            with pytest.raises(Overdue), time_limit(LOOK, lambda: None):
                client.perform(signed)


@pytest.mark.slow
def test_a_curator_at_work_on_an_acknowledgement_holds_no_run(monkeypatch: pytest.MonkeyPatch):
    """A run that has ended countersigns the last release: 202 for ever held it, and its cancellation, for a day."""
    monkeypatch.setattr("referee.service.referee._ONCE", 0.3)
    signed = Identity.create().sign("kind", {"run": "r"})
    with (
        hostile(LARGE["is at work for ever"]) as url,
        closing(CuratorClient(url)) as client,
        pytest.raises(PeerMisbehaved, match="still at work"),
        time_limit(30.0),
    ):
        client.acknowledge(signed)


@pytest.mark.slow
def test_a_client_serves_on_after_a_hostile_answer():
    answers = itertools.cycle([whole(b"x" * (1 << 17)), whole(b'{"a": 1}')])
    with hostile(lambda connection: next(answers)(connection)) as url, closing(Client(url, patience=1.0)) as client:
        for _ in range(3):
            with pytest.raises(PeerMisbehaved, match="more than 65,536 bytes"):
                client.document("GET", "/v1/x")
            assert client.document("GET", "/v1/x") == {"a": 1}


@pytest.mark.slow
def test_no_cookie_of_a_peer_is_sent_back():
    """By a cookie a peer would know its client again; one that no header can hold ended the client."""
    asked: list[bytes] = []
    answer = whole(b"{}", headers="Set-Cookie: é=1\r\nSet-Cookie: who=you\r\n".encode())
    with hostile(answer, asked.append) as url, closing(Client(url, patience=1.0)) as client:
        for _ in range(3):
            assert client.document("GET", "/v1/x") == {}
    assert len(asked) == 3
    assert not any(b"cookie" in request.lower() for request in asked)


def test_a_peer_cannot_steer_this_process_by_its_problem_documents():
    for kind in ("superseded", "run-cancelled", "peer-untrusted", "peer-misbehaved", "no-such"):
        body = b'{"type": "urn:tandem:problem:%s", "detail": "x", "self": 1}' % kind.encode()
        with hostile(whole(body, status="409 Conflict")) as url, closing(Client(url, patience=0.2)) as client:
            with pytest.raises(TandemError) as caught:
                client.request("GET", "/v1/x")
            assert type(caught.value) is PeerError
    gone = whole(b'{"type": "urn:tandem:problem:not-found", "detail": "x"}', status="404 No")
    with hostile(gone) as url, closing(Client(url, patience=0.2)) as client, pytest.raises(NotFound):
        client.request("GET", "/v1/x")


CHECK = """
import sys
from contextlib import closing
from common.core.errors import PeerError
from referee.service.referee import CuratorClient
from common.crypto.identity import Identity
signed = Identity.create().sign("kind", {"run": "r", "operation_id": "o"})
for _ in range(2):
    with closing(CuratorClient(sys.argv[1], patience=0.2)) as client:
        try:
            client.perform(signed)
        except PeerError as error:
            print(error)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024)
"""


@pytest.mark.slow
def test_a_hostile_answer_takes_less_than_300_mib():
    """The largest answer that any party reads is a curator's; JSON of it that would fill the memory is not parsed."""
    lists = b'{"kind": "k", "message": {"a": [' + b"[]," * (20 << 20) + b"[]]}}"
    for answer in (LARGE["answers without end"], whole(lists), whole(b"[" + b"1," * (30 << 20) + b"1]")):
        with hostile(answer) as url:
            done = subprocess.run([sys.executable, "-c", CHECK, url], capture_output=True, text=True, timeout=120)
        *lines, peak = done.stdout.splitlines()
        assert len(lines) == 2, done.stderr
        assert int(peak) < 300, lines
