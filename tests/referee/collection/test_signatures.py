"""Signatures of a group: each message stands for itself, whatever the size of the group."""

import subprocess
import sys

import numpy as np

from common.core.errors import Forged
from common.crypto.identity import Identity, covered
from referee.collection import signatures
from referee.collection.judging import payloads
from referee.collection.signatures import sign_all, verified
from tests.tiers import for_each

PEOPLE = [Identity.create() for _ in range(5)]


def group(size: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    people = [PEOPLE[i % len(PEOPLE)] for i in range(size)]
    said = [b"%d" % i * (i % 4) for i in range(size)]
    signed = [bytes.fromhex(p.sign_bytes("x", what)) for p, what in zip(people, said, strict=True)]
    return [bytes.fromhex(p.public) for p in people], [covered("x", what) for what in said], signed


@for_each("size", [0, 1, 5, 100])
def test_each_of_a_group_is_judged_by_itself(size):
    keys, said, signed = group(size)
    assert verified(keys, said, signed).all()
    for wrong in range(0, size, 9):
        for forged in (
            ([*keys[:wrong], bytes.fromhex(Identity.create().public), *keys[wrong + 1 :]], said, signed),
            (keys, [*said[:wrong], said[wrong] + b"x", *said[wrong + 1 :]], signed),
            (keys, said, [*signed[:wrong], bytes(64), *signed[wrong + 1 :]]),
        ):
            assert np.flatnonzero(~verified(*forged)).tolist() == [wrong]


@for_each("size", [0, 1, 5, 100])
def test_signatures_of_a_group_are_those_that_are_made_one_by_one(size):
    """Also of empty messages, and with the kinds of several messages."""
    said = [("ab"[i % 2], b"%d" % i * (i % 4)) for i in range(size)]
    found = PEOPLE[0].envelopes(said, sign_all)
    assert found == [PEOPLE[0].envelope(kind, payload) for kind, payload in said]
    assert sign_all(bytes(64), [b""] * size) == [sign_all(bytes(64), [b""])[0]] * size


def test_a_group_that_several_cores_share_is_judged_alike(monkeypatch):
    monkeypatch.setattr(signatures, "MANY", 3)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2, 3, 4, 5, 6})
    for size in (6, 7, 20, 23):
        keys, said, signed = group(size)
        for wrong in range(size):
            forged = [*signed[:wrong], bytes(64), *signed[wrong + 1 :]]
            assert np.flatnonzero(~verified(keys, said, forged)).tolist() == [wrong]


@for_each("key", [bytes(32), b"\1" + bytes(31), b"\xff" * 32])
def test_keys_of_small_order_sign_nothing(key):
    assert not verified([key], [covered("x", b"anything")], [key + bytes(32)]).any()


def test_of_a_group_of_messages_each_is_read_or_told_why_not():
    good, other = PEOPLE[0].sign("poll", {"participant": "a"}), PEOPLE[1].sign("report", {})
    forged = good.model_copy(update={"signature": other.signature})
    found = payloads([good, other, forged, good], "poll")
    assert [isinstance(one, Forged) for one in found] == [False, True, True, False]
    assert found[0] == found[3] == b'{"participant":"a"}'
    assert payloads([], "poll") == []


def test_a_key_or_signature_of_another_length_verifies_nothing():
    keys, said, signed = group(1)
    assert not verified([keys[0][:-1]], said, signed).any()
    assert not verified(keys, said, [signed[0][:-1]]).any()
    assert not verified(keys, said, [signed[0] + b"x"]).any()


def test_who_checks_a_few_does_not_wait_for_the_compiler():
    code = "import sys, referee.collection.signatures; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
