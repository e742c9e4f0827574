"""RSA blind signatures, RFC 9474: RSABSSA-SHA384-PSS-Deterministic, for messages with at least 32 random bytes.

The client encodes its message (EMSA-PSS) and multiplies it by r^e for a random r. The signer raises this blinded
message to its private exponent; divided by r, the result is an ordinary RSA-PSS signature. For every message and every
blinded message there is exactly one r that maps the one to the other, so the two are independent.

The signer blinds the operation with the private key once more (Kocher 1996), because the time of Python's powers
depends on their arguments. It verifies the result before returning it, so that a fault modulo one of the two primes
reveals nothing (Boneh, DeMillo and Lipton 1997).
"""

import hashlib
import math
import secrets
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA384

from common.core.errors import BadMessage, Forged

SALT = 48  # bytes of the salt of EMSA-PSS, as many as SHA-384 has
_DIGEST = 48
_ENDS = 0xBC


@dataclass(frozen=True, repr=False)
class Blinded:
    """A blinded message, as long as the modulus, for the signer; and 1/r modulo n, which the client keeps secret."""

    message: bytes
    inverse: int


def blind(public: RSAPublicKey, message: bytes, salt: bytes | None = None, inverse: int | None = None) -> Blinded:
    """Blind a message (RFC 9474, section 4.2) under a key; BadMessage if the key has a small factor.

    At least 32 bytes of the message must be random, so that even a signer with a bad key learns nothing about it. The
    salt of EMSA-PSS and the inverse, 1/r modulo n, are random unless given.
    """
    numbers = public.public_numbers()
    modulus = numbers.n
    salt = secrets.token_bytes(SALT) if salt is None else salt
    encoded = int.from_bytes(encode(message, modulus.bit_length() - 1, salt), "big")
    inverse = 1 + secrets.randbelow(modulus - 1) if inverse is None else inverse
    if math.gcd(encoded, modulus) != 1 or math.gcd(inverse, modulus) != 1:
        raise BadMessage("nothing can be blinded under this RSA key: its modulus has a small factor")
    factor = pow(inverse, -1, modulus)
    blinded = encoded * pow(factor, numbers.e, modulus) % modulus
    return Blinded(blinded.to_bytes(size_of(public), "big"), inverse)


def blind_sign(private: RSAPrivateKey, blinded: bytes) -> bytes:
    """Sign a blinded message (RFC 9474, section 4.3), deterministically; BadMessage if it is not valid."""
    check_blinded(private, blinded)
    numbers, message = private.private_numbers(), int.from_bytes(blinded, "big")
    modulus, exponent = numbers.public_numbers.n, numbers.public_numbers.e
    factor = 0
    while math.gcd(factor, modulus) != 1:
        factor = 1 + secrets.randbelow(modulus - 1)
    hidden = message * pow(factor, exponent, modulus) % modulus
    first, second = pow(hidden, numbers.dmp1, numbers.p), pow(hidden, numbers.dmq1, numbers.q)
    root = second + numbers.q * ((first - second) * numbers.iqmp % numbers.p)
    signature = root * pow(factor, -1, modulus) % modulus
    if pow(signature, exponent, modulus) != message:
        raise AssertionError("the RSA signature is wrong: this machine miscomputes")
    return signature.to_bytes(len(blinded), "big")


def check_blinded(private: RSAPrivateKey, blinded: bytes) -> None:
    """Raise BadMessage unless bytes are a blinded message under a key; call this before any expensive work."""
    modulus = private.public_key().public_numbers().n
    if len(blinded) != size_of(private) or int.from_bytes(blinded, "big") >= modulus:
        raise BadMessage(f"a blinded message has {size_of(private)} bytes and is below the issuer's modulus")


def finalize(public: RSAPublicKey, message: bytes, blind_signature: bytes, inverse: int) -> bytes:
    """Unblind a signature and verify it (RFC 9474, section 4.4); Forged if it is not valid for the message."""
    modulus = public.public_numbers().n
    if len(blind_signature) != size_of(public):
        raise Forged(f"a blind signature has {size_of(public)} bytes, found {len(blind_signature)}")
    signature = int.from_bytes(blind_signature, "big") * inverse % modulus
    raw = signature.to_bytes(size_of(public), "big")
    verify(public, message, raw)
    return raw


def verify(public: RSAPublicKey, message: bytes, signature: bytes) -> None:
    """Verify a signature, RSASSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes, or raise Forged."""
    try:
        public.verify(signature, message, _PSS, _HASH)
    except InvalidSignature:
        raise Forged("the issuer's signature does not verify") from None


def size_of(key: RSAPublicKey | RSAPrivateKey) -> int:
    """Return the length of a key's modulus in bytes."""
    return (key.key_size + 7) // 8


@lru_cache(maxsize=64)
def public_key(modulus: int, exponent: int) -> RSAPublicKey:
    """Return the public key with this modulus and exponent, or raise BadMessage."""
    try:
        return RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        raise BadMessage("these numbers are no RSA key") from None


def encode(message: bytes, bits: int, salt: bytes) -> bytes:
    """Return EMSA-PSS-ENCODE with SHA-384 (RFC 8017, section 9.1.1); BadMessage if the key is too short."""
    length = (bits + 7) // 8
    if length < _DIGEST + len(salt) + 2:
        raise BadMessage(f"an RSA key of {bits + 1} bits is too short for these signatures")
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(length - len(salt) - _DIGEST - 2) + b"\x01" + salt
    masked = bytearray(left ^ right for left, right in zip(block, _mask(digest, len(block)), strict=True))
    masked[0] &= 0xFF >> (8 * length - bits)
    return bytes(masked) + digest + bytes([_ENDS])


def _mask(seed: bytes, length: int) -> bytes:
    blocks = range((length + _DIGEST - 1) // _DIGEST)
    return b"".join(hashlib.sha384(seed + count.to_bytes(4, "big")).digest() for count in blocks)[:length]


_HASH = SHA384()
_PSS = PSS(MGF1(_HASH), SALT)
