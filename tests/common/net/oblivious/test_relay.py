"""A relay's connections to its referee: kept, taken by one request at a time, and nothing is sent twice."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable

import httpx
import pytest

from common.core.errors import Busy, PeerMisbehaved
from common.net.oblivious.relay import Carrier
from tests.common.net.test_hostile_peers import hostile
from tests.tiers import for_each

pytestmark = pytest.mark.slow
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


Ask = Callable[[], Awaitable[httpx.Response]]


def carried(use: Callable[[Ask], Awaitable[None]], *replies: bytes) -> list[tuple[str, int]]:
    """Use a carrier to a service that replies so, and closes but after :data:`OK`; return who asked, each time."""
    left, asked = list(replies), list[tuple[str, int]]()

    def answer(connection: socket.socket) -> None:
        asked.append(connection.getpeername())
        reply = left.pop(0)
        connection.sendall(reply)
        if reply != OK:
            connection.shutdown(socket.SHUT_RDWR)

    async def run(url: str) -> None:
        way = Carrier(source="127.0.0.3")
        try:
            await use(lambda: way.handle_async_request(httpx.Request("POST", url, content=b"body")))
            assert way.held == 0
        finally:
            await way.aclose()

    with hostile(answer) as url:
        asyncio.run(run(url))
    return asked


def test_requests_one_after_the_other_take_one_connection_and_others_more():
    async def use(ask):
        for _ in range(3):
            assert (await ask()).content == b"ok"
        await asyncio.gather(*(ask() for _ in range(4)))

    asked = carried(use, *[OK] * 7)
    assert (len(asked), len(set(asked[:3])), len(set(asked))) == (7, 1, 4)
    assert {host for host, _ in asked} == {"127.0.0.3"}


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: "


@for_each("answer", [b"", OK[:-1], b"no HTTP at all\r\n\r\n", HEAD + b"9\r\n\r\nok", b"HTTP/1.1 100 Go\r\n\r\n"])
def test_what_is_not_answered_whole_fails_and_is_not_sent_again(answer):
    async def use(ask):
        with pytest.raises(httpx.TransportError):
            await ask()
        assert (await ask()).content == b"ok"  # the next one has a connection of its own

    asked = carried(use, answer, OK)
    assert (len(asked), len(set(asked))) == (2, 2)


def test_a_connection_that_was_closed_meanwhile_is_not_taken():
    async def use(ask):
        assert [(await ask()).content, (await ask()).content] == [b"ok", b"ok"]

    assert len(set(carried(use, HEAD + b"2\r\nconnection: close\r\n\r\nok", OK))) == 2


BOMB = gzip.compress(bytes(1 << 20))


@for_each(
    ("answer", "limit", "error"),
    [
        (HEAD + b"99999999\r\n\r\n" + bytes(1 << 20), "ohttp.MAX_RESPONSE", PeerMisbehaved),
        (HEAD + b"99999999\r\n\r\n" + bytes(1 << 20), "RESPONSES", Busy),
        (HEAD + b"%d\r\nContent-Encoding: gzip\r\n\r\n" % len(BOMB) + BOMB, "ohttp.MAX_RESPONSE", PeerMisbehaved),
    ],
)
def test_a_response_without_an_end_is_given_up_and_a_compressed_one_not_unpacked(monkeypatch, answer, limit, error):
    monkeypatch.setattr(f"common.net.oblivious.relay.{limit}", 1 << 16)

    async def use(ask):
        with pytest.raises(error):
            await ask()

    carried(use, answer)


def test_nobody_there_and_nobody_who_answers(monkeypatch):
    monkeypatch.setattr("common.net.oblivious.relay.ohttp.RELAY_PATIENCE", 0.05)

    async def run() -> None:
        way = Carrier()
        with pytest.raises(httpx.ConnectError):
            await way.handle_async_request(httpx.Request("GET", "http://127.0.0.1:1/"))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            request = httpx.Request("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/")
            with pytest.raises(httpx.ReadTimeout):
                await way.handle_async_request(request)

    asyncio.run(run())
