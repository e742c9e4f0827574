"""Records sealed to a curator's key: HPKE in base mode (RFC 9180, :mod:`common.wire.primitives.hpke`).

Each record gets an ephemeral key of its own, so nothing but the curator's
private key opens it, the contributor's own device included. ``info`` binds it to the curator, the offer (and in it the
table's rules), the contribution and the contributor: the same bytes open nowhere else, for nothing else, and for nobody
else who signs them.
"""

from __future__ import annotations

import base64
import binascii

from common.core import canonical
from common.core.errors import BadMessage
from common.wire.primitives import hpke
from curator.contributions.messages import Contribution, Offer

OVERHEAD = hpke.KEY_BYTES + hpke.TAG_BYTES
"""Bytes of a sealed record beside the record: the encapsulated key and the tag."""


def public_half(private: bytes) -> str:
    """Return the public key that belongs to 32 secret bytes, hex."""
    return hpke.RecipientKey.of(private).public.hex()


def seal(plaintext: bytes, offer: Offer, curator: str, contribution: str, contributor: str) -> Contribution:
    """Seal a record to the curator of an offer.

    Parameters
    ----------
    plaintext
        The record, :func:`curator.contributions.fields.written`.
    curator
        Its Ed25519 key, which has signed the offer.
    contribution
        Name of the contribution.
    contributor
        Key of the person who will sign it.
    """
    digest = offer.fingerprint()
    info = _info(curator, digest, contribution, contributor)
    sealed = hpke.seal(bytes.fromhex(offer.public_key), plaintext, info)
    text = base64.b64encode(sealed.encapsulated + sealed.ciphertext).decode("ascii")
    return Contribution(curator=curator, offer=digest, contribution=contribution, sealed=text)


def opened(message: Contribution, contributor: str, private: bytes) -> bytes:
    """Return the record of a contribution.

    Parameters
    ----------
    contributor
        Whose signature the contribution has.
    private
        The curator's key, 32 bytes.

    Raises
    ------
    BadMessage
        If it was not sealed to this key as this contribution of this contributor: one sentence, whatever is wrong.
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
