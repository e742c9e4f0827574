"""Both ways to a handler answer the same: the short one on the connection, and the usual one through the server."""

import socket
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from common.core.errors import Refused
from common.net import connection as connection_module
from common.net.app import Service, create_app
from common.net.connection import MAX_PIPELINED
from common.net.edge import TINY, Call, Edge, Reply
from tests.support import served
from tests.tiers import for_each

STARTED: list[str] = []
"""Which requests took the slow path."""


async def echo(call: Call) -> Reply:
    return Reply(200, b"%s %s %s" % (call.tail.encode(), call.token.encode(), call.body))


async def nothing(call: Call) -> Reply:
    return Reply(204, headers=((b"retry-after", b"3.0"),))


async def refused(call: Call) -> Reply:
    raise Refused("no")


async def broken(call: Call) -> Reply:
    raise ZeroDivisionError


SIZE = 16 << 20
LARGE: list[str] = []
"""Which large answers were made."""


async def large(call: Call) -> Reply:
    LARGE.append(call.tail)
    return Reply(200, bytes(SIZE))


class Watched(Edge):
    async def __call__(self, scope, receive, send):
        STARTED.append(scope["path"])
        await super().__call__(scope, receive, send)


def app() -> Service:
    handlers = {("PUT", f"/{f.__name__}/"): f for f in (echo, nothing, refused, broken, large)}
    made = create_app(
        "x", "y", limits={f"/{name}/": TINY for name in ("echo", "nothing", "refused", "broken", "large")}
    )
    made.edge = Watched(made.edge.app, made.edge.bodies, handlers)
    return made


@pytest.fixture(scope="module")
def address():
    with served(app()) as found:
        yield found


@pytest.fixture(autouse=True)
def _fresh():
    STARTED.clear()


def until(condition: Callable[[], object]) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come")


def put(path: str, body: bytes = b"", *headers: bytes, version: bytes = b"1.1") -> bytes:
    lines = [b"PUT %s HTTP/%s" % (path.encode(), version), b"Host: x", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


def answers(
    address: str, *parts: bytes, count: int = 1, pause: Callable[[], object] = lambda: time.sleep(0.05)
) -> list[tuple[bytes, dict[bytes, bytes], bytes]]:
    """Send parts one after the other; return status line, headers and body of each answer."""
    where = urlsplit(address)
    found: list[tuple[bytes, dict[bytes, bytes], bytes]] = []
    with closing(socket.create_connection((where.hostname, where.port), timeout=60)) as connection:
        for i, part in enumerate(parts):
            if i:
                pause()
            connection.sendall(part)
        raw = b""
        while len(found) < count:
            while b"\r\n\r\n" not in raw or not _whole(raw):
                more = connection.recv(1 << 16)
                if not more:
                    return found
                raw += more
            head, _, rest = raw.partition(b"\r\n\r\n")
            status, *lines = head.split(b"\r\n")
            headers = dict(line.split(b": ", 1) for line in lines)
            length = int(headers.get(b"content-length", b"0"))
            found.append((status, headers, rest[:length]))
            raw = rest[length:]
    return found


def _whole(raw: bytes) -> bool:
    head, _, rest = raw.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")]
    return len(rest) >= sum(lengths)


CASES = {
    "a body": put("/echo/a", b"b", b"Authorization: Bearer t"),
    "no body": put("/echo/a"),
    "as large as may be": put("/echo/a", b"x" * TINY),
    "a code without body": put("/nothing/a", b"b"),
    "a problem": put("/refused/a", b"b"),
    "a fault": put("/broken/a", b"b"),
}


@pytest.mark.parametrize("name", CASES)
def test_both_ways_answer_the_same(address, name):
    short = answers(address, CASES[name])
    assert STARTED == []
    usual = answers(address, CASES[name].replace(b"/a ", b"/a? "))
    assert len(STARTED) == 1
    for _, headers, _ in (*short, *usual):
        headers.pop(b"date")
    assert short == usual
    assert len(short) == 1


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
    ],
    ids=["query", "escaped", "close", "1.0", "large", "unknown", "method", "chunked", "upgrade"],
)
def test_what_differs_goes_the_usual_way(address, raw, status):
    STARTED.clear()
    assert [found[0].split()[1] for found in answers(address, raw)] == [status]
    assert len(STARTED) == 1


def test_a_body_may_follow_its_head_and_is_not_waited_for_without_end(address, monkeypatch):
    whole = put("/echo/a", b"body")
    assert answers(address, whole[:-4], whole[-4:-2], whole[-2:])[0][2] == b"a  body"
    monkeypatch.setattr(connection_module, "PATIENCE", 0.05)
    assert b"408" in answers(address, whole[:-4])[0][0]
    assert STARTED == []


@pytest.mark.parametrize("together", [True, False])
def test_many_requests_on_one_connection_are_answered_in_their_order(address, together):
    paths = [f"/echo/{i}" if i % 3 else f"/echo/{i}?" for i in range(MAX_PIPELINED)]
    sent = [put(path, b"x") for path in paths]
    parts = [b"".join(sent)] if together else sent
    found = answers(address, *parts, count=len(sent), pause=lambda: None)
    assert [body for _, _, body in found] == [b"%d  x" % i for i in range(len(sent))]


def test_who_leaves_in_the_middle_disturbs_nobody(address):
    where = urlsplit(address)
    for part in (put("/echo/a", b"body")[:-2], put("/nothing/a", b"body"), b"PUT /echo/a HT"):
        with closing(socket.create_connection((where.hostname, where.port), timeout=60)) as connection:
            connection.sendall(part)
    assert answers(address, put("/echo/a", b"b"))[0][2] == b"a  b"


def test_who_reads_no_answer_is_not_answered_on_and_on(address):
    where = urlsplit(address)
    LARGE.clear()
    with closing(socket.create_connection((where.hostname, where.port), timeout=60)) as connection:
        for _ in range(8):
            connection.sendall(put("/large/a", b"x"))
            until(lambda: LARGE)
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
                raw = put(path, b"c").replace(b"Host: x\r\n", host)
                found = answers(address, raw)
                assert [each[0].split()[1] for each in found] == [status], raw
                assert (b"bad-host" in found[0][2]) is (status == b"400"), raw
    for host in (b"", b"Host: x\r\n"):  # HTTP/1.0 has requests without one
        old = put("/echo/a", b"c", version=b"1.0").replace(b"Host: x\r\n", host)
        assert answers(address, old)[0][0].split()[1] == b"200"
