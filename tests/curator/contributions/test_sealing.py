"""Sealed to one curator, for one offer, as one contribution of one person: nothing else opens it."""

from __future__ import annotations

import base64

import pytest

from common.core.errors import BadMessage
from curator.contributions import messages
from curator.contributions.messages import Offer
from tests.curator.contributions.given import CONTRIBUTED
from tests.tiers import for_each

PRIVATE = bytes(range(32))
CURATOR, PERSON, NAME = "c" * 64, "a" * 64, "0" * 32


def offer(**changes: object) -> Offer:
    tree = {
        "scenario": "s",
        "title": "t",
        "policy": "0" * 64,
        "table": CONTRIBUTED,
        "people": 24,
        "guarantee": {"epsilon": 1.0, "delta": 1e-6},
        "public_key": messages.public_half(PRIVATE),
        **changes,
    }
    return Offer.parse(tree)


def test_what_was_sealed_is_opened_by_the_curator_and_is_another_each_time():
    first, second = (messages.seal(b"record", offer(), CURATOR, NAME, PERSON) for _ in range(2))
    assert messages.opened(first, PERSON, PRIVATE) == messages.opened(second, PERSON, PRIVATE) == b"record"
    assert first.sealed != second.sealed
    assert len(base64.b64decode(first.sealed)) == len(b"record") + messages.OVERHEAD
    assert b"record" not in base64.b64decode(first.sealed)


@for_each(
    ("change", "contributor", "private"),
    [
        ({"curator": "d" * 64}, PERSON, PRIVATE),
        ({"offer": "d" * 64}, PERSON, PRIVATE),
        ({"offer": offer(title="another").fingerprint()}, PERSON, PRIVATE),
        ({"contribution": "1" * 32}, PERSON, PRIVATE),
        ({}, "b" * 64, PRIVATE),
        ({}, PERSON, bytes(32)[:-1] + b"\x01"),
        ({"sealed": base64.b64encode(bytes(100)).decode()}, PERSON, PRIVATE),
        ({"sealed": "AAAA"}, PERSON, PRIVATE),
        ({"sealed": "A"}, PERSON, PRIVATE),
    ],
)
def test_nothing_else_opens_it_and_what_is_wrong_is_not_said(change, contributor, private):
    message = messages.seal(b"record", offer(), CURATOR, NAME, PERSON).model_copy(update=change)
    with pytest.raises(BadMessage, match=r"^this contribution cannot be opened: it was sealed to another key"):
        messages.opened(message, contributor, private)


def test_every_altered_bit_is_noticed():
    message = messages.seal(b"record", offer(), CURATOR, NAME, PERSON)
    raw = base64.b64decode(message.sealed)
    for bit in range(0, 8 * len(raw), 3):
        if bit == 255:
            continue  # RFC 7748 masks the last bit of a public key: it is none of the key
        altered = bytearray(raw)
        altered[bit // 8] ^= 1 << bit % 8
        changed = message.model_copy(update={"sealed": base64.b64encode(bytes(altered)).decode()})
        with pytest.raises(BadMessage):
            messages.opened(changed, PERSON, PRIVATE)
