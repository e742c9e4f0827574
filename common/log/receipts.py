"""What a referee signs so that it cannot deny it later: that it has a report, and how far a run's transcript went when.

A *receipt* says that it has stored a report: if that is not under the root of its closed question, the referee left it
out. A *checkpoint* is its word for the whole transcript so far. A *witness* that keeps it signs it with a time of its
own (:class:`Witnessed`); then the referee cannot show others another history of the run, or a shorter one.

A *beacon* in the order of agents is what witnesses sign of a run's beginning; the curator's share is opened after it.
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
from typing import Annotated, Any, ClassVar

from pydantic import Field

from common.core import canonical
from common.core.errors import BadMessage, Forged, PeerMisbehaved
from common.core.values import DIGEST, MAX_PLACE, RUN, Number, RunMessage, Value
from common.crypto.identity import Identity, Signed, verify
from common.log.merkle import Tree, merkle_root
from common.log.transcript import AnyEntry, EntryHash

Time = Annotated[int, Field(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, UTC, before the year 10000: others have to be able to show them."""
Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # what witnesses and transcripts count


class Receipt(Value):
    """The report with a signature, on a question of a run, is stored; ``time`` is that of the referee's clock."""

    KIND: ClassVar[str] = "receipt"
    run: str = Field(pattern=RUN)
    question: Number
    report: str = Field(pattern=r"^[0-9a-f]{128}$")
    time: Time


class Checkpoint(Value):
    """A run's transcript has this many entries, ends in this hash, and has this root over the hashes of all.

    ``configuration`` is the digest of the run's configuration, ``time`` that of the referee's clock. Question k takes
    no answers once ``closed`` (:func:`closed_of`) is above k. Earlier versions left it out.
    """

    KIND: ClassVar[str] = "checkpoint"
    run: str = Field(pattern=RUN)
    configuration: str = Field(pattern=DIGEST)
    entries: int = Field(ge=1, lt=1 << 53)
    hash: str = Field(pattern=DIGEST)
    root: str = Field(pattern=DIGEST)
    time: Time
    closed: int | None = Field(default=None, ge=0, exclude_if=lambda closed: closed is None)

    def covers(self, entries: Sequence[AnyEntry], tree: Tree | None = None) -> bool:
        """Tell whether it is of a transcript with these entries, or of its beginning."""
        if len(entries) < self.entries or entries[self.entries - 1].hash != self.hash:
            return False
        return self.root == (tree or entries_tree(entries)).beginning(self.entries)


class Witnessed(Value):
    """A witness keeps a checkpoint (``checkpoint`` is its digest) since a time, as number ``position`` of its run.

    ``previous`` is the digest of what the witness signed before it for this run, zeros for the first.
    """

    KIND: ClassVar[str] = "witnessed"
    checkpoint: str = Field(pattern=DIGEST)
    position: Count
    previous: str = Field(pattern=DIGEST)
    time: Time


class StoredCheckpoint(Value):
    """A signed checkpoint, and what witnesses have signed of it."""

    checkpoint: Signed
    witnessed: tuple[Signed, ...] = ()

    def verified(self, referee: str | None = None) -> Checkpoint:
        return Checkpoint.parse_signed(verify(self.checkpoint, Checkpoint.KIND, referee))

    def seen(self) -> dict[str, Witnessed]:
        found = {}
        digest = Checkpoint.parse(self.checkpoint.message).fingerprint()
        for signed in self.witnessed:
            seen = Witnessed.parse_signed(verify(signed, Witnessed.KIND))
            if seen.checkpoint != digest:
                raise Forged(f"witness {signed.key[:16]}... has signed another checkpoint")
            found[signed.key] = seen
        return found


def check_contradiction(shown: object, put: Signed, witness: str) -> None:
    """Refuse that a run has another history than a checkpoint of it says, unless its own referee has signed that.

    ``shown`` is what the witness shows for it, as it came. PeerMisbehaved, if it contradicts nothing.
    """
    checkpoint = Checkpoint.parse(put.message)
    try:
        signed = Signed.parse(canonical.decode(str(shown).encode()))
        known = Checkpoint.parse(verify(signed, Checkpoint.KIND, put.key))
    except (BadMessage, Forged):
        known = checkpoint
    same = known.model_copy(update={"time": checkpoint.time}) == checkpoint
    further = checkpoint.entries > known.entries and checkpoint.configuration == known.configuration
    if known.run != checkpoint.run or same or further:
        raise PeerMisbehaved(
            f"{witness} does not keep a checkpoint of run {checkpoint.run!r}, says that it has seen another history, "
            "and shows none that the run's referee has signed"
        )


class RunSeen(Value):
    """A run of which a witness keeps checkpoints: how far the last one goes, and when the witness signed it."""

    run: str = Field(pattern=RUN)
    entries: int = Field(ge=1, lt=1 << 53)
    time: Time


class ProofRequest(Value):
    """A participant asks for the proof that its report on a question is in the transcript.

    ``since``: how many entries the newest checkpoint of the run had that it was shown before, with which the transcript
    must begin.
    """

    KIND: ClassVar[str] = "proof-request"
    participant: str = Field(pattern=DIGEST)
    run: str = Field(pattern=RUN)
    question: Number
    since: int | None = Field(default=None, ge=1, lt=MAX_PLACE, exclude_if=lambda since: since is None)


class Proof(Value):
    """That a report is under the root of its question, and this root in the transcript.

    Attributes:
        entry: The transcript's entry with the counts and the root of the question.
        index, reports, path: The report's place among those on the question, their number, and its path to the root.
        body: The packed answer of an individual, hex; empty for a host, which has its own.
        kept: The newest checkpoint: it covers the entry.
        entry_path: Path of the entry's hash to the checkpoint's root.
        consistency: That the transcript begins with as many entries as the request names, if it names some.
    """

    entry: dict[str, Any]
    index: Count
    reports: int = Field(ge=1, lt=1 << 53)
    body: str = Field(max_length=64, pattern=r"^([0-9a-f]{2})*$")
    path: tuple[str, ...] = Field(max_length=64)
    kept: StoredCheckpoint
    entry_path: tuple[str, ...] = Field(max_length=64)
    consistency: tuple[str, ...] | None = Field(default=None, max_length=64, exclude_if=lambda path: path is None)


def closed_of(kinds: Sequence[str]) -> int:
    """Return how many messages of a protocol are over in a transcript with entries of these kinds.

    An operation is one entry, a question is one and its answers are the next. A run that has ended leaves nothing open.
    """
    replies = kinds.count("question") if kinds and kinds[-1] == "result" else kinds.count("answers")
    return kinds.count("operation") + replies


def entries_tree(entries: Sequence[AnyEntry]) -> Tree:
    """Return the tree over the hashes of a transcript's entries."""
    return Tree(bytes.fromhex(entry.hash) for entry in entries)


def receipt_for(signer: Identity, run: object, question: object, report: str, now: Time) -> bytes:
    """Return a referee's signed receipt for a stored report; its fields are valid ones."""
    payload = f'{{"question":{question},"report":"{report}","run":"{run}","time":{now}}}'
    return signer.envelope(Receipt.KIND, payload.encode("ascii"))


def check_receipt(signed: Signed, report: Signed, referee: str, whose: str = "") -> Receipt:
    """Return a receipt, if it is the referee's for this report (Forged)."""
    receipt = Receipt.parse_signed(verify(signed, Receipt.KIND, referee, whose))
    about = report.message.get("run"), report.message.get("question"), report.signature
    if (receipt.run, receipt.question, receipt.report) != about:
        raise Forged("the referee's receipt is for another report: it is not known to be stored")
    return receipt


def signed_checkpoint(
    signer: Identity, run: str, configuration: str, entries: Sequence[AnyEntry | EntryHash], now: Time
) -> Signed:
    """Return a referee's checkpoint of a transcript with these entries."""
    if not entries:
        raise BadMessage("a transcript without entries has no checkpoint")
    checkpoint = Checkpoint(
        run=run,
        configuration=configuration,
        entries=len(entries),
        hash=entries[-1].hash,
        root=merkle_root(bytes.fromhex(entry.hash) for entry in entries),
        time=now,
        closed=closed_of([entry.kind for entry in entries]),
    )
    return signer.sign(checkpoint.KIND, checkpoint.wire())


ROUND = 2
"""Entries of the transcript of which witnesses' words are the beacon: the configuration, and the curator's terms."""


class RevealRequest(RunMessage):
    """The referee asks the curator to open its share, and shows it the beacon."""

    KIND: ClassVar[str] = "open-share"
    words: StoredCheckpoint


class RevealedShare(RunMessage):
    """The curator opens its share, once it has been shown the beacon (``beacon`` is its value)."""

    KIND: ClassVar[str] = "share"
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
