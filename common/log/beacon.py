"""A beacon in the order of agents: what witnesses sign of a run's beginning, and the curator's share, opened after it.

Three secrets make an order, each fixed before the next is known, and opened in the same order:

1. the referee's, of which the configuration C holds the hash; C also names the witnesses W_1..W_m;
2. the curator's share, of which its terms T hold the hash (:func:`commitment_to`);
3. the beacon: what each W_i signs of the checkpoint of exactly :data:`ROUND` entries, C and T. Its Merkle root binds
   both. Before W_i has signed it, the signature does not exist.

Then the curator opens its share, in a message that names the beacon, once for a configuration and for one beacon. The
referee opens its secret when the run has ended. The order is keyed by the 512 bits H(secret + share + beacon).

Theorem. Let SHA-256 and H (SHAKE256) be random oracles and Ed25519 unforgeable under chosen messages. Let the referee,
the curator or one of the W_i be honest; all others may work together. Let k be 1 if the referee or the curator is
honest, else the number of this referee's runs to which the honest W_i has given such a word. Of all keys of orders
let a share p be such as they like. The key of the run that they show is one of these with a chance of at most k p,
up to the chance to guess 256 bits or to forge a signature.

Proof. *Honest referee*: its secret is 256 random bits, of which the others have a hash until the run has ended; what
they choose is chosen without it. *Honest curator*: it gives its budget, and its terms, to one C, so the secret is
fixed; its share is 256 pseudorandom bits, of which they have a hash; it opens them in a message that names one
beacon, so that is fixed as well. *Honest witness*: it signs at most one checkpoint of :data:`ROUND` entries for a
run, since it takes nothing but extensions, and the root of that fixes C and T, hence secret and share. Whoever has
asked H at the right point before W_i signed has forged a signature. Afterwards nothing is left to choose but to give
the run up, and to begin another one under another name: that makes k tries, and the witness shows to everybody which
there were. QED.

A witness's signature is no verifiable random function: one that chooses its nonces can choose among signatures. It then
chooses without the share and the secret, which is why the share is opened after its word. All three together choose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from common.core import canonical
from common.core.errors import Forged
from common.core.values import DIGEST, RUN, Value
from common.log.receipts import StoredCheckpoint

ROUND = 2
"""Entries of the transcript of which witnesses' words are the beacon: the configuration, and the curator's terms."""


class RevealRequest(Value):
    """The referee asks the curator to open its share, and shows it the beacon."""

    KIND: ClassVar[str] = "open-share"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    words: StoredCheckpoint


class RevealedShare(Value):
    """The curator opens its share, once it has been shown the beacon (``beacon`` is its value)."""

    KIND: ClassVar[str] = "share"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    beacon: str = Field(pattern=DIGEST)
    share: str = Field(pattern=DIGEST)


def commitment_to(share: str) -> str:
    """Return what terms hold of a share (32 bytes in hex) until it is opened: its SHA-256, hex."""
    return hashlib.sha256(bytes.fromhex(share)).hexdigest()


def beacon_value(
    words: StoredCheckpoint, *, referee: str, run: str, digest: str, witnesses: Sequence[str] | None
) -> str:
    """Return the beacon of a run from what its witnesses have signed: SHA-256, hex.

    Args:
        witnesses: The keys that the configuration names; None: whoever they are, as a curator takes them.

    Raises:
        Forged, BadMessage: If they are not the words of all these witnesses, and of no others, about the run's first
            :data:`ROUND` entries.
    """
    checkpoint = words.verified(referee)
    if (checkpoint.run, checkpoint.configuration, checkpoint.entries) != (run, digest, ROUND):
        raise Forged(
            f"the beacon's words are not about the first {ROUND} entries of this run: {checkpoint.entries} of "
            f"{checkpoint.run!r}"
        )
    seen = words.seen()
    if not seen or len(seen) != len(words.witnessed):
        raise Forged("the beacon has one word of each witness, and of one witness at least")
    if witnesses is not None and seen.keys() != set(witnesses):
        raise Forged("the beacon's words are not those of the witnesses that the run's configuration names")
    signatures = {signed.key: signed.signature for signed in words.witnessed}
    return hashlib.sha256(canonical.encode(signatures)).hexdigest()
