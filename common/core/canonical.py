"""Canonical JSON, with one byte string per value (RFC 8785, JSON Canonicalization Scheme), and untrusted JSON.

Keys are in the order of their UTF-16 code units; there are no spaces; the text is UTF-8, and each number is written as
ECMAScript writes its double.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from itertools import accumulate
from typing import Any

from pydantic_core import to_json

from common.core.errors import BadMessage

DEEPEST = 32  # most levels of nesting: deeper input is refused before any code recurses into it
MOST = 1 << 21  # most values in one document, counted as the commas of its text and four for each bracket
LONGEST_NUMBER = 300  # most characters of an integer: one of this length is within the range of doubles
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_GREAT = re.compile(rb"[eE]\+?[0-9]{3,}\s*(?:[,\]}]|$)")
_ZERO = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 200
_ENDS = bytes.maketrans(b"]}", b",,")  # of numbers
_NUMBER = re.compile(rb"(?<![0-9.])(-?[0-9]+(?:\.[0-9]+)?e[-+]?[0-9]+|-?[0-9]+\.0(?![0-9])|-?Infinity|NaN)")
"""A number that ECMAScript may write differently."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|' + _NUMBER.pattern)
"""A string, which is unchanged, or such a number."""
_PLAIN = frozenset({float, str, bool, type(None)})  # types of values that need no conversion
_BASES: tuple[type[Any], ...] = (int, float, dict, list, tuple)  # instances of subclasses are written as of these
EXACT = 1 << 53  # integers of at most this absolute value are exact doubles; larger ones are sent as strings


def encode(value: Any) -> bytes:
    """Encode a JSON value canonically.

    BadMessage if it is not JSON, or contains NaN, an infinity or an integer that is no double
    (:data:`common.core.values.Word`).
    """
    try:
        return _rewrite_numbers(to_json(_sort_keys(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadMessage(f"not a finite JSON value: {error}") from error


def _sort_keys(value: Any) -> Any:
    """Return a JSON value with the keys of its objects in order, converted to Python's built-in types."""
    kind = type(value)
    if kind is dict:
        names = sorted(value)
        if not "".join(names).isascii():  # the order of code points may differ from that of UTF-16 code units
            names.sort(key=lambda name: name.encode("utf-16-be"))
        return {name: _sort_keys(value[name]) for name in names}
    if kind is list or kind is tuple:
        return value if _PLAIN.issuperset(map(type, value)) else [_sort_keys(each) for each in value]
    if kind is int and abs(value) > EXACT and number_text(float(value)) != str(value):
        raise ValueError(f"the integer {value!s:.40} is no double, and has to be written as a string")
    if kind is int or kind in _PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # the text of a member of an enumeration, not its name
    for base in _BASES:
        if isinstance(value, base):
            return _sort_keys(base(value))
    raise TypeError(f"{kind.__name__} is no type of JSON")


def _rewrite_numbers(text: bytes) -> bytes:
    if b"\\" in text:  # a quotation mark may be escaped
        return _TOKEN.sub(_rewrite, text)
    parts = text.split(b'"')  # every other part is a string, which may be very long, and is not searched
    outside = b'"'.join(parts[::2])
    if not _may_differ(outside):
        return text
    for end in (b",", b"]", b"}"):  # numbers such as 1.0 and -0.0; a model may have thousands of them
        outside = outside.replace(b".0" + end, end).replace(b"-0" + end, b"0" + end)
    parts[::2] = (_NUMBER.sub(_rewrite, outside) if _may_differ(outside) else outside).split(b'"')
    return b'"'.join(parts)


def _may_differ(outside: bytes) -> bool:
    """Return whether a number may be written differently than in ECMAScript: 1e-6, 1e+16, 1.0, NaN, Infinity.

    Searches for a few substrings take a tenth of the time of one regular expression for all.
    """
    if b".0," in outside.translate(_ENDS) or outside.endswith(b".0") or b"N" in outside or b"I" in outside:
        return True
    exponents = outside.count(b"e")
    return exponents > 0 and exponents > outside.count(b"ue") + outside.count(b"se")  # in true and in false


def number_text(number: float) -> str:
    """Return the text of a finite double as ECMAScript writes it (ECMA-262, Number::toString; RFC 8785, 3.2.2.3)."""
    mantissa, _, exponent = float.__repr__(number).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    integer, _, fraction = mantissa.partition(".")
    return decimal_text(sign, integer, fraction, int(exponent or 0), range(-5, 22), "+d")


def decimal_text(sign: str, integer: str, fraction: str, exponent: int, points: range, exponents: str) -> str:
    """Return the shortest text of the number with these digits, times 10^``exponent``.

    It is written with an exponent, in the format ``exponents``, unless it is 0.DIGITS times 10^k for a k in ``points``.
    """
    digits = (integer + fraction).lstrip("0")
    point = len(digits) - len(fraction) + exponent
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if point not in points:
        return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{point - 1:{exponents}}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    padded = digits.ljust(point, "0")
    return sign + padded[:point] + ("." + padded[point:] if len(padded) > point else "")


def _rewrite(match: re.Match[bytes]) -> bytes:
    if match[1] is None:  # a string
        return match[0]
    return number_text(_parse_float(match[1].decode())).encode()


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical encoding, in hex."""
    return hashlib.sha256(encode(value)).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values have the same canonical bytes.

    By ``==`` in Python, a double may differ from itself after decoding: beyond 2^53 its text may be another integer.
    """
    return encode(one) == encode(other)


def alike(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; numbers that are not both integers up to an error of 1e-9.

    The error is relative or absolute. The last bits of a logarithm, or of a quantile, depend on processor and library.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float | int) and isinstance(other, float | int) and float in (type(one), type(other)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def decode(raw: bytes) -> Any:
    """Decode JSON; BadMessage for NaN, infinities, duplicate keys, or input that is no UTF-8, too deep or too large."""
    check_shape(raw)
    try:
        # Without a backslash every other part is a string, which may be very long, and is not searched.
        outside = raw if b"\\" in raw else b'"'.join(raw.split(b'"')[::2])
        # Only where there may be a number beyond all doubles are numbers checked one by one.
        checked = _GREAT.search(outside) is not None or _MANY_DIGITS in outside.translate(_ZERO)
        hooks: dict[str, Any] = {"parse_int": _parse_integer, "parse_float": _parse_float} if checked else {}
        return json.loads(raw.decode("utf-8"), parse_constant=_parse_float, object_pairs_hook=_object, **hooks)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not acceptable JSON: {error}") from error


def check_shape(raw: bytes) -> int:
    """Validate the depth and the number of values of JSON from its bytes, before any parser; return the number."""
    opened = raw.count(b"[") + raw.count(b"{")
    values = 4 * opened + raw.count(b",")
    if values > MOST:
        raise BadMessage(f"not acceptable JSON: more than {MOST:,} values, where a list or an object counts as four")
    if opened > DEEPEST:
        brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
        if any(depth > DEEPEST for depth in accumulate(map(_STEP.__getitem__, brackets))):
            raise BadMessage(f"not acceptable JSON: nested more than {DEEPEST} levels deep")
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names a key twice")
    return members


def _parse_integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(text):,} digits, at most {LONGEST_NUMBER}")
    return int(text)


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not allowed" if text[-1].isalpha() else "a number is larger than every double")
    return number
