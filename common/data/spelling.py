"""One value has one text, in whatever type, container and spelling it comes.

A column's type is a fact about all of its values: a single missing field makes an export write ``1.0`` or ``True`` in
every row. If fields were compared as they happen to be written, one person's record would decide how all others are
read, and no guarantee would hold. So every field, and every value that a description lists, becomes its canonical text
by a rule that looks at this one value:

- spaces around a text are left out, and an empty text is a missing value, as None, NaN, NaT and ``pandas.NA`` are;
- a number, also one that a text writes, is its shortest exact decimal: ``1``, ``1.0``, ``01``, ``+1`` and ``1e0`` are
  ``1``. The digits of long integers are kept. A number of single precision is the double of the same value;
- a boolean, also as a text in any case, is ``true`` or ``false``;
- a date is ``2024-01-31``, a time of a day ``2024-01-31T12:30:00``, midnight the date alone; one with a time zone is
  that of UTC, and ends in ``Z``;
- bytes are the text that they are in UTF-8.

No library of tables is needed. :mod:`common.data.files` does the same for whole columns.
"""

import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from common.core.canonical import decimal_text

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""What tables take for a finite number, too; they take a few other spellings, which no export writes."""
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())  # all that ``str.strip`` takes for a space

_PARTS = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,5}))?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d+))? ?(Z|UTC|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?", re.ASCII
)
_CLOCK = re.compile(r"(\d\d:\d\d:\d\d)\.(\d+)", re.ASCII)
_POINTS = range(-20, 41)  # numbers from 10^-21 to 10^40 are written without an exponent
_BITS = 10_000  # of the longest integer that becomes a text: Python writes no more than 4,300 digits


class NoText(TypeError):
    """A value is of a type that has no canonical text; the message names the type."""


def canonical(text: str) -> str:
    """Return the canonical text of a field that is a text already; applied twice, it is the same."""
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
    """Return the canonical text of any value; empty where it is missing. Errors are those of :func:`plain_text`."""
    return canonical(plain_text(value))


def plain_text(value: Any) -> str:
    """Return a value as a text that writes it exactly; empty where it is missing. NoText if its type has none."""
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
    """Return, for each group of texts that are listed as one value, the canonical texts that mean it.

    An array of NumPy that holds booleans and a missing value holds numbers. So where ``true`` is listed in a column and
    ``1`` is not, 1 means ``true``, and the other way round; likewise ``false`` and 0.
    """
    found = [dict.fromkeys(canonical(text) for text in group) for group in groups]
    taken = {*(text for group in found for text in group), *map(canonical, missing)}
    for group in found:
        for one, other in (("true", "1"), ("false", "0"), ("1", "true"), ("0", "false")):
            if one in group and other not in taken:
                group[other] = None
    return tuple(tuple(group) for group in found)


def as_listed(text: str, listed: Collection[str], missing: Collection[str] = ()) -> str:
    """Return the listed text that means the same value; the text itself where it is listed, or none is."""
    if text in listed:
        return text
    means = zip(listed, matching([(one,) for one in listed], missing), strict=True)
    return next((one for one, texts in means if canonical(text) in texts), text)


def look_alikes(groups: Sequence[Collection[str]], missing: Collection[str] = ()) -> tuple[str, str] | None:
    """Return two texts that are one value in two spellings and are listed as two, or as a value and as missing."""
    before: dict[str, str] = {}
    for group in groups:
        here: dict[str, str] = {}
        for text in group:
            other = before.get(canonical(text))
            if other is not None:
                return other, text
            here.setdefault(canonical(text), text)
        before |= here
    listed = {text for group in groups for text in group}
    for text in missing:
        other = before.get(canonical(text))
        if other is not None and text not in listed:
            return other, text
    return None


def _decimal(text: str) -> str:
    # The shortest exact decimal; the text, if its exponent is absurd.
    parts = _PARTS.fullmatch(text)
    if parts is None:
        return text
    sign, whole, fraction, exponent = parts.groups()
    return decimal_text(sign.strip("+"), whole, fraction, int(exponent or 0), _POINTS, "d")


def _moment(text: str, date: str, minute: str, second: str | None, fraction: str | None, zone: str | None) -> str:
    try:
        moment = datetime.datetime.fromisoformat(f"{date}T{minute}{second or ':00'}")
        if zone not in (None, "Z", "UTC"):
            digits = zone[1:].replace(":", "")
            hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
            offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
            moment += offset if zone[0] == "-" else -offset
    except (ValueError, OverflowError):
        return text
    found = _with_fraction(moment.isoformat(), fraction or "")
    return found.removesuffix("T00:00:00") if zone is None else f"{found}Z"


def _with_fraction(time: str, fraction: str) -> str:
    fraction = fraction.rstrip("0")
    return f"{time}.{fraction}" if fraction else time
