"""One byte string per JSON value, so that a digest or signature means the same on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from common.errors import BadMessage


def encode(value: Any) -> bytes:
    """Encode a JSON value canonically: sorted keys, no spaces, UTF-8, shortest round-trip floats, no NaN or infinity.

    Raises
    ------
    BadMessage
        If the value holds NaN or an infinity, or is not JSON.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise BadMessage(f"not a finite JSON value: {error}") from error


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical encoding, in hex."""
    return hashlib.sha256(encode(value)).hexdigest()


def decode(raw: bytes) -> Any:
    """Decode JSON, refusing NaN, infinities, duplicate keys and undecodable bytes.

    Raises
    ------
    BadMessage
        If the bytes are not such JSON.
    """

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not allowed")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("an object names a key twice")
        return found

    try:
        return json.loads(raw.decode("utf-8"), parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not acceptable JSON: {error}") from error
