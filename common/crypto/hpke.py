"""Hybrid public-key encryption (RFC 9180): base mode of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM."""

from typing import NamedTuple, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKeyInterface, PyHPKEError
from pyhpke.context_interface import ContextInterface
from pyhpke.kem_key import KEMKeyPair
from pyhpke.keys.x25519_key import X25519Key

from common.core.errors import BadMessage

KEM, KDF, AEAD = KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM
"""The suite; the numbers are those of the registries of RFC 9180, section 7."""
KEY_BYTES = 32  # bytes of a public key, and of an encapsulated key
TAG_BYTES = 16  # bytes by which a ciphertext is longer than the plaintext

_SUITE = CipherSuite.new(KEM, KDF, AEAD)


class Sealed(NamedTuple):
    """A sealed message: the sender's ephemeral public key, the ciphertext, and the context that exports secrets."""

    encapsulated: bytes
    ciphertext: bytes
    shared: ContextInterface


class RecipientKey:
    """A private key that opens messages sealed to its public key."""

    def __init__(self, private: KEMKeyInterface) -> None:
        self._private = private
        self.public = X25519Key(private.raw.public_key()).to_public_bytes()

    def __repr__(self) -> str:
        return f"RecipientKey({self.public.hex()[:8]}...)"

    @classmethod
    def derived(cls, material: bytes) -> Self:
        """Return the key derived from at least 32 secret bytes (RFC 9180, section 7.1.3)."""
        return cls(_SUITE.kem.derive_key_pair(material).private_key)

    @classmethod
    def of(cls, private: bytes) -> Self:
        return cls(_SUITE.kem.deserialize_private_key(private))

    def open(self, encapsulated: bytes, ciphertext: bytes, info: bytes) -> tuple[bytes, ContextInterface]:
        """Return the plaintext and the shared context, or raise BadMessage; both sides must use the same ``info``."""
        try:
            context = _SUITE.create_recipient_context(encapsulated, self._private, info=info)
            return context.open(ciphertext), context
        except (PyHPKEError, ValueError):
            raise BadMessage("this was not sealed to this key, or it was changed on its way") from None


def seal(public: bytes, plain: bytes, info: bytes, *, ephemeral: bytes | None = None) -> Sealed:
    """Seal a message to a public key of 32 bytes, or raise BadMessage; the recipient must use the same ``info``.

    The sender's private key is fresh and random, except for test vectors of the RFC (``ephemeral``).
    """
    private = X25519PrivateKey.generate() if ephemeral is None else X25519PrivateKey.from_private_bytes(ephemeral)
    pair = KEMKeyPair(X25519Key(private), X25519Key(private.public_key()))
    try:
        key = _SUITE.kem.deserialize_public_key(public)
        encapsulated, context = _SUITE.create_sender_context(key, info=info, eks=pair)
        return Sealed(encapsulated, context.seal(plain), context)
    except (PyHPKEError, ValueError):
        raise BadMessage("this is no public key that anything could be sealed to") from None
