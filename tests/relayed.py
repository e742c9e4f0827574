"""A referee, a relay and an agent's way through both, in one process; and relays that do harm."""

import asyncio
from collections.abc import Callable

import httpx
from fastapi import FastAPI

from common.crypto.identity import Identity, Signed
from common.net.app import Service
from common.net.edge import Call, Handler, Reply
from common.net.oblivious.encapsulation import (
    RELAY,
    SIGNED_KEYS,
    Exchange,
    GatewayKey,
    encapsulate,
    signed_keys,
    verified_keys,
)
from common.net.oblivious.relay import relay_app

NOWHERE = "http://relay.invalid"


class InProcess(httpx.BaseTransport):
    """Asks an app what HTTP would ask it, and keeps all that it was asked and answered."""

    def __init__(self, app: FastAPI) -> None:
        self._loop = asyncio.new_event_loop()
        self._carrier = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.seen: list[tuple[httpx.Request, httpx.Response]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        response = self._loop.run_until_complete(self._asked(request))
        self.seen.append((request, response))
        return httpx.Response(response.status_code, headers=response.headers, content=response.content)

    async def _asked(self, request: httpx.Request) -> httpx.Response:
        response = await self._carrier.handle_async_request(request)
        await response.aread()
        return response

    def close(self) -> None:
        self._loop.close()


def relay_before(app: FastAPI) -> Service:
    """Return a relay before an app of this process."""
    return relay_app("http://referee.invalid", carrier=httpx.ASGITransport(app, raise_app_exceptions=False))


class Recording:
    """Keeps all that a relay holds: what came, and what it handed back."""

    def __init__(self, relay: Service) -> None:
        self.came: list[Call] = []
        self.went: list[Reply] = []
        for place, handler in list(relay.edge.short.items()):
            relay.edge.short[place] = self._recording(handler)

    def _recording(self, handler: Handler) -> Handler:
        async def recorded(call: Call) -> Reply:
            self.came.append(call)
            self.went.append(await handler(call))
            return self.went[-1]

        return recorded


def changed(raw: bytes, at: int = -1) -> bytes:
    found = bytearray(raw)
    found[at] ^= 1
    return bytes(found)


def _carrying(
    relay: Service,
    body: Callable[[Call], bytes] = lambda call: call.body,
    back: Callable[[Reply], Reply] = lambda reply: reply,
) -> None:
    """Have a relay send something else than came, and hand back something else than the answer."""
    carry = relay.edge.short["POST", RELAY]

    async def tampered(call: Call) -> Reply:
        return back(await carry(Call(call.method, call.path, call.headers, body=body(call))))

    relay.edge.short["POST", RELAY] = tampered


def alters_requests(relay: Service) -> None:
    _carrying(relay, body=lambda call: changed(call.body))


def alters_responses(relay: Service) -> None:
    _carrying(relay, back=lambda reply: Reply(200, changed(reply.body), reply.kind))


def cuts_responses_off(relay: Service) -> None:
    _carrying(relay, back=lambda reply: Reply(200, reply.body[:4096], reply.kind))


def answers_in_plain(relay: Service) -> None:
    _carrying(relay, back=lambda reply: Reply(200, b'{"key": "mine"}'))


def swaps_responses(relay: Service) -> None:
    """Hand back the answer to a request of its own."""
    own: list[bytes] = []
    keys = relay.edge.short["GET", SIGNED_KEYS]

    async def learned(call: Call) -> Reply:
        reply = await keys(call)
        signed = Signed.model_validate_json(reply.body)
        own.append(encapsulate(verified_keys(signed, signed.key), b"\x00\x03GET\x00\x00\x0b/v1/referee")[0])
        return reply

    relay.edge.short["GET", SIGNED_KEYS] = learned
    _carrying(relay, body=lambda call: own[0])


def replays_responses(relay: Service) -> None:
    """Hand back to each request the answer to the first one."""
    came: list[Reply] = []
    _carrying(relay, back=lambda reply: came.append(reply) or came[0])


def replays_requests(relay: Service) -> None:
    """Send each request twice, and hand back the second answer."""
    carry = relay.edge.short["POST", RELAY]

    async def twice(call: Call) -> Reply:
        await carry(call)
        return await carry(call)

    relay.edge.short["POST", RELAY] = twice


def substitutes_keys(relay: Service) -> list[bytes]:
    """Hand out keys of its own, and open what comes; returns what it could read."""
    read: list[bytes] = []
    own, somebody = GatewayKey.derived(bytes(32)), Identity.create()

    async def keys(call: Call) -> Reply:
        return Reply(200, signed_keys(somebody, [own.configuration]).raw())

    async def carry(call: Call) -> Reply:
        opened: tuple[bytes, Exchange] = own.open(call.body)
        read.append(opened[0])
        return Reply(503)

    relay.edge.short["GET", SIGNED_KEYS] = keys
    relay.edge.short["POST", RELAY] = carry
    return read


def substitutes_keys_under_the_referee_s_name(relay: Service) -> None:
    """Hand out keys of its own with the referee's key and signature."""
    keys, own = relay.edge.short["GET", SIGNED_KEYS], GatewayKey.derived(bytes(32))

    async def forged(call: Call) -> Reply:
        signed = Signed.model_validate_json((await keys(call)).body)
        message = signed_keys(Identity.create(), [own.configuration]).message
        return Reply(200, signed.model_copy(update={"message": message}).raw())

    relay.edge.short["GET", SIGNED_KEYS] = forged
