"""Vectors of what passes a relay: the referee's keys, an encapsulated request, and responses to it."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from common.core.errors import BadMessage, Forged
from common.crypto.identity import Signed
from common.net.oblivious.binary_http import InnerResponse
from common.net.oblivious.encapsulation import (
    GatewayKey,
    KeyConfiguration,
    encapsulate,
    encode_list,
    signed_keys,
    verified_keys,
)
from tests.vectors.basics import OTHER, REFEREE

GATEWAY = GatewayKey.derived(b"g" * 32)
EPHEMERAL = b"e" * 32
PLAIN = b"what is asked"
BODY = b'{"a":1}'


def configurations(*more: bytes) -> str:
    """Return the referee's key configuration behind others, as an oblivious-keys message has it."""
    own = encode_list([GATEWAY.configuration])
    return (b"".join(len(one).to_bytes(2, "big") + one for one in more) + own).hex()


def relays_file() -> dict[str, Any]:
    own = GATEWAY.configuration
    unknown = b"\x07\x00\x10" + b"p" * 65 + b"\x00\x04\x00\x01\x00\x01"  # DHKEM(P-256)
    slow = b"\x08\x00\x20" + b"q" * 32 + b"\x00\x04\x00\x03\x00\x03"  # HKDF-SHA512, ChaCha20-Poly1305
    good = signed_keys(REFEREE, [own])
    gives: dict[str, Any] = {"identifier": own.identifier, "key": own.public.hex()}
    keys: list[tuple[str, Signed, bool]] = [
        ("keys", good, True),
        ("behind others", REFEREE.sign("oblivious-keys", {"keys": configurations(unknown, slow)}), True),
        ("of another referee", signed_keys(OTHER, [own]), False),
        ("that were changed", good.model_copy(update={"message": {"keys": configurations(slow)}}), False),
        ("of another kind", REFEREE.sign("keys", good.message), False),
        ("of no suite that is known", REFEREE.sign("oblivious-keys", {"keys": (b"\0\x4a" + unknown).hex()}), False),
        ("that end too early", REFEREE.sign("oblivious-keys", {"keys": configurations()[:-2]}), False),
    ]
    sent, _ = encapsulate(KeyConfiguration(own.identifier, own.public), PLAIN, ephemeral=EPHEMERAL)
    _, exchange = GATEWAY.open(sent)
    answer = InnerResponse(200, ((b"content-type", b"application/json"), (b"retry-after", b"2")), BODY)
    nonce = b"n" * 16
    sealed = exchange.seal(answer.encode() + bytes(9), nonce)
    said = {"status": 200, "headers": {"content-type": "application/json", "retry-after": "2"}, "body": BODY.hex()}
    other = encapsulate(own, PLAIN, ephemeral=b"f" * 32)[1]
    responses: list[tuple[str, bytes, Any]] = [
        ("a response", sealed, said),
        ("of nothing", exchange.seal(InnerResponse(204).encode(), nonce), {"status": 204, "headers": {}, "body": ""}),
        ("to another request", other.seal(answer.encode(), nonce), None),
        ("that was changed", sealed[:-1] + bytes([sealed[-1] ^ 1]), None),
        ("that was cut off", sealed[:20], None),
        ("that is a request", exchange.seal(b"\x00" + answer.encode()[1:], nonce), None),
        ("of a message that ends too early", exchange.seal(answer.encode()[:9], nonce), None),
    ]
    refused = {"refused": "relay-untrusted"}
    return {
        "about": "keys that a relay hands out, the request that is sealed with an ephemeral key, and responses to it",
        "referee": REFEREE.public,
        "keys": [{"about": a, "signed": s.wire(), **(gives if good else refused)} for a, s, good in keys],
        "request": {
            "ephemeral": EPHEMERAL.hex(),
            "enc": X25519PrivateKey.from_private_bytes(EPHEMERAL).public_key().public_bytes_raw().hex(),
            "plain": PLAIN.hex(),
            "sent": sent.hex(),
        },
        "responses": [
            {"about": a, "sealed": s.hex(), **(refused if f is None else {"response": f})} for a, s, f in responses
        ],
    }


def of_keys(referee: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return which key an agent takes, or that it takes none."""
    try:
        found = verified_keys(Signed.parse(case["signed"]), referee)
    except (BadMessage, Forged):
        return {"refused": "relay-untrusted"}
    return {"identifier": found.identifier, "key": found.public.hex()}


def of_response(request: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent reads of a response, or that it refuses it."""
    ephemeral, plain = (bytes.fromhex(request[name]) for name in ("ephemeral", "plain"))
    _, exchange = encapsulate(GATEWAY.configuration, plain, ephemeral=ephemeral)
    try:
        found = InnerResponse.decode(exchange.open(bytes.fromhex(case["sealed"])))
    except (BadMessage, Forged):
        return {"refused": "relay-untrusted"}
    headers = {name.decode(): value.decode() for name, value in found.fields}
    return {"response": {"status": found.status, "headers": headers, "body": found.content.hex()}}
