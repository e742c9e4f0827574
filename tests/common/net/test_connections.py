"""Attacks on connections, against a real server: silence, slowness, long heads, and nobody who reads the answer."""

import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Response

from common.core.errors import BadInput
from common.net import connection as connection_module
from common.net import server
from common.net.app import create_app
from common.net.connection import Limits
from common.net.server import raise_descriptors
from tests.support import served
from tests.tiers import for_each

LONG = 64 << 20
MEDIUM = 24 << 10
"""Bytes: more than the system takes for a client with a small window, and less than that and what may wait here."""


def app() -> FastAPI:
    made = create_app("x", "y")

    @made.get("/long")
    def long() -> Response:
        return Response(bytes(LONG))

    @made.get("/medium")
    def medium() -> Response:
        return Response(bytes(MEDIUM))

    return made


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def healthy(address: str) -> bool:
    return httpx.get(address + "/v1/health", trust_env=False, timeout=60).status_code == 200


def closed(connection: socket.socket, seconds: float = 60.0) -> bool:
    connection.settimeout(seconds)
    with suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /v1/he", b"PUT /v1/polls HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"],
    ids=["nothing", "half a head", "half a body"],
)
def test_many_who_wait_lock_nobody_out(sent):
    with served(app(), Limits(50)) as address, ExitStack() as opened:
        for _ in range(200):
            opened.enter_context(connect(address)).sendall(sent)
        for _ in range(20):
            assert healthy(address)


def test_who_is_at_work_is_not_dropped_and_who_finds_no_place_is_told():
    unhurried = Limits(2, stalled=3600.0)  # on a slow machine, too, nobody is dropped for what is not taken
    with served(app(), unhurried) as address, connect(address) as first, connect(address) as second:
        for busy in (first, second):  # an answer that is not read yet
            busy.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            assert busy.recv(12) == b"HTTP/1.1 200"
        full = httpx.get(address + "/v1/health", trust_env=False, timeout=60)
        assert (full.status_code, full.headers["retry-after"]) == (503, "2")
        assert full.json()["type"].endswith(":busy")


def test_drop_by_drop_is_no_faster():
    with served(app(), Limits(50, head=0.5)) as address, connect(address) as slow:
        with suppress(ConnectionError):
            for _ in range(1200):
                slow.sendall(b"G")
                time.sleep(0.05)
            pytest.fail("it was waited for")
        assert healthy(address)


def test_who_says_no_more_is_let_go_and_a_head_that_does_not_come_is_not_waited_for():
    whole = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(app(), Limits(50, head=0.2, idle=1)) as address:
        for sent in (b"", whole[:-6], whole):
            with connect(address) as quiet:
                quiet.sendall(sent)
                assert sent != whole or quiet.recv(12) == b"HTTP/1.1 200"
                assert closed(quiet)


@for_each(
    "head",
    [
        b"GET /v1/health HTTP/1.1\r\nX: " + bytes([120]) * (1 << 17),
        b"GET /v1/health HTTP/1.1\r\n" + b"a:b\r\n" * 1000 + b"\r\n",
        b"GET /" + b"x" * (1 << 17),
        b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n" * 2000,
    ],
    ids=["a long header", "many headers", "a long path", "many at once"],
)
def test_what_no_client_sends_closes_the_connection(head):
    with served(app(), Limits(50)) as address, connect(address) as rude:
        with suppress(ConnectionError):
            rude.sendall(head)
        assert closed(rude)
        assert healthy(address)


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
        received = 0
        with suppress(ConnectionError):
            while part := deaf.recv(1 << 20):
                received += len(part)
        assert received < LONG
        assert healthy(address)


@pytest.mark.slow
def test_a_slow_reader_gets_all_of_it():
    with served(app(), Limits(50, stalled=2.0)) as address, connect(address) as slow:
        slow.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = 0
        while part := slow.recv(1 << 20):
            received += len(part)
            time.sleep(0.05)  # more than two seconds in all
        assert received > LONG


CLOSES = b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.slow
def test_clients_that_take_no_answers_are_dropped_and_make_room(monkeypatch):
    """Also those whose connection ends with the answer, of which so little waits that the server does not watch it."""
    monkeypatch.setattr(server, "UNTAKEN_SECONDS", 1)
    for sent in (CLOSES, CLOSES.replace(b"long", b"medium"), CLOSES.replace(b"Connection: close\r\n", b"")):
        with served(app(), Limits(8, stalled=0.5)) as address, ExitStack() as opened:
            for _ in range(8):
                deaf = opened.enter_context(small_window(address))
                deaf.sendall(sent)
                assert deaf.recv(12) == b"HTTP/1.1 200"
            while not healthy(address):  # 503 while every place is taken
                time.sleep(0.05)


def small_window(address: str) -> socket.socket:
    parts = urlsplit(address)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    made.settimeout(60)
    made.connect((parts.hostname, parts.port))
    return made


@pytest.mark.slow
def test_requests_that_wait_on_a_dropped_connection_are_no_fault_of_the_service(caplog):
    """Each of them wrote to a closed connection, and so a traceback into the log."""
    with served(app(), Limits(50, stalled=0.3)) as address, caplog.at_level("ERROR", "tandem"):
        for _ in range(5):
            with small_window(address) as deaf:
                deaf.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n" * 6)
                time.sleep(1.0)
        assert healthy(address)
    assert not [record.getMessage() for record in caplog.records]


def test_descriptors_are_raised_as_far_as_they_may_be(monkeypatch):
    code = (
        "import resource; from common.net.server import raise_descriptors as r;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 700)); print(r(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{700 - server.OTHER_DESCRIPTORS} (700, 700)"
    assert "ulimit -n" in done.stderr

    def refused(what: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    # macOS says that there is no hard limit, and refuses to raise the soft one so far.
    monkeypatch.setattr(resource, "getrlimit", lambda what: (2048, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refused)
    assert raise_descriptors() == 2048 - server.OTHER_DESCRIPTORS
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, 64))
    with pytest.raises(BadInput, match="ulimit -n"):
        raise_descriptors()
