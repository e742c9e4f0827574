"""Canonical texts: each value has one text, independent of its type, container and spelling.

A column's type depends on all of its values: a single missing field makes an export write ``1.0`` or ``True`` in
every row. If fields were compared as they are written, one person's record would determine how all others are
read, and no guarantee would hold. So every field, and every value that a description lists, is converted to its
canonical text by a rule that depends on this value only:

- spaces around a text are removed, and an empty text is a missing value, as None, NaN, NaT and ``pandas.NA`` are;
- a number, also as a text, becomes its shortest exact decimal: ``1``, ``1.0``, ``01``, ``+1`` and ``1e0`` become
  ``1``. All digits of long integers are kept. A number of single precision becomes the double of the same value;
- a boolean, also as a text in any case, becomes ``true`` or ``false``;
- a date becomes ``2024-01-31``, a date with a time ``2024-01-31T12:30:00``, or the date alone at midnight; a time with
  a time zone is converted to UTC, and ends in ``Z``;
- bytes are decoded as UTF-8.

No library of tables is needed. :mod:`common.data.columns` does the same for whole columns.
"""

import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from common.core.canonical import decimal_text

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""Texts of finite numbers for the code for tables, too; that accepts a few other spellings, which no export writes."""
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())  # characters that ``str.strip`` removes

_PARTS = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,5}))?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d+))? ?(Z|UTC|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?", re.ASCII
)
_CLOCK = re.compile(r"(\d\d:\d\d:\d\d)\.(\d+)", re.ASCII)
_POINTS = range(-20, 41)  # numbers from 10^-21 to 10^40 are written without an exponent
_BITS = 10_000  # most bits of an integer with a text: Python writes at most 4,300 digits


class NoText(TypeError):
    """A value is of a type that has no canonical text; the message names the type."""


def canonical(text: str) -> str:
    """Return the canonical text of a text; idempotent."""
    text = text.strip(SPACES)
    if not text:
        return text
    if text[0] in "+-.0123456789":
        if NUMBER.fullmatch(text):
            return _decimal(text)
        moment = _MOMENT.fullmatch(text)
        if moment is not None:
            return _moment(text, *moment.groups())
        clock = _CLOCK.fullmatch(text)
        return text if clock is None else _with_fraction(*clock.groups())
    lowered = text.lower() if len(text) <= 5 else text
    return lowered if lowered in ("true", "false") else text


def canonical_text(value: Any) -> str:
    """Return the canonical text of any value, empty if it is missing; raises as :func:`plain_text` does."""
    return canonical(plain_text(value))


def plain_text(value: Any) -> str:
    """Return a value as an exact text, empty if it is missing; NoText if its type has none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        if int(value).bit_length() > _BITS:
            raise NoText(f"an integer of more than {_BITS:,} bits")
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        return "" if number != number else repr(number)
    if isinstance(value, Decimal):
        return "" if value.is_nan() else str(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise NoText("bytes that are no UTF-8 text") from None
    if isinstance(value, np.datetime64):
        coarse = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D", "h", "m")
        return "" if np.isnat(value) else str(value.astype("datetime64[s]") if coarse else value)
    kind = type(value)
    if kind.__name__ in ("NAType", "NaTType") and kind.__module__.partition(".")[0] == "pandas":
        return ""
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    raise NoText(type(value).__name__)


def matching(groups: Iterable[Collection[str]], missing: Collection[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the canonical texts for each group of texts that are listed as one value.

    A NumPy array of booleans with a missing value contains numbers. So if ``true`` is listed in a column and ``1`` is
    not, 1 means ``true``, and vice versa; likewise for ``false`` and 0.
    """
    spellings = [dict.fromkeys(canonical(text) for text in group) for group in groups]
    texts = {*(text for group in spellings for text in group), *map(canonical, missing)}
    for group in spellings:
        for word, other in (("true", "1"), ("false", "0"), ("1", "true"), ("0", "false")):
            if word in group and other not in texts:
                group[other] = None
    return tuple(tuple(group) for group in spellings)


def as_listed(text: str, listed: Collection[str], missing: Collection[str] = ()) -> str:
    """Return the listed text with the same value; the text itself if it is listed, or no listed text matches."""
    if text in listed:
        return text
    groups = zip(listed, matching([(choice,) for choice in listed], missing), strict=True)
    return next((choice for choice, texts in groups if canonical(text) in texts), text)


def look_alikes(groups: Sequence[Collection[str]], missing: Collection[str] = ()) -> tuple[str, str] | None:
    """Return two spellings of one value that are listed as two values, or as a value and as missing; None if none."""
    earlier: dict[str, str] = {}
    for group in groups:
        current: dict[str, str] = {}
        for text in group:
            other = earlier.get(canonical(text))
            if other is not None:
                return other, text
            current.setdefault(canonical(text), text)
        earlier |= current
    listed = {text for group in groups for text in group}
    for text in missing:
        other = earlier.get(canonical(text))
        if other is not None and text not in listed:
            return other, text
    return None


def _decimal(text: str) -> str:
    # The shortest exact decimal; the text itself if its exponent is too large.
    parts = _PARTS.fullmatch(text)
    if parts is None:
        return text
    sign, integer, fraction, exponent = parts.groups()
    return decimal_text(sign.strip("+"), integer, fraction, int(exponent or 0), _POINTS, "d")


def _moment(text: str, date: str, minute: str, second: str | None, fraction: str | None, zone: str | None) -> str:
    try:
        moment = datetime.datetime.fromisoformat(f"{date}T{minute}{second or ':00'}")
        if zone not in (None, "Z", "UTC"):
            digits = zone[1:].replace(":", "")
            hours, minutes, seconds = (int(digits[start : start + 2] or 0) for start in (0, 2, 4))
            offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
            moment += offset if zone[0] == "-" else -offset
    except (ValueError, OverflowError):
        return text
    iso = _with_fraction(moment.isoformat(), fraction or "")
    return iso.removesuffix("T00:00:00") if zone is None else f"{iso}Z"


def _with_fraction(time: str, fraction: str) -> str:
    fraction = fraction.rstrip("0")
    return f"{time}.{fraction}" if fraction else time
