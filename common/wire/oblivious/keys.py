"""Key configurations of a gateway (RFC 9458, section 3), and the referee's signature over them.

The signature makes them the referee's: whoever has pinned its Ed25519 key takes no other ones, so that a relay which
hands out keys of its own reads nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from common.core.errors import BadMessage
from common.core.values import Value
from common.wire.identity import Identity, Signed, verify
from common.wire.primitives.hpke import AEAD, KDF, KEM, KEY_BYTES

_SUITES = struct.pack(">HHH", 4, KDF.value, AEAD.value)
"""Bytes of the list of symmetric algorithms, and the one pair that we use."""
_MAX = 1 << 12
"""Bytes of a list of configurations, at most."""


@dataclass(frozen=True)
class KeyConfiguration:
    """A gateway's public key of 32 bytes, its identifier in [0, 255]; suite: :mod:`common.wire.primitives.hpke`."""

    identifier: int
    public: bytes

    @classmethod
    def of(cls, public: bytes) -> KeyConfiguration:
        """Return the configuration of a key; its identifier follows from it, so another key has hardly the same."""
        return cls(public[0], public)

    def encode(self) -> bytes:
        """Return it in the form of RFC 9458, section 3.1."""
        return struct.pack(">BH", self.identifier, KEM.value) + self.public + _SUITES


def encode_list(configurations: list[KeyConfiguration]) -> bytes:
    """Return configurations as ``application/ohttp-keys``: each behind its length in two bytes (section 3.2)."""
    return b"".join(struct.pack(">H", len(raw)) + raw for raw in (one.encode() for one in configurations))


def decode_list(raw: bytes) -> list[KeyConfiguration]:
    """Read ``application/ohttp-keys``; those with algorithms that we have not are passed over.

    Raises
    ------
    BadMessage
        If it is none, or there is nothing in it that we could use.
    """
    if len(raw) > _MAX:
        raise BadMessage(f"key configurations have at most {_MAX} bytes, found {len(raw)}")
    found: list[KeyConfiguration] = []
    while raw:
        size = int.from_bytes(raw[:2], "big") + 2
        if len(raw) < max(2, size):
            raise BadMessage("a key configuration ends too early")
        known = _decode(raw[2:size])
        found += [] if known is None else [known]
        raw = raw[size:]
    if not found:
        raise BadMessage("there is no key configuration with X25519, HKDF-SHA256 and AES-128-GCM")
    return found


def _decode(raw: bytes) -> KeyConfiguration | None:
    """Read one configuration; None, if its algorithms are others than ours."""
    if len(raw) < 3:
        raise BadMessage("a key configuration ends too early")
    identifier, kem = struct.unpack_from(">BH", raw)
    if kem != KEM.value:
        return None  # how long its key is, only who knows the algorithm knows
    public, symmetric = raw[3 : 3 + KEY_BYTES], raw[3 + KEY_BYTES :]
    listed = symmetric[2:]
    if len(public) != KEY_BYTES or len(symmetric) < 6 or len(listed) != int.from_bytes(symmetric[:2], "big"):
        raise BadMessage("a key configuration ends too early, or goes on behind its end")
    if len(listed) % 4:
        raise BadMessage("symmetric algorithms come in pairs")
    pairs = [struct.unpack_from(">HH", listed, at) for at in range(0, len(listed), 4)]
    return KeyConfiguration(identifier, public) if (KDF.value, AEAD.value) in pairs else None


class ObliviousKeys(Value):
    """The referee's word that requests may be encapsulated to these keys: ``application/ohttp-keys``, in hex."""

    KIND: ClassVar[str] = "oblivious-keys"

    keys: str = Field(pattern=r"^(?:[0-9a-f]{2})+$", max_length=2 * _MAX)


def signed_keys(identity: Identity, configurations: list[KeyConfiguration]) -> Signed:
    """Sign a referee's configurations."""
    said = ObliviousKeys(keys=encode_list(configurations).hex())
    return identity.sign(said.KIND, said.wire())


def verified_keys(signed: Signed, referee: str) -> KeyConfiguration:
    """Return the configuration to encapsulate to: the first that we can use of those that the pinned referee signed.

    Raises
    ------
    Forged
        If another key signed them.
    BadMessage
        If they are none.
    """
    said = ObliviousKeys.parse(verify(signed, ObliviousKeys.KIND, referee))
    return decode_list(bytes.fromhex(said.keys))[0]
