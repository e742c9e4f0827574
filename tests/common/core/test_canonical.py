"""One byte string per JSON value; and nothing that is not plain, finite, shallow JSON comes in."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core import canonical
from common.core.errors import BadMessage
from tests.tiers import for_each

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4).filter(str.isprintable), inner),
    max_leaves=12,
)


@settings(max_examples=200, derandomize=True)
@given(VALUES)
def test_decoding_gives_the_value_back_and_encoding_is_stable(value):
    raw = canonical.encode(value)
    assert canonical.decode(raw) == value
    assert canonical.encode(canonical.decode(raw)) == raw
    assert b"\n" not in raw


def test_order_and_spaces_do_not_matter_content_does():
    assert canonical.digest({"b": 1, "a": [1.0]}) == canonical.digest(json.loads('{ "a" : [1.0], "b":1}'))
    assert canonical.digest({"a": 1}) != canonical.digest({"a": 1.5})
    assert canonical.encode({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()


@for_each("value", [math.nan, math.inf, [-math.inf], {"a": {1, 2}}, "\ud800", object(), {"k": b"x"}])
def test_what_has_no_encoding_is_refused(value):
    with pytest.raises(BadMessage):
        canonical.encode(value)


@for_each(
    "raw",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b'{"a":1,"a":1}',
        b"\xff",
        b'"\xed\xa0\x80"',
        b"[1,]",
        b"'a'",
        b"1 2",
        b"[" * 100_000,
        b"[" * 33 + b"]" * 33,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b"9" * 5000,
        b"9" * 301,
        b"[1e999]",
        b"1e999 ",
        b"-1e400",
        b"9" * 199 + b"e199",
        b"[" * 40 + b'"' + b'\\"' * 100_000,
        b"[" + b"[]," * (1 << 21) + b"0]",
        b"[" * 40 + b'"' * 100_001,
    ],
    ids=lambda raw: str(raw[:12]),
)
def test_what_is_not_acceptable_is_refused(raw):
    with pytest.raises(BadMessage, match="not acceptable JSON"):
        canonical.decode(raw)


def test_what_is_in_a_string_is_no_bracket_and_no_number():
    for value in ["[" * 100, '"' + "{" * 100, "\\" + "[" * 100, "e999", "9" * 400, ['a[\\"['] * 50]:
        assert canonical.decode(canonical.encode(value)) == value
    wide: list[Any] = [[{"a": []}]] * 1000
    assert canonical.decode(canonical.encode(wide)) == wide


def test_as_deep_as_is_allowed():
    raw = b"[" * canonical.DEEPEST + b"]" * canonical.DEEPEST
    assert canonical.encode(canonical.decode(raw)) == raw


def test_numbers_too_large_for_a_double_never_leave():
    """JSON cannot say infinity, but 1e999 reads as one: nothing that holds it has an encoding, hence no signature."""
    with pytest.raises(BadMessage):
        canonical.encode(canonical.decode(b"1e999"))
