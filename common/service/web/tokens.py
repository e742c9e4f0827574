"""Tokens, which say who may ask: what is kept of one, and how two are compared."""

from __future__ import annotations

import hashlib
import hmac


def token_hash(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(b"tandem token " + token.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())
