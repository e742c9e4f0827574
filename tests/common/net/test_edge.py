"""Bodies at the edge: limited in bytes, in time, and all together; whoever keeps one back holds nobody else up."""

import asyncio
import hashlib
import json
from collections.abc import MutableMapping
from typing import Any

from sqlalchemy.exc import OperationalError

from common.core.errors import Unauthorized
from common.net import edge as module
from common.net.edge import LARGE, SMALL, TINY, Admitted, Bodies, Call, Edge, Guarded, Opening, Reply, fault, problem
from tests.tiers import for_each

Parts = list[tuple[bytes, bool]]
Answered = tuple[int, bytes, bytes]


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the app is not asked")


async def echo(call: Call) -> Reply:
    return Reply(200, call.body)


async def known(opening: Opening) -> Admitted:
    if opening.token != "known":
        raise Unauthorized("who are you?")
    return Admitted(1 << 20)


async def short_one(opening: Opening) -> Admitted:
    return Admitted(int(opening.line), "" if opening.line != b"3" else hashlib.sha256(b"abc").hexdigest())


def edge() -> Edge:
    limits = {"/large": 1 << 20, "/tiny": TINY, "/token": Guarded(LARGE, known), "/line": Guarded(LARGE, short_one, 10)}
    return Edge(nobody, Bodies(limits), {("PUT", path): echo for path in (*limits, "/echo")})


async def put(behind: Edge, parts: Parts, length: int | None = None, path: str = "/echo", token: str = "") -> Answered:
    """Send a body in parts, and then nothing more. Return status, body, and what is said of the connection."""
    rest, said = list(parts), list[MutableMapping[str, Any]]()
    declared = sum(len(part) for part, _ in parts) if length is None else length

    async def receive() -> MutableMapping[str, Any]:
        if not rest:
            await asyncio.Event().wait()
        body, more = rest.pop(0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    headers = [(b"host", b"x"), (b"content-length", str(declared).encode())]
    headers.append((b"authorization", b"Bearer " + token.encode()))
    scope = {"type": "http", "http_version": "1.1", "method": "PUT", "path": path, "headers": headers}
    await behind(scope, receive, send)
    return said[0]["status"], said[1]["body"], dict(said[0]["headers"]).get(b"connection", b"")


def answered(*parts: tuple[bytes, bool], behind: Edge | None = None, **more: Any) -> Answered:
    """Return what a body is answered with; what it held of memory is let go."""
    behind = behind or edge()
    found = asyncio.run(put(behind, list(parts), **more))
    assert set(behind.bodies.unfinished.values()) == {0}
    return found


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    for parts in ([], [(b"ab", True)]):
        behind = edge()
        status, body, connection = answered(*parts, length=9, behind=behind)
        assert (status, connection, json.loads(body)["type"][-9:]) == (408, b"close", ":too-slow")
        assert answered((b"abc", False), behind=behind)[0] == 200


def test_a_body_is_put_together_and_has_the_limit_of_its_resource():
    for path, most in (("/tiny", TINY), ("/echo", SMALL), ("/large", 1 << 20)):
        assert answered((b"a", True), (b"", True), (b"bc", False), path=path) == (200, b"abc", b"")
        assert answered((bytes(most), False), path=path)[0] == 200
        assert answered(length=most + 1, path=path)[::2] == (413, b"close")


def test_large_bodies_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "UNFINISHED", {SMALL: 100, LARGE: 100})
    monkeypatch.setattr(module, "PATIENCE", 600.0)

    async def work() -> int:
        behind = edge()
        large = SMALL + 1
        slow = [asyncio.ensure_future(put(behind, [(bytes(50), True)], large, "/large")) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await put(behind, [(bytes(TINY), False)]))[0] == 200  # a tiny one is never refused
        assert (await put(behind, [(bytes(100), False)], SMALL))[0] == 200  # nor are small ones by large ones
        status = (await put(behind, [(b"x", True)], large, "/large"))[0]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert set(behind.bodies.unfinished.values()) == {0}
        return status

    assert asyncio.run(work()) == 503


@for_each(
    ("parts", "length", "status", "body"),
    [
        ([(b"4\n", True), (b"wxyz", False)], None, 200, b"wxyz"),
        ([(b"4\nwx", True), (b"yz", False)], None, 200, b"wxyz"),
        ([(b"3\nabc", False)], None, 200, b"abc"),
        ([(b"3\nabd", False)], None, 401, None),
        ([(b"4\n", True)], LARGE, 413, None),
        ([(b"0123456789", True), (b"0", True)], LARGE, 422, None),
        ([(b"4", False)], None, 422, None),
    ],
)
def test_nothing_is_read_before_somebody_has_said_that_it_may_come_by_its_first_line(parts, length, status, body):
    found = answered(*parts, length=length, path="/line")
    assert (found[0], found[1] if status == 200 else None) == (status, body)


def test_nothing_is_read_before_somebody_has_said_that_it_may_come_by_a_token():
    assert answered(length=LARGE, path="/token")[::2] == (401, b"close")
    assert answered(length=2 << 20, path="/token", token="known")[0] == 413
    assert answered((b"abc", False), path="/token", token="known")[:2] == (200, b"abc")


def test_no_descriptor_is_a_503_with_the_time_to_ask_again():
    for error in (OSError(24, "Too many open files"), OperationalError("INSERT", {}, Exception("full"))):
        reply = problem(fault("GET", "/lacking", error))
        assert (reply.status, dict(reply.headers)[b"retry-after"]) == (503, b"2")
        assert b"Too many" not in reply.body
    assert fault("GET", "/bug", KeyError("a record")).status == 500
