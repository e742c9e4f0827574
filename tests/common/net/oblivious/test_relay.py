"""A relay's connections to its referee: kept, taken by one request at a time, and nothing is sent twice."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable

import httpx
import pytest

from common.core.errors import Busy, PeerMisbehaved
from common.net.oblivious import relay as module
from common.net.oblivious.relay import Carrier

pytestmark = pytest.mark.slow
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """Answers what comes on each connection with what it is told, and counts."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.connections, self.requests = list(answers), 0, 0
        self.peers: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.peers.add(writer.get_extra_info("peername")[0])
        try:
            while await reader.readuntil(b"\r\n\r\nbody"):
                self.requests += 1
                answer = self.answers.pop(0)
                writer.write(answer)
                await writer.drain()
                if answer != OK:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def carried(server: Server, use: Callable[[Callable[[], Awaitable[httpx.Response]]], Awaitable[None]]) -> None:
    async def run() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        way = Carrier(source="127.0.0.3")

        async def ask() -> httpx.Response:
            request = httpx.Request("POST", f"http://127.0.0.1:{port}/x", content=b"body")
            return await way.handle_async_request(request)

        try:
            await use(ask)
            assert way.held == 0
        finally:
            await way.aclose()
            listening.close()
            await listening.wait_closed()

    asyncio.run(run())


def test_requests_one_after_the_other_take_one_connection_and_others_more():
    server = Server(*[OK] * 7)

    async def use(ask):
        for _ in range(3):
            assert (await ask()).content == b"ok"
        assert server.connections == 1
        await asyncio.gather(*(ask() for _ in range(4)))

    carried(server, use)
    assert (server.connections, server.requests, server.peers) == (4, 7, {"127.0.0.3"})


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        OK[:-1],
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        b"HTTP/1.1 100 Go\r\n\r\n",
    ],
)
def test_what_is_not_answered_whole_fails_and_is_not_sent_again(answer):
    server = Server(answer, OK)

    async def use(ask):
        with pytest.raises(httpx.TransportError):
            await ask()
        assert server.requests == 1
        assert (await ask()).content == b"ok"  # the next one has a connection of its own

    carried(server, use)
    assert server.connections == 2


def test_a_connection_that_was_closed_meanwhile_is_not_taken():
    server = Server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", OK)

    async def use(ask):
        assert (await ask()).content == b"ok"
        assert (await ask()).content == b"ok"

    carried(server, use)
    assert server.connections == 2


@pytest.mark.parametrize(("limit", "error"), [("MAX_RESPONSE", PeerMisbehaved), ("RESPONSES", Busy)])
def test_a_response_without_an_end_is_given_up(monkeypatch, limit, error):
    monkeypatch.setattr(module, limit, 1 << 16)
    server = Server(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + bytes(1 << 20))

    async def use(ask):
        with pytest.raises(error):
            await ask()

    carried(server, use)


def test_a_compressed_response_is_not_unpacked():
    body = gzip.compress(bytes(1 << 20))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def use(ask):
        with pytest.raises(PeerMisbehaved, match="compressed"):
            await ask()

    carried(Server(head + body), use)


def test_nobody_there_and_nobody_who_answers(monkeypatch):
    monkeypatch.setattr(module, "RELAY_PATIENCE", 0.05)

    async def run() -> None:
        way = Carrier()
        with pytest.raises(httpx.ConnectError):
            await way.handle_async_request(httpx.Request("GET", "http://127.0.0.1:1/"))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            request = httpx.Request("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/")
            with pytest.raises(httpx.ReadTimeout):
                await way.handle_async_request(request)

    asyncio.run(run())
