"""Bodies at the edge: limited in bytes, in time, and all together; whoever keeps one back holds nobody else up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from common.service import edge as module
from common.service.edge import Call, Edge, Reply

Parts = list[tuple[bytes, bool]]


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the app is not asked")


async def echo(call: Call) -> Reply:
    return Reply(200, call.body)


def edge() -> Edge:
    return Edge(nobody, limits={"/large": 1 << 20}, short={("PUT", "/echo"): echo, ("PUT", "/large"): echo})


async def put(behind: Edge, parts: Parts, length: int | None = None, path: str = "/echo") -> tuple[int, bytes, bytes]:
    """Send a body in parts, and then nothing more. Return status, body, and what is said of the connection."""
    rest = list(parts)
    said: list[MutableMapping[str, Any]] = []
    declared = sum(len(part) for part, _ in parts) if length is None else length

    async def receive() -> MutableMapping[str, Any]:
        if not rest:
            await asyncio.Event().wait()
        body, more = rest.pop(0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    headers = [(b"content-length", str(declared).encode())]
    await behind({"type": "http", "method": "PUT", "path": path, "headers": headers}, receive, send)
    return said[0]["status"], said[1]["body"], dict(said[0]["headers"]).get(b"connection", b"")


@pytest.mark.parametrize("parts", [[(b"abc", False)], [(b"a", True), (b"", True), (b"bc", False)]])
def test_a_body_is_put_together(parts):
    assert asyncio.run(put(edge(), parts)) == (200, b"abc", b"")


@pytest.mark.parametrize("parts", [[], [(b"ab", True)]])
def test_a_body_that_does_not_come_is_not_waited_for(parts, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    behind = edge()
    status, body, connection = asyncio.run(put(behind, parts, length=9))
    assert (status, connection) == (408, b"close")
    assert json.loads(body)["type"].endswith("too-slow")
    assert behind._unfinished == 0
    assert asyncio.run(put(behind, [(b"abc", False)]))[0] == 200


@pytest.mark.parametrize(("path", "most"), [("/echo", module.SMALL), ("/large", 1 << 20)])
def test_a_body_has_the_limit_of_its_resource(path, most):
    assert asyncio.run(put(edge(), [(bytes(most), False)], path=path))[0] == 200
    assert asyncio.run(put(edge(), [], length=most + 1, path=path))[::2] == (413, b"close")


def test_large_bodies_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "UNFINISHED", 100)
    monkeypatch.setattr(module, "PATIENCE", 600.0)

    async def work() -> int:
        behind = edge()
        large = module.SMALL + 1
        slow = [asyncio.ensure_future(put(behind, [(bytes(50), True)], large, "/large")) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await put(behind, [(bytes(module.SMALL), False)]))[0] == 200  # a small one is not refused
        status = (await put(behind, [(b"x", True)], large, "/large"))[0]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert behind._unfinished == 0
        return status

    assert asyncio.run(work()) == 503
