"""A proof announces one body of one request by one key, and nothing else."""

from __future__ import annotations

import hashlib

import pytest

from common.core.errors import BadMessage, Forged
from common.crypto.identity import Identity, announce_body, check_announcement
from tests.tiers import for_each

WHO = Identity.create()
SAID = announce_body(WHO, "PUT", "/a", b"body")


def test_a_proof_announces_the_body():
    for key in (None, WHO.public):
        assert check_announcement(SAID, "PUT", "/a", 4, key) == hashlib.sha256(b"body").hexdigest()


@for_each(
    "said",
    [
        ("POST", "/a", 4, None),
        ("PUT", "/b", 4, None),
        ("PUT", "/a", 5, None),
        ("PUT", "/a", 4, Identity.create().public),
    ],
)
def test_it_announces_nothing_else(said):
    with pytest.raises(Forged):
        check_announcement(SAID, *said)


SPOILED = {
    "nothing": "",
    "a letter": "x",
    "a line's end": SAID + "\n",
    "capitals": SAID.upper(),
    "two spaces": SAID.replace(" ", "  "),
    "one digit less": SAID[:-1],
}


@for_each("how", SPOILED)
def test_what_is_no_proof(how):
    with pytest.raises(BadMessage):
        check_announcement(SPOILED[how], "PUT", "/a", 4, None)
