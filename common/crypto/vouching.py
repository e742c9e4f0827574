"""Vouchers of an issuer that a participant is a person (a credential), or stands for a number of people (a grant).

A *credential* is a Privacy Pass token of type 2 (RFC 9578: publicly verifiable, a blind RSA signature) whose challenge
has the agent's own Ed25519 key as its redemption context. So the issuer does not know for which key it is, it cannot be
moved to another key, and, since a key enrols once, it cannot be used twice. A *grant* is signed in the clear and states
that this host speaks for at most so many people. An issuer has a separate key for each.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from pydantic import Field

from common.core import canonical
from common.core.errors import BadData, BadMessage, Forged, NotFound, NotVouched
from common.core.folder import ISSUER, read
from common.core.values import Value
from common.crypto import blindrsa
from common.crypto.identity import KEY_PATTERN, Signed, verify

TOKEN_TYPE = b"\x00\x02"  # blind RSA (2048-bit), in RFC 9578's registry
MODULUS = 256  # bytes of the modulus
NONCE = 32
_EXPONENT = 65537
_ISSUER_NAME, _ORIGIN = b"tandem-issuer", b"tandem-enrolment"
"""The issuer name and the origin in each challenge: constants, so that challenges differ only in the agent's key, which
the issuer never sees."""
# SubjectPublicKeyInfo of RSASSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes (RFC 9578, section 6.5).
# With 2048 bits and the usual exponent a key has one form here, and so one identifier.
_BEFORE = bytes.fromhex(
    "30820156304106092a864886f70d01010a3034a00f300d06096086480165030402020500a11c301a06092a864886f70d010108300d0609"
    "6086480165030402020500a2030201300382010f003082010a0282010100"
)
_AFTER = bytes.fromhex("0203010001")
MAX_PEOPLE = 1 << 32
CREDENTIAL, GRANT = b"c", b"g"  # the first byte of a stored voucher, which states its type


class Credential(Value):
    """A token for one person: which issuer's key signed, the nonce, and the signature (hex).

    Everything else of the token of RFC 9578 follows from the key of the agent that presents it.
    """

    issuer: str = Field(pattern=r"^[0-9a-f]{64}$")
    nonce: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str = Field(pattern=r"^[0-9a-f]{512}$")


class Grant(Value):
    """An issuer's word: the host with this key speaks for at most so many people; ``name`` says whose they are."""

    KIND: ClassVar[str] = "host-grant"
    host: str = Field(pattern=KEY_PATTERN)
    name: str = Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
    people: int = Field(ge=1, le=MAX_PEOPLE)


class IssuerKey(Value):
    """An issuer's public keys: ``tokens``, base64 of a SubjectPublicKeyInfo, and ``grants``, an Ed25519 key in hex."""

    tokens: str = Field(min_length=464, max_length=464)
    grants: str = Field(pattern=KEY_PATTERN)

    @classmethod
    def of(cls, public: RSAPublicKey, grants: str) -> Self:
        """Return the public keys of an issuer; BadMessage unless the RSA key has 2048 bits and the exponent 65537."""
        return cls(tokens=base64.b64encode(_encoded(public)).decode("ascii"), grants=grants)

    @classmethod
    def parse(cls, wire: object) -> Self:
        key = super().parse(wire)
        _rsa_key(key.tokens)
        return key

    @property
    def token_key(self) -> RSAPublicKey:
        return _rsa_key(self.tokens)

    @property
    def token_key_id(self) -> str:
        """SHA-256 of the encoded key of tokens, hex, by which a token names the key (RFC 9578, section 6.5)."""
        return hashlib.sha256(base64.b64decode(self.tokens)).hexdigest()


def token_input(agent: str, nonce: bytes, token_key_id: str) -> bytes:
    """Return the message that an issuer signs blindly for an agent's key (RFC 9578, section 6.1; RFC 9577, 2.1)."""
    issuer, origin = (len(part).to_bytes(2, "big") + part for part in (_ISSUER_NAME, _ORIGIN))
    challenge = TOKEN_TYPE + issuer + b"\x20" + bytes.fromhex(agent) + origin
    return TOKEN_TYPE + nonce + hashlib.sha256(challenge).digest() + bytes.fromhex(token_key_id)


def token_request(key: IssuerKey, blinded: bytes) -> bytes:
    """Return the body of a token request (RFC 9578, section 6.1)."""
    return TOKEN_TYPE + bytes.fromhex(key.token_key_id)[-1:] + blinded


def blinded_in(key: IssuerKey, request: bytes) -> bytes:
    """Return the blinded message of a token request; BadMessage if the request has another type or key."""
    if request[:2] != TOKEN_TYPE or len(request) != 3 + MODULUS:
        raise BadMessage(f"a token request has type 2 and {3 + MODULUS} bytes (RFC 9578, section 6.1)")
    if request[2:3] != bytes.fromhex(key.token_key_id)[-1:]:
        raise BadMessage("the token request is for another key than this issuer's: fetch its present one")
    return request[3:]


def issuer_of(voucher: Credential | Signed, issuers: Iterable[IssuerKey]) -> IssuerKey | None:
    """Return the issuer that a voucher names, if it is one of these, without verifying the voucher."""
    if isinstance(voucher, Signed):
        return next((issuer for issuer in issuers if issuer.grants == voucher.key), None)
    return next((issuer for issuer in issuers if issuer.token_key_id == voucher.issuer), None)


def check_credential(credential: Credential, agent: str, issuers: Iterable[IssuerKey]) -> IssuerKey:
    """Verify a credential for an agent's key; return its issuer, or raise NotVouched."""
    issuer = issuer_of(credential, issuers)
    if issuer is None:
        raise NotVouched(f"the credential is of an issuer that is not accepted here: key {credential.issuer[:16]}...")
    signed = token_input(agent, bytes.fromhex(credential.nonce), credential.issuer)
    try:
        blindrsa.verify(issuer.token_key, signed, bytes.fromhex(credential.signature))
    except Forged:
        raise NotVouched(
            f"issuer {credential.issuer[:16]}... has not signed this credential for the key {agent[:16]}...: it was "
            "made for another key, or forged"
        ) from None
    return issuer


def check_grant(signed: Signed, host: str, people: int, issuers: Iterable[IssuerKey]) -> tuple[IssuerKey, Grant]:
    """Verify a grant for a host and its number of people; return its issuer and the grant, or raise NotVouched."""
    issuer = issuer_of(signed, issuers)
    if issuer is None:
        raise NotVouched(f"the grant is of an issuer that is not accepted here: key {signed.key[:16]}...")
    return issuer, granted(signed, host, people)


def granted(signed: Signed, host: str, people: int) -> Grant:
    """Return a grant by any signer, if it is for this host's key and so many people; else raise NotVouched."""
    try:
        grant = Grant.parse(verify(signed, Grant.KIND))
    except (Forged, BadMessage) as error:
        raise NotVouched(f"this is no grant: {error.detail}") from None
    if grant.host != host:
        raise NotVouched(f"the grant is for the host with the key {grant.host[:16]}..., not {host[:16]}...")
    if grant.people < people:
        raise NotVouched(f"the grant is for at most {grant.people:,} people, the host brings {people:,}")
    return grant


def stored(voucher: Credential | Signed) -> bytes:
    """Return a voucher in its stored form: 321 bytes for a credential, canonical JSON for a grant."""
    if isinstance(voucher, Credential):
        return CREDENTIAL + bytes.fromhex(voucher.issuer + voucher.nonce + voucher.signature)
    return GRANT + canonical.encode(voucher.wire())


def read_voucher(raw: bytes) -> Credential | Signed:
    """Read what :func:`stored` has written, or raise BadMessage."""
    if raw[:1] == CREDENTIAL and len(raw) == 1 + 32 + NONCE + MODULUS:
        text = raw[1:].hex()
        return Credential(issuer=text[:64], nonce=text[64:128], signature=text[128:])
    if raw[:1] == GRANT:
        return Signed.parse(canonical.decode(raw[1:]))
    raise BadMessage("this is neither a credential nor a grant")


def read_issuer(path: Path) -> IssuerKey:
    """Read an issuer's public keys from a file, or raise BadData."""
    try:
        return IssuerKey.parse(canonical.decode(read(path, ISSUER)))
    except (NotFound, BadMessage):
        raise BadData(f"{path} holds no issuer's public keys: give the issuer.json of its state directory") from None


def _encoded(public: RSAPublicKey) -> bytes:
    numbers = public.public_numbers()
    if numbers.n.bit_length() != 8 * MODULUS or numbers.e != _EXPONENT:
        raise BadMessage(f"an issuer's key of tokens has {8 * MODULUS} bits and the exponent {_EXPONENT}")
    return _BEFORE + numbers.n.to_bytes(MODULUS, "big") + _AFTER


@lru_cache(maxsize=64)
def _rsa_key(tokens: str) -> RSAPublicKey:
    try:
        raw = base64.b64decode(tokens, validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage("an issuer's key of tokens is base64 of a SubjectPublicKeyInfo") from None
    middle = raw[len(_BEFORE) : -len(_AFTER)]
    if raw != _BEFORE + middle + _AFTER or len(middle) != MODULUS or not middle[0] & 0x80:
        raise BadMessage("an issuer's key of tokens is RSASSA-PSS with SHA-384, 2048 bits and the exponent 65537")
    return blindrsa.public_key(int.from_bytes(middle, "big"), _EXPONENT)
