"""One byte string per JSON value, so that a digest or signature means the same on every machine."""

from __future__ import annotations

import hashlib
import json
import math
import re
from itertools import accumulate
from typing import Any

from common.core.errors import BadMessage

DEEPEST = 32
"""How deeply JSON may be nested: deeper input is refused where it comes in, before anything recurses into it."""
MOST = 1 << 21
"""Values in one document: the commas of its text, and four for each bracket. They take some 60 bytes of memory each."""
LONGEST_NUMBER = 300
"""Characters of an integer: one that long is still a double."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_ENDLESS = re.compile(rb"(?<![0-9])[0-9]{200}|[eE]\+?[0-9]{3,}\s*[,\]}]|[eE]\+?[0-9]{3,}\s*$")
"""What may be a number without a double: only where this is found are numbers looked at one by one."""


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
    """Decode JSON, refusing NaN, infinities, duplicate keys, undecodable bytes, and what is too deep, long or large.

    Raises
    ------
    BadMessage
        If the bytes are not such JSON.
    """
    check_shape(raw)
    try:
        hooks: dict[str, Any] = {"parse_int": _integer, "parse_float": _finite} if _ENDLESS.search(raw) else {}
        return json.loads(raw.decode("utf-8"), parse_constant=_constant, object_pairs_hook=_unique, **hooks)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not acceptable JSON: {error}") from error


def check_shape(raw: bytes) -> int:
    """Check how deep JSON is and how many values it holds, by its bytes; no parser has seen it yet. Return how many.

    Raises
    ------
    BadMessage
        Naming the limit.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    values = 4 * opened + raw.count(b",")
    if values > MOST:
        raise BadMessage(f"not acceptable JSON: more than {MOST:,} values, where a list or an object counts as four")
    if opened > DEEPEST:
        brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
        if any(depth > DEEPEST for depth in accumulate(map(_STEP.__getitem__, brackets))):
            raise BadMessage(f"not acceptable JSON: nested more than {DEEPEST} levels deep")
    return values


def _constant(constant: str) -> float:
    raise ValueError(f"{constant} is not allowed")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a key twice")
    return found


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(text):,} digits, at most {LONGEST_NUMBER}")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is larger than every double")
    return number
