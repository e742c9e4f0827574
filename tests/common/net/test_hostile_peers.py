"""Clients: what they repeat, when they give up, and that no service holds or fills one, whatever it answers."""

from __future__ import annotations

import gzip
import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import httpx
import pytest

from common.core.errors import (
    CannotWrite,
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
from common.net.transport import LOOK, DeadlinePassed, time_limit
from curator.contributions.contributor import CollectorClient
from deploy.remote import RefereeAt, Remote
from local_agent.client import IssuerClient, RefereeClient, RelayedClient
from referee.service.referee import CuratorClient
from tests.support import tiny
from tests.tiers import for_each

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
    kinds: tuple[tuple[Any, tuple[str, ...], Callable[[Any], object]], ...] = (
        (RefereeClient, (), lambda client: client.report_packed(signed, b"x")),
        (RelayedClient, (key.public,), lambda client: client.poll(signed)),
        (IssuerClient, (), lambda client: client.key()),
        (CuratorClient, (), lambda client: client.perform(signed)),
        (CollectorClient, (), lambda client: client.contribute(signed, "t")),
        (WitnessClient, (), lambda client: client.runs(key.public)),
        (WitnessClient, (), lambda client: client.keep(signed)),
        (Remote, ("token",), lambda client: client.follow("r", lambda text, numbers: None)),
        (RefereeAt, (), lambda client: client.document("GET", "/v1/runs/r")),
    )
    for name in ("answers without end", "answers a bomb", "refuses with a bomb", "nests 100,000 lists"):
        with hostile(LARGE[name]) as url:
            for kind, more, call in kinds:
                refused = pytest.raises((PeerError, RelayUntrusted, VersionSkew), match=r"\A[^\n]*\Z")
                with closing(kind(url, *more, patience=0.2)) as client, refused:
                    call(client)
            with pytest.raises(PeerError, match=r"\A[^\n]*\Z"):
                last_head(HttpWitness(f"{url}/v1/heads/name"))


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
            with pytest.raises(DeadlinePassed), time_limit(LOOK, lambda: None):
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


CHECK = """
import sys
from contextlib import closing
from common.core.errors import PeerError
from referee.service.referee import CuratorClient
from common.crypto.identity import Identity
signed = Identity.create().sign("kind", {"run": "r", "operation_id": "o"})
for url in sys.argv[1:]:
    with closing(CuratorClient(url, patience=0.2)) as client:
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
    with ExitStack() as opened:
        large = LARGE["answers without end"], whole(lists), whole(b"[" + b"1," * (30 << 20) + b"1]")
        command = [sys.executable, "-c", CHECK, *(opened.enter_context(hostile(answer)) for answer in large)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    *lines, peak = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert int(peak) < 300, lines


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.net.client.PAUSES", (0.001,))


def talking(*replies: httpx.Response | Exception, kind: type[Client] = Client, patience: float = 5.0) -> Client:
    """Return a client whose peer gives these replies, the last for ever."""
    queue: Iterator[httpx.Response | Exception] = iter(replies)
    last = [replies[-1]]

    def handle(request: httpx.Request) -> httpx.Response:
        reply = next(queue, last[0])
        if isinstance(reply, Exception):
            raise reply
        return reply

    return kind("http://peer", patience=patience, transport=httpx.MockTransport(handle))


def problem(error: TandemError) -> httpx.Response:
    return httpx.Response(error.status, json=error.document())


def request(client: Client) -> Any:
    return client.request("GET", "/x")


CONNECT, UNREADABLE = httpx.ConnectError("refused"), "without a problem document"
GONE = r"cannot connect to http://peer .*is the service running there"
NO_SIGNED = b"", b"{}", b"[]", b"null", b'{"kind": 1}', b"\xff", b"NaN"
FAULTS: list[tuple[Any, Callable[[Any], Any], type[Exception], str]] = [
    *((reply, request, PeerUnavailable, GONE) for reply in (CONNECT, httpx.ReadTimeout(""), (503, b"{}"))),
    *((reply, request, PeerUnavailable, GONE) for reply in ((502, b"<html>"), (504, b""), (408, b""))),
    (problem(PeerMisbehaved("the curator is another one")), request, PeerError, "the curator is another one"),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((500, b"<html>"), (400, b"[1]"), (404, b""))),
    *((reply, request, PeerMisbehaved, UNREADABLE) for reply in ((302, b""), (418, b"\xff\xfe"))),
    *(((200, text), lambda c: c.signed("GET", "/x"), PeerMisbehaved, "not a signed message") for text in NO_SIGNED),
    *(((200, text), RefereeClient.key, PeerMisbehaved, "not a JSON object") for text in (b"", b"[]", b"null", b"\xff")),
    ((400, b'{"type": "about:blank"}'), request, PeerMisbehaved, "what listens there is not the service"),
    (problem(NotFound("there is no run")), request, NotFound, "there is no run"),
]


@for_each(("reply", "call", "error", "why"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_no_answer_is_an_error_in_one_sentence(reply, call, error, why):
    reply = httpx.Response(reply[0], content=reply[1]) if isinstance(reply, tuple) else reply
    kind = RefereeClient if call is RefereeClient.key else Client
    with closing(talking(reply, patience=0.02, kind=kind)) as client, pytest.raises(error, match=why) as caught:
        call(client)
    assert "\n" not in str(caught.value)


def test_a_length_that_is_no_number_is_no_length():
    """A relay's client takes headers out of a message, which no parser of HTTP has seen."""
    strange = httpx.Response(200, headers=[(b"content-length", b"\xb2")], content=b'{"a": 1}')
    with closing(talking(strange)) as client:
        assert client.document("GET", "/x") == {"a": 1}


RUNNING = httpx.Response(202, json={"status": "running"})
BUSY, DONE = httpx.Response(503, json={}), httpx.Response(200, json={"a": 1})
FULL = problem(CannotWrite("no space left"))


def test_it_repeats_until_it_is_answered_and_agents_wait_where_nothing_can_be_stored():
    """Others are told of it, and nobody waits for who may not be at work. A proxy says so in its own words."""
    proxy = httpx.Response(502, content=b"<html>"), httpx.Response(408, content=b"")
    kind: type[Client]
    for kind, replies in (
        (CuratorClient, (CONNECT, BUSY, RUNNING, *proxy, RUNNING, CONNECT, DONE)),
        (RefereeClient, (FULL, FULL, DONE)),
    ):
        with closing(talking(*replies, kind=kind)) as client:
            assert client.document("GET", "/x") == {"a": 1}
    for kind, reply, error, why in (
        (Client, RUNNING, PeerMisbehaved, r"answers GET /x that it is still at work \(202\), which takes no time"),
        (Client, FULL, CannotWrite, "no space left"),
        (RefereeClient, FULL, CannotWrite, "no space left"),
    ):
        with closing(talking(reply, patience=0.02, kind=kind)) as client, pytest.raises(error, match=why):
            client.request("GET", "/x")


NO_STATES = "{}", '{"progress": 1}', '{"progress": [{}]}', '{"progress": [], "other": null}'
DOES_NOT_READ = [
    *((state, "not the state of a run") for state in NO_STATES),
    ('{"progress": [], "result": {"status": "done"}}', "transcript cannot be read"),
]


@for_each(("state", "why"), DOES_NOT_READ)
def test_a_referee_that_says_nonsense_of_a_run_is_caught(state, why, monkeypatch):
    told = httpx.Response(200, content=state)
    replies = (told, told, httpx.Response(200, content=b"nonsense" if "result" in state else state))
    monkeypatch.setattr("deploy.remote.RefereeAt", lambda url, patience: talking(*replies))
    with closing(Remote("http://peer", "token")) as remote, pytest.raises(PeerMisbehaved, match=why):
        remote.run(tiny(), 1, "run", lambda text, numbers: None)
