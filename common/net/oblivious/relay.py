"""A relay: it carries encapsulated requests to one service, and what comes back; it reads none and keeps none.

Clients dial it, and it dials the service, which sees the relay's address in the place of theirs. Nothing of a client's
request goes on but its body: no header, no address, no order of headers. It knows one service, so it opens no way to
anywhere else. It writes no address down, and sends nothing twice: who gets no answer asks again, with a new key.
"""

from __future__ import annotations

import logging

import httpx
from fastapi import Request, Response

from common.core.errors import BadMessage, Busy, PeerMisbehaved, PeerUnavailable
from common.net import addresses
from common.net.app import Service, create_app, handled
from common.net.edge import TINY, Call, Reply
from common.net.oblivious.carrier import Carrier
from common.net.oblivious.encapsulation import GATEWAY, RELAY, REQUEST_BYTES, REQUEST_TYPE, RESPONSE_TYPE, SIGNED_KEYS
from common.net.tls import context_for, fault_of

log = logging.getLogger("tandem.relay")

UNDER_WAY = 1024
"""Requests that wait for the service at the same time, at most: a poll is held there for some seconds."""
_JSON, _PROBLEM = "application/json", "application/problem+json"


class Relay:
    """What carries requests to one service.

    Args:
        service: Its address.
        source: The address of this machine from which it is dialled; None: any.
        carrier: How it is dialled; by default over HTTP.

    Raises:
        BadInput: If it is no address of a web service, or a file that TLS needs cannot be used.
    """

    def __init__(
        self, service: str, source: str | None = None, carrier: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.service = addresses.base(service)
        tls = context_for(self.service, party="referee", shows=False)
        self._carrier = carrier or Carrier(tls, source)
        self._under_way = 0

    async def carry(self, call: Call) -> Reply:
        """Carry an encapsulated request.

        Raises:
            BadMessage: If it says that it is something else.
            Busy: If too many others are under way.
            PeerUnavailable, PeerMisbehaved: If the service does not answer, or with something that no gateway answers.
        """
        if call.headers.get(b"content-type") != REQUEST_TYPE.encode():
            raise BadMessage(f"a relay takes {REQUEST_TYPE}")
        return await self._asked("POST", GATEWAY, call.body, RESPONSE_TYPE)

    async def keys(self, call: Call) -> Reply:
        """Return the service's signed keys, which it gives to the relay without knowing for whom."""
        return await self._asked("GET", SIGNED_KEYS, b"", _JSON)

    async def close(self) -> None:
        """Close all connections."""
        await self._carrier.aclose()

    async def _asked(self, method: str, path: str, body: bytes, kind: str) -> Reply:
        if self._under_way >= UNDER_WAY:
            raise Busy(f"{UNDER_WAY} requests are under way already")
        self._under_way += 1
        try:
            return await self._once(method, path, body, kind)
        except httpx.TransportError as error:
            log.warning("the referee does not answer: %s", fault_of(error) or type(error).__name__)
            raise PeerUnavailable("the referee behind this relay does not answer") from None
        finally:
            self._under_way -= 1

    async def _once(self, method: str, path: str, body: bytes, kind: str) -> Reply:
        headers = {"Content-Type": REQUEST_TYPE} if body else {}
        request = httpx.Request(method, self.service + path, headers=headers, content=body or None)
        response = await self._carrier.handle_async_request(request)
        content = await response.aread()
        found = response.headers.get("content-type", "")
        if found != (kind if response.status_code == 200 else _PROBLEM):
            raise PeerMisbehaved(f"what listens behind this relay is no gateway: it answers {response.status_code}")
        return Reply(response.status_code, content, found.encode())


def relay_app(service: str, source: str | None = None, carrier: httpx.AsyncBaseTransport | None = None) -> Service:
    """Return the service of a relay before one other service.

    Args:
        service, source, carrier: Of its :class:`Relay`.
    """
    relay = Relay(service, source, carrier)
    app = create_app(
        "Tandem relay",
        "Carries encapsulated requests (RFC 9458) to one referee, which does not see whose they are.",
        limits={RELAY: REQUEST_BYTES, SIGNED_KEYS: TINY},
        short={("POST", RELAY): relay.carry, ("GET", SIGNED_KEYS): relay.keys},
    )
    app.router.add_event_handler("shutdown", relay.close)

    # The edge answers both before they come here, with the same handlers.

    @app.post(RELAY, summary="Carry an encapsulated request", openapi_extra=encapsulated_body())
    async def carry(request: Request) -> Response:
        return await handled(relay.carry, request)

    @app.get(SIGNED_KEYS, summary="The referee's keys for encapsulated requests, under its signature")
    async def keys(request: Request) -> Response:
        return await handled(relay.keys, request)

    return app


def encapsulated_body() -> dict[str, object]:
    """Return the OpenAPI description of a body that is an encapsulated request."""
    return {
        "requestBody": {
            "required": True,
            "description": "An encapsulated request (RFC 9458, section 4.3)",
            "content": {REQUEST_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    }
