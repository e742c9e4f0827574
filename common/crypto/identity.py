"""Ed25519 identities, signed messages, and signed announcements of large requests.

A signature covers a domain tag, the kind of message and the canonical JSON, so a message of one kind cannot pass for
another kind. An announcement is a header that authenticates the sender of a body before the body is read.
"""

import hashlib
import re
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from nacl import bindings
from nacl.exceptions import BadSignatureError
from pydantic import Field

from common.core import canonical
from common.core.durable import durable_key, make_folder
from common.core.errors import BadInput, BadMessage, Forged
from common.core.values import Value

_DOMAIN = b"tandem/v1\x00"
_LONG = 1 << 15  # bytes
KEY_PATTERN = r"^[0-9a-f]{64}$"


class Signed(Value):
    """A message, the key that signed it, and the signature (hex)."""

    kind: str = Field(max_length=64)
    message: dict[str, Any]
    key: str = Field(pattern=KEY_PATTERN)
    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    @cached_property
    def payload(self) -> bytes:
        """The message in canonical JSON, which was signed; computed once. BadMessage if it has no such form."""
        return canonical.encode(self.message)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the message in canonical JSON, in hex."""
        return hashlib.sha256(self.payload).hexdigest()

    @cached_property
    def genuine(self) -> bool:
        """Whether the signature verifies; computed once."""
        return _verifies(self.key, self.kind, self.payload, self.signature)

    def content(self) -> dict[str, Any]:
        """Return the message as signed, with each number in its canonical form; long strings are not encoded again."""
        values = {name: each for name, each in self.message.items() if not isinstance(each, str)}
        return {**self.message, **canonical.decode(canonical.encode(values))}

    def raw(self) -> bytes:
        """Return its JSON for sending, with the message in canonical form, which a reader need not compute again."""
        return signed_form(self.kind, self.payload, self.key, self.signature)

    def fingerprint(self) -> str:
        hasher = hashlib.sha256(b'{"key":"%s","kind":%s,"message":' % (self.key.encode(), canonical.encode(self.kind)))
        hasher.update(self.payload)
        hasher.update(b',"signature":"%s"}' % self.signature.encode())
        return hasher.hexdigest()


class Identity:
    """A party's signing key. Its public half, in hex, is the party's name."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        public = private.public_key().public_bytes_raw()
        self._secret = private.private_bytes_raw() + public
        self.public = public.hex()

    def __repr__(self) -> str:
        return f"Identity({self.public[:8]}...)"

    @classmethod
    def create(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Read the private key at ``path`` (BadInput if it is no key); create it (mode 0600, durable) if there is none.

        The file holds the 32-byte key and the 32 bytes of its public half, as libsodium's secret keys do; the private
        half alone, as releases up to 0.2.0 wrote it, is accepted as well.
        """
        if not path.exists():
            make_folder(path.parent)
        raw = durable_key(path)  # any 32 random bytes are a private key (RFC 8032, 5.1.5)
        return cls(Ed25519PrivateKey.from_private_bytes(raw))

    def sign(self, kind: str, message: dict[str, Any]) -> Signed:
        payload = canonical.encode(message)
        signed = Signed(kind=kind, message=message, key=self.public, signature=self.sign_bytes(kind, payload))
        signed.payload = payload
        return signed

    def derived(self, purpose: bytes) -> bytes:
        """Return 32 secret bytes derived from the private key for one purpose; another purpose gives other bytes."""
        return blake2b(purpose, digest_size=32, key=self._secret[:32], person=b"tandem derived").digest()

    def envelope(self, kind: str, payload: bytes) -> bytes:
        """Sign a message given in canonical JSON; return the :class:`Signed` in JSON."""
        return signed_form(kind, payload, self.public, self.sign_bytes(kind, payload))

    def sign_bytes(self, kind: str, payload: bytes) -> str:
        # Ed25519 is deterministic (RFC 8032), so libsodium and OpenSSL give the same signature. For short messages
        # libsodium takes three fifths of the time; for long ones its hash takes twice as long.
        if len(payload) > _LONG:
            return self._private.sign(covered(kind, payload)).hex()
        return bindings.crypto_sign(covered(kind, payload), self._secret)[: bindings.crypto_sign_BYTES].hex()


def signed_form(kind: str, payload: bytes, key: str, signature: str) -> bytes:
    """Return the JSON of a :class:`Signed`, given its message in canonical JSON."""
    form = b'{"kind":"%s","message":%s,"key":"%s","signature":"%s"}'
    return form % (kind.encode(), payload, key.encode(), signature.encode())


def covered(kind: str, payload: bytes) -> bytes:
    """Return the bytes that the signature of a message covers, given its kind and canonical JSON."""
    return _DOMAIN + kind.encode() + b"\x00" + payload


def check_public(key: str, option: str) -> str:
    """Validate a public key that a person has typed or pasted, and strip spaces; BadInput names the option."""
    digits = key.strip()
    if not re.fullmatch(KEY_PATTERN, digits):
        raise BadInput(
            f"{option} is a public key of 64 hexadecimal digits in lower case, found {digits[:80]!r}: copy it as its "
            f"owner prints it"
        )
    return digits


def verify(signed: Signed, kind: str, key: str | None = None, whose: str = "") -> dict[str, Any]:
    """Return the message if it is of the kind and signed by its key, which must be ``key`` if given; else Forged."""
    if signed.kind != kind:
        raise Forged(f"expected a signed {kind!r}, found {signed.kind!r}")
    if key is not None and signed.key != key:
        raise _unexpected(f"this {kind!r} is signed by", signed.key, key, whose)
    if not signed.genuine:
        raise _forged(kind, signed.key)
    return signed.message


def verify_bytes(key: str, kind: str, payload: bytes, signature: str) -> None:
    """Verify a signature over raw bytes; raise Forged if it is not valid."""
    if not _verifies(key, kind, payload, signature):
        raise _forged(kind, key)


def _verifies(key: str, kind: str, payload: bytes, signature: str) -> bool:
    try:
        return verifies(bytes.fromhex(key), covered(kind, payload), bytes.fromhex(signature))
    except ValueError:
        return False


def verifies(key: bytes, content: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature over bytes verifies; for short ones libsodium takes half the time."""
    if len(key) != bindings.crypto_sign_PUBLICKEYBYTES or len(signature) != bindings.crypto_sign_BYTES:
        return False  # libsodium always reads these lengths, even beyond the end of a shorter buffer
    try:
        if len(content) > _LONG:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
        else:
            bindings.crypto_sign_open(signature + content, key)
    except (InvalidSignature, BadSignatureError):
        return False
    return True


def _unexpected(what: str, actual: str, expected: str, whose: str) -> Forged:
    return Forged(f"{what} {actual[:16]}..., expected {expected[:16]}...{', ' * bool(whose)}{whose}")


def _forged(kind: str, key: str) -> Forged:
    return Forged(f"the signature of this {kind!r} does not verify under key {key[:16]}...")


PROOF_HEADER = "Tandem-Proof"
_ANNOUNCED = "request"
_ANNOUNCEMENT = re.compile(r"([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")


def announce_body(identity: Identity, method: str, path: str, body: bytes) -> str:
    """Return the header that authenticates the sender of a body: key, SHA-256 of the body, signature; in hex."""
    digest = hashlib.sha256(body).hexdigest()
    return f"{identity.public} {digest} {identity.sign_bytes(_ANNOUNCED, _announced(method, path, len(body), digest))}"


def check_announcement(
    header: str, method: str, path: str, length: int, key: str | None = None, whose: str = ""
) -> str:
    """Return the SHA-256 of the body that a header announces; Forged if not signed by its key, or the expected one.

    BadMessage if the header is no announcement. The error names ``whose`` key is expected.
    """
    match = _ANNOUNCEMENT.fullmatch(header)
    if match is None:
        raise BadMessage(f"{PROOF_HEADER} holds a key, a SHA-256 and a signature in hexadecimal, one space between")
    who, digest, signature = match.groups()
    if key is not None and who != key:
        raise _unexpected("this request is announced by", who, key, whose)
    verify_bytes(who, _ANNOUNCED, _announced(method, path, length, digest), signature)
    return digest


def _announced(method: str, path: str, length: int, digest: str) -> bytes:
    return canonical.encode({"method": method, "path": path, "length": length, "sha256": digest})
