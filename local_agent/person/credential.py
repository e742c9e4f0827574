"""A person's credential: requested blinded from an issuer, and stored in the agent's state directory until it enrols.

The request is on disk before it is sent, so that it can be repeated unchanged if the reply was lost.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from common.core.durable import sync_folder, write_durably
from common.core.errors import BadData, BadMessage, Forged
from common.crypto import blindrsa
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import NONCE, Credential, IssuerKey, granted, token_input, token_request

if TYPE_CHECKING:
    from local_agent.client import IssuerClient

T = TypeVar("T")

CREDENTIAL, ASKED, GRANT = "credential.json", "credential-request.json", "grant.json"
"""Files in the state directory: the credential, the request for it, and a host's grant."""


def obtain(folder: Path, identity: Identity, issuer: IssuerClient, code: str, key: IssuerKey) -> Credential:
    """Obtain a credential for an agent's key, and store it.

    ``key`` is the issuer's, from an independent source: a key used for this person alone would reveal who they are.
    BadData if there is already a credential. Forged if this issuer has other keys, or its signature does not verify.
    Unauthorized or Conflict if the issuer replies so.
    """
    if (folder / CREDENTIAL).exists():
        _forget_request(folder)  # a crash may have left the request
        raise BadData(f"{folder / CREDENTIAL} is a credential already: one is enough for a lifetime")
    if issuer.key() != key:
        raise Forged("the issuer there has other keys than those that were given: ask it nothing, and find out why")
    nonce, blinded = _asked(folder, identity, key)
    message = token_input(identity.public, nonce, key.token_key_id)
    reply = issuer.issue(code, token_request(key, blinded.message))
    signature = blindrsa.finalize(key.token_key, message, reply, blinded.inverse)
    credential = Credential(issuer=key.token_key_id, nonce=nonce.hex(), signature=signature.hex())
    write_durably(folder / CREDENTIAL, json.dumps(credential.wire()).encode(), mode=0o600)
    _forget_request(folder)
    return credential


def _forget_request(folder: Path) -> None:
    """Delete the request durably: with its blinding factor, an issuer could tell whose credential this is."""
    if (folder / ASKED).exists():
        (folder / ASKED).unlink()
        sync_folder(folder)


def _asked(folder: Path, identity: Identity, key: IssuerKey) -> tuple[bytes, blindrsa.Blinded]:
    path = folder / ASKED
    if path.exists():
        stored = _read(path)
        if stored.get("issuer") == key.token_key_id and stored.get("agent") == identity.public:
            blinded = blindrsa.Blinded(bytes.fromhex(stored["blinded"]), int(stored["inverse"], 16))
            return bytes.fromhex(stored["nonce"]), blinded
    nonce = secrets.token_bytes(NONCE)
    blinded = blindrsa.blind(key.token_key, token_input(identity.public, nonce, key.token_key_id))
    asked = {"issuer": key.token_key_id, "agent": identity.public, "nonce": nonce.hex()}
    asked |= {"blinded": blinded.message.hex(), "inverse": f"{blinded.inverse:x}"}
    write_durably(path, json.dumps(asked).encode(), mode=0o600)
    return nonce, blinded


def held_credential(folder: Path) -> Credential | None:
    """Return the credential in a state directory, None if there is none; BadData if the file cannot be parsed."""
    credential = _held(folder / CREDENTIAL, Credential.parse, "credential")
    if credential is not None:
        _forget_request(folder)
    return credential


def keep_grant(folder: Path, identity: Identity, path: Path, people: int) -> None:
    """Store an issuer's grant for a host; NotVouched if it is not for this host and number of people."""
    try:
        signed = Signed.parse(_read(path))
    except BadMessage:
        raise BadData(f"{path} is no grant: give the file that issuer grant printed") from None
    granted(signed, identity.public, people)  # the referee decides whether it trusts the signer
    write_durably(folder / GRANT, json.dumps(signed.wire()).encode(), mode=0o600)


def held_grant(folder: Path) -> Signed | None:
    """Return the grant in a state directory, None if there is none; BadData if the file cannot be parsed."""
    return _held(folder / GRANT, Signed.parse, "grant")


def _held(path: Path, parse: Callable[[dict[str, Any]], T], what: str) -> T | None:
    try:
        return parse(_read(path)) if path.exists() else None
    except BadMessage:
        raise BadData(f"{path} is no {what}: it was edited, or is another file") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        raise BadData(f"{path} cannot be read as JSON") from None
