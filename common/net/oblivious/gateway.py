"""A gateway: it receives encapsulated requests from a relay, and passes them to the service that it is part of.

An inner request passes the same edge as a direct one. For a resource that is not available through the gateway, the
inner response says that it does not exist. A request that cannot be decrypted gets a plain outer response with a status
below 500 (RFC 9458, section 5.2).

A relay may replay a request. That has no effect: inner requests are signed by their sender and idempotent, and only the
original sender can decrypt the answer.
"""

import asyncio
import json
import re
from collections.abc import MutableMapping, Sequence
from typing import Any

from common.core.errors import BadMessage, NotFound, TandemError, UnknownKey
from common.core.version import HEADER
from common.crypto.identity import Identity
from common.net.batching import Grouped
from common.net.edge import Call, Edge, Reply, problem
from common.net.oblivious import encapsulation as ohttp
from common.net.oblivious.binary_http import InnerRequest, InnerResponse, padded

PURPOSE = b"oblivious http gateway"  # label with which the gateway's key is derived from the service's key
_INSIDE = frozenset({b"authorization", b"content-type", HEADER.lower().encode()})  # headers read from inner requests
_OUT = frozenset({b"content-type", b"retry-after", HEADER.lower().encode()})  # headers sent in inner responses
_LARGE = 1 << 16  # bytes of a response from which on it is encrypted outside the event loop
_OUTER = tuple[bytes, ohttp.Exchange] | TandemError


class Gateway:
    """A service's gateway; ``resources`` matches ``METHOD PATH`` of the requests that it accepts.

    Its key is derived from the service's, so all processes with one signing key have the same gateway key.
    """

    def __init__(self, identity: Identity, resources: re.Pattern[bytes]) -> None:
        self._key = ohttp.GatewayKey.derived(identity.derived(PURPOSE))
        self._resources = resources
        self.edge: Edge | None = None  # to which inner requests are passed
        self._keys = ohttp.encode_list([self._key.configuration])
        self._signed = ohttp.signed_keys(identity, [self._key.configuration]).raw()
        self.group: Grouped[_OUTER] = Grouped(lambda bodies: list(map(self._opened, bodies)), "oblivious")

    async def keys(self, call: Call) -> Reply:
        return Reply(200, self._keys, ohttp.KEYS_TYPE.encode())

    async def signed(self, call: Call) -> Reply:
        return Reply(200, self._signed)

    async def forwarded(self, call: Call) -> Reply:
        """Answer an encapsulated request; BadMessage if it is none or cannot be decrypted, Busy if many wait."""
        self.group.check_room()
        if call.headers.get(b"content-type") != ohttp.REQUEST_TYPE.encode():
            raise BadMessage(f"a gateway takes {ohttp.REQUEST_TYPE}")
        opened = await self.group(call.body)
        if isinstance(opened, UnknownKey):
            reply = problem(opened)
            return reply._replace(body=json.dumps({**json.loads(reply.body), "type": ohttp.KEY_PROBLEM}).encode())
        if isinstance(opened, TandemError):
            raise opened
        inner, exchange = opened
        response = padded((await self._answer(inner)).encode(), ohttp.RESPONSE_BYTES, ohttp.RESPONSE_OVERHEAD)
        large = len(response) > _LARGE
        sealed = await asyncio.to_thread(exchange.seal, response) if large else exchange.seal(response)
        return Reply(200, sealed, ohttp.RESPONSE_TYPE.encode())

    def _opened(self, body: bytes) -> _OUTER:
        try:
            return self._key.open(body)
        except TandemError as error:
            return error

    async def _answer(self, raw: bytes) -> InnerResponse:
        try:
            request = InnerRequest.decode(raw)
            if not self._resources.fullmatch(request.method + b" " + request.path):
                raise NotFound("there is no such thing behind this gateway")
        except TandemError as error:
            refusal = problem(error)
            return InnerResponse(refusal.status, _allowed_headers(refusal.all_headers()), refusal.body)
        if self.edge is None:
            raise RuntimeError("no service stands behind this gateway")
        headers = [field for field in request.fields if field[0] in _INSIDE]
        headers += [(b"host", b"gateway"), (b"content-length", b"%d" % len(request.content))]  # one service stands here
        path = request.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method.decode("ascii"),
            "scheme": "https", "path": path, "raw_path": request.path, "query_string": b"", "root_path": "",
            "headers": headers, "client": None, "server": None,
        }  # fmt: skip
        pending = [{"type": "http.request", "body": request.content, "more_body": False}]
        start: MutableMapping[str, Any] = {}
        parts: list[bytes] = []

        async def receive() -> MutableMapping[str, Any]:
            return pending.pop() if pending else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        await self.edge(scope, receive, send)
        return InnerResponse(start["status"], _allowed_headers(start["headers"]), b"".join(parts))


def _allowed_headers(headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower(), value) for name, value in headers if name.lower() in _OUT)
