"""A client that reaches a service through a relay: it encapsulates requests, and accepts only answers that decrypt.

The relay learns a client's address and the time of a request; the service learns its content. Neither learns both.
"""

import httpx

from common.core import canonical
from common.core.errors import BadMessage, Forged, RelayUntrusted
from common.core.version import HEADER
from common.crypto.identity import Signed
from common.net.oblivious import encapsulation as ohttp
from common.net.oblivious.binary_http import InnerRequest, InnerResponse, padded
from common.net.tls import base_address, context_for
from common.net.transport import Transport, send

_SENT = frozenset({"authorization", "content-type", HEADER.lower()})  # headers of a request that go inside
_LATER = frozenset({408, 429, 502, 503, 504})  # statuses while the relay, or the service behind it, is unavailable
_NOT_THERE = frozenset({401, 403, 404, 405})  # statuses from a server that is no relay


class ThroughRelay(httpx.BaseTransport):
    """Carries all requests of a client through one relay, whose keys must be signed by the pinned ``referee``."""

    def __init__(self, relay: str, referee: str, carrier: httpx.BaseTransport | None = None) -> None:
        self.relay = base_address(relay)
        self._carrier = carrier or Transport(context_for(self.relay, party="relay", shows=False))
        self._referee = referee
        self._key: ohttp.KeyConfiguration | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its response.

        RelayUntrusted if keys or response are not the referee's; httpx.TransportError if the relay does not answer at
        present; BadMessage if the request is too long.
        """
        if self._key is None:
            self._key = self._keys(request)
        encapsulated, exchange = ohttp.encapsulate(self._key, self._inner_request(request))
        response = self._ask(request, "POST", ohttp.RELAY, encapsulated)
        if response.status_code != 200 or response.headers.get("content-type") != ohttp.RESPONSE_TYPE:
            raise self._refusal(response)
        return self._opened(exchange, response)

    def close(self) -> None:
        self._carrier.close()

    def _keys(self, request: httpx.Request) -> ohttp.KeyConfiguration:
        response = self._ask(request, "GET", ohttp.SIGNED_KEYS)
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return ohttp.verified_keys(Signed.model_validate_json(response.content), self._referee)
        except (ValueError, Forged, BadMessage) as error:
            why = error.detail if isinstance(error, Forged) else "they are none"
            raise RelayUntrusted(
                f"the relay at {self.relay} hands out keys that are not those of the pinned referee ({why}): nothing "
                "was sent through it; name another relay, or check --referee-key"
            ) from None

    def _inner_request(self, request: httpx.Request) -> bytes:
        fields = [(name.lower(), value) for name, value in request.headers.raw if name.lower().decode() in _SENT]
        inner = InnerRequest(
            request.method.encode(), request.url.raw_path, tuple(fields), request.read(), authority=b"referee"
        ).encode()
        if len(inner) > ohttp.MAX_INNER:
            raise BadMessage(f"what passes a relay has at most {ohttp.MAX_INNER} bytes, found {len(inner)}")
        return padded(inner, ohttp.REQUEST_BYTES, ohttp.REQUEST_OVERHEAD)

    def _ask(self, request: httpx.Request, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        """Send a request to the relay, with headers that are the same for all clients."""
        envelope = httpx.Request(
            method,
            self.relay + path,
            headers={} if content is None else {"Content-Type": ohttp.REQUEST_TYPE},
            content=content,
            extensions=request.extensions,
        )
        peer = f"the relay at {self.relay}"
        return send(
            self._carrier.handle_request, envelope, seconds=ohttp.RELAY_PATIENCE, most=ohttp.MAX_RESPONSE, peer=peer
        )

    def _opened(self, exchange: ohttp.Exchange, response: httpx.Response) -> httpx.Response:
        try:
            inner = InnerResponse.decode(exchange.open(response.content))
        except (Forged, BadMessage):
            raise RelayUntrusted(
                f"the relay at {self.relay} handed back what is not the referee's answer to this request: it was "
                "changed, cut off, or is the answer to another one"
            ) from None
        # As a stream: httpx decompresses content given as bytes at once, however large it becomes.
        return httpx.Response(inner.status, headers=list(inner.fields), stream=httpx.ByteStream(inner.content))

    def _refusal(self, response: httpx.Response) -> Exception:
        answer = f"the relay at {self.relay} answers {response.status_code}"
        if response.status_code in _LATER:
            return httpx.RemoteProtocolError(answer)
        try:
            kind = str(canonical.decode(response.content)["type"])
        except (BadMessage, KeyError, TypeError):
            kind = ""
        if not kind or response.status_code in _NOT_THERE:
            return RelayUntrusted(f"{answer}, and nothing that a relay would: is that the address of one?")
        if kind == ohttp.KEY_PROBLEM:
            return RelayUntrusted(f"{answer}: the referee behind it has other keys than those that it signed")
        return RelayUntrusted(
            f"{answer}: what it carried could not be opened behind it ({kind.rpartition(':')[2][:40]}), so it was "
            "changed on its way"
        )
