"""A server's connections: both ways to a handler answer alike, and attacks by silence, slowness, and long heads."""

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import Response

from common.core.errors import BadInput, Refused
from common.net import connection as connection_module
from common.net import server
from common.net.app import Service, create_app
from common.net.client import bearer
from common.net.connection import MAX_HEAD, MAX_PIPELINED, Limits
from common.net.edge import TINY, Call, Edge, Reply
from common.net.server import raise_descriptors
from tests.support import fetch, served
from tests.tiers import for_each

LONG = 64 << 20
MEDIUM = 24 << 10
"""Bytes: more than the system takes for a client with a small window, and less than that and what may wait here."""
SIZE = 16 << 20
LARGE: list[str] = []
"""Which large answers were made."""


async def echo(call: Call) -> Reply:
    return Reply(200, b"%s %s %s" % (call.tail.encode(), call.token.encode(), call.body))


async def nothing(call: Call) -> Reply:
    return Reply(204, headers=((b"retry-after", b"3.0"),))


async def refused(call: Call) -> Reply:
    raise Refused("no")


async def broken(call: Call) -> Reply:
    raise ZeroDivisionError


async def large(call: Call) -> Reply:
    LARGE.append(call.tail)
    return Reply(200, bytes(SIZE))


def app() -> Service:
    short = {("PUT", f"/{f.__name__}/"): f for f in (echo, nothing, refused, broken, large)}
    made = create_app("x", "y", limits={path: TINY for _, path in short})
    made.edge.short.update(short)
    made.get("/long")(lambda: Response(bytes(LONG)))
    made.get("/medium")(lambda: Response(bytes(MEDIUM)))
    return made


def watch_slow_path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each request on the slow path is added from now on."""
    started, usual = list[str](), Edge.__call__

    async def watched(self, scope, receive, send):
        started.append(f"{scope['scheme']} {scope['path']}")
        await usual(self, scope, receive, send)

    monkeypatch.setattr(Edge, "__call__", watched)
    return started


@pytest.fixture(scope="module")
def address():
    with served(app()) as found:
        yield found


@pytest.fixture
def slow_path(monkeypatch) -> list[str]:
    return watch_slow_path(monkeypatch)


def connect(address: str, window: int = 0) -> socket.socket:
    parts, made = urlsplit(address), socket.socket()
    if window:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    made.settimeout(60)
    made.connect((parts.hostname, parts.port))
    return made


def get(address: str) -> httpx.Response:
    return fetch("GET", address + "/v1/health")


def put(path: str, body: bytes = b"", *headers: bytes, version: bytes = b"1.1") -> bytes:
    lines = [b"PUT %s HTTP/%s" % (path.encode(), version), b"Host: x", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


def answers(
    address: str, *parts: bytes, count: int = 1, pause: float = 0.05
) -> list[tuple[bytes, dict[bytes, bytes], bytes]]:
    """Send parts one after the other; return status, headers and body of each answer."""
    found: list[tuple[bytes, dict[bytes, bytes], bytes]] = []
    with connect(address) as connection, connection.makefile("rb") as file:
        for number, part in enumerate(parts):
            time.sleep(pause if number else 0.0)
            connection.sendall(part)
        while len(found) < count and (status := file.readline()):
            headers = dict(line.strip().split(b": ", 1) for line in iter(file.readline, b"\r\n"))
            found.append((status.split()[1], headers, file.read(int(headers.get(b"content-length", b"0")))))
    return found


def received(connection: socket.socket, pause: float = 0.0) -> int:
    """Read until the connection ends, 256 KiB at most behind each pause; return how many bytes came."""
    count = 0
    with suppress(ConnectionError):
        while part := connection.recv(1 << 18):
            count += len(part)
            time.sleep(pause)
    return count


@for_each(
    "raw",
    [
        put("/echo/a", b"b", b"Authorization: Bearer t"),
        put("/echo/a"),
        put("/echo/a", b"x" * TINY),
        put("/nothing/a", b"b"),
        put("/refused/a", b"b"),
        put("/broken/a", b"b"),
    ],
    ids=["a body", "no body", "as large as may be", "a code without body", "a problem", "a fault"],
)
def test_both_ways_answer_the_same(address, slow_path, raw):
    before = len(slow_path)
    (short,) = answers(address, raw)
    assert len(slow_path) == before
    (usual,) = answers(address, raw.replace(b"/a ", b"/a? "))
    assert len(slow_path) == before + 1
    for _, headers, _ in (short, usual):
        headers.pop(b"date")
    assert short == usual


@for_each(
    ("raw", "status"),
    [
        (put("/echo/a?b", b"c"), b"200"),
        (put("/echo/%61", b"c"), b"200"),
        (put("/echo/a", b"c", b"Connection: close"), b"200"),
        (put("/echo/a", b"c", version=b"1.0"), b"200"),
        (put("/echo/a", b"x" * (TINY + 1)), b"413"),
        (put("/none/a", b"c"), b"404"),
        (put("/echo/a", b"c").replace(b"PUT", b"POST", 1), b"404"),
        (b"PUT /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n", b"413"),
        (put("/echo/a", b"c", b"Connection: upgrade", b"Upgrade: websocket"), b"200"),
        (put("http://x/echo/a", b"c"), b"200"),
        (put("http://x?b"), b"404"),
    ],
    ids=["query", "escaped", "close", "1.0", "large", "unknown", "method", "chunked", "upgrade", "whole", "no path"],
)
def test_what_differs_goes_the_usual_way(address, slow_path, raw, status):
    before = len(slow_path)
    assert [found[0] for found in answers(address, raw)] == [status]
    assert len(slow_path) == before + 1


def test_a_body_may_follow_its_head_and_is_not_waited_for_without_end(address, slow_path, monkeypatch):
    whole = put("/echo/a", b"body")
    assert answers(address, whole[:-4], whole[-4:-2], whole[-2:])[0][2] == b"a  body"
    monkeypatch.setattr(connection_module, "PATIENCE", 0.05)
    assert answers(address, whole[:-4])[0][0] == b"408"
    assert slow_path == []


def test_many_requests_on_one_connection_are_answered_in_their_order(address):
    sent = [put(f"/echo/{i}" if i % 3 else f"/echo/{i}?", b"x") for i in range(MAX_PIPELINED)]
    for parts in ([b"".join(sent)], sent):
        found = answers(address, *parts, count=len(sent), pause=0.0)
        assert [body for _, _, body in found] == [b"%d  x" % i for i in range(len(sent))]


def test_who_reads_no_answer_is_not_answered_on_and_on(address):
    LARGE.clear()
    with connect(address) as connection:
        for _ in range(8):
            connection.sendall(put("/large/a", b"x"))
            while not LARGE:
                time.sleep(0.01)
            time.sleep(0.05)  # so that none is pipelined behind the one before
        assert 1 <= len(LARGE) <= 2
        read = 0
        while read < 8 * SIZE:
            read += len(connection.recv(1 << 20))
    assert len(LARGE) == 8


VALID = [b"a", b"a.b:80", b"[::1]:8000", b"127.0.0.1", b"a_b-c.:", b"%41"]
INVALID = [b"", b"a b", *b"a/b u@a a:b [::1 %zz a?b a#b \xff http://a a:1:2 a\\b".split()]
HOSTS = {
    b"200": [b"Host: %s\r\n" % host for host in VALID] + [b"hOST:x\r\n"],
    b"400": [b"", b"Host: x\r\nHost: x\r\n", b"Host: x\r\nhost: y\r\n", *(b"Host: %s\r\n" % host for host in INVALID)],
}


def test_a_request_has_one_valid_host_on_either_way(address):
    """RFC 9112, 3.2: anything else is 400, and the connection ends."""
    for status, given in HOSTS.items():
        for host in given:
            for path in ("/echo/a", "/echo/a?b"):
                ((found, _, body),) = answers(address, put(path, b"c").replace(b"Host: x\r\n", host))
                assert (found, b"bad-host" in body) == (status, status == b"400"), (host, path)
    for host in (b"", b"Host: x\r\n"):  # HTTP/1.0 has requests without one
        old = put("/echo/a", b"c", version=b"1.0").replace(b"Host: x\r\n", host)
        assert answers(address, old)[0][0] == b"200"


# Attacks ------------------------------------------------------------------------------------------------------------

HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.slow
def test_many_who_wait_lock_nobody_out():
    for sent in (b"", b"GET /v1/he", b"PUT /v1/polls HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"):
        with served(app(), Limits(50)) as address, ExitStack() as opened:
            for _ in range(200):
                opened.enter_context(connect(address)).sendall(sent)
            assert [get(address).status_code for _ in range(20)] == [200] * 20


def test_who_is_at_work_is_not_dropped_and_who_finds_no_place_is_told():
    unhurried = Limits(2, stalled=3600.0)  # on a slow machine, too, nobody is dropped for what is not taken
    with served(app(), unhurried) as address, connect(address) as first, connect(address) as second:
        for busy in (first, second):  # an answer that is not read yet
            busy.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            assert busy.recv(12) == b"HTTP/1.1 200"
        full = get(address)
        assert (full.status_code, full.headers["retry-after"], full.json()["type"][-5:]) == (503, "2", ":busy")


def test_who_says_no_more_is_let_go_and_a_head_that_does_not_come_is_not_waited_for_not_even_drop_by_drop():
    with served(app(), Limits(50, head=0.2, idle=1)) as address:
        for sent in (b"", HEALTH[:-6], HEALTH):
            with connect(address) as quiet:
                quiet.sendall(sent)
                assert (received(quiet) > 0) == (sent == HEALTH)
        with connect(address) as slow, suppress(ConnectionError):
            for _ in range(1200):
                slow.sendall(b"G")
                time.sleep(0.05)
            pytest.fail("it was waited for")
        assert get(address).status_code == 200


@for_each(
    ("raw", "status"),
    [
        (b"no request\r\n\r\n", b"400"),
        (put("http://[::1/", b"c"), b"400"),
        (b"PUT /echo/a HTTP/1.1\r\nX: " + b"x" * MAX_HEAD, b"431"),
    ],
    ids=["no request", "no host", "long"],
)
def test_what_is_no_request_is_answered_with_a_problem_as_well(address, raw, status):
    ((found, headers, body),) = answers(address, raw)
    said = json.loads(body)
    assert (found, headers[b"content-type"], headers[b"connection"]) == (status, b"application/problem+json", b"close")
    assert (said["type"], said["status"]) == ("urn:tandem:problem:http", int(status))


def test_what_no_client_sends_closes_the_connection_and_who_leaves_in_the_middle_disturbs_nobody(address):
    for head in (
        b"GET /v1/health HTTP/1.1\r\nX: " + b"x" * (1 << 17),
        b"GET /v1/health HTTP/1.1\r\n" + b"a:b\r\n" * 1000 + b"\r\n",
        b"GET /" + b"x" * (1 << 17),
        HEALTH * 2000,
    ):
        with connect(address) as rude:
            with suppress(ConnectionError):
                rude.sendall(head)
            received(rude)
    for part in (put("/echo/a", b"body")[:-2], put("/nothing/a", b"body"), b"PUT /echo/a HT"):
        with connect(address) as connection:
            connection.sendall(part)
    assert answers(address, put("/echo/a", b"b"))[0][2] == b"a  b"


@pytest.mark.slow
@pytest.mark.parametrize("crowded", [False, True])
def test_an_answer_that_nobody_reads_is_not_kept(crowded, monkeypatch):
    """Where too much waits on all connections together, who takes nothing is dropped at once."""
    limits = Limits(50, stalled=0.3)
    if crowded:  # 64 MiB wait, and all connections may hold 32
        monkeypatch.setattr(connection_module, "LOOKS", 36_000)
        limits = Limits(50, stalled=3600.0)
    with served(app(), limits) as address, connect(address) as deaf:
        deaf.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2.0)
        assert received(deaf) < LONG
        assert get(address).status_code == 200


CLOSES = b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.slow
def test_a_slow_reader_gets_all_of_it(monkeypatch):
    # Where 16 MiB wait, who takes nothing for a fifth of a second would be dropped: a busy machine pauses for longer.
    monkeypatch.setattr(connection_module, "MAX_UNTAKEN", 2 * LONG)
    with served(app(), Limits(50, stalled=2.0)) as address, connect(address) as slow:
        slow.sendall(CLOSES)
        began = time.monotonic()
        assert received(slow, pause=0.01) > LONG  # which takes 2.56 s, however much comes at once
        assert time.monotonic() - began > 2.0


@pytest.mark.slow
def test_clients_that_take_no_answers_are_dropped_and_make_room(monkeypatch):
    """Also those whose connection ends with the answer, of which so little waits that the server does not watch it."""
    monkeypatch.setattr(server, "UNTAKEN_SECONDS", 1)
    for sent in (CLOSES, CLOSES.replace(b"long", b"medium"), CLOSES.replace(b"Connection: close\r\n", b"")):
        with served(app(), Limits(8, stalled=0.5)) as address, ExitStack() as opened:
            for _ in range(8):
                deaf = opened.enter_context(connect(address, window=1024))
                deaf.sendall(sent)
                assert deaf.recv(12) == b"HTTP/1.1 200"
            while get(address).status_code != 200:  # 503 while every place is taken
                time.sleep(0.05)


@pytest.mark.slow
def test_requests_that_wait_on_a_dropped_connection_are_no_fault_of_the_service(caplog):
    """Each of them wrote to a closed connection, and so a traceback into the log."""
    with served(app(), Limits(50, stalled=0.3)) as address, caplog.at_level("ERROR", "tandem"):
        with ExitStack() as opened:
            for _ in range(5):
                deaf = opened.enter_context(connect(address, window=1024))
                deaf.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n" * 6)
            time.sleep(1.0)
        assert get(address).status_code == 200
    assert not [record.getMessage() for record in caplog.records]


def test_descriptors_are_raised_as_far_as_they_may_be(monkeypatch):
    code = (
        "import resource; from common.net.server import raise_descriptors as r;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 700)); print(r(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{700 - server.OTHER_DESCRIPTORS} (700, 700)"
    assert "ulimit -n" in done.stderr

    def refuse(what: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    # macOS says that there is no hard limit, and refuses to raise the soft one so far.
    monkeypatch.setattr(resource, "getrlimit", lambda what: (2048, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_descriptors() == 2048 - server.OTHER_DESCRIPTORS
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, 64))
    with pytest.raises(BadInput, match="ulimit -n"):
        raise_descriptors()


def test_a_token_that_no_header_carries_is_refused_and_not_shown():
    assert bearer("secret", "the token") == {"Authorization": "Bearer secret"}
    for token in ("secr\u00e9t", "secret\n"):
        with pytest.raises(BadInput, match="the token holds a line's end or a character") as refused:
            bearer(token, "the token")
        assert token not in str(refused.value)
