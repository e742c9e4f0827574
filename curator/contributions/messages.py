"""What a curator and the people who contribute to it say to each other; each message is signed by who says it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from common.core.values import Value
from common.data.tables.source import TableSource
from common.privacy.guarantee import Guarantee
from common.wire.identity import KEY_PATTERN
from common.wire.primitives.chain import DIGEST
from common.wire.receipts import Time

CONTRIBUTION = r"^[0-9a-f]{32}$"
"""How a contribution is named: 16 random bytes of its contributor's."""


class Offer(Value):
    """What a curator takes, seals with, and promises; signed by the key that contributors pin.

    It holds no time and nothing of what was contributed, so that a curator makes the same one at each start.

    Attributes
    ----------
    scenario, title
        The run that the records are for.
    policy
        Digest of all that the curator agrees to (:func:`common.scenario.agreement.policy_digest`).
    table
        Columns, bounds, categories and label: what a record has to be.
    people
        n: how many people the sample takes.
    guarantee
        What holds for each of them, whatever the curator is asked in this run.
    suite
        Of HPKE (RFC 9180), in base mode.
    public_key
        To which records are sealed: of X25519, hex.
    """

    KIND: ClassVar[str] = "contribution-offer"
    scenario: str = Field(max_length=64)
    title: str
    policy: str = Field(pattern=DIGEST)
    table: TableSource
    people: int = Field(ge=1)
    guarantee: Guarantee
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
