"""Where gateways and relays listen, and the one length that all requests have."""

from __future__ import annotations

from common.service.web.bodies import TINY
from common.wire.oblivious.encapsulation import REQUEST_OVERHEAD

GATEWAY = "/.well-known/ohttp-gateway"
"""Of a gateway: its encapsulated requests (POST) and its key configurations (GET); RFC 9540, section 4."""
SIGNED_KEYS = "/v1/oblivious-keys"
"""Of gateways and relays: the key configurations, under the service's signature."""
RELAY = "/v1/relay"
"""Of a relay: encapsulated requests."""
REQUEST_BYTES = TINY
"""Bytes of every encapsulated request: all are padded to this length, so that none tells what it is by its length."""
MAX_INNER = REQUEST_BYTES - REQUEST_OVERHEAD
"""Bytes of a binary request, at most."""
RESPONSE_BYTES = 1 << 13
"""Encapsulated responses have a multiple of so many bytes."""
KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
"""The registered problem type of a request for a key that the gateway has not (RFC 9458, section 5.3)."""

MAX_RESPONSE = 1 << 24
"""Bytes of one response, at most: the longest question and its padding."""
PATIENCE = 45.0
"""Seconds in which a connection must stand and a response be whole: polls are held for some seconds."""
