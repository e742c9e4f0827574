"""A proof announces one body of one request by one key, and nothing else."""

from __future__ import annotations

import hashlib

import pytest

from common.core.errors import BadMessage, Forged
from common.wire.identity import Identity
from common.wire.proof import checked, proof

WHO = Identity.create()
SAID = proof(WHO, "PUT", "/a", b"body")


def test_a_proof_announces_the_body():
    for key in (None, WHO.public):
        assert checked(SAID, "PUT", "/a", 4, key) == hashlib.sha256(b"body").hexdigest()


@pytest.mark.parametrize(
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
        checked(SAID, *said)


SPOILED = {
    "nothing": "",
    "a letter": "x",
    "a line's end": SAID + "\n",
    "capitals": SAID.upper(),
    "two spaces": SAID.replace(" ", "  "),
    "one digit less": SAID[:-1],
}


@pytest.mark.parametrize("how", SPOILED)
def test_what_is_no_proof(how):
    with pytest.raises(BadMessage):
        checked(SPOILED[how], "PUT", "/a", 4, None)
