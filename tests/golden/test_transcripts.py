"""A seeded run leaves the same transcript, byte for byte, as the one that was kept: moving code changes no behaviour.

Keys and report ids come from the operating system in every real run; here they come from counters, so that a whole
transcript, signatures included, is a function of scenario and seed. Where a change of behaviour is wanted, write the
digests anew with ``python -m tests.golden.test_transcripts`` and say in the commit why they changed.
"""

import hashlib
import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from common.crypto import identity
from common.scenario import loading
from common.scenario.scenario import Scenario
from deploy.checking import checked
from tests.support import ABOUT, Bench, small, tiny
from tests.tiers import for_each

KEPT = Path(__file__).with_name("digests.json")
LEARNERS: dict[str, tuple[str, ...]] = {
    "sparse": ("curator.n=2000", "curator.rounds=2", "curator.kappa=0.5", "curator.epsilon=60", "agents.count=4000"),
    "parity": ("agents.count=4000",),
    "hand-over": ("curator.n=1500", "curator.kappa=0.3", "curator.eta=0.2", "curator.rounds=4", "curator.epsilon=80",
                  "curator.learner.steps=200", "agents.count=9000"),
}  # fmt: skip
"""Scenarios about a hypothesis beside the tiny one, and numbers with which they run in a second or two."""


def chosen(name: str) -> Scenario:
    if name == "tiny":
        return tiny()
    if name in ABOUT:
        return small(name)
    return checked(loading.load(name, ["agents.deadline=5", "baselines=[]", *LEARNERS[name]]))


class _CountedKeys:
    """Private keys from a counter in the place of the operating system's randomness."""

    from_private_bytes = staticmethod(Ed25519PrivateKey.from_private_bytes)

    def __init__(self) -> None:
        self._numbers = count(1)

    def generate(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(next(self._numbers).to_bytes(32, "big"))

    def durable(self, path: Path) -> bytes:
        if not path.exists():
            path.write_bytes(next(self._numbers).to_bytes(32, "big"))
        return path.read_bytes()


@contextmanager
def counted() -> Iterator[None]:
    """Let keys and ids come from counters."""
    numbers, keys = count(1), _CountedKeys()
    with (
        patch.object(identity, "Ed25519PrivateKey", keys),
        patch.object(identity, "durable_key", keys.durable),
        patch.object(secrets, "token_hex", lambda size: next(numbers).to_bytes(size, "big").hex()),
    ):
        yield


def digest(name: str, folder: Path) -> str:
    """Return the SHA-256 of the transcript of a kept scenario's run with seed 1."""
    with counted(), Bench(folder, chosen(name)) as parties:
        parties.run("golden")
        return hashlib.sha256(parties.finished("golden").transcript.encode()).hexdigest()


NAMES = ["tiny", *ABOUT, *sorted(LEARNERS)]


@for_each("name", NAMES)
def test_a_seeded_run_leaves_the_transcript_that_was_kept(name, tmp_path):
    assert digest(name, tmp_path) == json.loads(KEPT.read_text("utf-8"))[name]


if __name__ == "__main__":
    found = {}
    for each in NAMES:
        with tempfile.TemporaryDirectory() as place:
            found[each] = digest(each, Path(place))
    KEPT.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
