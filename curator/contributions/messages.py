"""Messages between contributors of records and a curator, and how a record is sealed to the curator's key.

Records are sealed by HPKE in base mode (RFC 9180, :mod:`common.crypto.hpke`). Each has its own ephemeral key, so only
the curator's private key opens it. ``info`` binds it to the curator, the offer (with the table's rules), the
contribution and the contributor: the same bytes do not open for another curator, offer, contribution or signer.

The fields of a contribution are those of the person's own row, as texts. For files, a table's rules correct invalid
values: they clip numbers, and count unlisted values as none. A contributor can correct a value, so a contribution is
refused where a file's value would be corrected. An accepted contribution becomes the same record, to the bit, as a row
with the same texts. Before sealing, all records of an offer are padded to one length, which follows from the offer.
Otherwise the length of a ciphertext could reveal, for example, which plan a person has.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from common.core import canonical
from common.core.errors import BadData, BadMessage
from common.core.values import DIGEST, Value
from common.crypto import hpke
from common.crypto.identity import KEY_PATTERN
from common.data import spelling
from common.data.tables import Category, Feature, Missing, Number, TableSource, record_of, text_of
from common.log.receipts import Time
from common.privacy.guarantee import PrivacyGuarantee

CONTRIBUTION = r"^[0-9a-f]{32}$"  # name of a contribution: 16 random bytes that its contributor draws


class Offer(Value):
    """The records that a curator accepts, its public key and its guarantee; signed by the key that contributors pin.

    It contains no time and no contributions, so that a curator makes the same offer at each start.

    Attributes:
        policy: Digest of all that the curator agrees to (:func:`common.scenario.scenario.policy_digest`).
        table: Columns, bounds, categories and label of a valid record.
        people: n, the number of people in the sample.
        guarantee: The guarantee for each of them, for any requests to the curator in this run.
        public_key: X25519 key to which records are sealed, hex.
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
    """The request of the person who signed a contribution, or is about to, that it be deleted."""

    KIND: ClassVar[str] = "withdrawal"
    curator: str = Field(pattern=KEY_PATTERN)
    offer: str = Field(pattern=DIGEST)
    contribution: str = Field(pattern=CONTRIBUTION)


class ContributionReceipt(Value):
    """The curator's statement that it keeps this contribution, or has deleted it and accepts no other of its signer.

    ``time`` is the time of that by the curator's clock.
    """

    KIND: ClassVar[str] = "contribution-receipt"
    offer: str = Field(pattern=DIGEST)
    contributor: str = Field(pattern=KEY_PATTERN)
    contribution: str = Field(pattern=CONTRIBUTION)
    status: Literal["kept", "withdrawn"]
    time: Time = Field(ge=0)


OVERHEAD = hpke.KEY_BYTES + hpke.TAG_BYTES
"""Additional bytes of a sealed record: the encapsulated key and the tag."""


def public_key_of(private: bytes) -> str:
    """Return the public key of 32 secret bytes, hex."""
    return hpke.RecipientKey.of(private).public.hex()


def seal(plaintext: bytes, offer: Offer, curator: str, contribution: str, contributor: str) -> Contribution:
    """Seal a record to the curator of an offer."""
    digest = offer.fingerprint()
    info = _info(curator, digest, contribution, contributor)
    sealed = hpke.seal(bytes.fromhex(offer.public_key), plaintext, info)
    text = base64.b64encode(sealed.encapsulated + sealed.ciphertext).decode("ascii")
    return Contribution(curator=curator, offer=digest, contribution=contribution, sealed=text)


def open_contribution(message: Contribution, contributor: str, private: bytes) -> bytes:
    """Return the record of a contribution.

    Raises:
        BadMessage: If it was not sealed to this key as this contribution of this contributor; the same message for all
            causes.
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
    context = {"contribution": contribution, "contributor": contributor, "curator": curator, "offer": offer}
    return b"tandem contribution v1\x00" + canonical.encode(context)


MAX_NUMBER = 32  # characters of a number: a double needs at most 24
_BLOCK = 256

Fields = dict[str, str]  # texts by column, empty where a value is not known


def checked_fields(fields: Mapping[str, Any], table: TableSource) -> Fields:
    """Return a person's fields as texts like those in a file, only for the columns that the table describes.

    A field that means a listed value is written as it is listed, so that its length follows from the offer.

    Raises:
        BadData: As :func:`common.data.tables.record_of`, and if a number is outside its public bounds or too long, or a
            value is not listed. Messages name columns, never the contents of a field.
    """
    record_of(fields, table)
    texts = {name: _as_listed(name, text_of(name, fields[name]), table) for name in sorted(table.columns)}
    for feature in table.features:
        text = texts[feature.column]
        if spelling.canonical(text) not in table.layout.missing_texts:
            _check(feature, text, table)
    if table.label.above is not None and len(texts[table.label.column]) > MAX_NUMBER:
        raise BadData(f"field {table.label.column!r}: a number has at most {MAX_NUMBER} characters")
    return texts


def padded(fields: Fields, table: TableSource) -> bytes:
    """Return the plaintext of checked fields: canonical JSON, padded to the length of all records of the table."""
    return canonical.encode(fields).ljust(record_length(table), b" ")


def read_fields(plaintext: bytes, table: TableSource) -> Fields:
    """Return the fields in a plaintext of :func:`padded`."""
    try:
        tree = canonical.decode(plaintext)
        if isinstance(tree, dict) and tree.keys() == table.columns:
            fields = checked_fields(tree, table)
            if padded(fields, table) == plaintext:
                return fields
    except (BadData, BadMessage):
        pass
    raise BadData(
        "the sealed record is none that the offer's table describes: nothing of it was kept. Before it seals one, "
        '"curator contribute" says which field is wrong'
    )


def record_length(table: TableSource) -> int:
    """Return the number of bytes of every record of a table before sealing, from its public description alone."""
    longest = {name: max(_texts(name, table), key=lambda text: len(canonical.encode(text))) for name in table.columns}
    return -(-len(canonical.encode(longest)) // _BLOCK) * _BLOCK


def _texts(column: str, table: TableSource) -> Iterator[str]:
    yield from ("", *table.layout.missing, *_listed_values(column, table))
    numbers = any(isinstance(feature, Number) and feature.column == column for feature in table.features)
    if numbers or table.label.column == column:
        yield "0" * MAX_NUMBER


def _listed_values(column: str, table: TableSource) -> tuple[str, ...]:
    labels = [*table.label.positive, *table.label.negative] if table.label.column == column else []
    return tuple(dict.fromkeys([*_categories(column, table), *labels]))


def _categories(column: str, table: TableSource) -> list[str]:
    features = (each for each in table.features if isinstance(each, Category) and each.column == column)
    return [text for feature in features for group in feature.groups for text in group]


def _as_listed(column: str, text: str, table: TableSource) -> str:
    missing = table.layout.missing
    match = spelling.as_listed(text, _listed_values(column, table), missing)
    return next((mark for mark in missing if spelling.canonical(mark) == spelling.canonical(match)), match)


def _check(feature: Feature, text: str, table: TableSource) -> None:
    if isinstance(feature, Number):
        if len(text) > MAX_NUMBER:
            raise BadData(f"field {feature.column!r}: a number has at most {MAX_NUMBER} characters")
        if not feature.low <= float(text) <= feature.high:
            raise BadData(
                f"field {feature.column!r} is beyond the public bounds {feature.low:g} to {feature.high:g}: give the "
                f"nearer bound if that is what you mean"
            )
        return
    if isinstance(feature, Missing):
        return  # the column's own number or category restricts its values
    categories = _categories(feature.column, table)
    if text not in categories:
        raise BadData(
            f"field {feature.column!r} must be one of {', '.join(map(json.dumps, categories))}, or null where "
            f"none of them is true"
        )
