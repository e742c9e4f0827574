"""Canonical JSON against the vectors of RFC 8785, and integers that no double holds."""

import json
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from common.core import canonical
from common.core.errors import BadMessage
from common.core.values import Value, Word

NUMBERS = """
    0000000000000000 0
    8000000000000000 0
    0000000000000001 5e-324
    8000000000000001 -5e-324
    7fefffffffffffff 1.7976931348623157e+308
    ffefffffffffffff -1.7976931348623157e+308
    4340000000000000 9007199254740992
    c340000000000000 -9007199254740992
    4430000000000000 295147905179352830000
    44b52d02c7e14af5 9.999999999999997e+22
    44b52d02c7e14af6 1e+23
    44b52d02c7e14af7 1.0000000000000001e+23
    444b1ae4d6e2ef4e 999999999999999700000
    444b1ae4d6e2ef4f 999999999999999900000
    444b1ae4d6e2ef50 1e+21
    3eb0c6f7a0b5ed8c 9.999999999999997e-7
    3eb0c6f7a0b5ed8d 0.000001
    41b3de4355555553 333333333.3333332
    41b3de4355555554 333333333.33333325
    41b3de4355555555 333333333.3333333
    41b3de4355555556 333333333.3333334
    41b3de4355555557 333333333.33333343
    becbf647612f3696 -0.0000033333333333333333
    43143ff3c1cb0959 1424953923781206.2
"""
"""RFC 8785, appendix B: the bits of a double, and its text."""


def test_numbers_are_written_as_in_the_vectors_of_the_rfc():
    for row in NUMBERS.split("\n")[1:-1]:
        bits, text = row.split()
        (number,) = struct.unpack(">d", bytes.fromhex(bits))
        assert canonical.number_text(number) == text
        assert canonical.encode({"a": [number, text, number]}) == f'{{"a":[{text},"{text}",{text}]}}'.encode()


@settings(max_examples=500, derandomize=True)
@given(st.integers(0, (1 << 64) - 1))
def test_every_double_is_read_back_from_its_text(bits):
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    if math.isfinite(number):
        raw = canonical.encode([number])
        assert float(raw[1:-1]) == number
        assert canonical.encode(canonical.decode(raw)) == raw


def test_a_document_is_written_as_in_the_rfc():
    """RFC 8785, 3.2.2 and 3.2.3: literals, strings, numbers, and keys in the order of their UTF-16 code units."""
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\u0022/",
        "literals": [None, True, False],
    }
    assert (
        canonical.encode(value)
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )
    keys = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    tree = json.loads(canonical.encode({"a": [dict.fromkeys(reversed(keys), 1.0)]}))
    assert list(tree["a"][0]) == keys


def test_an_integer_that_is_no_double_is_refused():
    for whole in (canonical.EXACT, -canonical.EXACT, 10**17, 1152921504606847000):
        assert canonical.encode([whole]) == f"[{whole}]".encode()
    for whole in (canonical.EXACT + 1, -canonical.EXACT - 1, 1 << 60, 1 << 64, 10**21, 10**400):
        with pytest.raises(BadMessage, match=r"written as a string|too large"):
            canonical.encode({"a": [whole]})


def test_a_word_travels_as_a_string_where_no_double_is_sure_to_be_exact():
    class Held(Value):
        word: Word = Field(ge=0, le=1 << 64)

    for word in (0, canonical.EXACT, canonical.EXACT + 1, (1 << 64) - 1):
        wire = Held(word=word).wire()
        assert wire == {"word": word if word <= canonical.EXACT else str(word)}
        assert Held.parse(canonical.decode(canonical.encode(wire))).word == word
    for word in (-1, (1 << 64) + 1):
        with pytest.raises(BadMessage):
            Held.parse({"word": word})
