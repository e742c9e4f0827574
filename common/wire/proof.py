"""Who sends a large request, before its body is read: a signature over what is asked for and the body's digest."""

from __future__ import annotations

import hashlib
import re

from common.core import canonical
from common.core.errors import BadMessage, Forged
from common.wire.identity import Identity, verify_bytes

HEADER = "Tandem-Proof"
_KIND = "request"
_FORM = re.compile(r"([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")


def proof(identity: Identity, method: str, path: str, body: bytes) -> str:
    """Return the header that shows who sends a body: key, SHA-256 of the body, signature; in hex."""
    digest = hashlib.sha256(body).hexdigest()
    return f"{identity.public} {digest} {identity.sign_bytes(_KIND, _payload(method, path, len(body), digest))}"


def checked(header: str, method: str, path: str, length: int, key: str | None) -> str:
    """Return the SHA-256 of the body that a header announces.

    Parameters
    ----------
    key
        Whose proof it must be; None: anybody's.

    Raises
    ------
    BadMessage
        If it is no proof.
    Forged
        If another key has signed it, or the signature is of another request.
    """
    found = _FORM.fullmatch(header)
    if found is None:
        raise BadMessage(f"{HEADER} holds a key, a SHA-256 and a signature in hexadecimal, one space between them")
    who, digest, signature = found.groups()
    if key is not None and who != key:
        raise Forged(f"announced by {who[:16]}..., expected {key[:16]}...")
    verify_bytes(who, _KIND, _payload(method, path, length, digest), signature)
    return digest


def _payload(method: str, path: str, length: int, digest: str) -> bytes:
    return canonical.encode({"method": method, "path": path, "length": length, "sha256": digest})
