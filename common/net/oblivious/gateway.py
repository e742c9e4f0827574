"""A gateway: it takes encapsulated requests off their relay, and hands them to the service that it stands in.

What is inside passes the same edge as a request that came directly. Of all other resources than those that may be
reached so it is answered, inside, that there is no such thing. What cannot be opened is answered outside, in plain,
with a status below 500 (RFC 9458, section 5.2).

Whoever carries a request may send it again: what passes is signed by its sender and repeated without effect, and the
answer opens for nobody but the first sender.
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

PURPOSE = b"oblivious http gateway"  # what the gateway's key is derived for, from the service's own
_INSIDE = frozenset({b"authorization", b"content-type", HEADER.lower().encode()})  # read of an inner request
_OUT = frozenset({b"content-type", b"retry-after", HEADER.lower().encode()})  # sent of an inner response
_LARGE = 1 << 16  # bytes of a response that is encrypted beside the service's loop
_OUTER = tuple[bytes, ohttp.Exchange] | TandemError


class Gateway:
    """A service's gateway; ``resources`` matches ``METHOD PATH`` of what may be asked through it.

    Its key follows from the service's, so all processes with one signing key have one gateway key.
    """

    def __init__(self, identity: Identity, resources: re.Pattern[bytes]) -> None:
        self._key = ohttp.GatewayKey.derived(identity.derived(PURPOSE))
        self._resources = resources
        self._edge: Edge | None = None
        self._keys = ohttp.encode_list([self._key.configuration])
        self._signed = ohttp.signed_keys(identity, [self._key.configuration]).raw()
        self.group: Grouped[_OUTER] = Grouped(lambda bodies: list(map(self._opened, bodies)), "oblivious")

    def attach(self, edge: Edge) -> None:
        """Hand what is inside to this edge, from now on."""
        self._edge = edge

    async def keys(self, call: Call) -> Reply:
        return Reply(200, self._keys, ohttp.KEYS_TYPE.encode())

    async def signed(self, call: Call) -> Reply:
        return Reply(200, self._signed)

    async def forwarded(self, call: Call) -> Reply:
        """Answer an encapsulated request; BadMessage if it is none (nothing of it is known then), Busy if many wait."""
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
            return InnerResponse(refusal.status, _kept(refusal.all_headers()), refusal.body)
        if self._edge is None:
            raise RuntimeError("no service stands behind this gateway")
        headers = [field for field in request.fields if field[0] in _INSIDE]
        headers += [(b"host", b"gateway"), (b"content-length", b"%d" % len(request.content))]  # one service stands here
        path = request.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method.decode("ascii"),
            "scheme": "https", "path": path, "raw_path": request.path, "query_string": b"", "root_path": "",
            "headers": headers, "client": None, "server": None,
        }  # fmt: skip
        coming = [{"type": "http.request", "body": request.content, "more_body": False}]
        start: MutableMapping[str, Any] = {}
        parts: list[bytes] = []

        async def receive() -> MutableMapping[str, Any]:
            return coming.pop() if coming else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        await self._edge(scope, receive, send)
        return InnerResponse(start["status"], _kept(start["headers"]), b"".join(parts))


def _kept(headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower(), value) for name, value in headers if name.lower() in _OUT)
