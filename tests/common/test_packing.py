"""Packed answers: exactly one encoding, and everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import BadMessage
from common.packing import mask_bytes, pack_answers, unpack_answers


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1)), min_size=1, max_size=70))
def test_bits_come_back_and_there_is_one_encoding(people):
    answered, bits = np.array([a for a, _ in people]), np.array([b for _, b in people], dtype=np.uint8)
    body = pack_answers(answered, bits, "bit")
    assert len(body) == 2 * mask_bytes(len(people))
    back, answers = unpack_answers(body, len(people), "bit")
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, bits, 0))
    assert pack_answers(back, answers, "bit") == body


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20))
def test_reals_come_back(people):
    answered, reals = np.array([a for a, _ in people]), np.array([b for _, b in people])
    back, answers = unpack_answers(pack_answers(answered, reals, "real"), len(people), "real")
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, reals, 0))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=12), st.integers(1, 40))
def test_any_bytes_decode_to_what_encodes_to_them_or_are_refused(body, people):
    try:
        answered, answers = unpack_answers(body, people, "bit")
    except BadMessage:
        return
    assert pack_answers(answered, answers, "bit") == body


def test_the_attacks_by_name():
    whole = np.ones(9, dtype=np.bool_)
    good = pack_answers(whole, np.ones(9, dtype=np.uint8), "bit")
    for bad, why in [
        (good[:-1], "take 4 bytes, found 3"),
        (good + b"\0", "found 5"),
        (good[:1] + b"\xff" + good[2:], "padding"),
        (good[:3] + b"\x81", "padding"),
        (b"\x7f" + good[1:], "marked silent"),
    ]:
        with pytest.raises(BadMessage, match=why):
            unpack_answers(bad, 9, "bit")
    for poison in (np.nan, np.inf, -np.inf):
        body = pack_answers(np.ones(1, dtype=np.bool_), np.array([poison]), "real")
        with pytest.raises(BadMessage, match="finite"):
            unpack_answers(body, 1, "real")
    silent = np.zeros(1, dtype=np.uint8).tobytes() + np.array([np.nan]).tobytes()
    with pytest.raises(BadMessage, match="finite"):
        unpack_answers(silent, 1, "real")
