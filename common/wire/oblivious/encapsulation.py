"""Encapsulated requests and responses (RFC 9458, section 4): what a relay carries, and cannot read or change.

A request is sealed to the gateway's key with a key drawn for this request alone, so two requests share nothing by which
they could be linked. The response is encrypted under a secret that follows from the same exchange, so it belongs to
this request and to no other one.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.core.errors import BadMessage, Forged, UnknownKey
from common.wire.oblivious.keys import KeyConfiguration
from common.wire.primitives.hpke import AEAD, KDF, KEM, KEY_BYTES, TAG_BYTES, RecipientKey, Shared, seal

REQUEST_TYPE, RESPONSE_TYPE, KEYS_TYPE = "message/ohttp-req", "message/ohttp-res", "application/ohttp-keys"
"""Media types (RFC 9458, section 9)."""
_HEADER = struct.Struct(">BHHH")
REQUEST_OVERHEAD = _HEADER.size + KEY_BYTES + TAG_BYTES
"""Bytes by which an encapsulated request is longer than what is in it."""
_SECRET = 16
"""Bytes of the AEAD's key, of the response's nonce, and of the secret that both follow from."""
_AEAD_NONCE = 12
RESPONSE_OVERHEAD = _SECRET + TAG_BYTES
"""Bytes by which an encapsulated response is longer than what is in it."""


@dataclass(frozen=True)
class Exchange:
    """What one request and its response have in common: it keys the response."""

    _encapsulated: bytes
    _shared: Shared

    def seal(self, response: bytes, nonce: bytes | None = None) -> bytes:
        """Encapsulate the response; the nonce of 16 bytes is drawn, unless an example of the RFC gives it."""
        nonce = secrets.token_bytes(_SECRET) if nonce is None else nonce
        key, iv = self._keys(nonce)
        return nonce + AESGCM(key).encrypt(iv, response, b"")

    def open(self, encapsulated: bytes) -> bytes:
        """Return the response.

        Raises
        ------
        Forged
            If it was not made for this request by the holder of the key, or was changed.
        """
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
    """Encapsulate a binary request; returns what travels, and what opens the response.

    Parameters
    ----------
    ephemeral
        Of :func:`common.wire.primitives.hpke.seal`.
    """
    header = _HEADER.pack(configuration.identifier, KEM.value, KDF.value, AEAD.value)
    sealed = seal(configuration.public, request, _info(header), ephemeral=ephemeral)
    return header + sealed.encapsulated + sealed.ciphertext, Exchange(sealed.encapsulated, sealed.shared)


@dataclass(frozen=True)
class GatewayKey:
    """A gateway's private key, under its identifier."""

    configuration: KeyConfiguration
    key: RecipientKey

    @classmethod
    def derived(cls, material: bytes) -> GatewayKey:
        """Return the key that follows from at least 32 secret bytes."""
        key = RecipientKey.derived(material)
        return cls(KeyConfiguration.of(key.public), key)

    def open(self, encapsulated: bytes) -> tuple[bytes, Exchange]:
        """Return a binary request, and what seals its response.

        Raises
        ------
        UnknownKey
            If it is for another key or other algorithms.
        BadMessage
            If it is none, or was changed.
        """
        if len(encapsulated) < REQUEST_OVERHEAD:
            raise BadMessage(
                f"an encapsulated request has at least {REQUEST_OVERHEAD} bytes, found {len(encapsulated)}"
            )
        header, rest = encapsulated[: _HEADER.size], encapsulated[_HEADER.size :]
        if _HEADER.unpack(header) != (self.configuration.identifier, KEM.value, KDF.value, AEAD.value):
            raise UnknownKey(
                "this request is for a key or algorithms that are not this gateway's: ask for its keys again"
            )
        enc, ciphertext = rest[:KEY_BYTES], rest[KEY_BYTES:]
        request, shared = self.key.open(enc, ciphertext, _info(header))
        return request, Exchange(enc, shared)


def _info(header: bytes) -> bytes:
    return b"message/bhttp request\x00" + header
