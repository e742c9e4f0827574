"""Draw, compare and hash tokens and invitation codes, without importing anything that only a service needs."""

import base64
import hashlib
import hmac
import os
import re
import secrets

from common.core.errors import BadInput

METRICS_TOKEN = "TANDEM_METRICS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable: the token that a monitor needs to read metrics; it allows nothing else."""


def metrics_token() -> str:
    """Return the token in :data:`METRICS_TOKEN` (BadInput if too short); empty if none: then none admits a monitor."""
    token = os.environ.get(METRICS_TOKEN, "")
    if 0 < len(token) < 8:
        raise BadInput(f"{METRICS_TOKEN} must have at least 8 characters, or be left out")
    return checked_token(METRICS_TOKEN, token)


def checked_token(name: str, token: str) -> str:
    """Return a service's token; BadInput, which does not show it, if no request's header can carry it."""
    if not (token.isascii() and token.isprintable() and token == token.strip()):
        raise BadInput(
            f"{name} holds a space at an end, a line's end or a character beyond ASCII, which no client can send: "
            "choose another token"
        )
    return token


_CODE = re.compile(r"(?:[A-Za-z2-7][ -]*){24}")  # base32
_BYTES = 15  # random bytes of a code: 120 bits, so that a hash without salt cannot be inverted by guessing


def token_hash(token: str) -> str:
    """Return the hash of a token, which is stored in its place."""
    return hashlib.sha256(b"tandem token " + token.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare secrets in constant time, including texts that UTF-8 cannot encode."""
    return hmac.compare_digest(left.encode(errors="backslashreplace"), right.encode(errors="backslashreplace"))


def invitation() -> str:
    """Return a new random invitation code, in groups of characters that are easy to read out."""
    text = base64.b32encode(secrets.token_bytes(_BYTES)).decode("ascii")
    return "-".join(text[at : at + 6] for at in range(0, len(text), 6))


def is_invitation(token: str) -> bool:
    """Return whether a token has the form of an invitation code."""
    return _CODE.fullmatch(token) is not None


def invitation_hash(code: str) -> str:
    """Return the hash of an invitation code, which is stored in its place; ignores case, spaces and dashes."""
    plain = "".join(character for character in code.upper() if character.isalnum())
    return hashlib.sha256(b"tandem invitation " + plain.encode("utf-8", "replace")).hexdigest()
