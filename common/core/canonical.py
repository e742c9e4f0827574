"""One byte string per JSON value, so that a digest or signature means the same on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from common.core.errors import BadMessage

DEEPEST = 32
"""How deeply JSON may be nested: deeper input is refused where it comes in, before anything recurses into it."""


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
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"not a finite JSON value: {error}") from error


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical encoding, in hex."""
    return hashlib.sha256(encode(value)).hexdigest()


def decode(raw: bytes) -> Any:
    """Decode JSON, refusing NaN, infinities, duplicate keys, undecodable bytes and what is nested too deeply.

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
        value = json.loads(raw.decode("utf-8"), parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not acceptable JSON: {error}") from error
    _shallow(value, DEEPEST)
    return value


def _shallow(value: Any, levels: int) -> None:
    if isinstance(value, dict | list):
        if levels == 0:
            raise BadMessage(f"not acceptable JSON: nested more than {DEEPEST} levels deep")
        for inner in value.values() if isinstance(value, dict) else value:
            _shallow(inner, levels - 1)
