"""Tokens and invitation codes, which say who may ask: what is kept of one, and how two are compared."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

_BYTES = 15
"""Random bytes of a code: 120 bits, so that a plain hash of it is as good as the code is secret."""


def token_hash(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(b"tandem token " + token.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


def invitation() -> str:
    """Return a fresh invitation code, in groups of characters that people can read out."""
    text = base64.b32encode(secrets.token_bytes(_BYTES)).decode("ascii")
    return "-".join(text[at : at + 6] for at in range(0, len(text), 6))


def invitation_hash(code: str) -> str:
    """Return what is kept of an invitation code; case, spaces and dashes are no part of it."""
    plain = "".join(character for character in code.upper() if character.isalnum())
    return hashlib.sha256(b"tandem invitation " + plain.encode("utf-8", "replace")).hexdigest()
