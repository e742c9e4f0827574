"""Encapsulated requests and responses (RFC 9458, section 4), which a relay forwards and cannot read or change.

A request is sealed to the gateway's key with a key drawn for it alone, so no two can be linked. The response is
encrypted under a secret of the same exchange, so it belongs to no other request.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field
from pyhpke.context_interface import ContextInterface

from common.core.errors import BadMessage, Forged, UnknownKey
from common.core.values import Value
from common.crypto.hpke import AEAD, KDF, KEM, KEY_BYTES, TAG_BYTES, RecipientKey, seal
from common.crypto.identity import Identity, Signed, verify
from common.net.edge import TINY

REQUEST_TYPE, RESPONSE_TYPE, KEYS_TYPE = "message/ohttp-req", "message/ohttp-res", "application/ohttp-keys"
"""Media types (RFC 9458, section 9)."""
_HEADER = struct.Struct(">BHHH")
_INFO = b"message/bhttp request\x00"
REQUEST_OVERHEAD = _HEADER.size + KEY_BYTES + TAG_BYTES  # bytes that encapsulation adds to a request
_SECRET = 16  # bytes of the AEAD's key, of the response's nonce, and of the secret that both follow from
_AEAD_NONCE = 12
RESPONSE_OVERHEAD = _SECRET + TAG_BYTES  # bytes that encapsulation adds to a response


@dataclass(frozen=True)
class Exchange:
    """The shared state of one request and its response, from which the response's key is derived."""

    _encapsulated: bytes
    _shared: ContextInterface

    def seal(self, response: bytes, nonce: bytes | None = None) -> bytes:
        """Encapsulate the response; the nonce of 16 bytes is random, except for test vectors of the RFC."""
        nonce = secrets.token_bytes(_SECRET) if nonce is None else nonce
        key, iv = self._keys(nonce)
        return nonce + AESGCM(key).encrypt(iv, response, b"")

    def open(self, encapsulated: bytes) -> bytes:
        """Return the response; Forged if it was not made for this request by the holder of the key, or was changed."""
        nonce, ciphertext = encapsulated[:_SECRET], encapsulated[_SECRET:]
        if len(ciphertext) < TAG_BYTES:
            raise Forged("an encapsulated response was cut off")
        key, iv = self._keys(nonce)
        try:
            return AESGCM(key).decrypt(iv, ciphertext, b"")
        except InvalidTag:
            raise Forged("an encapsulated response is not the answer to this request, or it was changed") from None

    def _keys(self, nonce: bytes) -> tuple[bytes, bytes]:
        secret = self._shared.export(b"message/bhttp response", _SECRET)
        salt = self._encapsulated + nonce
        key, iv = (
            HKDF(SHA256(), size, salt, info).derive(secret)
            for size, info in ((_SECRET, b"key"), (_AEAD_NONCE, b"nonce"))
        )
        return key, iv


def encapsulate(
    configuration: KeyConfiguration, request: bytes, *, ephemeral: bytes | None = None
) -> tuple[bytes, Exchange]:
    """Encapsulate a binary request; return its bytes, and the exchange that opens the response."""
    header = _HEADER.pack(configuration.identifier, KEM.value, KDF.value, AEAD.value)
    encapsulated, ciphertext, context = seal(configuration.public, request, _INFO + header, ephemeral=ephemeral)
    return header + encapsulated + ciphertext, Exchange(encapsulated, context)


@dataclass(frozen=True)
class GatewayKey:
    """A gateway's private key, under its identifier."""

    configuration: KeyConfiguration
    key: RecipientKey

    @classmethod
    def derived(cls, material: bytes) -> GatewayKey:
        key = RecipientKey.derived(material)
        return cls(KeyConfiguration.of(key.public), key)

    def open(self, encapsulated: bytes) -> tuple[bytes, Exchange]:
        """Return a binary request, and the exchange that seals its response; UnknownKey for another key; BadMessage."""
        if len(encapsulated) < REQUEST_OVERHEAD:
            least = REQUEST_OVERHEAD
            raise BadMessage(f"an encapsulated request has at least {least} bytes, found {len(encapsulated)}")
        header, rest = encapsulated[: _HEADER.size], encapsulated[_HEADER.size :]
        if _HEADER.unpack(header) != (self.configuration.identifier, KEM.value, KDF.value, AEAD.value):
            raise UnknownKey(
                "this request is for a key or algorithms that are not this gateway's: ask for its keys again"
            )
        enc, ciphertext = rest[:KEY_BYTES], rest[KEY_BYTES:]
        request, context = self.key.open(enc, ciphertext, _INFO + header)
        return request, Exchange(enc, context)


_SUITES = struct.pack(">HHH", 4, KDF.value, AEAD.value)  # the list's length in bytes, and its only pair of algorithms
_MAX = 1 << 12  # most bytes of a list of configurations


@dataclass(frozen=True)
class KeyConfiguration:
    """A gateway's public key of 32 bytes, its identifier in [0, 255]; suite: :mod:`common.crypto.hpke`."""

    identifier: int
    public: bytes

    @classmethod
    def of(cls, public: bytes) -> KeyConfiguration:
        """Return the configuration of a key; the identifier is derived from the key, so two rarely share one."""
        return cls(public[0], public)

    def encode(self) -> bytes:
        return struct.pack(">BH", self.identifier, KEM.value) + self.public + _SUITES


def encode_list(configurations: list[KeyConfiguration]) -> bytes:
    """Return configurations as ``application/ohttp-keys``: each after its length in two bytes (section 3.2)."""
    return b"".join(struct.pack(">H", len(raw)) + raw for raw in (item.encode() for item in configurations))


def decode_list(raw: bytes) -> list[KeyConfiguration]:
    """Decode ``application/ohttp-keys``, or raise BadMessage; skip keys with unsupported algorithms."""
    if len(raw) > _MAX:
        raise BadMessage(f"key configurations have at most {_MAX} bytes, found {len(raw)}")
    supported: list[KeyConfiguration] = []
    while raw:
        size = int.from_bytes(raw[:2], "big") + 2
        if len(raw) < max(2, size):
            raise BadMessage("a key configuration ends too early")
        configuration = _decode(raw[2:size])
        supported += [] if configuration is None else [configuration]
        raw = raw[size:]
    if not supported:
        raise BadMessage("there is no key configuration with X25519, HKDF-SHA256 and AES-128-GCM")
    return supported


def _decode(raw: bytes) -> KeyConfiguration | None:
    """Decode one configuration; None if its algorithms are not supported."""
    if len(raw) < 3:
        raise BadMessage("a key configuration ends too early")
    identifier, kem = struct.unpack_from(">BH", raw)
    if kem != KEM.value:
        return None  # the length of its key depends on the algorithm, which is unknown here
    public, symmetric = raw[3 : 3 + KEY_BYTES], raw[3 + KEY_BYTES :]
    algorithms = symmetric[2:]
    if len(public) != KEY_BYTES or len(symmetric) < 6 or len(algorithms) != int.from_bytes(symmetric[:2], "big"):
        raise BadMessage("a key configuration ends too early, or goes on behind its end")
    if len(algorithms) % 4:
        raise BadMessage("symmetric algorithms come in pairs")
    pairs = [struct.unpack_from(">HH", algorithms, offset) for offset in range(0, len(algorithms), 4)]
    return KeyConfiguration(identifier, public) if (KDF.value, AEAD.value) in pairs else None


class ObliviousKeys(Value):
    """The referee's word that requests may be encapsulated to these keys: ``application/ohttp-keys``, in hex."""

    KIND: ClassVar[str] = "oblivious-keys"
    keys: str = Field(pattern=r"^(?:[0-9a-f]{2})+$", max_length=2 * _MAX)


def signed_keys(identity: Identity, configurations: list[KeyConfiguration]) -> Signed:
    """Sign a referee's configurations."""
    message = ObliviousKeys(keys=encode_list(configurations).hex())
    return identity.sign(message.KIND, message.wire())


def verified_keys(signed: Signed, referee: str) -> KeyConfiguration:
    """Return the first supported configuration that the pinned referee signed; raises Forged or BadMessage."""
    message = ObliviousKeys.parse_signed(verify(signed, ObliviousKeys.KIND, referee))
    return decode_list(bytes.fromhex(message.keys))[0]


GATEWAY = "/.well-known/ohttp-gateway"  # path at a gateway: requests (POST), keys (GET); RFC 9540, section 4
SIGNED_KEYS = "/v1/oblivious-keys"  # path at gateways and relays: key configurations signed by the service
RELAY = "/v1/relay"  # path at a relay: encapsulated requests
REQUEST_BYTES = TINY  # length to which all encapsulated requests are padded, so that it reveals nothing
MAX_INNER = REQUEST_BYTES - REQUEST_OVERHEAD  # most bytes of a binary request
RESPONSE_BYTES = 1 << 13  # the length of encapsulated responses is a multiple of this
KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"  # RFC 9458, 5.3

MAX_RESPONSE = 1 << 24  # most bytes of one response: the longest question and its padding
RELAY_PATIENCE = 45.0  # seconds for a connection and its response: polls are held for some seconds
