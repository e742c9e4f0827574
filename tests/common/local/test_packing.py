"""Packed answers: exactly one encoding, and everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadMessage
from common.local.packing import answer_type, mask_bytes, pack_answers, pack_one, unpack_answers
from tests.tiers import for_each


@settings(max_examples=150, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1)), min_size=1, max_size=70))
def test_bits_come_back_and_there_is_one_encoding(people):
    answered, bits = np.array([a for a, _ in people]), np.array([b for _, b in people], dtype=np.uint8)
    body = pack_answers(answered, bits, "bit")
    assert len(body) == 2 * mask_bytes(len(people))
    back, answers = unpack_answers(body, len(people), "bit")
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, bits, 0))
    assert pack_answers(back, answers, "bit") == body


@settings(max_examples=80, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20))
def test_reals_come_back(people):
    answered, reals = np.array([a for a, _ in people]), np.array([b for _, b in people])
    back, answers = unpack_answers(pack_answers(answered, reals, "real"), len(people), "real")
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, reals, 0))


@settings(max_examples=300, derandomize=True)
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


@for_each(("kind", "size"), [(3, 1), (256, 1), (257, 2), (65536, 2)])
def test_symbols_take_a_byte_or_two(kind, size):
    answered, symbols = np.array([True, False, True]), np.array([kind - 1, 1, 2])
    body = pack_answers(answered, symbols, kind)
    assert body == b"\xa0" + b"".join(int(s).to_bytes(size, "little") for s in (kind - 1, 0, 2))
    back, answers = unpack_answers(body, 3, kind)
    assert back.tolist() == answered.tolist()
    assert answers.dtype == answer_type(kind)
    assert answers.tolist() == [kind - 1, 0, 2]


@settings(max_examples=150, derandomize=True)
@given(
    st.integers(3, 1 << 16).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(st.tuples(st.booleans(), st.integers(0, kind - 1)), min_size=1, max_size=40)
        )
    )
)
def test_symbols_come_back_and_there_is_one_encoding(given_):
    kind, people = given_
    answered, symbols = np.array([a for a, _ in people]), np.array([b for _, b in people])
    body = pack_answers(answered, symbols, kind)
    back, answers = unpack_answers(body, len(people), kind)
    assert np.array_equal(back, answered)
    assert np.array_equal(answers, np.where(answered, symbols, 0))
    assert pack_answers(back, answers, kind) == body


@settings(max_examples=300, derandomize=True)
@given(st.binary(max_size=12), st.integers(1, 11), st.sampled_from([3, 200, 256, 257, 1000, 65536]))
def test_any_bytes_decode_to_symbols_that_encode_to_them_or_are_refused(body, people, kind):
    try:
        answered, answers = unpack_answers(body, people, kind)
    except BadMessage:
        return
    assert answers.max() < kind
    assert pack_answers(answered, answers, kind) == body


@for_each(
    ("body", "kind", "why"),
    [
        (b"\xc0\x02\x03", 3, "hold 3; the symbols are 0 to 2"),
        (b"\xc0\x02\xff", 3, "hold 255; the symbols are 0 to 2"),
        (b"\xc0\x00\x00\xe8\x03", 1000, "hold 1000; the symbols are 0 to 999"),
        (b"\xc0\x00\x00\x00\x00\x00", 1000, "take 5 bytes, found 6"),
        (b"\xc0\x00", 3, "take 3 bytes, found 2"),
        (b"\x80\x02\x01", 3, "marked silent"),
        (b"\xe0\x02\x01", 3, "padding"),
    ],
)
def test_the_attacks_on_symbols_by_name(body, kind, why):
    with pytest.raises(BadMessage, match=why):
        unpack_answers(body, 2, kind)


@for_each("kind", ["bit", 3, 256, 257, 65536])
def test_one_answer_is_one_of_the_symbols_or_is_refused(kind):
    most = 1 if kind == "bit" else kind - 1
    for answer in (0.0, 1.0, float(most)):
        answered, answers = unpack_answers(pack_one(answer, kind), 1, kind)
        assert (answered.tolist(), answers.tolist()) == ([True], [answer])
    for wrong in (0.5, -1.0, most + 1.0, most + 0.5, 1e300, np.inf, -np.inf, np.nan):
        with pytest.raises(BadMessage, match=f"answer must be one of 0 to {most} under this run's mechanism, found"):
            pack_one(wrong, kind)


def test_one_real_answer_may_be_any_number():
    assert unpack_answers(pack_one(-0.5, "real"), 1, "real")[1].tolist() == [-0.5]
