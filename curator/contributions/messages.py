"""Messages between people who contribute records and a curator, and how a record is sealed to the curator's key.

Records are sealed by HPKE in base mode (RFC 9180, :mod:`common.crypto.hpke`). Each gets an ephemeral key of its own,
so nothing but the curator's private key opens it. ``info`` binds it to the curator, the offer (and in it the table's
rules), the contribution and the contributor: the same bytes open nowhere else, for nothing else, and for nobody else
who signs them.
"""

from __future__ import annotations

import base64
import binascii
from typing import ClassVar, Literal

from pydantic import Field

from common.core import canonical
from common.core.errors import BadMessage
from common.core.values import DIGEST, Value
from common.crypto import hpke
from common.crypto.identity import KEY_PATTERN
from common.data.tables import TableSource
from common.log.receipts import Time
from common.privacy.guarantee import PrivacyGuarantee

CONTRIBUTION = r"^[0-9a-f]{32}$"
"""How a contribution is named: 16 random bytes of its contributor's."""


class Offer(Value):
    """What a curator takes, seals with, and promises; signed by the key that contributors pin.

    It holds no time and nothing of what was contributed, so that a curator makes the same one at each start.

    Attributes:
        scenario, title: The run that the records are for.
        policy: Digest of all that the curator agrees to (:func:`common.scenario.scenario.policy_digest`).
        table: Columns, bounds, categories and label: what a record has to be.
        people: n: how many people the sample takes.
        guarantee: What holds for each of them, whatever the curator is asked in this run.
        suite: Of HPKE (RFC 9180), in base mode.
        public_key: To which records are sealed: of X25519, hex.
    """

    KIND: ClassVar[str] = "contribution-offer"
    scenario: str = Field(max_length=64)
    title: str
    policy: str = Field(pattern=DIGEST)
    table: TableSource
    people: int = Field(ge=1)
    guarantee: PrivacyGuarantee
    suite: Literal["DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"] = (
        "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
    )
    public_key: str = Field(pattern=KEY_PATTERN)


class Contribution(Value):
    """A person's record for one offer of one curator, sealed; signed by the person's key, to which the seal is bound.

    ``sealed`` is the encapsulated key and the ciphertext of RFC 9180, base64.
    """

    KIND: ClassVar[str] = "contribution"
    curator: str = Field(pattern=KEY_PATTERN)
    offer: str = Field(pattern=DIGEST)
    contribution: str = Field(pattern=CONTRIBUTION)
    sealed: str = Field(pattern=r"^[A-Za-z0-9+/]+={0,2}$", max_length=64 << 20)


class Withdrawal(Value):
    """The person who signed a contribution, or is about to, wants it deleted."""

    KIND: ClassVar[str] = "withdrawal"
    curator: str = Field(pattern=KEY_PATTERN)
    offer: str = Field(pattern=DIGEST)
    contribution: str = Field(pattern=CONTRIBUTION)


class ContributionReceipt(Value):
    """The curator's word: it keeps this contribution, or has deleted it and takes none of this contributor any more.

    ``time`` is that of the curator's clock when it did.
    """

    KIND: ClassVar[str] = "contribution-receipt"
    offer: str = Field(pattern=DIGEST)
    contributor: str = Field(pattern=KEY_PATTERN)
    contribution: str = Field(pattern=CONTRIBUTION)
    status: Literal["kept", "withdrawn"]
    time: Time = Field(ge=0)


OVERHEAD = hpke.KEY_BYTES + hpke.TAG_BYTES
"""Bytes of a sealed record beside the record: the encapsulated key and the tag."""


def public_half(private: bytes) -> str:
    """Return the public key that belongs to 32 secret bytes, hex."""
    return hpke.RecipientKey.of(private).public.hex()


def seal(plaintext: bytes, offer: Offer, curator: str, contribution: str, contributor: str) -> Contribution:
    """Seal a record to the curator of an offer."""
    digest = offer.fingerprint()
    info = _info(curator, digest, contribution, contributor)
    sealed = hpke.seal(bytes.fromhex(offer.public_key), plaintext, info)
    text = base64.b64encode(sealed.encapsulated + sealed.ciphertext).decode("ascii")
    return Contribution(curator=curator, offer=digest, contribution=contribution, sealed=text)


def opened(message: Contribution, contributor: str, private: bytes) -> bytes:
    """Return the record of a contribution.

    Raises:
        BadMessage: If it was not sealed to this key as this contribution of this contributor: one sentence, whatever is
            wrong.
    """
    try:
        sealed = base64.b64decode(message.sealed, validate=True)
        info = _info(message.curator, message.offer, message.contribution, contributor)
        encapsulated, ciphertext = sealed[: hpke.KEY_BYTES], sealed[hpke.KEY_BYTES :]
        return hpke.RecipientKey.of(private).open(encapsulated, ciphertext, info)[0]
    except (BadMessage, ValueError, binascii.Error):
        raise BadMessage(
            "this contribution cannot be opened: it was sealed to another key, for another curator, offer or "
            "contributor, or was altered on its way"
        ) from None


def _info(curator: str, offer: str, contribution: str, contributor: str) -> bytes:
    bound = {"contribution": contribution, "contributor": contributor, "curator": curator, "offer": offer}
    return b"tandem contribution v1\x00" + canonical.encode(bound)
